"""Running a target of the paper, in pieces that can be interrupted and pooled.

A cell's runs are split into groups with disjoint seeds. Each group is trained in a run folder
of its own and ends as one small `result.json`, which is never replaced. A report needs those alone,
so groups may run at different times on different machines:

    OUT/pathfinding/wmg/group-000/train/              a run folder
    OUT/pathfinding/wmg/group-000/result.json         what came of it
    OUT/pathfinding/wmg/again-01/group-000/...        the same seeds once more (`--again`)
    OUT/pathfinding/report.{json,md}, figure.png

The groups of a folder, here `wmg` or `again-01`, are a *series*: results that are pooled.
"""

import dataclasses
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wmg import config, registry
from wmg.agents.wmg.agent import WMG, with_slots
from wmg.config import Config, Precision
from wmg.envs.sokoban.env import Sokoban
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.paper import result_file
from wmg.paper.target import Cell, Target
from wmg.play import evaluate, level_test
from wmg.runs import bench, checkpoint, folder_logs, hardware, models, runfolder, train
from wmg.runs.progress import Display
from wmg.runs.result import Result
from wmg.tools import files, machine
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON
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
AGAIN = "again-"


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of a target is run, and how. None means as in the paper."""

    runs: int | None = None
    steps: int | None = None
    group_size: int = 100
    """Runs that are trained at once."""
    groups: tuple[int, ...] | None = None
    """Which groups to run here; by default all."""
    precision: Precision | None = None
    again: bool = False
    """Whether to run what is there once more, beside it."""
    checkpoints: pathlib.Path = pathlib.Path("checkpoints")
    """Where the authors' released models are."""

    def runs_of(self, target: Target) -> int:
        """How many runs of each cell are asked for."""
        return target.runs if self.runs is None else self.runs

    def settings_of(self, cell: Cell, runs: int, seed: int) -> Config:
        """What one group of a cell is trained with."""
        given = {"steps": self.steps, "precision": self.precision}
        changed = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(cell.config, runs=runs, seed=seed, **changed)

    def command(self, name: str, target: Target, cell: str, group: int, steps: int) -> str:
        """The command that does one group alone."""
        parts = f"wmg reproduce {name} --cells {cell} --runs {self.runs_of(target)}"
        if target.measure in TRAINED:
            parts += f" --steps {steps}"
        if self.precision is not None:
            parts += f" --precision {self.precision}"
        parts += f" --group-size {self.group_size} --groups {group}"
        return f"{parts} --again" if self.again else parts

    def groups_of(self, target: Target) -> list[tuple[int, int, int]]:
        """(number, first seed, runs) of each group to run here."""
        runs, size = self.runs_of(target), self.group_size
        sizes = [min(size, runs - first) for first in range(0, runs, size)]
        chosen = range(len(sizes)) if self.groups is None else self.groups
        if bad := [group for group in chosen if not 0 <= group < len(sizes)]:
            raise BadInput(f"there is no group {bad[0]}: {runs} runs make {len(sizes)} groups")
        return [(group, group * size, sizes[group]) for group in chosen]


def run_cell(
    name: str,
    target: Target,
    cell: str,
    scale: Scale,
    out: pathlib.Path,
    display: Display,
    series: str | None = None,
) -> bool:
    """Run what is missing of a cell in a series; whether all that was asked for is now there."""
    if series is None:
        series = choose_series(out, [(name, target, cell)], scale)
    if target.measure not in GROUPED:
        return measure_cell(name, target, cell, scale, out / name / cell / series)
    for group, seed, runs in scale.groups_of(target):
        place = out / name / cell / series / f"group-{group:03d}"
        settings = scale.settings_of(target.cells[cell], runs, seed)
        if target.measure in TRAINED:
            check_asked(place, settings)
        if (place / result_file.NAME).exists():
            continue
        if target.measure == "transfer":
            trained = out / target.models / target.cells[cell].trained
            folder = trained / place.relative_to(out / name / cell) / "train"
            result = transfer_group(settings, folder, enlarged=target.cells[cell].enlarged)
        else:
            result = TRAINED[target.measure](settings, place / "train", display)
        if result is None:
            return False
        command = scale.command(name, target, cell, group, settings.steps)
        about = {"cell": cell, "command": command, "ended": machine.now()}
        result_file.write(place / result_file.NAME, {**result, **about})
    return True


