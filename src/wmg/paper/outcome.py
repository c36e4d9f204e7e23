"""The outcomes of the cells of a target: results pooled into series, with values and intervals.

Results are pooled only with equal settings, precision and test interval, and disjoint seeds. The
results in one folder are a series; a cell may have several (`again-01`, ...). The judged series is
the first one with the target's settings, its steps and enough runs; if there is none, the series
that comes closest. Reports show all.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from wmg import config
from wmg.config import Config, Goal
from wmg.paper import result_file
from wmg.paper.reproduce import SCORES_LONGER, TRAINING
from wmg.paper.result_file import Json
from wmg.paper.target import Cell, Target
from wmg.play.goal_test import crossing_on_grid
from wmg.tools import plots, stats
from wmg.tools.errors import BadInput

FEWEST = 10
"""With fewer trained runs nothing is judged: intervals of so few are too narrow."""
FINAL_POINTS = {"curve": 10}
"""A run's final score on a learning curve is the mean of its last ten reports, the paper's 100k
steps; of others, it is the last."""
CONFIDENCE_Z = 1.96


@dataclasses.dataclass
class Outcome:
    """The results of a series, pooled."""

    values: np.ndarray
    """One final value per run that has one: a run that diverged has none. Of runs with a goal,
    what each needed to meet it, infinite if it did not."""
    curve: plots.Curve | None
    results: list[Json]
    steps: int | None
    series: str = ""
    """The folder in its cell; empty for the cell's own."""
    precision: str = "float32"
    """Of products."""
    error: float | None = None
    """Standard error of a single measured value."""
    diverged: int = 0
    censored: bool = False
    """Whether values may be infinite, so that medians are reported instead of means."""
    test_every: int | None = None
    """Steps between two tests of a goal."""
    regridded: bool = True
    """Whether the values are of the test interval that was asked for, where one was."""
    longer: plots.Curve | None = None
    """The curve if levels may be played for longer, where there are levels."""
    training: plots.Curve | None = None
    """Of training levels, while they were learned from."""
    final_points: int = 1
    """How many of its last reports a run's final score is the mean of."""

    @property
    def runs(self) -> int:
        """The number of runs, including diverged ones."""
        return len(self.values) + (0 if self.censored else self.diverged)

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(float(result.get("seconds", 0)) for result in self.results)

    @property
    def testing(self) -> float:
        """Seconds spent on tests of goals."""
        return sum(float(result.get("testing_seconds", 0)) for result in self.results)

    @property
    def centre(self) -> float:
        """The mean of the values, or their median."""
        if not len(self.values):
            return float("nan")
        if self.censored:
            return stats.censored_quantile(self.values, 0.5)
        return float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of the centre; (-inf, inf) for a single trained run."""
        if self.censored and len(self.values) > 1:
            return stats.censored_median_interval(self.values)
        if len(self.values) > 1:
            return stats.bootstrap(self.values, np.mean)
        if self.trained or not len(self.values):
            return -np.inf, np.inf
        half = CONFIDENCE_Z * (self.error or 0.0)
        return self.centre - half, self.centre + half

    @property
    def standard_error(self) -> float:
        """Of the centre; infinite where the median's interval has no upper end, not a number where
        there is one run alone."""
        if self.censored:
            low, high = self.interval
            return (high - low) / (2 * CONFIDENCE_Z) if np.isfinite(high) else np.inf
        if len(self.values) < 2:
            return float("nan") if self.trained else self.error or 0.0
        return float(self.values.std(ddof=1) / len(self.values) ** 0.5)

    @property
    def by_chance(self) -> bool:
        """Whether the value is subject to sampling error."""
        return self.trained or bool(self.error) or len(self.values) > 1

    @property
    def trained(self) -> bool:
        """Whether this is of trained runs, which differ by chance."""
        return self.steps is not None

    def after(self, steps: int) -> "Outcome | None":
        """The value after `steps` steps, if its curve has a point there."""
        if self.curve is None or steps not in self.curve.steps:
            return None
        scores = self.curve.scores[:, self.curve.steps == steps][:, 0]
        return dataclasses.replace(self, values=scores[np.isfinite(scores)])

    def until(self, steps: float) -> "Outcome | None":
        """The outcome if the runs had been stopped after `steps` steps of their curve, if it has a
        point as early as that."""
        if self.curve is None or self.curve.steps[-1] <= steps:
            return self
        kept = self.curve.steps <= steps
        if not kept.any():
            return None
        curve = plots.Curve(self.curve.steps[kept], self.curve.scores[:, kept])
        values = _final_scores(curve.scores, self.final_points)
        lost = len(curve.scores) - len(values)
        cut = {"curve": curve, "longer": None, "training": None}
        return dataclasses.replace(self, values=values, diverged=lost, **cut)


def pool(
    name: str, target: Target, out: pathlib.Path, interval: int | None = None
) -> dict[str, list[Outcome]]:
    """The outcomes of each cell that has results, one for each series, the judged one first.

    With an `interval`, values of runs with a goal are what they would have needed if tested so
    seldom.
    """
    outcomes = {}
    for cell, asked in target.cells.items():
        if found := series_of(out / name / cell):
            outcomes[cell] = [
                _pool_series(series, files, target, interval)
                for series, files in sorted(found.items(), key=lambda each: _rank(asked, each))
            ]
            for outcome in outcomes[cell]:
                outcome.precision = result_file.precision_of(outcome.results[0])
    if not outcomes:
        raise BadInput(f"there are no results of {name} in {out}")
    return outcomes


def series_of(cell: pathlib.Path) -> dict[str, dict[pathlib.Path, Json]]:
    """The results of a cell by series."""
    found: dict[str, dict[pathlib.Path, Json]] = {}
    for file in sorted(cell.glob(f"**/{result_file.NAME}")):
        place = file.parent.relative_to(cell)
        grouped = place.name.startswith("group-")
        series = (place.parent if grouped else place).as_posix()
        found.setdefault("" if series == "." else series, {})[file] = result_file.read(file)
    return found


def other_settings(asked: Cell, result: Json) -> list[tuple[str, Any, Any]]:
    """Settings in which a result differs from its cell, other than its size: name and values."""
    if "config" not in result:
        return []
    try:
        there = config.from_dict(Config, result["config"])
    except BadInput:
        return [("config", None, None)]
    same = {"runs": there.runs, "seed": there.seed, "steps": there.steps}
    wanted = dataclasses.replace(asked.config, **same)
    there = dataclasses.replace(there, precision=result_file.precision_of(result))
    return config.differences(there, wanted)


def _rank(asked: Cell, each: tuple[str, dict[pathlib.Path, Json]]) -> tuple:
    series, results = each[0], list(each[1].values())
    settings = [result["config"] for result in results if "config" in result]
    short = any(config["steps"] < asked.config.steps for config in settings)
    few = bool(settings) and sum(config["runs"] for config in settings) < FEWEST
    began = min(result.get("started") or result["hardware"]["date"] for result in results)
    return bool(other_settings(asked, results[0])), short, few, began, series


def _pool_series(
    series: str, files: dict[pathlib.Path, Json], target: Target, interval: int | None
) -> Outcome:
    results = list(files.values())
    if "value" in results[0]:
        return _single(series, results)
    _require_alike(files)
    _require_disjoint_seeds(files)
    if "crossings" in results[0]:
        return _pool_crossings(series, results, interval)
    if SCORES_LONGER in results[0]:
        results = _tested_alike(results)
    scores = _stack([row for result in results for row in result_file.scores_of(result)])
    finished = np.isfinite(scores[:, -1])
    points = FINAL_POINTS.get(target.measure, 1)
    steps = max((result.get("steps", []) for result in results), key=len)
    curve = plots.Curve(np.array(steps, float), scores) if steps else None
    longer = None
    if curve and SCORES_LONGER in results[0]:
        rows = [row for result in results for row in result_file.scores_of(result, SCORES_LONGER)]
        longer = plots.Curve(curve.steps, _stack(rows))
    training = [result[TRAINING] for result in results if TRAINING in result]
    return Outcome(
        values=_final_scores(scores, points),
        curve=curve,
        results=results,
        steps=results[0]["config"]["steps"],
        series=series,
        diverged=int((~finished).sum()),
        longer=longer,
        training=_training_curve(training) if training else None,
        final_points=points,
    )


def _final_scores(scores: np.ndarray, points: int) -> np.ndarray:
    """The mean of the last points of each run that did not diverge."""
    return np.nanmean(scores[np.isfinite(scores[:, -1]), -points:], axis=1)


def _single(series: str, results: list[Json]) -> Outcome:
    """A measured value; of a speed, every timed chunk is one."""
    result = results[0]
    values = result.get("steps_per_second_each_chunk") or [result["value"]]
    error = result.get("standard_error")
    return Outcome(np.array(values, float), None, results, None, series, error=error)


def _require_alike(files: dict[pathlib.Path, Json]) -> None:
    """Refuse to pool results of different settings or precision."""
    first, *others = files
    for file in others:
        for what, of in (("config", _kind), ("precision", result_file.precision_of)):
            if of(files[file]) != of(files[first]):
                raise BadInput(f"{file} has another {what} than {first}, so they cannot be pooled")


def _kind(result: Json) -> Config:
    """The settings of a result without its seeds; missing ones have their defaults."""
    return dataclasses.replace(config.from_dict(Config, result["config"]), runs=1, seed=0, vary=())


def _require_disjoint_seeds(files: dict[pathlib.Path, Json]) -> None:
    seen: dict[int, pathlib.Path] = {}
    for file, result in files.items():
        first = result["config"]["seed"]
        for seed in range(first, first + result["config"]["runs"]):
            if seed in seen:
                raise BadInput(f"{file} and {seen[seed]} both hold the run of seed {seed}")
            seen[seed] = file


def _tested_alike(results: list[Json]) -> list[Json]:
    """Results of levels, without tests that not all groups have had: a group that went on from
    fewer steps was tested there, too."""
    common = set.intersection(*(set(result["steps"]) for result in results))

    def shared(result: Json) -> Json:
        kept = [i for i, steps in enumerate(result["steps"]) if steps in common]
        rows = {
            name: [[row[i] for i in kept] for row in result[name]]
            for name in ("scores", SCORES_LONGER)
        }
        return {**result, **rows, "steps": [result["steps"][i] for i in kept]}

    return [shared(result) for result in results]


def _training_curve(parts: list[Json]) -> plots.Curve:
    """The curve of groups whose steps differ by less than a window, at the longest one's steps."""
    rows = [row for part in parts for row in result_file.scores_of(part)]
    steps = max((part["steps"] for part in parts), key=len)
    return plots.Curve(np.array(steps, float), _stack(rows))


