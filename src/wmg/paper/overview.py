"""Over all targets: every report at once, the table of verdicts, and what test intervals do."""

import json
import pathlib

from wmg.paper import report, result_file
from wmg.paper.outcome import Outcome, on_grid, pool
from wmg.paper.reproduce import GROUPED
from wmg.paper.result_file import Json
from wmg.paper.target import Target
from wmg.paper.targets import TARGETS
from wmg.paper.targets.babyai import authors_interval
from wmg.paper.verdict import number
from wmg.tools.errors import BadInput
from wmg.tools.files import write_atomically

TIMES = (1, 4, 16)
"""How many times fewer tests the table of intervals shows."""
FORMATS = ("json", "md")


def report_all(out: pathlib.Path, interval: int | None = None) -> list[Json]:
    """Write the report of every target that has results in a folder, and the tables over all of
    them; the rows of the table of verdicts. Re-gridded to an `interval`, nothing is written."""
    names = [name for name in TARGETS if any((out / name).glob(f"**/{result_file.NAME}"))]
    if not names:
        raise BadInput(f"there are no results in {out}")
    if interval is not None:
        return _rows([report.make(name, TARGETS[name], out, interval) for name in names])
    rows = _rows([report.report(name, TARGETS[name], out) for name in names])
    intervals = interval_rows(out)
    tables = {
        "verdicts": (rows, verdict_table(rows)),
        "test-intervals": (intervals, interval_table(intervals)),
    }
    for name, (data, text) in tables.items():
        write_atomically(out / f"{name}.json", (json.dumps(data, indent=1) + "\n").encode())
        write_atomically(out / f"{name}.md", (text + "\n").encode())
    return rows


def _rows(reports: list[Json]) -> list[Json]:
    kept = (
        "label",
        "paper",
        "value",
        "interval",
        "ratio",
        "verdict",
        "why",
        "excludes_paper",
        "runs",
        "precision",
        "test_every",
        "has_tests",
    )
    return [
        {"target": data["target"], "cell": cell, "unit": data["unit"]}
        | {name: row[name] for name in kept if name in row}
        for data in reports
        for cell, row in data["cells"].items()
        if row["verdict"] is not None
    ]


def verdict_table(rows: list[Json]) -> str:
    """Every cell that the paper has a number for: what does not match comes first."""
    learned = [row for row in rows if TARGETS[row["target"]].measure in GROUPED]
    others = [row for row in rows if row not in learned]
    by_rules = [row for row in learned if row.get("has_tests")]
    lines = [
        "# All cells beside the paper",
        "",
        f"Of {len(learned)} cells of trained runs {_counts(learned)}; of {len(others)} cells "
        f"without training (parameters, baselines, speed, released models) {_counts(others)}. A "
        "cell matches if its whole 95% interval lies in the band that its target states; it is "
        "better or worse if it does not and lies on one side of the paper's number. "
        f"{len(by_rules)} cells were run by these rules, with every test kept"
        + (f": {_counts(by_rules)}." if by_rules else "."),
        "",
        "| target | cell | ours | 95% | paper | ratio | verdict | runs | products | test every "
        "| tests kept |",
        "|---" * 11 + "|",
    ]
    for row in sorted(rows, key=lambda row: report.FIRST.index(row["verdict"])):
        ends = " to ".join(number(end) for end in row["interval"])
        kept = {None: "-", True: "yes", False: "no"}[row.get("has_tests")]
        every = f"{row['test_every']:,}" if "test_every" in row else "-"
        why = f" ({row['why']})" if row["why"] else ""
        outside = ", excludes the paper's" if row["excludes_paper"] else ""
        lines.append(
            f"| {row['target']} | {row['label']} | {number(row['value'])} | {ends} "
            f"| {row['paper']:,} | {number(row['ratio'])} | {row['verdict']}{why}"
            f"{outside if row['verdict'] == 'matches' else ''} | {row['runs']} "
            f"| {row['precision']} | {every} | {kept} |"
        )
    return "\n".join(lines)


def _counts(rows: list[Json]) -> str:
    """How many rows have each verdict, in words."""
    kinds = [(kind, sum(row["verdict"] == kind for row in rows)) for kind in report.FIRST if kind]
    return ", ".join(f"{n} {_is(kind, n)}" for kind, n in kinds if n)


def _is(verdict: str, count: int) -> str:
    if verdict == "matches":
        return "matches" if count == 1 else "match"
    return f"{'is' if count == 1 else 'are'} {verdict}"


def interval_rows(out: pathlib.Path) -> list[Json]:
    """What each series that keeps its tests would have needed with fewer of them."""
    rows = []
    for name, target in TARGETS.items():
        if target.measure != "efficiency" or not any((out / name).glob(f"**/{result_file.NAME}")):
            continue
        for cell, series in pool(name, target, out).items():
            rows += [
                _interval_row(name, target, cell, outcome)
                for outcome in series
                if all(map(result_file.has_tests, outcome.results))
            ]
    return rows


def _interval_row(name: str, target: Target, cell: str, outcome: Outcome) -> Json:
    every = outcome.results[0]["config"]["report_every"]
    grids = {f"{times}x": times * every for times in TIMES}
    grids["authors'"] = authors_interval(*cell.split("-", 1)) if "-" in cell else 1000
    medians = {}
    for label, grid in grids.items():
        found = on_grid(outcome, grid)
        low, high = (report.finite(end) for end in found.interval)
        known = found.regridded and grid >= every
        medians[label] = {"interval": grid} | (
            {"median": report.finite(found.centre), "95%": [low, high]} if known else {}
        )
    return {
        "target": name,
        "cell": cell,
        "series": outcome.series,
        "label": target.cells[cell].label,
        "paper": target.cells[cell].paper,
        "runs": len(outcome.values),
        "precision": outcome.precision,
        "grids": medians,
    }


def interval_table(rows: list[Json]) -> str:
    """How much the interval between tests matters."""
    lines = [
        "# How much the interval between tests matters",
        "",
        "Median of thousands of interactions to the goal, and its 95% interval, if the same runs "
        "had been tested 4 or 16 times as seldom, or as seldom as the authors' code tested (1,000 "
        "steps; on level 4 10,000, except WMG factored). The steps between two tests are in "
        "brackets.",
        "",
        "| cell | runs | products | 1x | 4x | 16x | authors' | paper |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        series = f" ({row['series']})" if row["series"] else ""
        grids = " | ".join(_shown(found) for found in row["grids"].values())
        paper = "-" if row["paper"] is None else f"{row['paper']:,}"
        lines.append(
            f"| {row['target'].removeprefix('babyai-')}: {row['label']}{series} | {row['runs']} "
            f"| {row['precision']} | {grids} | {paper} |"
        )
    return "\n".join(lines)


def _shown(found: Json) -> str:
    if "median" not in found:
        return "cannot be re-gridded"
    (low, high), grid = found["95%"], f"({found['interval']:,} steps)"
    if found["median"] is None:
        return f"not passed by half of the runs {grid}"
    return f"{number(found['median'])}, {number(low)} to {number(high)} {grid}"