def measure_cell(name: str, target: Target, cell: str, scale: Scale, place: pathlib.Path) -> bool:
    """Measure a cell that has no runs, unless that was done."""
    path = place / result_file.NAME
    if path.exists():
        for old, new in other_precision(path, target, cell, scale):
            raise other(path, "precision", old, new)
        return True
    started, command = machine.now(), f"wmg reproduce {name} --cells {cell}"
    if target.measure == "speed" and scale.precision is not None:
        command += f" --precision {scale.precision}"
    command += " --again" if scale.again else ""
    measured = MEASURES[target.measure](target.cells[cell], scale)
    about = {"cell": cell, "command": command, "started": started, "ended": machine.now()}
    result_file.write(path, {**measured, **about})
    return True


def other_precision(
    path: pathlib.Path, target: Target, cell: str, scale: Scale
) -> list[tuple[str, str]]:
    """The stored and the asked precision of a measured speed, if they differ."""
    if target.measure != "speed":
        return []
    asked = scale.settings_of(target.cells[cell], runs=1, seed=0).precision
    there = result_file.read(path).get("precision", asked)
    alike = there in (asked, hardware.computed_precision(asked))
    return [] if alike else [(there, asked)]


def other(path: pathlib.Path, name: str, old: Any, new: Any) -> BadInput:
    """The error of a result that is there with another setting than is asked for."""
    return BadInput(
        f"{path} has {name} = {old!r}, not {new!r}: run it beside that with --again, "
        "or choose another --out"
    )


def choose_series(out: pathlib.Path, wanted: list[tuple[str, Target, str]], scale: Scale) -> str:
    """The series that results of some cells go to: the cells' own or, to run them once more, the
    first of `again-01`, `again-02`, ... that lacks some of them and has no other settings. So an
    interrupted rerun goes on there, whichever cell it was in."""
    number = 0
    while scale.again:
        number += 1
        series = f"{AGAIN}{number:02d}"
        there = [
            _state_of(out / name / cell / series, target, cell, scale)
            for name, target, cell in wanted
        ]
        if "other" not in there and there != ["complete"] * len(wanted):
            return series
    return ""


def _state_of(place: pathlib.Path, target: Target, cell: str, scale: Scale) -> str:
    """Whether a series of a cell is 'complete', is 'missing' something, or has 'other' settings."""
    path = place / result_file.NAME
    if target.measure not in GROUPED:
        if not path.exists():
            return "missing"
        return "other" if other_precision(path, target, cell, scale) else "complete"
    groups = scale.groups_of(target)
    if target.measure in TRAINED:
        for there in filter(_is_begun, sorted(place.glob("group-*"))):
            path, settings = _settings_there(there)
            asked = scale.settings_of(target.cells[cell], settings.runs, settings.seed)
            asked = asked if path.name == result_file.NAME else train.pinned(asked)
            if config.differences(settings, asked):
                return "other"
    done = [(place / f"group-{group:03d}" / result_file.NAME).exists() for group, *_ in groups]
    return "complete" if all(done) else "missing"


def _is_begun(place: pathlib.Path) -> bool:
    """Whether a group's folder holds anything; a kill may leave an empty one."""
    return (place / result_file.NAME).exists() or (place / "train").exists()


def _settings_there(place: pathlib.Path) -> tuple[pathlib.Path, Config]:
    """What a group was run with, or was begun with, and the file or folder that says so."""
    if (path := place / result_file.NAME).exists():
        return path, config.from_dict(Config, result_file.read(path).get("config"), str(path))
    return place / "train", runfolder.read_config(place / "train")


def check_asked(place: pathlib.Path, settings: Config) -> None:
    """Refuse a group that is there already, or was begun, but is not what is asked for now; and one
    that has seeds of another group."""
    if _is_begun(place):
        path, there = _settings_there(place)
        if path.name != result_file.NAME:
            # It may go on for more steps; that fewer are asked for is said when it does.
            there = dataclasses.replace(there, steps=settings.steps)
            settings = train.pinned(settings)
        for name, old, new in config.differences(there, settings):
            raise other(path, name, old, new)
    for beside in sorted(place.parent.glob(f"group-*/{result_file.NAME}")):
        there = _settings_there(beside.parent)[1]
        ends = (each.seed + each.runs for each in (there, settings))
        if beside.parent != place and max(there.seed, settings.seed) < min(ends):
            seed = max(there.seed, settings.seed)
            raise BadInput(f"{beside} holds the run of seed {seed} already: choose other groups")


