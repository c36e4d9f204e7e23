"""Running a target of the paper, in pieces that can be interrupted and pooled.

A cell's runs are split into groups with disjoint seeds. Each group is trained in a run folder
of its own and ends as one small `result.json`. A report needs those alone, so groups may run
at different times on different machines:

    OUT/pathfinding/wmg/group-000/train/        a run folder
    OUT/pathfinding/wmg/group-000/result.json   what came of it
    OUT/pathfinding/report.{json,md}, figure.png
"""

import dataclasses
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wmg import bench, checkpoint, config, evaluate, models, parallel, runfolder, solve, train
from wmg.agents.wmg import WMG, with_slots
from wmg.config import NOT_JSON, BadInput, Config
from wmg.envs import Sokoban
from wmg.experiments.target import Cell, Target
from wmg.results import Result
from wmg.types import Agent, count_parameters

TEST_SEED = 1
TRANSFER_EPISODES = 1000
BASELINE_EPISODES = 20_000
TEST_EVERY = 5_000_000
"""Steps between two tests on held-out levels."""
LONGER = 240
"""Steps that others are given to solve a level; tests are taken with the environment's own limit
and with this one."""
SCORES_LONGER = f"scores_in_{LONGER}_steps"
TRAINING = "on_training_levels"
"""Where a result has what was solved while learning. Of 900,000 levels nearly all are new then."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of a target is run. None means as much as in the paper."""

    runs: int | None = None
    steps: int | None = None
    group_size: int = 100
    """Runs that are trained at once."""
    groups: tuple[int, ...] | None = None
    """Which groups to run here; by default all."""

    def runs_of(self, target: Target) -> int:
        """How many runs of each cell are asked for."""
        return target.runs if self.runs is None else self.runs

    def command(self, name: str, target: Target, cell: str, group: int, steps: int) -> str:
        """The command that does one group alone."""
        parts = f"wmg reproduce {name} --cells {cell} --runs {self.runs_of(target)}"
        if target.measure in TRAINED:
            parts += f" --steps {steps}"
        return f"{parts} --group-size {self.group_size} --groups {group}"

    def groups_of(self, target: Target) -> list[tuple[int, int, int]]:
        """(number, first seed, runs) of each group to run here."""
        runs, size = self.runs_of(target), self.group_size
        sizes = [min(size, runs - first) for first in range(0, runs, size)]
        chosen = range(len(sizes)) if self.groups is None else self.groups
        if bad := [group for group in chosen if not 0 <= group < len(sizes)]:
            raise BadInput(f"there is no group {bad[0]}: {runs} runs make {len(sizes)} groups")
        return [(group, group * size, sizes[group]) for group in chosen]


def run_cell(
    name: str, target: Target, cell: str, scale: Scale, out: pathlib.Path, show: Callable
) -> bool:
    """Run what is missing of a cell; whether all that was asked for is now there."""
    if target.measure not in GROUPED:
        path, command = out / name / cell / "result.json", f"wmg reproduce {name} --cells {cell}"
        measured = MEASURES[target.measure](target.cells[cell])
        _write(path, {**measured, "cell": cell, "command": command})
        return True
    for group, seed, runs in scale.groups_of(target):
        place = out / name / cell / f"group-{group:03d}"
        settings = target.cells[cell].config
        settings = dataclasses.replace(
            settings, runs=runs, seed=seed, steps=scale.steps or settings.steps
        )
        if target.measure in TRAINED:
            check_asked(place, settings)
        if (place / "result.json").exists():
            continue
        if target.measure == "transfer":
            result = transfer_group(settings, out / "pathfinding" / cell / place.name)
        else:
            result = TRAINED[target.measure](settings, place / "train", show)
        if result is None:
            return False
        command = scale.command(name, target, cell, group, settings.steps)
        _write(place / "result.json", {**result, "cell": cell, "command": command})
    return True


def check_asked(place: pathlib.Path, settings: Config) -> None:
    """Refuse a group that is there already, or was begun, but is not what is asked for now."""
    if (path := place / "result.json").exists():
        there = config.from_dict(Config, read_result(path).get("config"), str(path))
    elif (path := place / "train").exists():
        # It may go on for more steps; that fewer are asked for is said when it does.
        there = dataclasses.replace(runfolder.read_config(path), steps=settings.steps)
        settings = train.settled(settings)
    else:
        return
    for name, old, new in config.differences(there, settings):
        raise BadInput(f"{path} has {name} = {old!r}, not {new!r}: choose another --out")


