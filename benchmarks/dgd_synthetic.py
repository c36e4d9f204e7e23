"""How well Distributed Grid Descent searches, against TPE and random search.

Objectives are made up: 12 hyperparameters of 12 values, noisy runs. 0 is the mean of random
configurations, 1 the best there is. `quadratic` is a bowl with weights from 1 to 0.05; `rugged`
adds couplings between hyperparameters and ripples of four steps, so that there are points from
which no single step leads up. The noise of a run, sigma, is doubled or halved by the place.

    python benchmarks/dgd_synthetic.py --repeats 20 --out results/dgd-synthetic.json
"""

import argparse
import collections
import datetime
import json
import pathlib
import platform
import time

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution

from wmg.tuner import dgd, posterior

SIZE, DIMENSIONS, BUDGET = 12, 12, 500
CHOSEN, TIMES = 20, 5
"""Where the best are run again: how many of them, and how often."""
CASES = [("quadratic", 0.1), ("quadratic", 0.3), ("rugged", 0.1), ("rugged", 0.3)]


class Objective:
    """A noisy function on the grid."""

    def __init__(self, kind: str, sigma: float, seed: int):
        self.draw = np.random.default_rng([seed, 1])
        generator = np.random.default_rng([seed, 0])
        self.best = generator.integers(SIZE, size=DIMENSIONS)
        self.weights = generator.permutation(np.geomspace(1, 0.05, DIMENSIONS))
        self.rugged, self.sigma = kind == "rugged", sigma
        self.pairs = generator.permutation(DIMENSIONS).reshape(-1, 2)
        self.slope, self.phase = generator.normal(size=DIMENSIONS), generator.uniform(0, 6.3)
        anywhere = generator.integers(SIZE, size=(20_000, DIMENSIONS))
        self.scale = 1.0
        self.scale = 1 - self.true(anywhere).mean()

    def true(self, points: np.ndarray) -> np.ndarray:
        """The mean of runs at points."""
        apart = (points - self.best) / (SIZE - 1)
        loss = (self.weights * apart**2).sum(axis=-1)
        if self.rugged:
            one, other = apart[..., self.pairs[:, 0]], apart[..., self.pairs[:, 1]]
            loss = loss + 0.5 * ((one - other) ** 2).sum(axis=-1)
            ripple = 1 - np.cos(2 * np.pi * (points - self.best) / 4)
            loss = loss + 0.1 * (self.weights * ripple).sum(axis=-1)
        return 1 - loss / self.scale

    def run(self, point: dgd.Point) -> float:
        """The score of one run."""
        place = np.asarray(point)
        noise = self.sigma * 2 ** np.sin(self.phase + self.slope @ place / 4)
        return float(self.true(place) + noise * self.draw.normal())


def descend(objective: Objective, search: dgd.Search, workers: int, seed: int) -> float:
    """What a search by several workers recommends, by its true value."""
    generator, runs = np.random.default_rng([seed, 2]), dgd.Runs()
    busy: list[dgd.Point] = []
    for _ in range(BUDGET):
        while len(busy) < workers:
            busy.append(dgd.propose(search, runs, generator))
            runs.pending[busy[-1]] += 1
        point = busy.pop(generator.integers(len(busy)))  # whoever is ready first
        runs.pending[point] -= 1
        runs.scores.setdefault(point, []).append(objective.run(point))
    return float(objective.true(np.array(posterior.rank(runs.scores)[0].key)))


def good_start(objective: Objective, seed: int) -> dgd.Point:
    """A point within three steps of the best in each hyperparameter."""
    steps = np.random.default_rng([seed, 3]).integers(-3, 4, size=DIMENSIONS)
    return tuple(np.clip(objective.best + steps, 0, SIZE - 1).tolist())