def _is_test(data: Any) -> bool:
    """Whether it is what `test_group` keeps of a test of levels."""
    return isinstance(data, dict) and {"steps", "solved", "longer", "seconds"} <= data.keys()


def _read_json(path: pathlib.Path) -> Any:
    """What is in a file; None if that is not JSON."""
    try:
        return files.read_json(path)
    except NOT_JSON:
        return None


def _train(settings: Config, folder: pathlib.Path, display: Display) -> Result | None:
    """Train a group, or go on with it. None if that was stopped."""
    resume = folder.exists()
    result = train.train(settings, folder, resume=resume, start=display.start, show=display.show)
    return None if result.stopped else result


def about_runs(settings: Config, folder: pathlib.Path | None = None) -> dict[str, Any]:
    """What every result of trained runs holds beside its numbers."""
    return {
        "config": config.to_dict(settings),
        "precision": hardware.computed_precision(settings.precision),
        "seeds": [settings.seed, settings.seed + settings.runs - 1],
        "started": runfolder.started(folder) if folder else machine.now(),
        "hardware": machine.describe(),
    }


def train_group(settings: Config, folder: pathlib.Path, display: Display) -> dict | None:
    """Train a group, or go on with it. None if that was stopped."""
    result = _train(settings, folder, display)
    if result is None:
        return None
    scores = result.scores.copy()
    scores[result.diverged, -1] = np.nan  # the report in which it diverged is no final score
    return {
        **about_runs(settings, folder),
        "steps": [round(float(s), 1) for s in result.steps],
        "scores": result_file.pack_scores(scores),
        "diverged": int(result.diverged.sum()),
        "best": result.best,
        "seconds": round(result.seconds, 1),
        "engine": result.engine,
    }


def test_group(settings: Config, folder: pathlib.Path, display: Display) -> dict | None:
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
        result = _train(stage, folder, display)
        if result is None:
            return None
        own, longer = (test_runs(env, result) for env in (held_out, given_longer))
        seconds = round(result.seconds, 1)
        tests.append({"steps": steps, "solved": own, "longer": longer, "seconds": seconds})
        files.write_atomically(done, (json.dumps(tests) + "\n").encode())

    def by_run(scores: str) -> list[list[float | None]]:
        return [list(row) for row in zip(*(test[scores] for test in tests), strict=True)]

    reports, scores = folder_logs.read_scores(folder, settings.runs)
    return {
        **about_runs(settings, folder),
        "levels": held_out.levels,
        "steps": [test["steps"] for test in tests],
        "scores": by_run("solved"),
        SCORES_LONGER: by_run("longer"),
        TRAINING: {"steps": reports.round().tolist(), "scores": result_file.pack_scores(scores)},
        "seconds": tests[-1]["seconds"],
    }


def held_out_levels(settings: Config) -> SokobanSettings:
    """The environment that models are tested on: the test split of what they are trained on."""
    env = settings.env
    if not isinstance(env, SokobanSettings):
        raise BadInput(f"only Sokoban has held-out levels, got {env}")
    return dataclasses.replace(env, levels=env.levels.replace("-train", "-test"))


def test_runs(settings: SokobanSettings, result: Result) -> list[float | None]:
    """The percentage of levels that each run solves; None of a run that diverged."""
    env = registry.make_env(settings)
    assert isinstance(env, Sokoban)
    shares: list[float | None] = []
    for index, diverged in enumerate(result.diverged):
        agent = hardware.take(result.runs.agent, index)
        with hardware.products(result.config.precision):
            played = None if diverged else level_test.play_levels(env, agent, seed=index)
        shares.append(None if played is None else round(100 * float(played.success.mean()), 3))
    return shares


def solve_group(settings: Config, folder: pathlib.Path, display: Display) -> dict | None:
    """Train a group until its runs meet their goal, or go on with it."""
    result = _train(settings, folder, display)
    if result is None:
        return None
    episodes = folder_logs.episodes_until(folder, result.crossings)
    return {
        **about_runs(settings, folder),
        "crossings": [_rounded(x) if x is not None else None for x in result.crossings],
        "episodes": [_rounded(x) if x is not None else None for x in episodes],
        "tests": result_file.pack_tests(result.tests),
        "steps_taken": [int(steps) for steps in result.runs.steps],
        "diverged": int(result.diverged.sum()),
        "best": result.best,
        "seconds": round(result.seconds, 1),
        "testing_seconds": round(result.testing, 1),
    }


