"""Statistics against hand-computed numbers, definitions, and simulated coverage."""

import itertools
import math

import numpy as np
import pytest

from wmg.tools import stats


def test_wilson_matches_published_numbers():
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3.
    published = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0000, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (successes, trials), interval in published.items():
        np.testing.assert_allclose(stats.wilson(successes, trials), interval, atol=5e-5)


def test_wilson_ends_solve_the_score_equation():
    z = 2.5758293035489004  # two-sided 99%
    for end in stats.wilson(7, 30, confidence=0.99):
        score = (7 / 30 - end) / math.sqrt(end * (1 - end) / 30)
        assert abs(score) == pytest.approx(z)


def test_wilson_touches_zero_and_one_exactly():
    assert stats.wilson(0, 7)[0] == 0.0
    assert stats.wilson(7, 7)[1] == 1.0


@pytest.mark.parametrize(
    "arguments", [(0, 0), (-1, 5), (6, 5), (1, 5, 0.0), (1, 5, 1.0), (1, 5, math.nan)]
)
def test_wilson_rejects_impossible_counts(arguments):
    with pytest.raises(ValueError, match="must"):
        stats.wilson(*arguments)


def test_bootstrap_of_two_values_is_their_binomial_quantile():
    # Means of two draws from {0, 1}: 0 (1/4), 1/2 (1/2), 1 (1/4); so 40% lies at 1/2 alone.
    assert stats.bootstrap([0, 1], np.mean, confidence=0.4) == (0.5, 0.5)
    assert stats.bootstrap([0, 1], np.mean, confidence=0.9) == (0.0, 1.0)


def test_bootstrap_interval_of_the_mean_covers_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered = 0
    for seed in range(300):
        sample = generator.normal(3.0, 2.0, size=40)
        low, high = stats.bootstrap(sample, np.mean, seed=seed, resamples=300, confidence=0.8)
        covered += low <= 3.0 <= high
    assert 0.72 < covered / 300 < 0.86


def test_bootstrap_repeats_with_its_seed_only():
    values = np.random.default_rng(0).normal(size=30)
    first = stats.bootstrap(values, np.mean, seed=1)
    assert first == stats.bootstrap(values, np.mean, seed=1)
    assert first != stats.bootstrap(values, np.mean, seed=2)


def test_bootstrap_uses_the_statistic():
    values = [1.0, 2.0, 3.0, 4.0, 1000.0]
    low, high = stats.bootstrap(values, np.max)
    assert high == 1000.0 and low <= 4.0


def test_quartiles_interpolate():
    assert stats.quartiles([4, 1, 3, 2]) == (1.75, 2.5, 3.25)


def test_summary_by_hand():
    got = stats.summary([2, 4, 4, 4, 5, 5, 7, 9])
    assert got == pytest.approx(
        {
            "count": 8,
            "mean": 5.0,
            "standard_deviation": math.sqrt(32 / 7),
            "standard_error": math.sqrt(32 / 7 / 8),
            "min": 2.0,
            "first_quartile": 4.0,
            "median": 4.5,
            "third_quartile": 5.5,
            "max": 9.0,
        }
    )


def test_summary_of_one_value_has_no_deviation():
    got = stats.summary([3.5])
    assert got["mean"] == got["median"] == got["min"] == got["max"] == 3.5
    assert math.isnan(got["standard_deviation"]) and math.isnan(got["standard_error"])


@pytest.mark.parametrize(
    "function",
    [stats.quartiles, stats.summary, lambda v: stats.bootstrap(v, np.mean)],
)
def test_bad_values_are_named(function):
    with pytest.raises(ValueError, match="empty"):
        function([])
    with pytest.raises(ValueError, match="nan at index 1"):
        function([1.0, math.nan])
    with pytest.raises(ValueError, match="inf at index 0"):
        function([math.inf, 1.0])
    with pytest.raises(ValueError, match="shape"):
        function([[1.0], [2.0]])


@pytest.mark.parametrize("size", [1, 2, 5, 10, 101])
@pytest.mark.parametrize("share", [0.0, 0.025, 0.25, 0.5, 0.75, 1.0])
def test_a_censored_quantile_of_finite_values_is_the_usual_one(size, share):
    values = np.random.default_rng(size).exponential(size=size)
    assert stats.censored_quantile(values, share) == pytest.approx(np.quantile(values, share))


def test_a_censored_quantile_is_infinite_from_the_first_value_that_is_unknown():
    values = [3.0, math.inf, 1.0, math.inf, 2.0]
    quantiles = [
        stats.censored_quantile(values, share) for share in (0.0, 0.25, 0.5, 0.6, 0.75, 1.0)
    ]
    assert quantiles == [1.0, 2.0, 3.0, math.inf, math.inf, math.inf]
    assert stats.censored_quantile([1.0, math.inf], 0.5) == math.inf  # half of them is not enough
    assert stats.censored_quantile([math.inf], 0.5) == math.inf


def test_unknown_values_leave_quantiles_below_them_as_they_are():
    values = np.arange(1.0, 12.0)
    late = np.where(values > 8, math.inf, values)
    for share in (0.25, 0.5, 0.7):
        assert stats.censored_quantile(late, share) == pytest.approx(np.quantile(values, share))


def test_the_interval_of_a_censored_median_is_that_of_the_bootstrap():
    values = np.random.default_rng(0).exponential(size=31)
    interval = stats.censored_median_interval(values)
    assert interval == pytest.approx(stats.bootstrap(values, np.median))
    late = np.where(values > np.quantile(values, 0.95), math.inf, values)
    assert stats.censored_median_interval(late) == pytest.approx(interval)


