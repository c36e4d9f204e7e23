"""Statistics for small samples of runs: intervals, robust means and summaries."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Sample = NDArray[np.float64]


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for the rate of success; it never leaves [0, 1]."""
    if trials < 1:
        raise ValueError(f"trials is empty: it must be at least 1, got {trials}")
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be from 0 to {trials}, got {successes}")
    z = statistics.NormalDist().inv_cdf((1 + _checked(confidence)) / 2)
    rate, shrink = successes / trials, 1 + z**2 / trials
    centre = (rate + z**2 / (2 * trials)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2)) / shrink
    # Exact in mathematics, but rounding leaves 1e-17 behind.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return low, high


def sign_test(more: int, fewer: int) -> float:
    """Two-sided p-value of a sign test, given how often each side was alone ahead."""
    if more < 0 or fewer < 0:
        raise ValueError(f"counts must not be negative, got {more} and {fewer}")
    coins, term, tail = more + fewer, 1, 0
    for heads in range(min(more, fewer) + 1):
        tail += term
        term = term * (coins - heads) // (heads + 1)
    return min(1.0, 2 * tail / 2**coins)


def paired_rates(first: ArrayLike, second: ArrayLike) -> dict[str, Any]:
    """Compares two agents' successes in the same episodes: the difference of rates in percent,
    its 95% interval (Bonett and Price, 2012) and the p-value of a sign test."""
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    only_first, only_second = int((one & ~other).sum()), int((other & ~one).sum())
    # One episode is added to each of the two counts, so that the interval of no difference in
    # n episodes is not of width 0.
    more, fewer = ((count + 1) / (one.size + 2) for count in (only_first, only_second))
    error = math.sqrt((more + fewer - (more - fewer) ** 2) / (one.size + 2))
    half = statistics.NormalDist().inv_cdf(0.975) * error
    return {
        "difference": 100 * (only_first - only_second) / one.size,
        "interval": [100 * max(-1.0, more - fewer - half), 100 * min(1.0, more - fewer + half)],
        "p_value": sign_test(only_first, only_second),
        "test": "sign test",
        "both": int((one & other).sum()),
        "only_first": only_first,
        "only_second": only_second,
        "neither": int((~one & ~other).sum()),
    }


def paired_means(first: ArrayLike, second: ArrayLike) -> dict[str, Any]:
    """Compares two agents' scores in the same episodes: the mean difference, its 95% interval
    (Student) and the p-value of a sign-flip test."""
    differences = _sample(first) - _sample(second)
    mean, error = float(differences.mean()), standard_error(differences)
    half = student_quantile(differences.size - 1) * error
    return {
        "difference": mean,
        "interval": [mean - half, mean + half],
        "p_value": sign_flip_test(differences),
        "test": "sign-flip test",
    }


def unpaired_means(first: ArrayLike, second: ArrayLike) -> dict[str, Any]:
    """Compares two samples of runs: the difference of means, its 95% interval (Welch) and the
    p-value of a rank test."""
    one, other = _sample(first), _sample(second)
    squares = [standard_error(each) ** 2 for each in (one, other)]
    total = sum(squares)
    parts = (s**2 / (each.size - 1) for s, each in zip(squares, (one, other), strict=True))
    freedom = total**2 / sum(parts) if total > 0 else one.size + other.size - 2
    difference = float(one.mean() - other.mean())
    half = student_quantile(freedom) * math.sqrt(total)
    return {
        "difference": difference,
        "interval": [difference - half, difference + half],
        "p_value": rank_test(one, other),
        "test": "rank test",
    }


