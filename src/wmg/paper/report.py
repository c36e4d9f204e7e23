"""From the results of a target to JSON, Markdown and figures, with a verdict per cell and claim."""

import json
import pathlib
import sys
from typing import Any

import numpy as np

from wmg.paper import medians, result_file, verdict
from wmg.paper.outcome import Outcome, other_settings, pool
from wmg.paper.reproduce import GROUPED, LONGER
from wmg.paper.result_file import Json
from wmg.paper.target import Target
from wmg.paper.verdict import number
from wmg.tools import plots, stats
from wmg.tools.errors import BadInput
from wmg.tools.files import write_atomically

FIRST = ("worse", "better", "not judged", "matches", None)
"""The order in which a summary names verdicts: what does not match comes first."""


def report(name: str, target: Target, out: pathlib.Path) -> Json:
    """Write report.json, report.md and figures; return what the JSON says."""
    series, folder = pool(name, target, out), out / name
    data = _make(name, target, series, None)
    write_atomically(folder / "report.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / "report.md", markdown(data).encode())
    try:
        _draw(target, judged(series), folder)
    except BadInput as missing:
        print(f"no figure: {missing}", file=sys.stderr)
    return data


def make(name: str, target: Target, out: pathlib.Path, interval: int | None = None) -> Json:
    """The report of a target, from its results alone; with an `interval`, re-gridded to it."""
    return _make(name, target, pool(name, target, out, interval), interval)


def _make(
    name: str, target: Target, series: dict[str, list[Outcome]], interval: int | None
) -> Json:
    outcomes = judged(series)
    full = {cell for cell, outcome in outcomes.items() if _is_full(target, cell, outcome)}
    results = [result for each in series.values() for o in each for result in o.results]
    claims = [(claim.text, *verdict.judge(claim, outcomes, full)) for claim in target.claims]
    return {
        "target": name,
        "title": target.title,
        "source": target.source,
        "unit": target.unit,
        "measure": target.measure,
        "test_interval": interval,
        "band": {
            "size": target.band.size,
            "relative": target.band.relative,
            "reason": target.band.reason,
        },
        "commands": _distinct([result["command"] for result in results]),
        "scale": _scale(target, outcomes),
        "cells": {cell: _row(target, cell, outcome) for cell, outcome in outcomes.items()},
        "other_series": {
            cell: [_other(target, cell, outcome, each[0]) for outcome in each[1:]]
            for cell, each in series.items()
            if each[1:]
        },
        "over_time": _over_time(target, outcomes) | target.published,
        "claims": [
            dict(zip(("claim", "verdict", "numbers"), claim, strict=True)) for claim in claims
        ],
        "not_run": _not_run(name, target, outcomes),
        "note": target.note,
        "cost_seconds": round(sum(result.get("seconds", 0.0) for result in results), 1),
        "hardware": _distinct([result["hardware"] for result in results]),
    }


def judged(series: dict[str, list[Outcome]]) -> dict[str, Outcome]:
    """The outcome of each cell that verdicts are about."""
    return {cell: outcomes[0] for cell, outcomes in series.items()}


def _is_full(target: Target, cell: str, outcome: Outcome) -> bool:
    return outcome.steps is None or outcome.steps >= target.cells[cell].config.steps


def _draw(target: Target, outcomes: dict[str, Outcome], folder: pathlib.Path) -> None:
    """Write the figures; without matplotlib there are none."""
    curves = {target.cells[c].label: o.curve for c, o in outcomes.items() if o.curve is not None}
    curves |= _published_curves(target, curves)
    if target.measure == "efficiency":
        medians.draw(
            [_interval(target, cell, outcome) for cell, outcome in outcomes.items()],
            folder / "figure.png",
            title=target.title,
            xlabel=target.unit,
        )
    if curves:
        lines = {label: float(value) for label, value in target.lines.items()}
        plots.learning_curves(
            curves,
            folder / "figure.png",
            title=target.title,
            ylabel=target.unit,
            lines=lines,
        )
    training = {target.cells[c].label: o.training for c, o in outcomes.items() if o.training}
    if training:
        plots.learning_curves(
            training,
            folder / "training.png",
            title="Solved while learning",
            ylabel="% of training levels",
        )


def _over_time(target: Target, outcomes: dict[str, Outcome]) -> dict[str, dict[int, float]]:
    """Where others are known at some steps: our means there, by what they are of."""
    rows: dict[str, dict[int, float]] = {}
    for cell, outcome in outcomes.items() if target.published else ():
        label = target.cells[cell].label
        for name, curve in ((label, outcome.curve), (f"{label}, {LONGER} steps", outcome.longer)):
            if curve is None:
                continue
            whole = curve.scores[np.isfinite(curve.scores).all(axis=1)]
            if len(whole):
                means = whole.mean(axis=0).round(1).tolist()
                rows[name] = dict(zip(curve.steps.astype(int).tolist(), means, strict=True))
    return rows


def _published_curves(target: Target, ours: dict[str, plots.Curve]) -> dict[str, plots.Curve]:
    """What others reach, as far as our own curves go."""
    last = max((curve.steps.max() for curve in ours.values()), default=0)
    curves = {}
    for label, numbers in target.published.items():
        points = {steps: value for steps, value in numbers.items() if steps <= last}
        if len(points) > 1:  # a line needs two
            values = np.array([list(points.values())])
            curves[label] = plots.Curve(np.array(list(points), float), values)
    return curves


def _scale(target: Target, outcomes: dict[str, Outcome]) -> str:
    """How this compares in size with the paper, in words."""
    if target.measure not in GROUPED:
        return "full"
    alike: dict[str, list[str]] = {}
    for cell, outcome in outcomes.items():
        paper = target.cells[cell].config.steps
        size = [f"{outcome.runs} of {target.runs} runs"]
        if outcome.steps != paper:
            size.append(f"{outcome.steps:,} of {paper:,} steps")
        if outcome.diverged:
            size.append(f"{outcome.diverged} diverged")
        alike.setdefault(", ".join(size), []).append(cell)
    return "; ".join(f"{size}: {', '.join(cells)}" for size, cells in alike.items())


def _row(target: Target, cell: str, outcome: Outcome) -> Json:
    """What a report says of one outcome."""
    paper, found = target.cells[cell].paper, verdict.of_cell(target, cell, outcome)
    low, high = outcome.interval
    outside = paper is not None and not low <= paper <= high
    row: Json = {
        "label": target.cells[cell].label,
        "paper": paper,
        "value": finite(outcome.centre),
        "interval": [finite(low), finite(high)],
        "standard_error": finite(outcome.standard_error),
        "ratio": finite(outcome.centre / paper) if paper else None,
        "verdict": found and found.verdict,
        "why": found.why if found else "",
        "excludes_paper": outside and outcome.by_chance,
        "runs": outcome.runs,
        "precision": outcome.precision,
        "commit": _distinct([result_file.commit_of(each) for each in outcome.results]),
        "seconds": round(outcome.seconds, 1),
    }
    if outcome.censored:
        return row | _efficiency_row(outcome)
    if len(outcome.values) > 1:
        row["over_runs"] = stats.summary(outcome.values)
    return row


def _efficiency_row(outcome: Outcome) -> Json:
    values = outcome.values if len(outcome.values) else np.array([np.inf])
    return {
        **_episodes(outcome),
        "first_quartile": finite(stats.censored_quantile(values, 0.25)),
        "third_quartile": finite(stats.censored_quantile(values, 0.75)),
        "runs": sum(result["config"]["runs"] for result in outcome.results),
        "solved": int(np.isfinite(outcome.values).sum()),
        "test_every": outcome.test_every,
        "regridded": outcome.regridded,
        "has_tests": all(map(result_file.has_tests, outcome.results)),
        "share_of_time_testing": round(outcome.testing / max(outcome.seconds, 1e-9), 3),
    }


def _episodes(outcome: Outcome) -> Json:
    """The median of thousands of training episodes until the goal, where results know it."""
    if not all("episodes" in result for result in outcome.results):
        return {}
    counts = [count for result in outcome.results for count in result["episodes"]]
    thousands = np.array([np.inf if count is None else count / 1000 for count in counts])
    return {"episodes": finite(stats.censored_quantile(thousands, 0.5))}


def _other(target: Target, cell: str, outcome: Outcome, judged: Outcome) -> Json:
    """What a report says of a series that is not the judged one."""
    both = len(outcome.values) > 1 and len(judged.values) > 1
    differ = other_settings(target.cells[cell], outcome.results[0])
    row = _row(target, cell, outcome)
    shown = ("label", "value", "interval", "runs", "precision", "solved", "test_every", "has_tests")
    return {
        "series": outcome.series,
        **{name: row[name] for name in shown if name in row},
        "p": stats.rank_test(outcome.values, judged.values) if both else None,
        "other_settings": [f"{setting} = {there!r}" for setting, there, _ in differ],
        "date": outcome.results[0]["hardware"]["date"],
    }


def finite(value: float) -> float | None:
    """The number as strict JSON has it: None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def _not_run(name: str, target: Target, outcomes: dict[str, Outcome]) -> dict[str, str]:
    """The command for each cell that has no results."""
    command = f"wmg reproduce {name} --cells"
    return {cell: f"{command} {cell}" for cell in target.cells if cell not in outcomes}


def _interval(target: Target, cell: str, outcome: Outcome) -> medians.Interval:
    first, third = (stats.censored_quantile(outcome.values, share) for share in (0.25, 0.75))
    paper = target.cells[cell].paper
    return medians.Interval(target.cells[cell].label, outcome.centre, first, third, paper)


def _distinct(items: list[Any]) -> list[Any]:
    return [item for i, item in enumerate(items) if item not in items[:i]]


def markdown(data: Json) -> str:
    """The report for people: the summary and the table first."""
    lines = [f"# {data['title']}", ""]
    if any(row["verdict"] for row in data["cells"].values()):
        lines += [*_summary(data), ""]
    efficiency = any("solved" in row for row in data["cells"].values())
    lines += _efficiency_table(data) if efficiency else _table(data)
    if data["claims"]:
        lines += ["", "| claim | verdict | numbers |", "|---|---|---|"]
        lines += [f"| {c['claim']} | {c['verdict']} | {c['numbers']} |" for c in data["claims"]]
    if data["over_time"]:
        lines += ["", *_table_over_time(data)]
    if data["other_series"]:
        lines += ["", *_other_series(data)]
    if data["not_run"]:
        lines += ["", "Not run:", "", "```", *data["not_run"].values(), "```"]
    if data["note"]:
        lines += ["", data["note"]]
    return "\n".join([*lines, *_fine_print(data), ""])


def _fine_print(data: Json) -> list[str]:
    machines = sorted({f"{h['device']}, {h['date']}" for h in data["hardware"]})
    precisions = sorted({row["precision"] for row in data["cells"].values()})
    commits = sorted({c for row in data["cells"].values() for c in row["commit"] if c})
    made = f" Commit: {', '.join(commits)}." if commits else ""
    return [
        "",
        f"Source: {data['source']}. Scale: {data['scale']}. {_band_sentence(data['band'])}",
        "",
        f"Hardware: {'; '.join(machines)}. Products in {', '.join(precisions)}.{made} "
        f"Cost: {data['cost_seconds']:,} s.",
        "",
        "Commands:",
        "",
        "```",
        *data["commands"],
        "```",
    ]


def _band_sentence(band: Json) -> str:
    size = f"{band['size']:.0%}" if band["relative"] else f"{band['size']:g}"
    return (
        f"A cell matches if the 95% interval of its centre lies within {size} of the paper's "
        f"number: {band['reason']}."
    )


def _summary(data: Json) -> list[str]:
    """How many cells have which verdict, and which do not match."""
    rows = sorted(data["cells"].values(), key=lambda row: FIRST.index(row["verdict"]))
    lines = []
    for kind in FIRST[:-1]:
        those = [row for row in rows if row["verdict"] == kind]
        if not those:
            continue
        names = "; ".join(_named(row) for row in those)
        lines.append(f"- **{kind}** ({len(those)}): {names}")
    return lines


def _named(row: Json) -> str:
    ratio = "" if row["ratio"] is None else f" {row['ratio']:.2f} times the paper's"
    outside = ", interval excludes it" if row["excludes_paper"] else ""
    why = f" ({row['why']})" if row["why"] else ""
    return f"{row['label']}{ratio if row['verdict'] != 'not judged' else ''}" + (
        outside if row["verdict"] == "matches" else why
    )


def _ends(row: Json) -> str:
    return " to ".join(number(end) for end in row["interval"])


def _paper(row: Json) -> str:
    return "-" if row["paper"] is None else f"{row['paper']:,}"


def _table(data: Json) -> list[str]:
    lines = [
        f"| | ours ({data['unit']}) | 95% | runs | paper | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for row in data["cells"].values():
        lines.append(
            f"| {row['label']} | {number(row['value'])} | {_ends(row)} | {row['runs']} "
            f"| {_paper(row)} | {row['verdict'] or '-'} |"
        )
    return lines


def _table_over_time(data: Json) -> list[str]:
    """A row for each agent, ours and others, a column for each number of steps."""
    agents = data["over_time"]
    columns = sorted({steps for numbers in agents.values() for steps in numbers})
    lines = [
        f"| {data['unit']} | " + " | ".join(f"{c / 1e6:,g}M" for c in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for label, numbers in agents.items():
        cells = [str(numbers.get(steps, "-")) for steps in columns]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _efficiency_table(data: Json) -> list[str]:
    lines = [
        f"| {data['unit']} | median | 95% of median | quartiles | solved | paper | verdict "
        "| test every | products | tests kept | time spent testing |",
        "|---" * 11 + "|",
    ]
    for row in data["cells"].values():
        quartiles = f"{number(row['first_quartile'])} to {number(row['third_quartile'])}"
        median = number(row["value"]) if row["regridded"] else "cannot be re-gridded"
        lines.append(
            f"| {row['label']} | {median} | {_ends(row)} | {quartiles} "
            f"| {row['solved']} of {row['runs']} | {_paper(row)} | {row['verdict'] or '-'} "
            f"| {row['test_every']:,} steps | {row['precision']} "
            f"| {'yes' if row['has_tests'] else 'no'} | {row['share_of_time_testing']:.0%} |"
        )
    counted = [row for row in data["cells"].values() if "episodes" in row]
    if counted:
        medians = "; ".join(f"{row['label']}: {number(row['episodes'])}" for row in counted)
        lines += ["", f"Thousands of training episodes until then, medians: {medians}."]
    return lines


def _other_series(data: Json) -> list[str]:
    lines = [
        "Other results of the same cells, shown and not judged:",
        "",
        "| cell | series | ours | 95% | runs | products | date | p | other settings |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rows in data["other_series"].values():
        for row in rows:
            settings = ", ".join(row["other_settings"]) or "none: a rerun"
            lines.append(
                f"| {row['label']} | {row['series'] or 'first'} | {number(row['value'])} "
                f"| {_ends(row)} | {row['runs']} | {row['precision']} | {row['date']} "
                f"| {'-' if row['p'] is None else format(row['p'], '.2g')} | {settings} |"
            )
    return [*lines, "", "p: of a rank test against the series that is judged."]