def test_the_interval_of_a_censored_median_has_no_end_where_half_may_be_unknown():
    values = [*np.arange(12.0), *[math.inf] * 8]
    low, high = stats.censored_median_interval(values)
    assert 5 < low < 10 and high == math.inf
    assert stats.censored_median_interval([math.inf] * 5) == (math.inf, math.inf)


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_censored_values_must_be_numbers(values):
    with pytest.raises(ValueError, match="at least one"):
        stats.censored_quantile(values, 0.5)
    with pytest.raises(ValueError, match="at least one"):
        stats.censored_median_interval(values)


def test_the_sign_test_is_that_of_the_binomial_distribution():
    assert stats.sign_test(8, 2) == 2 * (1 + 10 + 45) / 1024
    assert stats.sign_test(0, 6) == 2 / 64
    tail = sum(math.comb(100, heads) for heads in range(31))
    assert stats.sign_test(30, 70) == pytest.approx(2 * tail / 2**100)
    assert stats.sign_test(2, 8) == stats.sign_test(8, 2)


def test_the_sign_test_of_nothing_and_of_halves_is_certain():
    assert stats.sign_test(0, 0) == stats.sign_test(5, 5) == 1.0
    assert 0 < stats.sign_test(20_000, 19_000) < 1e-6
    with pytest.raises(ValueError, match="negative"):
        stats.sign_test(-1, 3)


def test_a_rank_test_agrees_with_counting_every_split():
    """All ways to split six values into two and four."""
    one, other = [1.0, 4.0], [2.0, 3.0, 5.0, 6.0]
    ranks = [1, 4, 2, 3, 5, 6]
    far = abs(1 + 4 - 7)
    splits = list(itertools.combinations(ranks, 2))
    exact = sum(abs(sum(pair) - 7) >= far for pair in splits) / len(splits)
    assert stats.rank_test(one, other, resamples=20_000) == pytest.approx(exact, abs=0.01)


def test_a_rank_test_tells_samples_apart_and_takes_infinite_values():
    apart = stats.rank_test(np.arange(20.0), np.arange(20.0) + 15)
    alike = stats.rank_test([1.0, 2.0, np.inf, np.inf], [2.0, 1.0, np.inf, np.inf])
    assert apart < 0.001 and alike == 1.0
    assert stats.rank_test([1.0, 2.0], [np.inf, np.inf, 3.0]) == stats.rank_test(
        [1.0, 2.0], [9.0, 9.0, 3.0]
    )


def test_paired_rates_by_hand():
    first = [1] * 50 + [1] * 10 + [0] * 2 + [0] * 38
    second = [1] * 50 + [0] * 10 + [1] * 2 + [0] * 38
    found = stats.paired_rates(first, second)
    assert [found[k] for k in ("both", "only_first", "only_second", "neither")] == [50, 10, 2, 38]
    assert found["difference"] == 8 and found["p_value"] == stats.sign_test(10, 2)
    p, q = 11 / 102, 3 / 102  # Bonett and Price: one more in each of the two
    half = 1.959964 * math.sqrt((p + q - (p - q) ** 2) / 102)
    assert found["interval"] == pytest.approx([100 * (p - q - half), 100 * (p - q + half)])


def test_intervals_of_paired_rates_cover_the_true_difference_as_often_as_they_say():
    generator, covered = np.random.default_rng(0), 0
    for _ in range(1000):
        kind = generator.choice(4, size=60, p=[0.6, 0.2, 0.1, 0.1])
        found = stats.paired_rates((kind == 0) | (kind == 1), (kind == 0) | (kind == 2))
        covered += found["interval"][0] <= 10 <= found["interval"][1]
    assert 930 <= covered <= 975


@pytest.mark.parametrize(
    "freedom, tabled",
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_students_quantile_is_that_of_the_tables(freedom, tabled):
    assert stats.student_quantile(freedom) == pytest.approx(tabled, abs=0.0006)


@pytest.mark.parametrize("freedom, quantile", [(1.5, 6.0167), (2.5, 3.5747), (4.41, 2.6775)])
def test_students_quantile_holds_95_percent_of_the_density_at_fractional_degrees(freedom, quantile):
    found = stats.student_quantile(freedom)
    assert found == pytest.approx(quantile, abs=1e-4)
    at = np.linspace(0, found, 100_001)
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    density = scale * (1 + at**2 / freedom) ** (-(freedom + 1) / 2)
    assert 2 * np.trapezoid(density, at) == pytest.approx(0.95, abs=1e-7)


def test_paired_means_by_hand():
    found = stats.paired_means([3.0, 5, 7, 9], [2.0, 3, 4, 5])
    error = math.sqrt(5 / 3) / 2
    assert found["difference"] == 2.5
    half = 3.182 * error
    assert found["interval"] == pytest.approx([2.5 - half, 2.5 + half], rel=0.001)
    assert found["p_value"] == pytest.approx(2 / 16, abs=0.02)  # two of 16 choices of sign


def test_unpaired_means_by_hand():
    # Welch: standard errors 1 and 2, 4 values each, so 25 / (1/3 + 16/3) = 4.41 degrees of freedom.
    one, other = np.array([-3.0, -1, 1, 3]), np.array([-6.0, -2, 2, 6])
    scale = 2 / one.std(ddof=1)
    found = stats.unpaired_means(scale * one + 10, scale * other)
    assert found["difference"] == pytest.approx(10)
    assert found["interval"][1] - 10 == pytest.approx(2.678 * math.sqrt(5), rel=0.001)
    assert found["p_value"] == stats.rank_test(scale * one + 10, scale * other)
