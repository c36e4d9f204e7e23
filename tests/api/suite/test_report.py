"""The suite's report, from results that are made up."""

import json
import math

import pytest
from api.suite.made_up import result, write

from wmg.api.suite import report
from wmg.api.suite.run import SuiteScale
from wmg.api.suite.tasks import REPORT, TASKS
from wmg.tools.errors import BadInput

SOON = (0.0, 0.9, 0.9, 0.9)
"""With a threshold of 0.5 the third report is the first whose mean of three is enough."""
LATE = (0.0, 0.0, 0.0, 0.8, 0.8)
NEVER = (0.0, 0.4, 0.4, 0.4)
SCALE = SuiteScale()


@pytest.mark.parametrize(
    ("scores", "reports"),
    [
        (SOON, 3),
        (LATE, 5),
        (NEVER, math.inf),
        ((1.0, 1.0), math.inf),  # fewer than three reports
        ((None, None, 0.6), 3),  # reports without an episode are left out
        ((None, None, None), math.inf),
        ((0.5, 0.5, 0.5), 3),
        ((0.0, 0.0, 1.5, -9.0, -9.0), 3),  # the first time counts
    ],
)
def test_a_threshold_is_reached_when_the_mean_of_three_reports_is_enough(scores, reports):
    found = report.reached(result("repeat-first-wmg", scores=scores), 0.5)
    assert found == reports * REPORT


def test_a_row_counts_runs_that_never_reach_the_threshold_as_infinite(tmp_path):
    for seed, scores in enumerate([SOON, LATE, NEVER]):
        write(tmp_path, "repeat-first-wmg", seed, scores=scores, score=float(seed))
    row = report.make(report.collect(tmp_path, SCALE))["cells"]["repeat-first-wmg"]
    assert (row["runs"], row["reached"], row["median"]) == (3, 2, 5 * REPORT)
    assert row["needed"] == [3 * REPORT, 5 * REPORT, None]
    assert row["score"] == 1.0 and row["seconds"] == 20.0
    # Student's quantile with 2 degrees of freedom is 4.303, the standard error 1 / sqrt(3).
    assert row["interval"] == pytest.approx([1 - 2.484, 1 + 2.484], abs=1e-3)


def test_a_median_is_missing_where_most_runs_never_reach_the_threshold():
    row = report.make_row("repeat-first-wmg", [result("repeat-first-wmg", scores=NEVER)])
    assert row["median"] is None and row["interval"] is None
    (line,) = report.table({"cells": {"repeat-first-wmg": row}})[2:]
    threshold = "| memory | 0.5 | WMG | 0 of 1 | > 299,008 | 0.5 | - | 10 |"
    assert line == f"| POPGym RepeatFirst, easy {threshold}"


def test_the_summary_says_where_wmg_is_ahead_and_where_not(tmp_path):
    curves = {
        "repeat-first": (SOON, LATE),
        "repeat-previous": (LATE, SOON),
        "memory-chain": (SOON, SOON),
        "memory-s7": (NEVER, NEVER),
        "concentration": (LATE, NEVER),
        "doorkey": (SOON, NEVER),  # needs neither memory nor sets
        "count-recall": (SOON, None),
    }
    for task, (ours, theirs) in curves.items():
        write(tmp_path, f"{task}-wmg", scores=ours)
        if theirs is not None:
            write(tmp_path, f"{task}-recurrent-ppo", scores=theirs)
    data = report.make(report.collect(tmp_path, SCALE))
    compared = data["compared"]["recurrent-ppo"]
    assert compared["doorkey"] == "wmg" and "count-recall" not in compared
    assert "gru" not in data["compared"]
    assert report.sentence(data, "recurrent-ppo") == (
        "WMG needs fewer interactions than RecurrentPPO on 2 of the 5 tasks that need memory or "
        "sets and that both have run (there are 7): repeat-first, concentration. It needs more on "
        "1: repeat-previous. Both need the same on 1: memory-chain. Neither median reaches the "
        "threshold on 1: memory-s7."
    )


def test_the_report_is_written_with_a_figure_of_each_task(tmp_path):
    write(tmp_path, "cartpole-wmg", scores=(20.0, None, 480.0))
    write(tmp_path, "cartpole-wmg", 10, scores=(20.0, 30.0, 40.0))
    write(tmp_path, "cartpole-wmg", 2, scores=(20.0, 30.0))
    data = report.report(tmp_path, SCALE)
    folder = tmp_path / "suite"
    assert json.loads((folder / "report.json").read_text()) == data
    assert (folder / "cartpole.png").stat().st_size > 10_000
    assert not (folder / "highway.png").exists()
    text = (folder / "report.md").read_text()
    assert "Not run: cartpole-gru, cartpole-recurrent-ppo, memory-s7-wmg," in text
    assert "Hardware: abacus, 1 core(s), commit abc, 2020-07-08." in text
    assert data["commands"] == ["wmg reproduce suite --cells cartpole-wmg --runs 11"]
    assert not data["short"] and "Not the suite" not in text


@pytest.mark.parametrize("steps", [8192, 299_008])
def test_results_of_other_lengths_are_refused_unless_asked_for(steps, tmp_path):
    path = write(tmp_path, "cartpole-wmg", interactions=steps)
    with pytest.raises(BadInput, match=f"{path} has {steps:,} interactions, not 98,304"):
        report.collect(tmp_path, SCALE)
    data = report.report(tmp_path, SuiteScale(steps=steps))
    assert data["short"] and "Not the suite: some runs do not have" in report.markdown(data)
    assert data["cells"]["cartpole-wmg"]["interactions"] == steps != TASKS["cartpole"].budget


def test_what_is_no_result_or_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="there are no results of suite in"):
        report.collect(tmp_path, SCALE)
    path = write(tmp_path, "cartpole-wmg", agent="gru")
    with pytest.raises(BadInput, match="is a result of cartpole-gru"):
        report.collect(tmp_path, SCALE)
    path.write_text("[]")
    with pytest.raises(BadInput, match="is damaged: it does not hold a result"):
        report.collect(tmp_path, SCALE)
