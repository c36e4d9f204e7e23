"""Which run set is best, and when a search may stop.

The paper chooses the best run set "through Bayesian inference based on each run set's Metric and
Count, to filter out high-variance run sets having high average scores but relatively few runs",
and gives no formula. Ours: the true means of the run sets are normal around a common mean, the
runs of a set are normal around its true mean, and all variances are estimated from the runs
(empirical Bayes). The best has the highest lower bound, `mean - CAUTION * deviation`.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wmg.tuner import dgd

Key = TypeVar("Key", bound=Hashable)
Numbers = NDArray[np.float64]

CAUTION = 1.0
"""How many deviations below its posterior mean a run set is judged at."""
PRIOR_RUNS = 4.0
"""Weight of the common variance, in runs, when it is pooled with a run set's own."""
LEAST_SPREAD = 0.05
"""The variance of true means is at least this share of the variance of runs."""
PATIENCE = 4
"""A search is settled if the best stays the same for this many neighbourhoods of runs..."""
LEAST_RUNS = 5
"""...and has at least this many runs itself."""


@dataclasses.dataclass(frozen=True)
class Belief(Generic[Key]):
    """The posterior of the true mean score of a run set."""

    key: Key
    runs: int
    raw: float
    """The plain mean of its runs, which overrates lucky ones."""
    mean: float
    deviation: float
    """Of the belief, not of the runs; infinite if there is a single run in all."""

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true mean lies with 95%."""
        return self.mean - 1.96 * self.deviation, self.mean + 1.96 * self.deviation


def pool(searches: Iterable[Mapping[Key, Sequence[float]]]) -> dict[Key, list[float]]:
    """The run sets of several searches as one."""
    pooled: dict[Key, list[float]] = {}
    for scores in searches:
        for key, values in scores.items():
            pooled.setdefault(key, []).extend(values)
    return pooled


def rank(
    scores: Mapping[Key, Sequence[float]], maximise: bool = True, caution: float = CAUTION
) -> list[Belief[Key]]:
    """Beliefs about all run sets, best first."""
    sets = {key: np.asarray(values, float) for key, values in scores.items() if len(values)}
    if not sets:
        return []
    counts = np.array([len(values) for values in sets.values()], float)
    raw = np.array([values.mean() for values in sets.values()])
    squares = np.array([np.square(values - values.mean()).sum() for values in sets.values()])
    means, deviations = posterior(counts, raw, squares)
    bounds = (means if maximise else -means) - caution * deviations
    rows = zip(sets, counts, raw, means, deviations, strict=True)
    beliefs = [Belief(k, int(n), float(r), float(m), float(d)) for k, n, r, m, d in rows]
    return [beliefs[i] for i in np.argsort(-bounds, kind="stable")]


def posterior(counts: Numbers, raw: Numbers, squares: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and deviation of the belief in each run set, from the number of its runs, their mean
    and the sum of their squared distances from it."""
    total, sets = counts.sum(), len(counts)
    if total < 2:
        return raw, np.full(sets, np.inf)
    grand = (counts * raw).sum() / total
    between = (counts * np.square(raw - grand)).sum()
    # The total variance counts as one more observation: sets of one run say nothing of it.
    everything = (squares.sum() + between) / (total - 1)
    noise = (squares.sum() + everything) / ((counts - 1).sum() + 1)
    noise = max(noise, 1e-12 * (1 + grand**2))  # scores that are all the same
    spread = LEAST_SPREAD * noise
    if sets > 1:
        typical = (total - np.square(counts).sum() / total) / (sets - 1)
        spread = max((between / (sets - 1) - noise) / typical, spread)
    own = (PRIOR_RUNS * noise + squares) / (PRIOR_RUNS + counts - 1)
    weights = 1 / (spread + own / counts)
    common = (weights * raw).sum() / weights.sum()
    precision = counts / own + 1 / spread
    return (counts * raw / own + common / spread) / precision, np.sqrt(1 / precision)


@dataclasses.dataclass(frozen=True)
class Stability:
    """How far a search is from being settled."""

    unchanged: int
    """For how many finished runs the best has been the same; counted up to `needed`."""
    needed: int
    missing: int
    """Points next to the best without a finished run."""
    runs: int
    """Finished runs of the best."""

    @property
    def settled(self) -> bool:
        """Whether the search may stop."""
        return self.unchanged >= self.needed and not self.missing and self.runs >= LEAST_RUNS


def stability(
    history: Sequence[tuple[dgd.Point, float]], sizes: Sequence[int], maximise: bool = True
) -> Stability:
    """How stable the best run set is, by all finished runs in the order in which they ended."""
    steps = 1 + sum(min(size - 1, 2) for size in sizes)
    needed = PATIENCE * steps
    if not history:
        return Stability(0, needed, steps - 1, 0)
    points = list(dict.fromkeys(point for point, _ in history))
    places = {point: place for place, point in enumerate(points)}
    ids = np.array([places[point] for point, _ in history])
    scores = np.array([score for _, score in history]) * (1 if maximise else -1)
    best = _best(ids, scores)
    unchanged = 0
    while unchanged < min(needed, len(ids)):
        if _best(ids[: len(ids) - unchanged], scores[: len(ids) - unchanged]) != best:
            break
        unchanged += 1
    beside = dgd.neighbourhood(points[best], sizes)[1:]
    missing = sum(point not in places for point in beside)
    return Stability(unchanged, needed, missing, int((ids == best).sum()))


def _best(ids: NDArray[np.int_], scores: Numbers) -> int:
    """The run set with the highest lower bound; runs come as set and score."""
    counts = np.bincount(ids).astype(float)
    raw = np.bincount(ids, scores) / counts
    squares = np.bincount(ids, np.square(scores - raw[ids])).astype(float)
    means, deviations = posterior(counts, raw, squares)
    return int(np.argmax(means - CAUTION * deviations))
