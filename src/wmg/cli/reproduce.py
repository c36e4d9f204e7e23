"""`wmg reproduce`: a table or figure of the paper."""

import dataclasses
import json as jsonlib
import pathlib
import sys

from wmg.cli.options import parse
from wmg.cli.start import prepare_jax, split_name, threads_for
from wmg.config import Precision
from wmg.paper.target import Target
from wmg.tools.errors import BadInput

LARGEST = 100_000_000
"""Steps or runs of any target are fewer."""


@dataclasses.dataclass(frozen=True)
class ReproduceOptions:
    """Run a table or figure of the paper, or what is missing of it, and write a report. Without
    TARGET: all reports, or the ledger of runs. The target `suite` is of other people's tasks:
    `wmg reproduce suite --help`."""

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
    precision: Precision | None = None
    """Of matrix products (default: the cell's)."""
    again: bool = False
    """Run the same seeds once more. Results that are there stay, and are the ones judged."""
    checkpoints: pathlib.Path = pathlib.Path("checkpoints")
    """Folder of the authors' released models, for released-checkpoints."""
    out: pathlib.Path = pathlib.Path("reproduce")
    report_only: bool = False
    """Run nothing; report what is there."""
    test_interval: int | None = None
    """With --report-only: what runs with a goal would have needed at this test interval."""
    ledger: bool = False
    """Run nothing; print what is missing of every target, what it costs, and the next command."""
    json: bool = False
    """Print the report as JSON."""


def run(args: list[str]) -> int:
    """`wmg reproduce TARGET ...`"""
    name, rest = split_name(args)
    if name == "suite":
        from wmg.cli import suite

        return suite.run(rest)
    options = parse(ReproduceOptions, rest, "wmg reproduce TARGET")
    check(options)
    if options.ledger:
        if name is not None:
            raise BadInput("--ledger is of all targets: it takes no TARGET")
        return print_ledger(options)
    from wmg.paper import targets  # loads the settings of every cell

    if name is None and not options.report_only:
        raise BadInput(f"name a target: {', '.join(targets.TARGETS)}; or suite")
    if name is None:
        return report_all(options)
    target = targets.find_target(name)
    for cell in options.cells:
        if cell not in target.cells:
            raise BadInput(f"{name} has no cell {cell!r}; it has {', '.join(target.cells)}")
    if not options.report_only and not run_cells(name, target, options):
        print("stopped and saved; the same command goes on from here", file=sys.stderr)
        return 0
    return print_report(name, target, options)


def check(options: ReproduceOptions) -> None:
    """Refuse numbers that no target has, and options that do not go together."""
    for setting in ("runs", "steps", "group_size", "test_interval"):
        value = getattr(options, setting)
        if value is not None and not 1 <= value <= LARGEST:
            raise BadInput(f"{setting} must be from 1 to {LARGEST:,}, got {value}")
    if options.test_interval is not None and not options.report_only:
        raise BadInput("--test-interval re-grids results that are there: it needs --report-only")


def run_cells(name: str, target: Target, options: ReproduceOptions) -> bool:
    """Run what is missing, and score the trained models where other targets ask for that; whether
    all of it is now there."""
    from wmg.paper import reproduce as library
    from wmg.paper.targets import TARGETS, scored_after
    from wmg.runs import progress

    cells = options.cells or tuple(target.cells)
    runs = min(options.group_size, options.runs or target.runs)
    each = [dataclasses.replace(target.cells[cell].config, runs=runs) for cell in cells]
    prepare_jax(runs if runs > 1 else max(map(threads_for, each)))
    scale = library.Scale(
        options.runs,
        options.steps,
        options.group_size,
        options.groups,
        options.precision,
        options.again,
        options.checkpoints,
    )
    scale.groups_of(target)  # refuses groups that there are not
    wanted = [
        (where, TARGETS.get(where, target), what)
        for cell in cells
        for where, what in [(name, cell), *scored_after(name, cell)]
    ]
    series = library.choose_series(options.out, wanted, scale)
    for where, asked, what in wanted:
        print(f"{where}: {asked.cells[what].label}", file=sys.stderr, flush=True)
        with progress.display() as display:
            if not library.run_cell(where, asked, what, scale, options.out, display, series):
                return False
    return True


def print_report(name: str, target: Target, options: ReproduceOptions) -> int:
    """Write the report of a target and print it; re-gridded, print it alone."""
    from wmg.paper import report

    if options.test_interval is not None:
        data = report.make(name, target, options.out, options.test_interval)
    else:
        data = report.report(name, target, options.out)
    print(jsonlib.dumps(data) if options.json else report.markdown(data))
    if options.test_interval is None:
        print(f"wrote {options.out / name / 'report.md'}", file=sys.stderr)
    return 0


def report_all(options: ReproduceOptions) -> int:
    """Write the report of every target that has results, and the tables over all of them."""
    from wmg.paper import overview

    written = overview.report_all(options.out, options.test_interval)
    print(jsonlib.dumps(written) if options.json else overview.verdict_table(written))
    return 0


def print_ledger(options: ReproduceOptions) -> int:
    """Write and print the ledger of runs."""
    from wmg.paper import ledger

    data = ledger.make(options.out)
    if options.out.is_dir():
        ledger.write(options.out, data)
    print(jsonlib.dumps(data) if options.json else ledger.markdown(data))
    return 0
