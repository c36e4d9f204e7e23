"""What is pooled and what is not, and verdicts on hand-made outcomes."""

import dataclasses
import json

import numpy as np
import pytest
from experiments.made_up import HERE, RACE, TARGET, flat, write, write_race

from wmg import plots
from wmg.config import BadInput
from wmg.experiments.outcome import Outcome, judge, pool
from wmg.experiments.target import Claim


def outcome(*values, error=None):
    return Outcome(
        values=np.array(values, float), curve=None, seconds=1.0, hardware=[HERE],
        commands=["x"], steps=None, error=error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(99.6, "holds"), (99.9, "holds"), (99.3, "holds"), (99.92, "fails"), (99.28, "fails")],
)
def test_a_number_equals_the_papers_if_it_is_within_the_margin(value, verdict):
    claim = Claim("x", "a", "equals", 99.6, 0.3)
    assert judge(claim, {"a": outcome(value)}, {"a", "b"})[0] == verdict


def test_without_a_margin_only_the_same_number_is_equal():
    claim = Claim("x", "a", "equals", 132_507)
    assert judge(claim, {"a": outcome(132_507)}, {"a", "b"})[0] == "holds"
    assert judge(claim, {"a": outcome(132_508)}, {"a", "b"})[0] == "fails"


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(92.0, None, "holds"), (91.0, None, "fails"), (92.0, 0.4, "holds"), (92.0, 0.6, "fails")],
)
def test_above_a_number_means_by_more_than_two_standard_errors(value, error, verdict):
    claim = Claim("x", "a", "above", 91)
    assert judge(claim, {"a": outcome(value, error=error)}, {"a", "b"})[0] == verdict


def test_a_single_trained_run_has_no_standard_error_and_its_verdict_says_so():
    curve = plots.Curve(np.array([5.0]), np.array([[94.9]]))
    alone = dataclasses.replace(outcome(94.9), curve=curve)
    assert np.isnan(alone.standard_error)
    verdict = judge(Claim("x", "a", "above", 93.4), {"a": alone}, {"a", "b"})
    assert verdict == ("holds", "94.90 against 93.40, from a single run")
    assert judge(Claim("x", "a", "above", 95), {"a": alone}, {"a", "b"})[0] == "fails"


@pytest.mark.parametrize(
    ("other", "verdict"),
    [((86, 88), "holds"), ((88, 90), "fails"), ((94, 96), "fails")],
)
def test_above_a_cell_counts_the_errors_of_both(other, verdict):
    # Two values 2 apart have standard error 1, so the gap must exceed 2 * sqrt(2) = 2.83.
    cells = {"a": outcome(90, 92), "b": outcome(*other)}
    assert judge(Claim("x", "a", "above", "b"), cells, {"a", "b"})[0] == verdict


@pytest.mark.parametrize(("margin", "verdict"), [(3.9, "holds"), (4.1, "fails")])
def test_above_a_cell_also_means_by_more_than_the_margin(margin, verdict):
    cells = {"a": outcome(90, 92), "b": outcome(86, 88)}
    assert judge(Claim("x", "a", "above", "b", margin), cells, {"a", "b"})[0] == verdict


@pytest.mark.parametrize(
    ("claim", "cells", "why"),
    [
        (Claim("x", "a", "above", "b"), {"a": outcome(1, 2)}, "not all cells were run"),
        (Claim("x", "a", "above", "b"), {"b": outcome(1, 2)}, "not all cells were run"),
        (
            Claim("x", "a", "above", "b"),
            {"a": outcome(1, 2), "b": outcome()},
            "every run diverged",
        ),
        (Claim("x", "a", "equals", 1), {"a": outcome()}, "every run diverged"),
        (
            Claim("x", "a", "above", "b"),
            {"a": outcome(9), "b": outcome(1, 2)},
            "9.00 against 1.50, from a single run",
        ),
        (
            Claim("x", "a", "equals", 9, full_scale=True),
            {"a": outcome(9)},
            "9.00 after fewer steps than in the paper",
        ),
    ],
)
def test_what_cannot_be_judged_is_not_and_says_why(claim, cells, why):
    assert judge(claim, cells, set()) == ("not judged", why)


@pytest.mark.parametrize(
    ("after", "verdict", "numbers"),
    [
        (10, "fails", "15.00 against 20.00, standard error of the gap 5.00"),
        (20, "holds", "35.00 against 20.00, standard error of the gap 5.00"),
        (15, "not judged", "no score after 15 steps"),
    ],
)
def test_a_claim_may_be_of_an_earlier_time(after, verdict, numbers):
    scores = np.array([[10.0, 30.0, 1.0], [20.0, 40.0, 1.0]])
    curve = plots.Curve(np.array([10.0, 20.0, 30.0]), scores)
    cells = {"a": dataclasses.replace(outcome(1, 1), curve=curve)}
    assert judge(Claim("x", "a", "above", 20, after=after), cells, set()) == (verdict, numbers)


def test_a_claim_of_full_scale_is_judged_at_full_scale():
    claim = Claim("x", "a", "equals", 9, full_scale=True)
    assert judge(claim, {"a": outcome(9)}, {"a", "b"})[0] == "holds"
    assert judge(claim, {"a": outcome(9), "b": outcome(9)}, {"b"})[0] == "not judged"
    assert judge(claim, {"a": outcome(9), "b": outcome(9)}, {"a"})[0] == "holds"


def test_a_verdict_comes_with_its_numbers():
    cells = {"a": outcome(90, 92), "b": outcome(86, 88)}
    assert judge(Claim("x", "a", "above", "b"), cells, {"a", "b"})[1] == (
        "91.00 against 87.00, standard error of the gap 1.41"
    )


