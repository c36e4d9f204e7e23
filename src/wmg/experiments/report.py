"""From the results of a target to JSON, Markdown and a figure, with a verdict per claim."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from wmg import plots, stats
from wmg.checkpoint import write_atomically
from wmg.config import BadInput
from wmg.experiments.reproduce import GROUPED, read_result
from wmg.experiments.target import Claim, Target

FINAL_POINTS = {"curve": 10}
"""A run's final score on a learning curve is the mean of its last ten reports, the paper's 100k
steps; of others, it is the last."""


@dataclasses.dataclass
class Outcome:
    """A cell's results, pooled over groups."""

    values: np.ndarray
    """One final value per run that has one: a run that diverged has none. Of runs with a goal,
    what each needed to meet it, infinite if it did not."""
    curve: plots.Curve | None
    seconds: float
    hardware: list[dict[str, Any]]
    commands: list[str]
    steps: int | None
    error: float | None = None
    """Standard error of a single measured value."""
    diverged: int = 0
    censored: bool = False
    """Whether values may be infinite, so that medians are reported instead of means."""
    testing: float = 0.0
    """Seconds spent on tests of goals."""
    test_every: int | None = None
    """Steps between two of them."""

    @property
    def runs(self) -> int:
        """How many there are, with those that diverged."""
        return len(self.values) + (0 if self.censored else self.diverged)

    @property
    def centre(self) -> float:
        """The mean of the values, or their median."""
        if not len(self.values):
            return float("nan")
        if self.censored:
            return stats.censored_quantile(self.values, 0.5)
        return float(self.values.mean())

    @property
    def standard_error(self) -> float:
        """Of the centre; infinite where the median's interval has no upper end."""
        if self.censored:
            low, high = stats.censored_median_interval(self.values)
            return (high - low) / 3.92 if np.isfinite(high) else np.inf
        if self.error is not None or len(self.values) < 2:
            return self.error or 0.0
        return float(self.values.std(ddof=1) / len(self.values) ** 0.5)


def pool(name: str, target: Target, out: pathlib.Path) -> dict[str, Outcome]:
    """The outcome of each cell that has results."""
    outcomes = {}
    for cell in target.cells:
        files = sorted((out / name / cell).glob("**/result.json"))
        results = [read_result(file) for file in files]
        if results:
            outcomes[cell] = _pool_cell(files, results, FINAL_POINTS.get(target.measure, 1))
    if not outcomes:
        raise BadInput(f"there are no results of {name} in {out}")
    return outcomes


def _pool_cell(
    files: list[pathlib.Path], results: list[dict[str, Any]], final_points: int
) -> Outcome:
    hardware = [result["hardware"] for result in results]
    commands = [result["command"] for result in results]
    seconds = sum(result.get("seconds", 0.0) for result in results)
    if "value" in results[0]:
        values = np.array([results[0]["value"]], float)
        error = results[0].get("standard_error")
        return Outcome(values, None, seconds, hardware, commands, None, error)
    kinds = [
        {k: v for k, v in result["config"].items() if k not in ("runs", "seed")}
        for result in results
    ]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            raise BadInput(f"{file} has another config than {files[0]}, so they cannot be pooled")
    _require_disjoint_seeds(files, results)
    if "crossings" in results[0]:
        return _pool_crossings(results, seconds, hardware, commands)
    rows = [row for result in results for row in result["scores"]]
    scores = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(scores, rows, strict=True):
        line[: len(row)] = np.array(row, float)  # shorter where a whole group diverged
    finished = np.isfinite(scores[:, -1])
    finals = np.nanmean(scores[finished, -final_points:], axis=1)
    steps = max((result.get("steps", []) for result in results), key=len)
    curve = plots.Curve(np.array(steps, float), scores) if steps else None
    return Outcome(
        finals, curve, seconds, hardware, commands, kinds[0]["steps"], None, int((~finished).sum())
    )


def _pool_crossings(results: list[dict], seconds: float, hardware: list, commands: list) -> Outcome:
    steps = [np.inf if x is None else x for result in results for x in result["crossings"]]
    settings = results[0]["config"]
    return Outcome(
        np.array(steps) / 1000,
        None,
        seconds,
        hardware,
        commands,
        settings["steps"],
        diverged=sum(result["diverged"] for result in results),
        censored=True,
        testing=sum(result["testing_seconds"] for result in results),
        test_every=settings["report_every"],
    )


