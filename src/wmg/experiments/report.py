"""From the results of a target to JSON, Markdown and a figure, with a verdict per claim."""

import json
import pathlib
import sys
from typing import Any

import numpy as np

from wmg import plots, stats
from wmg.checkpoint import write_atomically
from wmg.config import BadInput
from wmg.experiments.outcome import Outcome, judge, number, pool
from wmg.experiments.reproduce import GROUPED, LONGER
from wmg.experiments.target import Target


def report(name: str, target: Target, out: pathlib.Path) -> dict[str, Any]:
    """Write report.json, report.md and figures; return what the JSON says."""
    outcomes = pool(name, target, out)
    full = {
        cell
        for cell, outcome in outcomes.items()
        if outcome.steps is None or outcome.steps >= target.cells[cell].config.steps
    }
    data = {
        "target": name,
        "title": target.title,
        "source": target.source,
        "unit": target.unit,
        "commands": _distinct([c for o in outcomes.values() for c in o.commands]),
        "scale": _scale(target, outcomes),
        "cells": {cell: _row(target, cell, outcome) for cell, outcome in outcomes.items()},
        "over_time": _over_time(target, outcomes) | target.published,
        "claims": [
            dict(zip(("claim", "verdict", "numbers"), (claim.text, *judge(claim, outcomes, full)),
                     strict=True))
            for claim in target.claims
        ],
        "not_run": _not_run(name, target, outcomes),
        "note": target.note,
        "cost_seconds": round(sum(outcome.seconds for outcome in outcomes.values()), 1),
        "hardware": _distinct([h for outcome in outcomes.values() for h in outcome.hardware]),
    }  # fmt: skip
    folder = out / name
    write_atomically(folder / "report.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / "report.md", markdown(data).encode())
    try:
        _draw(target, outcomes, folder)
    except BadInput as missing:
        print(f"no figure: {missing}", file=sys.stderr)
    return data


def _draw(target: Target, outcomes: dict[str, Outcome], folder: pathlib.Path) -> None:
    """Write the figures; without matplotlib there are none."""
    curves = {target.cells[c].label: o.curve for c, o in outcomes.items() if o.curve is not None}
    curves |= _published_curves(target, curves)
    if target.measure == "efficiency":
        plots.medians(
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


def _row(target: Target, cell: str, outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": target.cells[cell].label,
        "paper": target.cells[cell].paper,
        "value": _finite(outcome.centre),
        "standard_error": _finite(outcome.standard_error),
    }
    if outcome.censored:
        low, high = stats.censored_median_interval(outcome.values)
        return row | {
            "first_quartile": _finite(stats.censored_quantile(outcome.values, 0.25)),
            "third_quartile": _finite(stats.censored_quantile(outcome.values, 0.75)),
            "interval_of_median": [_finite(low), _finite(high)],
            "runs": outcome.runs,
            "solved": int(np.isfinite(outcome.values).sum()),
            "test_every": outcome.test_every,
            "share_of_time_testing": round(outcome.testing / max(outcome.seconds, 1e-9), 3),
            "seconds": round(outcome.seconds, 1),
        }
    if len(outcome.values) > 1:
        row["over_runs"] = stats.summary(outcome.values)
    return row


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _not_run(name: str, target: Target, outcomes: dict[str, Outcome]) -> dict[str, str]:
    """The command for each cell that has no results."""
    command = f"wmg reproduce {name} --cells"
    return {cell: f"{command} {cell}" for cell in target.cells if cell not in outcomes}


def _interval(target: Target, cell: str, outcome: Outcome) -> plots.Interval:
    first, third = (stats.censored_quantile(outcome.values, share) for share in (0.25, 0.75))
    paper = target.cells[cell].paper
    return plots.Interval(target.cells[cell].label, outcome.centre, first, third, paper)


def _distinct(items: list[Any]) -> list[Any]:
    return [item for i, item in enumerate(items) if item not in items[:i]]


def markdown(data: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"# {data['title']}",
        "",
        f"Source: {data['source']}. Scale: {data['scale']}.",
        "",
    ]
    efficiency = any("solved" in row for row in data["cells"].values())
    lines += _efficiency_table(data) if efficiency else _table(data)
    if data["over_time"]:
        lines += ["", *_table_over_time(data)]
    if data["not_run"]:
        lines += ["", "Not run:", "", "```", *data["not_run"].values(), "```"]
    lines += ["", "| claim | verdict | numbers |", "|---|---|---|"]
    lines += [f"| {c['claim']} | {c['verdict']} | {c['numbers']} |" for c in data["claims"]]
    if data["note"]:
        lines += ["", data["note"]]
    machines = sorted({f"{h['device']}, {h['date']}" for h in data["hardware"]})
    lines += ["", f"Hardware: {'; '.join(machines)}. Cost: {data['cost_seconds']:,} s."]
    lines += ["", "Commands, the results of which were pooled:", "", "```"]
    return "\n".join([*lines, *data["commands"], "```", ""])


def _table(data: dict[str, Any]) -> list[str]:
    lines = [f"| | ours ({data['unit']}) | s.e. | paper |", "|---|---|---|---|"]
    for row in data["cells"].values():
        paper = "-" if row["paper"] is None else f"{row['paper']:,}"
        numbers = f"{number(row['value'])} | {number(row['standard_error'])}"
        lines.append(f"| {row['label']} | {numbers} | {paper} |")
    return lines


def _table_over_time(data: dict[str, Any]) -> list[str]:
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


def _efficiency_table(data: dict[str, Any]) -> list[str]:
    lines = [
        f"| {data['unit']} | median | quartiles | 95% of median | solved | paper | test every "
        "| time spent testing |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in data["cells"].values():
        quartiles = f"{number(row['first_quartile'])} to {number(row['third_quartile'])}"
        interval = " to ".join(number(end) for end in row["interval_of_median"])
        paper = "-" if row["paper"] is None else f"{row['paper']:,}"
        lines.append(
            f"| {row['label']} | {number(row['value'])} | {quartiles} | {interval} "
            f"| {row['solved']} of {row['runs']} | {paper} | {row['test_every']:,} steps "
            f"| {row['share_of_time_testing']:.0%} |"
        )
    return lines
