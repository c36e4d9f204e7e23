"""Two-sided verdicts, at their edges."""

import dataclasses

import numpy as np
import pytest
from paper.made_up import RACE, TARGET

from wmg.paper import verdict
from wmg.paper.outcome import Outcome
from wmg.paper.target import EXACT, QUARTER, Band, Claim
from wmg.paper.verdict import compare, judge
from wmg.tools import plots

POINTS = Band(0.3, "because", relative=False)


@pytest.mark.parametrize(
    ("interval", "better", "expected"),
    [
        ((75.0, 125.0), "lower", "matches"),  # the band's ends belong to it
        ((99.0, 125.1), "lower", "not judged"),
        ((74.9, 101.0), "lower", "not judged"),
        ((74.9, 100.0), "lower", "not judged"),  # the paper's number is in it
        ((74.9, 99.9), "lower", "better"),
        ((74.9, 99.9), "higher", "worse"),
        ((100.1, 125.1), "lower", "worse"),
        ((100.1, 125.1), "higher", "better"),
        ((100.1, 124.9), "lower", "matches"),  # excludes the number, and is within the band
        ((130.0, np.inf), "lower", "worse"),
        ((90.0, np.inf), "lower", "not judged"),
        ((-np.inf, np.inf), "lower", "not judged"),
    ],
)
def test_an_interval_matches_or_lies_on_one_side_or_is_not_judged(interval, better, expected):
    assert compare(interval, 100.0, QUARTER, better).verdict == expected


def test_a_band_may_be_in_the_targets_unit_and_may_have_no_width():
    assert compare((99.3, 99.9), 99.6, POINTS, "higher").verdict == "matches"
    assert compare((99.2, 99.5), 99.6, POINTS, "higher").verdict == "worse"
    assert compare((132_507.0,) * 2, 132_507, EXACT, "neither").verdict == "matches"
    assert compare((132_508.0,) * 2, 132_507, EXACT, "neither").verdict == "worse"


def outcome(*values, **about):
    given = {"steps": 1200, **about}
    return Outcome(np.array(values, float), None, [{}], given.pop("steps"), **given)


def many(centre, spread=1.0, **about):
    """Twenty runs, whose mean has a standard error of spread."""
    half = spread * 19**0.5
    return outcome(*[centre - half, centre + half] * 10, **about)


def needed(*steps, **about):
    """Runs with a goal; None for one that did not meet it."""
    return outcome(*[np.inf if x is None else x for x in steps], censored=True, **about)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (many(99.6, steps=700), "700 of 1,200 steps"),
        (outcome(99.6), "a single run"),
        (outcome(*[99.6] * 9), "9 runs; 10 are needed"),
        (dataclasses.replace(many(99.6), regridded=False), "cannot be re-gridded"),
    ],
)
def test_too_few_runs_or_steps_are_not_judged(found, why):
    assert verdict.of_cell(TARGET, "wmg", found) == ("not judged", why)


def test_enough_runs_are_judged_and_cells_without_a_number_are_not():
    assert verdict.of_cell(TARGET, "wmg", outcome(*[99.6] * 10)).verdict == "matches"
    assert verdict.of_cell(TARGET, "gru", many(99.6)) is None


def test_a_median_is_judged_though_runs_were_short_if_they_solved_it():
    short = needed(*[1.5] * 20, None, steps=4000)
    assert verdict.of_cell(RACE, "wmg", short).verdict == "matches"
    unsolved = needed(*[1.5] * 10, *[None] * 11, steps=4000)
    assert verdict.of_cell(RACE, "wmg", unsolved) == ("not judged", "4,000 of 8,000 steps")


CLAIM = Claim("x", "a", "above", "b")


@pytest.mark.parametrize(
    ("gap", "expected"),
    [(2.9, "holds"), (2.7, "not judged"), (-2.7, "not judged"), (-2.9, "fails")],
)
def test_a_difference_counts_beyond_two_standard_errors_of_both(gap, expected):
    # Standard errors of 1 each: the difference has one of sqrt(2), twice which is 2.83.
    cells = {"a": many(90 + gap), "b": many(90)}
    assert judge(CLAIM, cells, set()).verdict == expected
    below = dataclasses.replace(CLAIM, kind="below")
    opposite = {"holds": "fails", "fails": "holds"}.get(expected, expected)
    assert judge(below, cells, set()).verdict == opposite


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(93.5, 95.0, "holds"), (92.0, 93.3, "fails"), (93.3, 94.0, "not judged")],
)
def test_a_number_counts_if_it_is_outside_the_interval(monkeypatch, low, high, expected):
    monkeypatch.setattr(Outcome, "interval", (low, high))
    claim = Claim("x", "a", "above", 93.4)
    assert judge(claim, {"a": many(94)}, set()).verdict == expected