def read_result(path: pathlib.Path) -> dict[str, Any]:
    """What a `result.json` holds."""
    result = _read_json(path)
    if not _is_result(result):
        raise BadInput(f"{path} is damaged: it does not hold a result")
    return result


def _is_result(data: Any) -> bool:
    """Whether it has all that reports are made of: a value, or something for each run."""
    if not isinstance(data, dict) or not {"hardware", "command"} <= data.keys():
        return False
    if "config" not in data:
        return isinstance(data.get("value"), int | float)
    if "crossings" in data and not {"diverged", "testing_seconds"} <= data.keys():
        return False
    rows = data.get("crossings", data.get("scores"))
    if not isinstance(data["config"], dict) or not isinstance(rows, list):
        return False
    numbers = [x for row in rows for x in (row if isinstance(row, list) else [row])]
    every = len(rows) == data["config"].get("runs")
    return every and all(isinstance(x, int | float | None) for x in numbers)


def _is_test(data: Any) -> bool:
    """Whether it is what `test_group` keeps of a test of levels."""
    return isinstance(data, dict) and {"steps", "solved", "longer", "seconds"} <= data.keys()


def _read_json(path: pathlib.Path) -> Any:
    """What is in a file; None if that is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except NOT_JSON:
        return None


def _train(settings: Config, folder: pathlib.Path, show: Callable) -> Result | None:
    """Train a group, or go on with it. None if that was stopped."""
    result = train.train(settings, folder, resume=folder.exists(), show=show)
    return None if result.stopped else result


def train_group(settings: Config, folder: pathlib.Path, show: Callable) -> dict | None:
    """Train a group, or go on with it. None if that was stopped."""
    result = _train(settings, folder, show)
    if result is None:
        return None
    scores = result.scores.copy()
    scores[result.diverged, -1] = np.nan  # the report in which it diverged is no final score
    return {
        "config": config.to_dict(settings),
        "steps": [round(float(s), 1) for s in result.steps],
        "scores": _rounded_rows(scores),
        "diverged": int(result.diverged.sum()),
        "best": result.best,
        "seconds": round(result.seconds, 1),
        "hardware": runfolder.hardware(),
    }


def test_group(settings: Config, folder: pathlib.Path, show: Callable) -> dict | None:
    """Train a group, or go on with it, and have its runs play all held-out levels as often as the
    paper did."""
    done = folder.parent / "tests.json"
    tests = _read_json(done) if done.exists() else []
    if not isinstance(tests, list) or not all(_is_test(test) for test in tests):
        raise BadInput(f"{done} is damaged: it does not hold tests")
    if (last := max((test["steps"] for test in tests), default=0)) > settings.steps:
        asked = f"not steps = {settings.steps:,}: choose another --out"
        raise BadInput(f"{done} has a test after {last:,} steps, {asked}")
    held_out = held_out_levels(settings)
    given_longer = dataclasses.replace(held_out, max_steps=LONGER)
    for steps in [*range(TEST_EVERY, settings.steps, TEST_EVERY), settings.steps]:
        if any(test["steps"] == steps for test in tests):
            continue
        stage = dataclasses.replace(settings, steps=steps)
        result = _train(stage, folder, show)
        if result is None:
            return None
        own, longer = (test_runs(env, result) for env in (held_out, given_longer))
        seconds = round(result.seconds, 1)
        tests.append({"steps": steps, "solved": own, "longer": longer, "seconds": seconds})
        _write(done, tests)

    def by_run(scores: str) -> list[list[float | None]]:
        return [list(row) for row in zip(*(test[scores] for test in tests), strict=True)]

    reports, scores = runfolder.read_scores(folder, settings.runs)
    return {
        "config": config.to_dict(settings),
        "levels": held_out.levels,
        "steps": [test["steps"] for test in tests],
        "scores": by_run("solved"),
        SCORES_LONGER: by_run("longer"),
        TRAINING: {"steps": reports.round().tolist(), "scores": _rounded_rows(scores)},
        "seconds": tests[-1]["seconds"],
        "hardware": runfolder.hardware(),
    }


def held_out_levels(settings: Config) -> config.Sokoban:
    """The environment that models are tested on: the test split of what they are trained on."""
    env = settings.env
    if not isinstance(env, config.Sokoban):
        raise BadInput(f"only Sokoban has held-out levels, got {env}")
    return dataclasses.replace(env, levels=env.levels.replace("-train", "-test"))


def test_runs(settings: config.Sokoban, result: Result) -> list[float | None]:
    """The percentage of levels that each run solves; None of a run that diverged."""
    env = checkpoint.make_env(settings)
    assert isinstance(env, Sokoban)
    shares: list[float | None] = []
    for index, diverged in enumerate(result.diverged):
        agent = parallel.take(result.runs.agent, index)
        played = None if diverged else solve.play_levels(env, agent, seed=index)
        shares.append(None if played is None else round(100 * float(played.success.mean()), 3))
    return shares


def solve_group(settings: Config, folder: pathlib.Path, show: Callable) -> dict | None:
    """Train a group until its runs meet their goal, or go on with it."""
    result = _train(settings, folder, show)
    if result is None:
        return None
    return {
        "config": config.to_dict(settings),
        "crossings": [_rounded(x) if x is not None else None for x in result.crossings],
        "steps_taken": [int(steps) for steps in result.runs.steps],
        "last_tests": [[t[-1].solved, t[-1].episodes] if t else None for t in result.trials],
        "diverged": int(result.diverged.sum()),
        "best": result.best,
        "seconds": round(result.seconds, 1),
        "testing_seconds": round(result.testing, 1),
        "hardware": runfolder.hardware(),
    }


def transfer_group(settings: Config, trained: pathlib.Path) -> dict | None:
    """Score the trained models of a group on this config's environment."""
    folder = trained / "train"
    if not runfolder.final_model(folder):
        raise BadInput(f"{folder} does not hold trained models; first: wmg reproduce pathfinding")
    began = time.monotonic()
    saved = runfolder.read_config(folder)
    agents = models.load_agents(folder, saved)
    env = checkpoint.make_env(settings.env)
    scores = []
    for index in range(saved.runs):
        agent = lengthen(parallel.take(agents, index), saved, settings)
        played = evaluate.evaluate(env, agent, TEST_SEED, TRANSFER_EPISODES)
        scores.append(_rounded(evaluate.scores(env.spec, played).mean()))
    return {
        "config": config.to_dict(
            dataclasses.replace(settings, steps=saved.steps, runs=saved.runs, seed=saved.seed)
        ),
        "episodes": TRANSFER_EPISODES,
        "scores": [[score] for score in scores],
        "seconds": round(time.monotonic() - began, 1),
        "hardware": runfolder.hardware(),
    }


