"""How long Distributed Grid Descent takes to propose the next run, the storage aside.

python benchmarks/dgd_timing.py --out results/dgd-timing.json
"""

import argparse
import datetime
import json
import pathlib
import statistics
import time

import numpy as np
import optuna

from wmg.tuner import posterior
from wmg.tuner.sampler import DGDSampler

GRID = {f"h{i}": list(range(12)) for i in range(12)}


def measure(finished: int, repeats: int = 9) -> dict[str, float]:
    """Median milliseconds, in a study in memory with this number of finished runs."""
    sampler, generator = DGDSampler(GRID, seed=0), np.random.default_rng(0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(finished):
        params = {name: int(generator.integers(12)) for name in GRID}
        study.add_trial(
            optuna.create_trial(
                params=params, distributions=sampler.space, value=generator.normal()
            )
        )
    frozen = study.trials[-1]
    runs = sampler.read_runs(study)
    history = [(point, score) for point, scores in runs.scores.items() for score in scores]
    steps = {
        "propose_ms": lambda: sampler.sample_relative(study, frozen, sampler.space),
        "best_ms": lambda: posterior.rank(runs.scores),
        "stability_ms": lambda: posterior.stability(history, [12] * 12),
    }
    return {name: round(_median(step, repeats), 2) for name, step in steps.items()}


def _median(step, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def main() -> None:
    """Measure, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    data = {
        "command": "python benchmarks/dgd_timing.py --out results/dgd-timing.json",
        "hardware": "2-core CPU",
        "date": datetime.date.today().isoformat(),
        "hyperparameters": 12,
        "finished_runs": {str(n): measure(n) for n in (200, 1000, 5000)},
    }
    print(json.dumps(data, indent=2))
    if options.out:
        options.out.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
