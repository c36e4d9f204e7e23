"""What came of the cells of a target, pooled over groups, and whether claims hold of it."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from wmg import plots, stats
from wmg.config import BadInput
from wmg.experiments.reproduce import SCORES_LONGER, TRAINING, read_result
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
    longer: plots.Curve | None = None
    """The curve if levels may be played for longer, where there are levels."""
    training: plots.Curve | None = None
    """Of training levels, while they were learned from."""

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
        """Of the centre; infinite where the median's interval has no upper end, not a number where
        there is one run alone."""
        if self.censored:
            low, high = stats.censored_median_interval(self.values)
            return (high - low) / 3.92 if np.isfinite(high) else np.inf
        if len(self.values) < 2:
            return float("nan") if self.curve else self.error or 0.0
        return float(self.values.std(ddof=1) / len(self.values) ** 0.5)

    def after(self, steps: int) -> "Outcome | None":
        """What it was after so many steps, if its curve has a point there."""
        if self.curve is None or steps not in self.curve.steps:
            return None
        scores = self.curve.scores[:, self.curve.steps == steps][:, 0]
        return dataclasses.replace(self, values=scores[np.isfinite(scores)])


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
    if SCORES_LONGER in results[0]:
        results = _tested_alike(results)
    scores = _stack([row for result in results for row in result["scores"]])
    finished = np.isfinite(scores[:, -1])
    steps = max((result.get("steps", []) for result in results), key=len)
    curve = plots.Curve(np.array(steps, float), scores) if steps else None
    longer = None
    if curve and SCORES_LONGER in results[0]:
        rows = [row for result in results for row in result[SCORES_LONGER]]
        longer = plots.Curve(curve.steps, _stack(rows))
    training = [result[TRAINING] for result in results if TRAINING in result]
    return Outcome(
        np.nanmean(scores[finished, -final_points:], axis=1), curve, seconds, hardware, commands,
        kinds[0]["steps"], diverged=int((~finished).sum()), longer=longer,
        training=_training_curve(training) if training else None,
    )  # fmt: skip


def _tested_alike(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of levels, without tests that not all groups have had: a group that went on from
    fewer steps was tested there, too."""
    common = set.intersection(*(set(result["steps"]) for result in results))

    def shared(result: dict[str, Any]) -> dict[str, Any]:
        kept = [i for i, steps in enumerate(result["steps"]) if steps in common]
        rows = {
            name: [[row[i] for i in kept] for row in result[name]]
            for name in ("scores", SCORES_LONGER)
        }
        return {**result, **rows, "steps": [result["steps"][i] for i in kept]}

    return [shared(result) for result in results]


def _training_curve(parts: list[dict[str, Any]]) -> plots.Curve:
    """Of groups that went equally far but for a window, at the steps of the longest."""
    rows = [row for part in parts for row in part["scores"]]
    steps = max((part["steps"] for part in parts), key=len)
    return plots.Curve(np.array(steps, float), _stack(rows))


def _stack(rows: list[list[float | None]]) -> np.ndarray:
    """A row for each run; the end is missing where a whole group diverged."""
    scores = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(scores, rows, strict=True):
        line[: len(row)] = np.array(row, float)
    return scores


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


def judge(claim: Claim, outcomes: dict[str, Outcome], full: set[str]) -> tuple[str, str]:
    """A verdict, 'holds', 'fails' or 'not judged', and the numbers behind it. `full` has the cells
    that were run for as many steps as in the paper."""
    ours = outcomes.get(claim.cell)
    other = outcomes.get(claim.other) if isinstance(claim.other, str) else None
    if ours is None or (isinstance(claim.other, str) and other is None):
        return "not judged", "not all cells were run"
    if claim.after is not None and (ours := ours.after(claim.after)) is None:
        return "not judged", f"no score after {claim.after:,} steps"
    if any(len(outcome.values) == 0 for outcome in (ours, other) if outcome):
        return "not judged", "every run diverged"
    if claim.full_scale and {claim.cell, claim.other} & outcomes.keys() - full:
        return "not judged", f"{ours.centre:.2f} after fewer steps than in the paper"
    value = claim.times * (float(claim.other) if other is None else other.centre)
    numbers = f"{number(ours.centre)} against {number(value)}"
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
    if np.isnan(error):
        return ("holds" if gap > claim.margin else "fails"), f"{numbers}, from a single run"
    verdict = gap > max(claim.margin, 2 * error)
    return ("holds" if verdict else "fails"), f"{numbers}, standard error of the gap {error:.2f}"


def number(value: float | None) -> str:
    """A number as a table shows it."""
    if value is None or not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