def curves(centre, gain, reports):
    """Twenty runs that gain as much with every report; a score is the mean of two reports."""
    scores = centre + gain * np.arange(reports) + np.linspace(-0.1, 0.1, 20)[:, None]
    curve = plots.Curve(100.0 * np.arange(1, reports + 1), scores)
    steps = {"steps": 100 * reports, "curve": curve, "final_points": 2}
    return Outcome(scores[:, -2:].mean(1), results=[{}], **steps)


def test_learning_curves_are_compared_where_the_shorter_one_ends():
    long, short = curves(10, 1, reports=40), curves(20, 1, reports=10)
    assert long.centre > short.centre  # because it has learned for longer
    judged = judge(CLAIM, {"a": long, "b": short}, set())
    assert judged.verdict == "fails"
    assert judged.why.startswith("18.50 against 28.50, at 1,000 steps, standard error")
    assert long.until(1000.0).curve.scores.shape == (20, 10)


def test_models_that_were_trained_for_other_numbers_of_steps_are_not_compared():
    judged = judge(CLAIM, {"a": many(90, steps=2000), "b": many(50)}, set())
    assert judged == ("not judged", "steps of training: 2,000 against 1,200")
    longer = {"a": curves(90, 0, reports=20), "b": many(50)}  # only one of them has a curve
    assert judge(CLAIM, longer, set()) == ("not judged", "steps of training: 2,000 against 1,200")
    measured = {"a": many(90), "b": many(50, steps=None)}
    assert judge(CLAIM, measured, set()) == ("not judged", "steps of training: 1,200 against none")


def test_curves_of_which_one_begins_where_the_other_ends_are_not_judged():
    late = curves(10, 1, reports=40)
    late = dataclasses.replace(
        late, curve=plots.Curve(late.curve.steps[20:], late.curve.scores[:, 20:])
    )
    judged = judge(CLAIM, {"a": late, "b": curves(20, 1, reports=10)}, set())
    assert judged == ("not judged", "no report as early as the other's end")


def test_a_cut_outcome_counts_the_runs_that_had_diverged_by_then():
    whole = curves(10, 1, reports=40)
    scores = whole.curve.scores.copy()
    scores[:12, 5:], scores[12:15, 30:] = np.nan, np.nan
    about = {"diverged": 15, "longer": whole.curve, "training": whole.curve}
    whole = dataclasses.replace(
        whole, values=whole.values[15:], curve=plots.Curve(whole.curve.steps, scores), **about
    )
    cut = whole.until(1000.0)
    assert (len(cut.values), cut.diverged, cut.runs) == (8, 12, 20)
    assert cut.longer is None and cut.training is None
    judged = judge(CLAIM, {"a": whole, "b": curves(20, 1, reports=10)}, set())
    assert judged.why.endswith("from 8 runs; 10 are needed")


def test_two_cells_are_compared_at_their_common_end_alone():
    with pytest.raises(ValueError, match="`after` needs a number"):
        dataclasses.replace(CLAIM, after=7)


def test_a_single_run_above_a_line_is_not_judged():
    curve = plots.Curve(np.array([5.0]), np.array([[94.9]]))
    alone = dataclasses.replace(outcome(94.9), curve=curve)
    claim = Claim("x", "a", "above", 93.4, after=5)
    assert judge(claim, {"a": alone}, {"a"}) == ("not judged", "94.90, from a single run")


@pytest.mark.parametrize(
    ("gap", "expected"),
    [(0.0, "holds"), (0.21, "holds"), (-0.23, "not judged"), (0.77, "not judged"), (-0.8, "fails")],
)
def test_alike_means_that_the_difference_is_surely_within_the_margin(gap, expected):
    claim = Claim("x", "a", "alike", "b", margin=0.5)
    cells = {"a": many(90 + gap, 0.1), "b": many(90, 0.1)}  # twice the error is 0.283
    assert judge(claim, cells, set()).verdict == expected