def needed(*steps):
    """An outcome of runs with a goal; None for one that did not meet it."""
    found = outcome(*[np.inf if x is None else x for x in steps])
    return dataclasses.replace(found, censored=True)


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [((1.9, 2.0, 2.1), "holds"), ((1.9, 2.01, 2.1), "fails"), ((2.0,), "holds")],
)
def test_below_a_number_means_that_the_median_is_no_higher(steps, verdict):
    claim = Claim("x", "a", "below", 1.6, times=1.25)
    assert judge(claim, {"a": needed(*steps)}, {"a", "b"})[0] == verdict


FAST, FASTER = np.linspace(10, 11, 30), np.linspace(1, 1.1, 30)
HALF = [*[1.0] * 10, *[None] * 20]
"""More than half of these runs did not meet their goal."""


@pytest.mark.parametrize(
    ("ours", "other", "times", "verdict"),
    [
        (FASTER, FAST, 1.0, "holds"),
        (FAST, FASTER, 1.0, "fails"),
        (FAST, FAST + 0.1, 1.0, "fails"),  # by less than two standard errors
        (FAST, FAST + 0.6, 1.0, "holds"),  # by more than four
        (FASTER, FAST, 0.15, "holds"),
        (FASTER, FAST, 0.1, "fails"),  # a tenth, but not by more than errors
        (FAST, HALF, 1.0, "holds"),
        (HALF, FAST, 1.0, "fails"),
        (HALF, HALF, 1.0, "not judged"),
        ([1.0], FAST, 1.0, "not judged"),
    ],
)
def test_below_a_cell_means_by_more_than_two_standard_errors(ours, other, times, verdict):
    cells = {"a": needed(*ours), "b": needed(*other)}
    assert judge(Claim("x", "a", "below", "b", times=times), cells, {"a", "b"})[0] == verdict


def test_medians_that_nobody_reached_are_named_in_the_verdict():
    cells = {"a": needed(*HALF), "b": needed(*HALF), "c": needed(*FAST)}
    assert (
        judge(Claim("x", "a", "below", "b"), cells, {"a", "b"})[1] == "neither median was reached"
    )
    assert judge(Claim("x", "c", "below", "a"), cells, {"a", "b"})[1] == "10.50 against -"


def test_groups_that_were_tested_at_other_steps_are_pooled_where_both_were(tmp_path):
    for group, steps in enumerate([[100, 700], [700]]):
        path = write(tmp_path, "wmg", group, [[0.5] * len(steps)] * 2, seed=2 * group)
        data = json.loads(path.read_text())
        scores = [[float(10 * group + run + s / 100) for s in steps] for run in range(2)]
        data |= {"steps": steps, "scores": scores, "scores_in_240_steps": scores}
        path.write_text(json.dumps(data))
    pooled = pool("made-up", TARGET, tmp_path)["wmg"]
    assert pooled.diverged == 0 and pooled.runs == 4
    for curve in (pooled.curve, pooled.longer):
        assert curve is not None and curve.steps.tolist() == [700]
        assert curve.scores.tolist() == [[7], [8], [17], [18]]


def test_results_of_different_configs_are_not_pooled(tmp_path):
    one = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    other = write(tmp_path, "wmg", 1, [flat(20)], seed=1, t_max=8)
    with pytest.raises(BadInput) as refusal:
        pool("made-up", TARGET, tmp_path)
    assert str(refusal.value) == f"{other} has another config than {one}, so they cannot be pooled"


def test_a_run_is_not_counted_twice(tmp_path):
    one = write(tmp_path, "wmg", 0, [flat(10), flat(20)], seed=0)
    other = write(tmp_path, "wmg", 1, [flat(20)], seed=1)
    with pytest.raises(BadInput) as refusal:
        pool("made-up", TARGET, tmp_path)
    assert str(refusal.value) == f"{other} and {one} both hold the run of seed 1"


@pytest.mark.parametrize("contents", [b"", b'{"config": {', b"[]", b"{}", b"\xff\xfe", b"7"])
def test_a_damaged_result_is_refused(tmp_path, contents):
    damaged = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    damaged.write_bytes(contents)
    with pytest.raises(BadInput) as refusal:
        pool("made-up", TARGET, tmp_path)
    assert str(refusal.value) == f"{damaged} is damaged: it does not hold a result"


@pytest.mark.parametrize("change", [
    {"hardware": None}, {"scores": None}, {"scores": [["x"]]}, {"scores": []}, {"config": "x"},
])  # fmt: skip
def test_a_result_that_lacks_something_is_damaged(tmp_path, change):
    damaged = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    whole = json.loads(damaged.read_text()) | change
    damaged.write_text(
        json.dumps({key: value for key, value in whole.items() if value is not None})
    )
    with pytest.raises(BadInput, match="is damaged: it does not hold a result"):
        pool("made-up", TARGET, tmp_path)


def test_without_results_there_is_no_report(tmp_path):
    with pytest.raises(BadInput) as refusal:
        pool("made-up", TARGET, tmp_path)
    assert str(refusal.value) == f"there are no results of made-up in {tmp_path}"


def test_a_run_with_a_goal_is_not_counted_twice(tmp_path):
    one = write_race(tmp_path, "wmg", 0, [1500.0, None], seed=0)
    other = write_race(tmp_path, "wmg", 1, [1700.0], seed=1)
    with pytest.raises(BadInput) as refusal:
        pool("race", RACE, tmp_path)
    assert str(refusal.value) == f"{other} and {one} both hold the run of seed 1"


def test_results_with_other_intervals_are_not_pooled(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0)
    write_race(tmp_path, "wmg", 1, [1700.0], seed=1, report_every=50)
    with pytest.raises(BadInput, match="another config"):
        pool("race", RACE, tmp_path)
