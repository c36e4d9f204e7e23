"""The proposal: by hand, against a slow restatement of the paper's algorithm, and its options."""

import collections
import time
from fractions import Fraction

import numpy as np
import pytest

from wmg.tuner import dgd
from wmg.tuner.dgd import Runs, Search


def runs_of(scores, **pending):
    return Runs({p: list(s) for p, s in scores.items()}, collections.Counter(pending.get("p", {})))


def paper(sizes, finished, pending, metric="mean", maximise=True):
    """The paper's algorithm for one worker, written as slowly and plainly as possible: every
    point of the grid is looked at, and chances are exact."""
    grid = [()]
    for size in sizes:
        grid = [(*point, index) for point in grid for index in range(size)]
    count, value = {}, {}
    for point in grid:
        results = [Fraction(score) for where, score in finished if where == point]
        count[point] = len(results) + pending.count(point)
        if results and metric == "mean":
            value[point] = sum(results) / len(results)
        elif results:
            ordered = sorted(results)
            low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
            value[point] = (low + high) / 2
    best = max(value.values()) if maximise else min(value.values())
    tied = [point for point in grid if value.get(point) == best]
    chances = dict.fromkeys(grid, Fraction(0))
    for centre in tied:
        members = []
        for point in grid:
            steps = [abs(a - b) for a, b in zip(point, centre, strict=True)]
            if sum(steps) <= 1:
                members.append(point)
        ceiling = max(count[point] for point in members) + 1
        total = sum(ceiling - count[point] for point in members)
        for point in members:
            chances[point] += Fraction(ceiling - count[point], total) / len(tied)
    return {point: chance for point, chance in chances.items() if chance}


def test_a_lone_run_has_no_chance_less_than_its_neighbours_until_it_is_counted():
    # Counts 1, 0, 0, 0, 0: the ceiling is 2, the weights 1, 2, 2, 2, 2.
    found = dgd.distribution(Search((3, 3)), runs_of({(1, 1): [5.0]}))
    assert found == {(1, 1): 1 / 9, (0, 1): 2 / 9, (2, 1): 2 / 9, (1, 0): 2 / 9, (1, 2): 2 / 9}


def test_counts_weigh_by_how_far_they_are_below_the_ceiling():
    # Counts 3, 1, 0 around the middle of one hyperparameter: ceiling 4, weights 1, 3, 4.
    found = dgd.distribution(Search((3,)), runs_of({(1,): [9.0, 9.0, 9.0], (0,): [1.0]}))
    assert found == {(1,): 1 / 8, (0,): 3 / 8, (2,): 4 / 8}


def test_a_neighbour_may_have_more_runs_than_the_centre():
    found = dgd.distribution(Search((3,)), runs_of({(1,): [9.0], (0,): [1.0, 2.0, 3.0]}))
    assert found == {(1,): 3 / 8, (0,): 1 / 8, (2,): 4 / 8}


def test_beyond_the_edges_of_the_grid_there_is_nothing():
    found = dgd.distribution(Search((2, 1, 4)), runs_of({(0, 0, 3): [1.0]}))
    assert found == {(0, 0, 3): 1 / 5, (1, 0, 3): 2 / 5, (0, 0, 2): 2 / 5}
    assert dgd.distribution(Search((1, 1)), runs_of({(0, 0): [1.0, 2.0]})) == {(0, 0): 1.0}


def test_pending_runs_count_but_do_not_score():
    known = runs_of({(1,): [9.0]}, p={(0,): 2, (2,): 0})
    assert dgd.distribution(Search((3,)), known) == {(1,): 2 / 6, (0,): 1 / 6, (2,): 3 / 6}
    assert dgd.centres(Search((3,)), known) == [(1,)]


def test_pruned_runs_count_but_do_not_score():
    known = Runs({(1,): [9.0]}, pruned=collections.Counter({(0,): 2}))
    assert dgd.distribution(Search((3,)), known) == {(1,): 2 / 6, (0,): 1 / 6, (2,): 3 / 6}
    assert dgd.centres(Search((3,)), known) == [(1,)] and known.total() == 3


@pytest.mark.parametrize("metric", ["mean", "median"])
@pytest.mark.parametrize("maximise", [True, False])
def test_a_run_set_with_scores_of_both_infinities_is_the_worst(metric, maximise):
    known = runs_of({(0,): [np.inf, -np.inf], (2,): [5.0]})
    assert dgd.centres(Search((3,), average=metric, maximise=maximise), known) == [(2,)]


def test_steps_are_taken_along_the_given_axes_only():
    search, known = Search((3, 3), axes=(1,)), runs_of({(1, 1): [5.0]})
    found = dgd.distribution(search, known)
    assert found == {(1, 1): 1 / 5, (1, 0): 2 / 5, (1, 2): 2 / 5}
    generator = np.random.default_rng(0)
    drawn = {dgd.propose(search, known, generator) for _ in range(50)}
    assert drawn == found.keys()


def test_tied_centres_share_the_chances_equally():
    found = dgd.distribution(Search((5,)), runs_of({(0,): [7.0], (4,): [7.0]}))
    assert found == {(0,): 1 / 6, (1,): 1 / 3, (4,): 1 / 6, (3,): 1 / 3}


@pytest.mark.parametrize("metric, maximise, centre", [
    ("mean", True, (0,)), ("median", True, (2,)), ("mean", False, (1,)), ("median", False, (0,)),
])  # fmt: skip
def test_the_centre_follows_metric_and_direction(metric, maximise, centre):
    scores = {(0,): [0.0, 0.0, 12.0], (1,): [1.0, 1.0, 1.0], (2,): [2.0, 2.0, 2.0]}
    assert dgd.centres(Search((3,), metric, maximise), runs_of(scores)) == [centre]