@pytest.mark.parametrize(
    ("solved", "expected"), [(0, "holds"), (4, "holds"), (10, "not judged"), (19, "fails")]
)
def test_unsolved_means_that_surely_fewer_than_the_share_solved_it(solved, expected):
    claim = Claim("x", "a", "unsolved", 0.5, full_scale=True)
    cells = {"a": needed(*[1.0] * solved, *[None] * (20 - solved))}
    assert judge(claim, cells, {"a"}).verdict == expected


@pytest.mark.parametrize(
    ("claim", "cells", "why"),
    [
        (CLAIM, {"a": many(1)}, "not all cells were run"),
        (CLAIM, {"b": many(1)}, "not all cells were run"),
        (CLAIM, {"a": many(1), "b": outcome()}, "every run diverged, or cannot be re-gridded"),
        (CLAIM, {"a": outcome(9), "b": many(1)}, "9.00, from a single run"),
        (CLAIM, {"a": many(9), "b": outcome(1, 1, 1)}, "9.00, from 3 runs; 10 are needed"),
        (
            CLAIM,
            {"a": many(9), "b": many(1, precision="tf32")},
            "products in float32 against tf32",
        ),
        (
            dataclasses.replace(CLAIM, full_scale=True),
            {"a": many(9), "b": many(1)},
            "9.00 after fewer steps than in the paper",
        ),
        (
            Claim("x", "a", "above", 5.0, after=7),
            {"a": many(9)},
            "no score after 7 steps",
        ),
    ],
)
def test_what_cannot_be_judged_is_not_and_says_why(claim, cells, why):
    assert judge(claim, cells, set()) == ("not judged", why)


def test_a_claim_of_full_scale_is_judged_where_all_its_cells_are():
    claim = dataclasses.replace(CLAIM, full_scale=True)
    cells = {"a": many(9), "b": many(1)}
    assert judge(claim, cells, {"a", "b"}).verdict == "holds"
    assert judge(claim, cells, {"a"}).verdict == "not judged"


def test_a_claim_may_be_of_an_earlier_time():
    scores = np.array([[10.0, 30.0, 1.0]] * 10)
    curve = plots.Curve(np.array([10.0, 20.0, 30.0]), scores)
    cells = {"a": dataclasses.replace(many(1), curve=curve)}
    for after, expected in ((10, "fails"), (20, "holds"), (15, "not judged")):
        claim = Claim("x", "a", "above", 20, after=after)
        assert judge(claim, cells, set()).verdict == expected


FAST, FASTER = np.linspace(10, 11, 30), np.linspace(1, 1.1, 30)
HALF, MOST = [*[1.0] * 10, *[None] * 20], [*[9.0] * 5, *[None] * 25]
"""More than half of these runs did not meet their goal."""


@pytest.mark.parametrize(
    ("ours", "other", "times", "expected"),
    [
        (FASTER, FAST, 1.0, "holds"),
        (FAST, FASTER, 1.0, "fails"),
        (FAST, FAST + 0.1, 1.0, "not judged"),  # by less than two standard errors
        (FAST, FAST + 0.6, 1.0, "holds"),  # by more than four
        (FASTER, FAST, 0.15, "holds"),
        (FASTER, FAST, 0.1, "not judged"),  # a tenth, but not by more than errors
        (FAST, HALF, 1.0, "holds"),
        (FASTER, MOST, 1.0, "holds"),
        (MOST, FASTER, 1.0, "fails"),
        ([*FAST[:11], *[None] * 9], [*FAST[:9], *[None] * 11], 1.0, "not judged"),
        (HALF, HALF, 1.0, "not judged"),
    ],
)
def test_medians_are_compared_by_their_errors_and_one_not_reached_is_longer(
    ours, other, times, expected
):
    cells = {"a": needed(*ours), "b": needed(*other)}
    claim = Claim("x", "a", "below", "b", times=times)
    assert judge(claim, cells, {"a", "b"}).verdict == expected


def test_a_verdict_comes_with_its_numbers():
    cells = {"a": many(91), "b": many(87)}
    assert judge(CLAIM, cells, set()).why == (
        "91.00 against 87.00, standard error of the difference 1.41"
    )
    neither = {"a": needed(*HALF), "b": needed(*HALF)}
    assert judge(CLAIM, neither, set()).why == "neither median was reached"