def lengthen(agent: Agent, trained: Config, tested: Config) -> Agent:
    """Room for a whole episode of the test; ages that training never saw shown as the oldest."""
    if not isinstance(agent, WMG):
        return agent
    before, after = (checkpoint.make_env(c.env).spec.max_steps for c in (trained, tested))
    return with_slots(agent, after - 1, oldest_age=before - 1)


def count(cell: Cell) -> dict[str, Any]:
    """The number of trainable parameters."""
    return {
        "value": count_parameters(checkpoint.shape_of(cell.config)),
        "hardware": runfolder.hardware(),
    }


def speed(cell: Cell) -> dict[str, Any]:
    """Training steps per second of one run."""
    return {
        **(measured := bench.measure(cell.config)),
        "value": measured["steps_per_second"],
    }


def play(cell: Cell) -> dict[str, Any]:
    """The mean score of an agent that does not learn."""
    env = checkpoint.make_env(cell.config.env)
    agent = checkpoint.make_agent(cell.config.agent, env, jax.random.key(0))
    played = evaluate.evaluate(env, agent, TEST_SEED, BASELINE_EPISODES)
    summary = evaluate.summary(env.spec, played)
    return {
        "value": summary["score"],
        "standard_error": summary["standard_error"],
        "episodes": BASELINE_EPISODES,
        "hardware": runfolder.hardware(),
    }


MEASURES: dict[str, Callable[[Cell], dict[str, Any]]] = {
    "parameters": count,
    "speed": speed,
    "episodes": play,
}


TRAINED: dict[str, Callable[[Config, pathlib.Path, Callable], dict[str, Any] | None]] = {
    "curve": train_group,
    "efficiency": solve_group,
    "levels": test_group,
}
"""Measures of trained runs."""
GROUPED = (*TRAINED, "transfer")
"""Measures that are taken of groups of runs."""


def _rounded(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


def _rounded_rows(rows: np.ndarray) -> list[list[float | None]]:
    return [[_rounded(x) for x in row] for row in rows]


def _write(path: pathlib.Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_atomically(path, (json.dumps(data) + "\n").encode())
