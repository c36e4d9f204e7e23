"""From the results of a target to JSON, Markdown and a figure, with a verdict per claim."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from wmg import plots, stats
from wmg.checkpoint import write_atomically
from wmg.config import BadInput
from wmg.experiments.reproduce import read_result
from wmg.experiments.target import Claim, Target

FINAL_POINTS = 10
"""A run's final score is the mean of its last ten reports: the paper's 100k steps."""


@dataclasses.dataclass
class Outcome:
    """A cell's results, pooled over groups."""

    values: np.ndarray
    """One final value per run that has one: a run that diverged has none."""
    curve: plots.Curve | None
    seconds: float
    hardware: list[dict[str, Any]]
    commands: list[str]
    steps: int | None
    error: float | None = None
    """Standard error of a single measured value."""
    diverged: int = 0

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if len(self.values) else float("nan")

    @property
    def standard_error(self) -> float:
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
            outcomes[cell] = _pool_cell(files, results)
    if not outcomes:
        raise BadInput(f"there are no results of {name} in {out}")
    return outcomes


def _pool_cell(files: list[pathlib.Path], results: list[dict[str, Any]]) -> Outcome:
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
    rows = [row for result in results for row in result["scores"]]
    scores = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(scores, rows, strict=True):
        line[: len(row)] = np.array(row, float)  # shorter where a whole group diverged
    finished = np.isfinite(scores[:, -1])
    finals = np.nanmean(scores[finished, -FINAL_POINTS:], axis=1)
    steps = max((result.get("steps", []) for result in results), key=len)
    curve = plots.Curve(np.array(steps, float), scores) if steps else None
    return Outcome(
        finals, curve, seconds, hardware, commands, kinds[0]["steps"], None, int((~finished).sum())
    )


def _require_disjoint_seeds(files: list[pathlib.Path], results: list[dict]) -> None:
    seen: dict[int, pathlib.Path] = {}
    for file, result in zip(files, results, strict=True):
        first = result["config"]["seed"]
        for seed in range(first, first + len(result["scores"])):
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
        return "not judged", f"{ours.mean:.2f} after fewer steps than in the paper"
    value = float(claim.other) if other is None else other.mean
    gap = ours.mean - value
    if claim.kind == "equals":
        verdict = abs(gap) <= claim.margin + 1e-9
        return ("holds" if verdict else "fails"), f"{ours.mean:,.2f} against {value:,.2f}"
    if other is not None and min(len(ours.values), len(other.values)) < 2:
        return "not judged", f"{ours.mean:,.2f} against {value:,.2f}, from a single run"
    error = (ours.standard_error**2 + (other.standard_error if other else 0.0) ** 2) ** 0.5
    verdict = gap > max(claim.margin, 2 * error)
    numbers = f"{ours.mean:,.2f} against {value:,.2f}, standard error of the gap {error:.2f}"
    return ("holds" if verdict else "fails"), numbers


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
        "claims": [
            dict(zip(("claim", "verdict", "numbers"), (claim.text, *judge(claim, outcomes, full)),
                     strict=True))
            for claim in target.claims
        ],
        "note": target.note,
        "cost_seconds": round(sum(outcome.seconds for outcome in outcomes.values()), 1),
        "hardware": _distinct([h for outcome in outcomes.values() for h in outcome.hardware]),
    }  # fmt: skip
    folder = out / name
    write_atomically(folder / "report.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / "report.md", markdown(data).encode())
    curves = {target.cells[c].label: o.curve for c, o in outcomes.items() if o.curve is not None}
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


def _scale(target: Target, outcomes: dict[str, Outcome]) -> str:
    """How this compares in size with the paper, in words."""
    if target.measure not in ("curve", "transfer"):
        return "full"
    parts = []
    for cell, outcome in outcomes.items():
        paper = target.cells[cell].config.steps
        parts.append(
            f"{cell}: {len(outcome.values) + outcome.diverged} of {target.runs} runs, "
            f"{outcome.steps:,} of {paper:,} steps"
            + (f", {outcome.diverged} diverged" if outcome.diverged else "")
        )
    return "; ".join(parts)


def _row(target: Target, cell: str, outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": target.cells[cell].label,
        "paper": target.cells[cell].paper,
        "value": outcome.mean if len(outcome.values) else None,
        "standard_error": outcome.standard_error,
    }
    if len(outcome.values) > 1:
        row["over_runs"] = stats.summary(outcome.values)
    return row


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
    lines += [f"| | ours ({data['unit']}) | s.e. | paper |", "|---|---|---|---|"]
    for row in data["cells"].values():
        paper = "-" if row["paper"] is None else f"{row['paper']:,}"
        lines.append(
            f"| {row['label']} | {_number(row['value'])} | {_number(row['standard_error'])} "
            f"| {paper} |"
        )
    lines += ["", "| claim | verdict | numbers |", "|---|---|---|"]
    lines += [f"| {c['claim']} | {c['verdict']} | {c['numbers']} |" for c in data["claims"]]
    if data["note"]:
        lines += ["", data["note"]]
    machines = sorted({f"{h['device']}, {h['date']}" for h in data["hardware"]})
    lines += ["", f"Hardware: {'; '.join(machines)}. Cost: {data['cost_seconds']:,} s."]
    lines += ["", "Commands, the results of which were pooled:", "", "```"]
    return "\n".join([*lines, *data["commands"], "```", ""])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