def transfer_group(settings: Config, folder: pathlib.Path, *, enlarged: bool) -> dict | None:
    """Score the trained models in a run folder on this config's environment."""
    if not runfolder.final_model(folder):
        raise BadInput(f"{folder} does not hold trained models, which this scores")
    began, started = time.monotonic(), machine.now()
    saved = runfolder.read_config(folder)
    agents = models.load_agents(folder, saved)
    env, scores = registry.make_env(settings.env), []
    for index in range(saved.runs):
        agent = hardware.take(agents, index)
        agent = lengthen(agent, saved, settings) if enlarged else agent
        with hardware.products(saved.precision):
            played = evaluate.evaluate(env, agent, TEST_SEED, TRANSFER_EPISODES)
        scores.append(_rounded(evaluate.scores(env.spec, played).mean()))
    scored = dataclasses.replace(
        settings, steps=saved.steps, runs=saved.runs, seed=saved.seed, precision=saved.precision
    )
    return {
        **about_runs(scored),
        "started": started,
        "episodes": TRANSFER_EPISODES,
        "scores": [[score] for score in scores],
        "seconds": round(time.monotonic() - began, 1),
    }


def lengthen(agent: Agent, trained: Config, tested: Config) -> Agent:
    """Room for a whole episode of the test; ages that training never saw shown as the oldest."""
    if not isinstance(agent, WMG):
        return agent
    before, after = (registry.make_env(c.env).spec.max_steps for c in (trained, tested))
    return with_slots(agent, after - 1, oldest_age=before - 1)


def count(cell: Cell, scale: Scale | None = None) -> dict[str, Any]:
    """The number of trainable parameters."""
    parameters = count_parameters(checkpoint.shape_of(cell.config))
    return {"value": parameters, "hardware": machine.describe()}


def speed(cell: Cell, scale: Scale) -> dict[str, Any]:
    """Training steps per second of one run."""
    measured = bench.measure(scale.settings_of(cell, runs=1, seed=0))
    return {**measured, "value": measured["steps_per_second"]}


def play(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The mean score of an agent that does not learn."""
    env = registry.make_env(cell.config.env)
    agent = registry.make_agent(cell.config.agent, env.spec, jax.random.key(0))
    return _score(env, agent, BASELINE_EPISODES)


def score_checkpoint(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The mean score of a model that the authors released."""
    from wmg.interop import official

    path = scale.checkpoints / cell.file
    if not path.is_file():
        raise BadInput(f"there is no {path}: name the folder of {cell.file} with --checkpoints")
    trained, agent = official.load(path, heads=official.RELEASED_HEADS)
    assert cell.config.env is not None
    env, agent = models.fit(agent, trained, cell.config.env)
    agent = lengthen(agent, trained, cell.config) if cell.enlarged else agent
    return {**_score(env, agent, TRANSFER_EPISODES), "file": cell.file}


def _score(env: Any, agent: Agent, episodes: int) -> dict[str, Any]:
    began = time.monotonic()
    with hardware.products("float32"):
        played = evaluate.evaluate(env, agent, TEST_SEED, episodes)
    summary = evaluate.summary(env.spec, played)
    return {
        "precision": "float32",
        "value": summary["score"],
        "standard_error": summary["standard_error"],
        "episodes": episodes,
        "seconds": round(time.monotonic() - began, 1),
        "hardware": machine.describe(),
    }


MEASURES: dict[str, Callable[[Cell, Scale], dict[str, Any]]] = {
    "parameters": count,
    "speed": speed,
    "episodes": play,
    "checkpoint": score_checkpoint,
}


TRAINED: dict[str, Callable[[Config, pathlib.Path, Display], dict[str, Any] | None]] = {
    "curve": train_group,
    "efficiency": solve_group,
    "levels": test_group,
}
"""Measures of trained runs."""
GROUPED = (*TRAINED, "transfer")
"""Measures that are taken of groups of runs."""


def _rounded(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None
