"""Distributed Grid Descent: which configuration to run next (the paper's appendix on tuning).

A hyperparameter has an ordered list of values. A *point* of the grid is one index into each of
these lists, and a *run set* is a point with the scores of its runs. Runs are noisy, so a search
returns to a point many times. Runs in progress are counted, so that workers that share only
their results do not all choose the same point. This module knows nothing of storage or time.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

Point = tuple[int, ...]


@dataclasses.dataclass
class Runs:
    """The runs of a search: scores of finished ones, and counts of runs without a score."""

    scores: dict[Point, list[float]] = dataclasses.field(default_factory=dict)
    pending: collections.Counter[Point] = dataclasses.field(default_factory=collections.Counter)
    """How many runs of each point are in progress."""
    pruned: collections.Counter[Point] = dataclasses.field(default_factory=collections.Counter)
    """How many runs of each point were stopped early: counted, but without a score."""

    def count(self, point: Point) -> int:
        """The paper's Count: how many runs of this point were begun."""
        return len(self.scores.get(point, ())) + self.pending[point] + self.pruned[point]

    def total(self) -> int:
        """How many runs were begun in all."""
        finished = sum(map(len, self.scores.values()))
        return finished + self.pending.total() + self.pruned.total()


@dataclasses.dataclass(frozen=True)
class Search:
    """The grid, and how it is searched. With the defaults it is the paper's algorithm."""

    sizes: tuple[int, ...]
    """How many values each hyperparameter has."""
    average: Literal["mean", "median"] = "mean"
    """How the scores of a run set become one number: the paper's Metric."""
    maximise: bool = True
    n_init: int = 0
    """How many runs are drawn before the descent begins; 0 waits for the first result only."""
    start: Point | None = None
    """The centre of these first draws, instead of the whole grid."""
    axes: tuple[int, ...] | None = None
    """With one run at a time: the hyperparameters that may change, by index; None for all."""
    at_once: int = 1
    """How many runs a worker proposes at once, all of the same shapes."""
    shapes: tuple[int, ...] = ()
    """With several runs at once: the hyperparameters that must be the same in all of them."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The hyperparameters in which runs of one batch may differ."""
        return tuple(i for i in range(len(self.sizes)) if i not in self.shapes)


def neighbourhood(
    centre: Point, sizes: Sequence[int], axes: Sequence[int] | None = None
) -> list[Point]:
    """The centre and every point one step from it in exactly one hyperparameter (of `axes`)."""
    points = [centre]
    for axis in range(len(sizes)) if axes is None else axes:
        for index in (centre[axis] - 1, centre[axis] + 1):
            if 0 <= index < sizes[axis]:
                points.append((*centre[:axis], index, *centre[axis + 1 :]))
    return points


def average(search: Search, scores: Sequence[float]) -> float:
    """The paper's Metric of a run set, with the sign that makes higher better.

    The mean of +inf and -inf is undefined: such a run set is the worst.
    """
    if len(scores) == 1:  # as most are, and numpy is slow for those
        value = scores[0]
    else:
        value = float(np.mean(scores) if search.average == "mean" else np.median(scores))
    if math.isnan(value):
        return -math.inf
    return value if search.maximise else -value


@np.errstate(invalid="ignore")  # infinite scores of both signs
def centres(search: Search, runs: Runs) -> list[Point]:
    """The run sets with the best average: several if they are tied."""
    averages = {point: average(search, scores) for point, scores in runs.scores.items()}
    best = max(averages.values(), default=None)
    return [point for point, value in averages.items() if value == best]


@np.errstate(invalid="ignore")
def path(search: Search, history: Iterable[tuple[Point, float]]) -> list[Point]:
    """The centre after each result; of tied ones the first."""
    scores: dict[Point, list[float]] = {}
    averages: dict[Point, float] = {}
    points = []
    for point, score in history:
        scores.setdefault(point, []).append(score)
        averages[point] = average(search, scores[point])
        points.append(max(averages, key=averages.__getitem__))
    return points


def weights(points: Sequence[Point], runs: Runs) -> np.ndarray:
    """The paper's ceiling, one more than the highest Count, less the Count of each point."""
    counts = np.array([runs.count(point) for point in points])
    return counts.max() + 1 - counts


def distribution(search: Search, runs: Runs) -> dict[Point, float]:
    """How likely each point is to be proposed, once there are results. Tied centres are equally
    likely, which the paper leaves open."""
    chances: dict[Point, float] = collections.defaultdict(float)
    tied = centres(search, runs)
    for centre in tied:
        points = neighbourhood(centre, search.sizes, search.axes)
        each = weights(points, runs)
        for point, weight in zip(points, each / each.sum() / len(tied), strict=True):
            chances[point] += float(weight)
    return dict(chances)


def propose(search: Search, runs: Runs, generator: np.random.Generator) -> Point:
    """The point to run next: a draw from `distribution`, or from the start of the search.

    With several runs at once, groups of points that share all shapes are drawn first, by the same
    rule: they are the shapes of the centre's neighbourhood, each with the centre's numbers and
    those one step from them, weighted by how many batches they are behind.
    """
    centre = _centre(search, runs, generator)
    if centre is None:
        return _anywhere(search, generator)
    if search.at_once == 1:
        return _draw(neighbourhood(centre, search.sizes, search.axes), runs, generator)
    shapes = neighbourhood(centre, search.sizes, search.shapes)
    groups = [neighbourhood(point, search.sizes, search.numbers) for point in shapes]
    counts = np.array([sum(map(runs.count, group)) for group in groups])
    behind = counts.max() + search.at_once - counts
    group = groups[generator.choice(len(groups), p=behind / behind.sum())]
    return _draw(group, runs, generator)


def propose_beside(
    search: Search, runs: Runs, first: Point, generator: np.random.Generator
) -> Point:
    """A point for another run beside `first`, which is counted already, with its shapes."""
    centre = _centre(search, runs, generator)
    numbers = _anywhere(search, generator) if centre is None else centre
    same = tuple(
        first[axis] if axis in search.shapes else numbers[axis] for axis in range(len(numbers))
    )
    if centre is None:
        return same
    return _draw(neighbourhood(same, search.sizes, search.numbers), runs, generator)


def _centre(search: Search, runs: Runs, generator: np.random.Generator) -> Point | None:
    """Around which point to draw; None for the whole grid."""
    if not runs.scores or runs.total() < search.n_init:
        return search.start
    tied = centres(search, runs)
    return tied[generator.integers(len(tied))]


def _anywhere(search: Search, generator: np.random.Generator) -> Point:
    return tuple(int(generator.integers(size)) for size in search.sizes)


def _draw(points: list[Point], runs: Runs, generator: np.random.Generator) -> Point:
    each = weights(points, runs)
    return points[generator.choice(len(points), p=each / each.sum())]