def _require_disjoint_seeds(files: list[pathlib.Path], results: list[dict]) -> None:
    seen: dict[int, pathlib.Path] = {}
    for file, result in zip(files, results, strict=True):
        first = result["config"]["seed"]
        for seed in range(first, first + result["config"]["runs"]):
            if seed in seen:
                raise BadInput(f"{file} and {seen[seed]} both hold the run of seed {seed}")
            seen[seed] = file


def judge(claim: Claim, outcomes: dict[str, Outcome], full: bool) -> tuple[str, str]:
    """A verdict, 'holds', 'fails' or 'not judged', and the numbers behind it."""
    ours = outcomes.get(claim.cell)
    other = outcomes.get(claim.other) if isinstance(claim.other, str) else None
    if ours is None or (isinstance(claim.other, str) and other is None):
        return "not judged", "not all cells were run"
    if any(len(outcome.values) == 0 for outcome in (ours, other) if outcome):
        return "not judged", "every run diverged"
    if claim.full_scale and not full:
        return "not judged", f"{ours.centre:.2f} after fewer steps than in the paper"
    value = claim.times * (float(claim.other) if other is None else other.centre)
    numbers = f"{_number(ours.centre)} against {_number(value)}"
    if claim.kind == "equals":
        verdict = abs(ours.centre - value) <= claim.margin + 1e-9
        return ("holds" if verdict else "fails"), numbers
    if other is not None and min(len(ours.values), len(other.values)) < 2:
        return "not judged", f"{numbers}, from a single run"
    if np.isinf(ours.centre) and np.isinf(value):
        return "not judged", "neither median was reached"
    gap = ours.centre - value if claim.kind == "above" else value - ours.centre
    error = np.hypot(ours.standard_error, claim.times * other.standard_error if other else 0.0)
    if np.isinf(gap):  # one of the two was not solved by half of its runs
        return ("holds" if gap > 0 else "fails"), numbers
    if other is None and claim.kind == "below":  # an upper limit for our own number
        return ("holds" if gap >= 0 else "fails"), numbers
    verdict = gap > max(claim.margin, 2 * error)
    return ("holds" if verdict else "fails"), f"{numbers}, standard error of the gap {error:.2f}"


def report(name: str, target: Target, out: pathlib.Path) -> dict[str, Any]:
    """Write report.json, report.md and, for curves, figure.png; return what the JSON says."""
    outcomes = pool(name, target, out)
    full = all(
        outcome.steps is None or outcome.steps >= target.cells[cell].config.steps
        for cell, outcome in outcomes.items()
    )
    data = {
        "target": name,
        "title": target.title,
        "source": target.source,
        "unit": target.unit,
        "commands": _distinct([c for o in outcomes.values() for c in o.commands]),
        "scale": _scale(target, outcomes),
        "cells": {cell: _row(target, cell, outcome) for cell, outcome in outcomes.items()},
        "published": target.published,
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
    return data


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
    parts = []
    for cell, outcome in outcomes.items():
        paper = target.cells[cell].config.steps
        parts.append(
            f"{cell}: {outcome.runs} of {target.runs} runs, "
            f"{outcome.steps:,} of {paper:,} steps"
            + (f", {outcome.diverged} diverged" if outcome.diverged else "")
        )
    return "; ".join(parts)


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
    if data["published"]:
        lines += ["", *_published_table(data)]
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
        numbers = f"{_number(row['value'])} | {_number(row['standard_error'])}"
        lines.append(f"| {row['label']} | {numbers} | {paper} |")
    return lines


def _published_table(data: dict[str, Any]) -> list[str]:
    """A row for each of the others, a column for each number of steps."""
    published = data["published"]
    columns = sorted({steps for numbers in published.values() for steps in numbers})
    lines = [
        f"| published ({data['unit']}) | " + " | ".join(f"{c / 1e6:,g}M" for c in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for label, numbers in published.items():
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
        quartiles = f"{_number(row['first_quartile'])} to {_number(row['third_quartile'])}"
        interval = " to ".join(_number(end) for end in row["interval_of_median"])
        paper = "-" if row["paper"] is None else f"{row['paper']:,}"
        lines.append(
            f"| {row['label']} | {_number(row['value'])} | {quartiles} | {interval} "
            f"| {row['solved']} of {row['runs']} | {paper} | {row['test_every']:,} steps "
            f"| {row['share_of_time_testing']:.0%} |"
        )
    return lines


def _number(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
