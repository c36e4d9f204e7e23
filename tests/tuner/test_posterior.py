"""The best run set and the stopping rule: closed forms, luck filtered out, stability."""

import math
import time

import numpy as np
import pytest

from wmg.tuner import dgd, posterior


def test_a_balanced_case_has_the_closed_form():
    # Three sets of two runs, each with squares 2; means 1, 3, 8 around 4.
    sets = {"a": [0.0, 2.0], "b": [2.0, 4.0], "c": [7.0, 9.0]}
    between = 2 * (9 + 1 + 16)
    noise = (6 + (6 + between) / 5) / (3 + 1)
    spread = (between / 2 - noise) / 2
    own = (4 * noise + 2) / (4 + 1)  # the same for all, so the common mean is the grand mean
    share = spread / (spread + own / 2)
    found = {belief.key: belief for belief in posterior.rank(sets)}
    for key, raw in {"a": 1.0, "b": 3.0, "c": 8.0}.items():
        assert found[key].raw == raw and found[key].runs == 2
        assert found[key].mean == pytest.approx(4 + share * (raw - 4))
        assert found[key].deviation == pytest.approx(math.sqrt(spread * (1 - share)))


def plainly(sets):
    """The formulas of the docs, number by number."""
    every = [x for scores in sets for x in scores]
    total, grand = len(every), sum(every) / len(every)
    means = [sum(s) / len(s) for s in sets]
    squares = [sum((x - m) ** 2 for x in s) for s, m in zip(sets, means, strict=True)]
    variance = sum((x - grand) ** 2 for x in every) / (total - 1)
    noise = (sum(squares) + variance) / (sum(len(s) - 1 for s in sets) + 1)
    msb = sum(len(s) * (m - grand) ** 2 for s, m in zip(sets, means, strict=True)) / (len(sets) - 1)
    typical = (total - sum(len(s) ** 2 for s in sets) / total) / (len(sets) - 1)
    spread = max((msb - noise) / typical, 0.05 * noise)
    own = [(4 * noise + q) / (4 + len(s) - 1) for s, q in zip(sets, squares, strict=True)]
    weights = [1 / (spread + o / len(s)) for s, o in zip(sets, own, strict=True)]
    common = sum(w * m for w, m in zip(weights, means, strict=True)) / sum(weights)
    rows = []
    for s, m, o in zip(sets, means, own, strict=True):
        precision = len(s) / o + 1 / spread
        rows.append(((len(s) * m / o + common / spread) / precision, precision**-0.5))
    return rows


@pytest.mark.parametrize("case", range(20))
def test_unbalanced_cases_match_a_slow_restatement(case):
    generator = np.random.default_rng(case)
    sets = [
        generator.normal(generator.normal(), 1 + case % 3, size=generator.integers(1, 7)).tolist()
        for _ in range(2 + case % 5)
    ]
    found = {b.key: (b.mean, b.deviation) for b in posterior.rank(dict(enumerate(sets)))}
    for key, expected in enumerate(plainly(sets)):
        assert found[key] == pytest.approx(expected)


def test_a_lucky_single_run_does_not_beat_a_proven_set():
    sets = {"lucky": [11.0], "proven": [10.0, 9.5, 10.5, 10.0, 10.2, 9.8], "poor": [5.0, 8.0, 2.0]}
    ranked = posterior.rank(sets)
    assert ranked[0].key == "proven"
    assert max(sets, key=lambda key: np.mean(sets[key])) == "lucky"


def test_minimising_is_maximising_the_opposite():
    sets = {i: [float(i), i + 1.0, i - 0.5][: 1 + i % 3] for i in range(7)}
    opposite = {key: [-x for x in scores] for key, scores in sets.items()}
    up, down = posterior.rank(opposite), posterior.rank(sets, maximise=False)
    assert [b.key for b in up] == [b.key for b in down]
    assert [b.mean for b in up] == pytest.approx([-b.mean for b in down])
    assert down[0].key in (0, 1, 2)


