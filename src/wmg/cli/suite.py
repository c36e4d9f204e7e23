"""`wmg reproduce suite`: tasks of other people, with other agents beside WMG."""

import dataclasses
import json as jsonlib
import pathlib
import sys
from typing import TYPE_CHECKING

from wmg.api.suite.tasks import CELLS, OTHER, RUNS
from wmg.cli.options import parse
from wmg.cli.start import prepare_jax
from wmg.tools.errors import BadInput

if TYPE_CHECKING:
    from wmg.api.suite.run import SuiteScale

THREADS = 2
"""As many as other commands give a single run of PPO."""
MOST_RUNS = 1000
MOST_STEPS = 300_000


@dataclasses.dataclass(frozen=True)
class SuiteOptions:
    """Run the suite, or what is missing of it, and write a report: tasks of other people, for WMG,
    GRU and RecurrentPPO."""

    cells: tuple[str, ...] = ()
    """Which cells, TASK-AGENT (default: all; without --other, all of our agents)."""
    runs: int = RUNS
    """Runs of each cell, with the seeds 0, 1, 2, ..."""
    steps: int | None = None
    """Interactions of each run (default: the task's budget)."""
    other: str | None = None
    """The Python that trains RecurrentPPO: benchmarks/suite-requirements.txt is installed there."""
    out: pathlib.Path = pathlib.Path("reproduce")
    report_only: bool = False
    """Run nothing; report what is there."""
    json: bool = False
    """Print the report as JSON."""


def run(args: list[str]) -> int:
    """`wmg reproduce suite ...`"""
    options = parse(SuiteOptions, args, "wmg reproduce suite")
    check(options)
    prepare_jax(THREADS)
    from wmg.api.suite import report
    from wmg.api.suite.run import SuiteScale

    scale = SuiteScale(options.steps, options.other)
    if not options.report_only and not run_cells(options, scale):
        print("stopped and saved; the same command goes on from here", file=sys.stderr)
        return 0
    data = report.report(options.out, scale)
    print(jsonlib.dumps(data) if options.json else report.markdown(data))
    print(f"wrote {options.out / data['target'] / 'report.md'}", file=sys.stderr)
    return 0


def check(options: SuiteOptions) -> None:
    """Refuse cells that there are not, and numbers that are out of range."""
    for cell in options.cells:
        if cell not in CELLS:
            raise BadInput(f"the suite has no cell {cell!r}; it has {', '.join(CELLS)}")
    if not 1 <= options.runs <= MOST_RUNS:
        raise BadInput(f"runs must be from 1 to {MOST_RUNS:,}, got {options.runs}")
    if options.steps is not None and not 1 <= options.steps <= MOST_STEPS:
        raise BadInput(f"steps must be from 1 to {MOST_STEPS:,}, got {options.steps}")


def run_cells(options: SuiteOptions, scale: "SuiteScale") -> bool:
    """Run what is missing, one seed after the other; whether all of it is now there."""
    from wmg.api.suite import run as library
    from wmg.runs import progress

    cells = options.cells or tuple(CELLS)
    if not options.cells and options.other is None:
        cells = tuple(cell for cell in CELLS if CELLS[cell][1] != OTHER)
        print(f"without {OTHER}, which needs --other", file=sys.stderr)
    library.check(list(cells), scale)
    for seed in range(options.runs):
        for cell in cells:
            print(f"suite: {cell}, seed {seed}", file=sys.stderr, flush=True)
            with progress.display() as display:
                if not library.run_cell(cell, seed, scale, options.out, display):
                    return False
    return True
