"""The ledger of runs: what is missing of every target, what it costs, and the next command.

Costs are of the runs that are missing, for one H200, and come from results alone. Low: the time
does not depend on the number of runs, which are one program. High: it grows in proportion. The time
is that of the cell's own largest group. If there is none, the time per step is taken from the
trained cell whose agent is of the same kind and nearest in size.
"""

import dataclasses
import functools
import json
import math
import pathlib
from typing import Any

import numpy as np

from wmg import config
from wmg.config import Config
from wmg.paper.outcome import other_settings, series_of
from wmg.paper.reproduce import GROUPED, TRAINED
from wmg.paper.result_file import Json
from wmg.paper.target import Target
from wmg.paper.targets import TARGETS
from wmg.runs import checkpoint
from wmg.tools.files import write_atomically
from wmg.types import count_parameters

PIECE = 25.0
"""GPU minutes that one command may take."""
ENOUGH = 50
"""Enough runs for a cell for which the paper has 100."""
SLOWEST, SLOWEST_ON_GRIDS = 2.0, 4.0
"""The slowest of many runs needs about this many times their median; to pass on coarse grids too,
more."""
COMPILING = 60.0
"""Seconds, about."""


@dataclasses.dataclass(frozen=True)
class Speed:
    """How fast a cell was trained: from one of its results."""

    agent: str
    parameters: int
    seconds: float
    """For one step of all runs of the group."""
    testing: float
    """Of these, on tests of a goal."""
    runs: int
    envs: int


@dataclasses.dataclass(frozen=True)
class Entry:
    """A cell of the ledger."""

    target: str
    cell: str
    wanted: int
    """Runs that are asked for."""
    there: int
    """Runs by today's rules and settings."""
    older: int
    """Runs with other settings, precision or without tests."""
    command: str
    gpu: bool = False
    """Whether a GPU is needed."""
    minutes: tuple[float, float] | None = None
    """Least and most that the missing runs cost on one H200, if something like it was timed."""

    @property
    def fits(self) -> bool:
        """Whether a piece can take no more than `PIECE` minutes."""
        return not self.gpu or (self.minutes is not None and self.minutes[0] <= PIECE)

    @property
    def worth(self) -> float:
        """How much is learned for a minute: the share of runs that is missing, old results count
        as half."""
        missing = 1 - (self.there + 0.5 * min(self.older, self.wanted - self.there)) / self.wanted
        return missing / max(1.0, sum(self.minutes or (0.0, 0.0)) / 2)


def make(out: pathlib.Path) -> Json:
    """The ledger of a folder of results: entries in order of worth for cost."""
    speeds = [speed for target in TARGETS for speed in _speeds(out / target)]
    entries = [
        entry(name, target, cell, out, speeds)
        for name, target in TARGETS.items()
        for cell in target.cells
    ]
    missing = sorted(
        (each for each in entries if each.there < each.wanted),
        key=lambda each: (not each.fits, -each.worth),
    )
    return {
        "done": [_plain(each) for each in entries if each.there >= each.wanted],
        "missing": [_plain(each) for each in missing],
        "next": next((each.command for each in missing if each.fits and not each.gpu), None),
        "next_on_a_gpu": next((each.command for each in missing if each.fits and each.gpu), None),
    }


def _plain(each: Entry) -> Json:
    return {**dataclasses.asdict(each), "fits": each.fits}


def _speeds(target: pathlib.Path) -> list[Speed]:
    """The speeds of all trained results on a GPU."""
    found = []
    for file_results in [series_of(cell) for cell in sorted(target.glob("*")) if cell.is_dir()]:
        for result in [result for files in file_results.values() for result in files.values()]:
            if result["hardware"].get("devices") is None or "config" not in result:
                continue
            if taken := _steps_taken(result):
                settings = config.from_dict(Config, result["config"])
                times = result["seconds"] / taken, result.get("testing_seconds", 0.0) / taken
                found.append(_speed(settings, *times))
    return found


def _steps_taken(result: Json) -> float:
    """Steps of the run that took most."""
    steps = result.get("steps_taken") or result.get("steps") or [0]
    return float(np.max(steps))


def _speed(settings: Config, seconds: float, testing: float) -> Speed:
    size, envs = parameters(settings), settings.batched.envs
    return Speed(settings.agent.name, size, seconds, testing, settings.runs, envs)


def parameters(settings: Config) -> int:
    """Trainable parameters of an agent, which do not depend on anything else of the run."""
    return _parameters(dataclasses.replace(settings, runs=1, seed=0, vary=(), goal=None))


@functools.cache
def _parameters(settings: Config) -> int:
    return count_parameters(checkpoint.shape_of(settings))