def test_few_or_equal_scores_break_nothing():
    assert posterior.rank({}) == [] and posterior.rank({"a": []}) == []
    (alone,) = posterior.rank({"a": [3.0]})
    assert alone.mean == 3.0 and alone.deviation == math.inf
    same = posterior.rank({"a": [100.0, 100.0], "b": [100.0]})
    assert [b.mean for b in same] == pytest.approx([100.0, 100.0])
    assert all(0 < b.deviation < 0.01 for b in same)


def test_searches_are_pooled_by_run_set():
    one, other = {"a": [1.0], "b": [2.0]}, {"b": [3.0], "c": [4.0]}
    assert posterior.pool([one, other]) == {"a": [1.0], "b": [2.0, 3.0], "c": [4.0]}
    assert one == {"a": [1.0], "b": [2.0]}


def ranking_trial(generator, sigma):
    """A hundred run sets such as a search leaves: half of them single runs, a tenth gamblers."""
    truth = generator.normal(size=100)
    counts = generator.choice([1, 2, 3, 4, 6, 10], size=100, p=[0.45, 0.2, 0.15, 0.1, 0.06, 0.04])
    noise = sigma * np.where(generator.random(100) < 0.1, 3.0, 1.0)
    sets = {i: generator.normal(truth[i], noise[i], counts[i]).tolist() for i in range(100)}
    raw = max(sets, key=lambda i: np.mean(sets[i]))
    best = posterior.rank(sets)[0]
    top = truth.max()
    return {
        "raw regret": top - truth[raw], "regret": top - truth[best.key],
        "raw single": counts[raw] == 1, "single": counts[best.key] == 1,
        "raw claim": np.mean(sets[raw]) - truth[raw], "claim": best.mean - truth[best.key],
    }  # fmt: skip


def test_the_posterior_filters_luck():
    generator = np.random.default_rng(0)
    trials = [ranking_trial(generator, 1.0) for _ in range(400)]
    mean = {key: float(np.mean([trial[key] for trial in trials])) for key in trials[0]}
    assert mean["regret"] < 0.8 * mean["raw regret"]
    assert mean["raw single"] > 0.6 and mean["single"] < 0.3
    assert mean["raw claim"] > 2.5 and mean["claim"] < 0.8


def test_a_search_is_settled_when_its_best_has_stayed_and_its_neighbours_were_tried():
    sizes = (3,)  # three points in the neighbourhood of the middle: twelve runs are needed
    history = [((1,), 10.0), ((0,), 5.0)] + [((1,), 10.1), ((1,), 9.9)] * 6
    waiting = posterior.stability(history, sizes)
    assert waiting.unchanged >= waiting.needed == 12 and waiting.missing == 1
    assert not waiting.settled
    assert posterior.stability([*history, ((2,), 4.0)], sizes).settled


def test_a_new_best_starts_the_count_anew():
    history = [((1,), 10.0), ((1,), 10.1), ((0,), 5.0), ((2,), 5.0)] * 6
    assert posterior.stability(history, (3,)).settled
    better = [((2,), 30.0)] * 8
    after = posterior.stability(history + better, (3,))
    assert not after.settled and after.unchanged < 8


def test_stability_follows_the_direction_and_needs_runs():
    history = [((0,), 1.0), ((1,), 9.0), ((2,), 9.5)] * 4
    assert posterior.stability(history, (3,), maximise=False).missing == 0
    assert posterior.stability([((0, 0), 5.0)] * 4, (1, 1)).runs == 4
    assert posterior.stability([], (3, 3)) == posterior.Stability(0, 20, 4, 0)
    assert not posterior.stability([], (3, 3)).settled


def test_stability_of_a_long_search_is_quick():
    generator = np.random.default_rng(0)
    points = [tuple(generator.integers(12, size=12).tolist()) for _ in range(2000)]
    history = [(points[generator.integers(2000)], generator.normal()) for _ in range(5000)]
    began = time.perf_counter()
    posterior.stability(history, (12,) * 12)
    assert time.perf_counter() - began < 1.0
    assert dgd.neighbourhood(points[0], (12,) * 12)