@pytest.mark.parametrize("case", range(60))
def test_the_distribution_is_the_papers_on_random_cases(case):
    generator = np.random.default_rng(case)
    sizes = tuple(generator.integers(1, 5, size=generator.integers(1, 4)).tolist())
    draw = lambda: tuple(int(generator.integers(size)) for size in sizes)  # noqa: E731
    # Few different scores, exact in binary: so there are ties, and sums have no rounding.
    finished = [(draw(), float(generator.integers(4))) for _ in range(generator.integers(1, 20))]
    pending = [draw() for _ in range(generator.integers(6))]
    metric, maximise = ("mean", "median")[case % 2], case % 4 < 2
    known = Runs(pending=collections.Counter(pending))
    for point, score in finished:
        known.scores.setdefault(point, []).append(score)
    found = dgd.distribution(Search(sizes, metric, maximise), known)
    assert found == pytest.approx(
        {p: float(c) for p, c in paper(sizes, finished, pending, metric, maximise).items()}
    )


def frequencies(search, known, draws=4000):
    generator = np.random.default_rng(0)
    drawn = collections.Counter(dgd.propose(search, known, generator) for _ in range(draws))
    return {point: count / draws for point, count in drawn.items()}


def test_proposals_are_drawn_from_the_distribution():
    search, known = Search((3, 3)), runs_of({(1, 1): [5.0, 5.0], (0, 1): [1.0], (2, 2): [5.0]})
    assert frequencies(search, known) == pytest.approx(dgd.distribution(search, known), abs=0.03)


def test_before_any_result_the_whole_grid_is_drawn_from():
    found = frequencies(Search((2, 3)), runs_of({}, p={(0, 0): 5}))
    assert found == pytest.approx({(i, j): 1 / 6 for i in range(2) for j in range(3)}, abs=0.03)


def test_initial_runs_are_random_until_enough_were_begun():
    known = runs_of({(0, 0): [1.0], (0, 1): [0.0]}, p={(9, 9): 1})
    assert (9, 0) in frequencies(Search((10, 10), n_init=4), known)
    assert frequencies(Search((10, 10), n_init=3), known).keys() == {(0, 0), (1, 0), (0, 1)}


def test_a_start_is_the_centre_until_there_is_a_result():
    search = Search((10, 10), start=(5, 5))
    assert frequencies(search, Runs()).keys() == set(dgd.neighbourhood((5, 5), (10, 10)))
    found = frequencies(search, runs_of({(4, 5): [0.0]}))
    assert found.keys() == set(dgd.neighbourhood((4, 5), (10, 10)))


def test_lanes_share_shapes_and_spread_over_numbers():
    search = Search((5, 5, 5), at_once=4, shapes=(0,))
    known = runs_of({(2, 2, 2): [9.0]})
    generator = np.random.default_rng(0)
    for _ in range(50):
        begun = Runs({p: list(s) for p, s in known.scores.items()}, known.pending.copy())
        first = dgd.propose(search, begun, generator)
        at_once = [first]
        begun.pending[first] += 1
        for _ in range(3):
            at_once.append(dgd.propose_beside(search, begun, first, generator))
            begun.pending[at_once[-1]] += 1
        assert {lane[0] for lane in at_once} == {first[0]} and first[0] in (1, 2, 3)
        assert all(sum(abs(x - 2) for x in lane[1:]) <= 1 for lane in at_once)


def test_lanes_choose_shapes_by_how_many_batches_they_are_behind():
    # Group 0 has 8 runs, group 1 none, at_once 4: weights 4 and 12.
    search = Search((2, 1), at_once=4, shapes=(0,))
    assert frequencies(search, runs_of({(0, 0): [1.0] * 8})) == pytest.approx(
        {(0, 0): 4 / 16, (1, 0): 12 / 16}, abs=0.03
    )


def test_lanes_of_the_first_batch_share_shapes_too():
    search = Search((50, 50), at_once=8, shapes=(0,), n_init=100)
    at_once = [
        dgd.propose_beside(search, Runs(), (7, 3), np.random.default_rng(i)) for i in range(20)
    ]
    assert {lane[0] for lane in at_once} == {7} and len({lane[1] for lane in at_once}) > 10


def test_a_descent_finds_the_only_valley_without_noise():
    search, known, generator = Search((12,) * 4), Runs(), np.random.default_rng(1)
    for _ in range(400):
        point = dgd.propose(search, known, generator)
        known.scores.setdefault(point, []).append(-float(sum((x - 7) ** 2 for x in point)))
    assert dgd.centres(search, known) == [(7, 7, 7, 7)]


def test_the_path_of_the_centre_is_that_of_the_search():
    generator, search = np.random.default_rng(0), dgd.Search((3, 3), "median", False)
    history = [
        (tuple(generator.integers(3, size=2).tolist()), generator.normal()) for _ in range(40)
    ]
    runs = dgd.Runs()
    for (point, score), centre in zip(history, dgd.path(search, history), strict=True):
        runs.scores.setdefault(point, []).append(score)
        assert dgd.centres(search, runs) == [centre]


@pytest.mark.parametrize("finished, limit", [(200, 0.05), (5000, 1.0)])
def test_a_proposal_is_quick(finished, limit):
    generator = np.random.default_rng(0)
    known = Runs()
    for _ in range(finished):
        point = tuple(generator.integers(12, size=12).tolist())
        known.scores.setdefault(point, []).extend(generator.normal(size=2))
    began = time.perf_counter()
    dgd.propose(Search((12,) * 12), known, generator)
    assert time.perf_counter() - began < limit