def entry(name: str, target: Target, cell: str, out: pathlib.Path, speeds: list[Speed]) -> Entry:
    """What the ledger says of a cell."""
    asked, place = target.cells[cell], out / name / cell
    there = older = seeds = 0
    groups: list[Json] = []
    for results in [list(files.values()) for files in series_of(place).values()]:
        settings = [result["config"] for result in results if "config" in result]
        runs = sum(each["runs"] for each in settings) if settings else len(results)
        short = any(each["steps"] < asked.config.steps for each in settings)
        if short or other_settings(asked, results[0]):
            older = max(older, runs)
        else:
            there, groups = max(there, runs), groups + results
            seeds = max([seeds, *(each["seed"] + each["runs"] for each in settings)])
    wanted = min(target.runs, ENOUGH) if target.measure in GROUPED else 1
    if target.measure not in TRAINED:
        made_by = (name, cell) if not target.models else (target.models, asked.trained)
        command, with_training = "wmg reproduce {} --cells {}".format(*made_by), bool(target.models)
        return Entry(name, cell, wanted, min(there, wanted), older, command, with_training)
    missing = max(1, wanted - there)
    cost = minutes_as_before(asked.config, missing, groups)
    cost = cost or minutes(asked.config, asked.paper, missing, speeds)
    pieces = 1 if cost is None else max(1, math.ceil(cost[1] / PIECE))
    options = next_groups(wanted, seeds, math.ceil(missing / pieces))
    command = f"wmg reproduce {name} --cells {cell} {options}"
    return Entry(name, cell, wanted, min(there, wanted), older, command, True, cost)


def next_groups(wanted: int, seeds: int, runs: int) -> str:
    """Options that ask for this many more runs, from the first seed that nobody has.

    Group i begins with seed i x size, so the size divides the number of seeds that are there.
    """
    size = max(n for n in range(1, runs + 1) if seeds % n == 0)
    first = seeds // size
    groups = " ".join(map(str, range(first, first + math.ceil(runs / size))))
    return f"--runs {max(wanted, seeds + runs)} --group-size {size} --groups {groups}"


def minutes(
    settings: Config, paper: float | None, runs: int, speeds: list[Speed]
) -> tuple[float, float] | None:
    """Lowest and highest estimate of the GPU minutes of `runs` runs; None if no group was timed.

    The lowest assumes that a step of the batch takes as long as in the timed group, the highest
    that its time grows with the number of runs.
    """
    steps = float(settings.steps)
    if settings.goal is not None and paper is not None:
        slowest = SLOWEST_ON_GRIDS if settings.goal.grids else SLOWEST
        steps = min(steps, slowest * 1000 * paper)
    size, agent = parameters(settings), settings.agent.name
    alike = [s for s in speeds if s.agent == agent and s.envs == settings.batched.envs] or speeds
    if not alike:
        return None
    nearest = min(alike, key=lambda speed: abs(math.log(speed.parameters / size)))
    seconds = (nearest.seconds - (0.0 if settings.goal else nearest.testing)) * steps
    return _least_and_most(settings, seconds, runs / nearest.runs, COMPILING)


def minutes_as_before(
    settings: Config, runs: int, groups: list[Json]
) -> tuple[float, float] | None:
    """The same by the largest of these groups of the cell itself; None if none had a GPU."""
    timed = [group for group in groups if group["hardware"].get("devices") is not None]
    if not timed:
        return None
    largest = max(timed, key=lambda group: group["config"]["runs"])
    return _least_and_most(settings, largest["seconds"], runs / largest["config"]["runs"])


def _least_and_most(
    settings: Config, seconds: float, share: float, more: float = 0.0
) -> tuple[float, float]:
    """Minutes for this share of the runs, from the seconds that all took, plus a margin."""
    one_program = settings.rule == "a3c"  # else runs are trained one after the other
    ends = (seconds * (least(1.0, share) if one_program else share) for least in (min, max))
    low, high = (round((end + more) / 60, 1) for end in ends)
    return low, high


def write(out: pathlib.Path, data: Json) -> None:
    """Write ledger.json and ledger.md."""
    write_atomically(out / "ledger.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(out / "ledger.md", markdown(data).encode())


def markdown(data: Json) -> str:
    """The ledger for people."""
    lines = [
        "# Ledger of runs",
        "",
        f"{len(data['done'])} cells are complete and {len(data['missing'])} are not. Costs are "
        "estimates for one H200, from the seconds of earlier results. Next on a GPU, and next on a "
        "CPU:",
        "",
        "```",
        data["next_on_a_gpu"] or "# nothing that fits",
        data["next"] or "# nothing",
        "```",
        "",
        "| target | cell | runs there | older | wanted | GPU minutes | command |",
        "|---" * 7 + "|",
    ]
    lines += [_row(each) for each in data["missing"]]
    lines += ["", "Complete:", "", "| target | cell | runs |", "|---|---|---|"]
    lines += [f"| {each['target']} | {each['cell']} | {each['there']} |" for each in data["done"]]
    return "\n".join([*lines, ""])


def _row(each: dict[str, Any]) -> str:
    cost = "unknown" if each["gpu"] else "on a CPU"
    if each["minutes"] is not None:
        cost = "{:,.0f} to {:,.0f}".format(*each["minutes"])
    late = "" if each["fits"] else f"; does not fit in {PIECE:.0f} minutes"
    return (
        f"| {each['target']} | {each['cell']} | {each['there']} | {each['older']} "
        f"| {each['wanted']} | {cost}{late} | `{each['command']}` |"
    )