def sign_flip_test(differences: ArrayLike, *, seed: int = 0, resamples: int = 10_000) -> float:
    """Two-sided p-value that paired differences have mean 0, by random signs.

    Differences of the same size share one binomial draw. A seed always gives the same p-value.
    """
    sample = _sample(differences)
    sizes, counts = np.unique(np.abs(sample), return_counts=True)
    generator = np.random.default_rng(seed)
    block, as_far, least = max(1, 10_000_000 // sizes.size), 0, abs(sample.sum()) - 1e-9
    for begin in range(0, resamples, block):
        shape = min(block, resamples - begin), sizes.size
        sums = (2 * generator.binomial(counts, 0.5, shape) - counts) @ sizes
        as_far += int((np.abs(sums) >= least).sum())
    return (as_far + 1) / (resamples + 1)


def student_quantile(freedom: int | float, confidence: float = 0.95) -> float:
    """Student's two-sided quantile; degrees of freedom need not be whole."""
    from scipy.special import stdtrit  # late, because few commands need it

    if freedom < 1:
        raise ValueError(f"degrees of freedom must be at least 1, got {freedom}")
    return float(stdtrit(freedom, (1 + _checked(confidence)) / 2))


def standard_error(values: ArrayLike) -> float:
    """Of the mean; NaN for a single value."""
    sample = _sample(values)
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else math.nan


def rank_test(one: ArrayLike, other: ArrayLike, *, seed: int = 0, resamples: int = 10_000) -> float:
    """Two-sided p-value that two samples differ in rank (Mann-Whitney), by random permutations.

    Values may be infinite: ties share their mean rank. A seed always gives the same p-value.
    """
    first, second = _censored_sample(one), _censored_sample(other)
    values, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = np.bincount(places, minlength=values.size)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    expected = first.size * (ranks.size + 1) / 2
    generator = np.random.default_rng(seed)
    drawn = np.stack([generator.permutation(ranks)[: first.size].sum() for _ in range(resamples)])
    as_far = np.abs(drawn - expected) >= abs(ranks[: first.size].sum() - expected) - 1e-9
    return float((as_far.sum() + 1) / (resamples + 1))


def bootstrap(
    values: ArrayLike,
    statistic: Callable[[Sample], float],
    *,
    seed: int = 0,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic; a seed always gives the same one."""
    sample = _sample(values)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    outside = (1 - _checked(confidence)) / 2
    generator = np.random.default_rng(seed)
    draws = generator.integers(sample.size, size=(resamples, sample.size))
    found = [statistic(sample[draw]) for draw in draws]
    low, high = np.quantile(found, [outside, 1 - outside])
    return float(low), float(high)


def quartiles(values: ArrayLike) -> tuple[float, float, float]:
    """First quartile, median and third quartile, interpolated linearly."""
    first, median, third = np.quantile(_sample(values), [0.25, 0.5, 0.75])
    return float(first), float(median), float(third)


def censored_quantile(values: ArrayLike, share: float) -> float:
    """A quantile, linearly interpolated. Infinite values count as larger than all others; a
    quantile among them or next to them is infinite."""
    ordered = np.sort(_censored_sample(values))
    place = share * (ordered.size - 1)
    below, part = math.floor(place), place - math.floor(place)
    if part == 0 or ordered[below] == ordered[below + 1]:
        return float(ordered[below])
    return float(ordered[below] + part * (ordered[below + 1] - ordered[below]))


def censored_median_interval(
    values: ArrayLike, *, seed: int = 0, resamples: int = 2000, confidence: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the median; values may be infinite."""
    sample, generator = _censored_sample(values), np.random.default_rng(seed)
    draws = generator.integers(sample.size, size=(resamples, sample.size))
    found = np.median(sample[draws], axis=1)
    outside = (1 - _checked(confidence)) / 2
    return censored_quantile(found, outside), censored_quantile(found, 1 - outside)


def summary(values: ArrayLike) -> dict[str, int | float]:
    """The usual numbers; the deviation and error of a single value are NaN."""
    sample = _sample(values)
    first, median, third = quartiles(sample)
    deviation = float(sample.std(ddof=1)) if sample.size > 1 else math.nan
    return {
        "count": sample.size,
        "mean": float(sample.mean()),
        "standard_deviation": deviation,
        "standard_error": deviation / math.sqrt(sample.size),
        "min": float(sample.min()),
        "first_quartile": first,
        "median": median,
        "third_quartile": third,
        "max": float(sample.max()),
    }


def _sample(values: ArrayLike) -> Sample:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        raise ValueError(f"values must be a list of numbers, got shape {sample.shape}")
    if sample.size == 0:
        raise ValueError("values is empty")
    if not np.isfinite(sample).all():
        where = int(np.flatnonzero(~np.isfinite(sample))[0])
        raise ValueError(f"values must be finite, got {sample[where]} at index {where}")
    return sample


def _censored_sample(values: ArrayLike) -> Sample:
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0 or np.isnan(sample).any():
        raise ValueError("values must be numbers or infinite, and at least one")
    return sample


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    return confidence
