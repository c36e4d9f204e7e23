"""`wmg reproduce`: a table or figure of the paper."""

import dataclasses
import json as jsonlib
import pathlib
import sys

from wmg import experiments
from wmg.commands.start import prepare_jax, split_name, threads_for
from wmg.config import BadInput
from wmg.options import parse

LARGEST = 100_000_000
"""Steps or runs of any target are fewer."""


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run a table or figure of the paper, or what is missing of it, and write a report."""

    cells: tuple[str, ...] = ()
    """Which cells (default: all)."""
    runs: int | None = None
    """Runs of each cell (default: as in the paper)."""
    steps: int | None = None
    """Steps of each run (default: as in the paper)."""
    group_size: int = 100
    """Runs that are trained at once."""
    groups: tuple[int, ...] | None = None
    """Which groups of runs to do here (default: all)."""
    out: pathlib.Path = pathlib.Path("reproduce")
    report_only: bool = False
    """Run nothing; report what is there."""
    json: bool = False
    """Print the report as JSON."""


def run(args: list[str]) -> int:
    """`wmg reproduce TARGET ...`"""
    name, rest = split_name(args)
    options = parse(Reproduce, rest, "wmg reproduce TARGET")
    if name is None:
        raise BadInput(f"name a target: {', '.join(experiments.TARGETS)}")
    target = experiments.find_target(name)
    for cell in options.cells:
        if cell not in target.cells:
            raise BadInput(f"{name} has no cell {cell!r}; it has {', '.join(target.cells)}")
    for setting in ("runs", "steps", "group_size"):
        value = getattr(options, setting)
        if value is not None and not 1 <= value <= LARGEST:
            raise BadInput(f"{setting} must be from 1 to {LARGEST:,}, got {value}")
    from wmg import progress
    from wmg.experiments import report
    from wmg.experiments import reproduce as library

    cells = options.cells or tuple(target.cells)
    runs = min(options.group_size, options.runs or target.runs)
    each = [dataclasses.replace(target.cells[cell].config, runs=runs) for cell in cells]
    prepare_jax(runs if runs > 1 else max(map(threads_for, each)))
    scale = library.Scale(options.runs, options.steps, options.group_size, options.groups)
    scale.groups_of(target)  # refuses groups that there are not
    for cell in () if options.report_only else cells:
        print(f"{name}: {target.cells[cell].label}", file=sys.stderr, flush=True)
        with progress.display() as show:
            done = library.run_cell(name, target, cell, scale, options.out, show)
        if not done:
            print("stopped and saved; the same command goes on from here", file=sys.stderr)
            return 0
    data = report.report(name, target, options.out)
    print(jsonlib.dumps(data) if options.json else report.markdown(data))
    return 0
