"""A search for three hyperparameters of a noisy score."""

import math
import random
import statistics

import optuna
import optunahub

NOISE = random.Random(0)
GRID: dict[str, list] = {
    "learning_rate": [1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3],
    "layers": [1, 2, 3, 4, 5, 6],
    "activation": ["relu", "gelu", "tanh"],
}


def objective(trial: optuna.Trial) -> float:
    """A score that is best at 4e-4, 3 layers and gelu, with noise."""
    learning_rate = trial.suggest_float("learning_rate", 1e-4, 1.6e-3, log=True)
    layers = trial.suggest_int("layers", 1, 6)
    activation = trial.suggest_categorical("activation", GRID["activation"])
    distance = abs(math.log2(learning_rate / 4e-4)) + abs(layers - 3) + (activation != "gelu")
    return -distance + NOISE.gauss(0, 0.5)


sampler = optunahub.load_module("samplers/dgd").DGDSampler(GRID, n_init=8, seed=0)
study = optuna.create_study(direction="maximize", sampler=sampler)
study.optimize(objective, n_trials=150)

# The best single trial was lucky: compare the means of configurations with several trials.
scores = sampler.read_runs(study).scores
often = {point: each for point, each in scores.items() if len(each) >= 5}
best = max(often, key=lambda point: statistics.mean(often[point]))
for name, index in zip(GRID, best, strict=True):
    print(name, GRID[name][index])