def _stack(rows: list[np.ndarray]) -> np.ndarray:
    """A row for each run; the end is missing where a whole group diverged."""
    scores = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for line, row in zip(scores, rows, strict=True):
        line[: len(row)] = row
    return scores


def _pool_crossings(series: str, results: list[Json], interval: int | None) -> Outcome:
    settings = results[0]["config"]
    every = settings["report_every"]
    if interval is None or interval == every:
        steps = [x for result in results for x in result["crossings"]]
    else:
        steps = [x for result in results for x in crossings_on_grid(result, interval)]
    regridded = not any(x is not None and np.isnan(x) for x in steps)
    values = np.array([np.inf if x is None else x for x in steps if regridded]) / 1000
    return Outcome(
        values=values,
        curve=None,
        results=results,
        steps=settings["steps"],
        series=series,
        diverged=sum(result["diverged"] for result in results),
        censored=True,
        test_every=interval or every,
        regridded=regridded,
    )


def on_grid(outcome: Outcome, interval: int) -> Outcome:
    """What runs with a goal would have needed if tested every `interval` steps."""
    return _pool_crossings(outcome.series, outcome.results, interval)


def crossings_on_grid(result: Json, interval: int) -> list[float | None]:
    """What each run would have needed if tested every `interval` steps; NaN if that is unknown."""
    settings = result["config"]
    if not result_file.has_tests(result) or interval % settings["report_every"]:
        return [float("nan")] * settings["runs"]
    goal = config.from_dict(Goal, settings["goal"], "config.goal")
    every = settings["report_every"]
    return [
        crossing_on_grid(tests, goal, every, interval) for tests in result_file.tests_of(result)
    ]