def sample(objective: Objective, sampler: optuna.samplers.BaseSampler) -> dict[str, float]:
    """What an Optuna sampler recommends: its best single run, or, of a search that is shorter by
    as much, the best after the best have been run again."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space: dict[str, BaseDistribution] = {
        str(i): IntDistribution(0, SIZE - 1) for i in range(DIMENSIONS)
    }
    tried: list[tuple[float, dgd.Point]] = []
    for _ in range(BUDGET):
        trial = study.ask(space)
        point = tuple(trial.params.values())
        tried.append((objective.run(point), point))
        study.tell(trial, tried[-1][0])
    shorter = sorted(tried[: BUDGET - CHOSEN * TIMES])[-CHOSEN:]
    again = {point: [objective.run(point) for _ in range(TIMES)] for _, point in shorter}
    chosen = max(again, key=lambda point: np.mean(again[point]))
    return {
        "best single run": float(objective.true(np.array(max(tried)[1]))),
        "400 runs, best 20 five times again": float(objective.true(np.array(chosen))),
    }


def compare(kind: str, sigma: float, seed: int) -> dict[str, float]:
    """Every method on one objective."""
    sizes = (SIZE,) * DIMENSIONS
    start = good_start(Objective(kind, sigma, seed), seed)
    searches = {
        "DGD, faithful, 1 worker": (dgd.Search(sizes), 1),
        "DGD, faithful, 16 workers": (dgd.Search(sizes), 16),
        "DGD, 50 initial configurations, 16 workers": (dgd.Search(sizes, n_init=50), 16),
        "DGD, from a good start, 16 workers": (dgd.Search(sizes, start=start), 16),
    }
    found = {
        name: descend(Objective(kind, sigma, seed), search, workers, seed)
        for name, (search, workers) in searches.items()
    }
    found["the good start itself"] = float(Objective(kind, sigma, seed).true(np.array(start)))
    samplers = {
        "random": optuna.samplers.RandomSampler(seed),
        "TPE": optuna.samplers.TPESampler(seed=seed),
    }
    for name, sampler in samplers.items():
        for way, value in sample(Objective(kind, sigma, seed), sampler).items():
            found[f"{name}, {way}"] = value
    return found


def rank_by_luck(sigma: float, repeats: int) -> dict[str, dict[str, float]]:
    """How ways to choose the best of 100 run sets do; 45% of the sets are single runs and a tenth
    have three times the noise; true means are standard normal."""
    generator = np.random.default_rng(0)
    rows: dict[str, list[tuple[float, float, float]]] = collections.defaultdict(list)
    shares = {1: 0.45, 2: 0.2, 3: 0.15, 4: 0.1, 6: 0.06, 10: 0.04}
    for _ in range(repeats):
        truth = generator.normal(size=100)
        counts = generator.choice(list(shares), size=100, p=list(shares.values()))
        noise = sigma * np.where(generator.random(100) < 0.1, 3.0, 1.0)
        sets = {i: generator.normal(truth[i], noise[i], counts[i]).tolist() for i in range(100)}
        raw = max(sets, key=lambda i: float(np.mean(sets[i])))
        picks = {"plain mean": (raw, float(np.mean(sets[raw])))}
        for name, caution in {"posterior mean": 0.0, "lower bound": posterior.CAUTION}.items():
            best = posterior.rank(sets, caution=caution)[0]
            picks[name] = (best.key, best.mean)
        for name, (key, claimed) in picks.items():
            regret = float(truth.max() - truth[key])
            rows[name].append((regret, float(counts[key] == 1), claimed - float(truth[key])))
    return {
        name: {
            "regret": round(float(np.mean([x[0] for x in found])), 3),
            "regret_standard_error": round(
                float(np.std([x[0] for x in found], ddof=1) / len(found) ** 0.5), 3
            ),
            "picks_a_single_run": round(float(np.mean([x[1] for x in found])), 3),
            "claimed_minus_true": round(float(np.mean([x[2] for x in found])), 3),
        }
        for name, found in rows.items()
    }


def main() -> None:
    """Compare, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rankings", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    began, table = time.monotonic(), {}
    for kind, sigma in CASES:
        rows = [compare(kind, sigma, seed) for seed in range(options.repeats)]
        for name in rows[0]:
            values = np.array([row[name] for row in rows])
            error = values.std(ddof=1) / len(values) ** 0.5
            cell = {"mean": round(float(values.mean()), 3), "standard_error": round(error, 3)}
            table.setdefault(name, {})[f"{kind} {sigma}"] = cell
            print(f"{kind} {sigma}: {name}: {cell['mean']} +- {cell['standard_error']}", flush=True)
    out = f" --out {options.out}" if options.out else ""
    data = {
        "command": f"python benchmarks/dgd_synthetic.py --repeats {options.repeats}{out}",
        "hardware": "2-core CPU",
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version(), "optuna": optuna.__version__},
        "runs_of_each_search": BUDGET,
        "repeats": options.repeats,
        "true value of the recommended configuration": table,
        "ranking": {f"sigma {s}": rank_by_luck(s, options.rankings) for s in (0.5, 1.0, 2.0)},
        "seconds": round(time.monotonic() - began),
    }
    text = json.dumps(data, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
