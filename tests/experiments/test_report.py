"""Reports and verdicts from hand-made results."""

import dataclasses
import json

import numpy as np
import pytest

from wmg import config
from wmg.config import BadInput, Config
from wmg.experiments import report
from wmg.experiments.report import Outcome, judge
from wmg.experiments.target import Cell, Claim, Target

HERE = {"device": "abacus", "date": "2020-07-08"}
THERE = {"device": "slide rule", "date": "2020-07-09"}
CONFIG = Config(steps=1200, report_every=100)
TARGET = Target(
    title="Made up",
    source="nowhere",
    measure="curve",
    unit="% of reward",
    runs=100,
    cells={"wmg": Cell("WMG", CONFIG, 99.6), "gru": Cell("GRU", CONFIG)},
    claims=(
        Claim("WMG is above GRU", "wmg", "above", "gru"),
        Claim("WMG obtains 99.6%", "wmg", "equals", 99.6, 0.3, full_scale=True),
    ),
    lines={"Depth-1": 86.9},
    note="A note.",
)


def outcome(*values, error=None):
    return Outcome(
        values=np.array(values, float), curve=None, seconds=1.0, hardware=[HERE],
        commands=["x"], steps=None, error=error,
    )  # fmt: skip


def write(out, cell, group, scores, seed, hardware=HERE, **changes):
    """A group's result as another machine may have left it."""
    settings = config.to_dict(CONFIG) | {"seed": seed, "runs": len(scores)} | changes
    points = max(len(row) for row in scores)
    data = {
        "config": settings,
        "steps": [100.0 * (i + 1) for i in range(points)],
        "scores": scores,
        "seconds": 2.5,
        "hardware": hardware,
        "command": f"wmg reproduce made-up --cells {cell} --groups {group}",
    }
    place = out / "made-up" / cell / f"group-{group:03d}"
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(data))
    return place / "result.json"


def made(out):
    return report.report("made-up", TARGET, out)


def flat(value, points=12):
    return [float(value)] * points


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(99.6, "holds"), (99.9, "holds"), (99.3, "holds"), (99.92, "fails"), (99.28, "fails")],
)
def test_a_number_equals_the_papers_if_it_is_within_the_margin(value, verdict):
    claim = Claim("x", "a", "equals", 99.6, 0.3)
    assert judge(claim, {"a": outcome(value)}, True)[0] == verdict


def test_without_a_margin_only_the_same_number_is_equal():
    claim = Claim("x", "a", "equals", 132_507)
    assert judge(claim, {"a": outcome(132_507)}, True)[0] == "holds"
    assert judge(claim, {"a": outcome(132_508)}, True)[0] == "fails"


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(92.0, None, "holds"), (91.0, None, "fails"), (92.0, 0.4, "holds"), (92.0, 0.6, "fails")],
)
def test_above_a_number_means_by_more_than_two_standard_errors(value, error, verdict):
    claim = Claim("x", "a", "above", 91)
    assert judge(claim, {"a": outcome(value, error=error)}, True)[0] == verdict


@pytest.mark.parametrize(
    ("other", "verdict"),
    [((86, 88), "holds"), ((88, 90), "fails"), ((94, 96), "fails")],
)
def test_above_a_cell_counts_the_errors_of_both(other, verdict):
    # Two values 2 apart have standard error 1, so the gap must exceed 2 * sqrt(2) = 2.83.
    cells = {"a": outcome(90, 92), "b": outcome(*other)}
    assert judge(Claim("x", "a", "above", "b"), cells, True)[0] == verdict


@pytest.mark.parametrize(("margin", "verdict"), [(3.9, "holds"), (4.1, "fails")])
def test_above_a_cell_also_means_by_more_than_the_margin(margin, verdict):
    cells = {"a": outcome(90, 92), "b": outcome(86, 88)}
    assert judge(Claim("x", "a", "above", "b", margin), cells, True)[0] == verdict


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
    assert judge(claim, cells, False) == ("not judged", why)


def test_a_claim_of_full_scale_is_judged_at_full_scale():
    claim = Claim("x", "a", "equals", 9, full_scale=True)
    assert judge(claim, {"a": outcome(9)}, True)[0] == "holds"


def test_a_verdict_comes_with_its_numbers():
    cells = {"a": outcome(90, 92), "b": outcome(86, 88)}
    assert judge(Claim("x", "a", "above", "b"), cells, True)[1] == (
        "91.00 against 87.00, standard error of the gap 1.41"
    )


def test_a_final_score_is_the_mean_of_the_last_ten_reports(tmp_path):
    write(tmp_path, "wmg", 0, [[float(i) for i in range(12)]], seed=0)
    assert made(tmp_path)["cells"]["wmg"]["value"] == pytest.approx(6.5)


def test_groups_are_pooled_run_by_run(tmp_path):
    write(tmp_path, "wmg", 0, [flat(10), flat(20)], seed=0)
    write(tmp_path, "wmg", 1, [flat(60)], seed=2, hardware=THERE)
    row = made(tmp_path)["cells"]["wmg"]
    assert row["value"] == pytest.approx(30)
    # Deviations -20, -10, 30: variance 1400 / 2, over 3 runs.
    assert row["standard_error"] == pytest.approx((700 / 3) ** 0.5)
    assert (row["over_runs"]["count"], row["over_runs"]["median"]) == (3, 20)


def test_a_report_adds_up_costs_and_lists_each_machine_once(tmp_path):
    write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    write(tmp_path, "wmg", 1, [flat(20)], seed=1)
    write(tmp_path, "gru", 0, [flat(20)], seed=0, hardware=THERE)
    data = made(tmp_path)
    assert data["cost_seconds"] == 7.5 and data["hardware"] == [HERE, THERE]


def test_a_diverged_run_is_counted_but_has_no_final_score(tmp_path):
    write(tmp_path, "wmg", 0, [flat(10), flat(90, 5) + [None] * 7, flat(20)], seed=0)
    data = made(tmp_path)
    assert data["cells"]["wmg"]["value"] == pytest.approx(15)
    assert data["scale"] == "wmg: 3 of 100 runs, 1,200 of 1,200 steps, 1 diverged"


def test_a_group_that_diverged_altogether_is_shorter_than_the_others(tmp_path):
    write(tmp_path, "wmg", 0, [flat(90, 4), [*flat(90, 2), None, None]], seed=0)
    write(tmp_path, "wmg", 1, [flat(10)], seed=2)
    data = made(tmp_path)
    assert data["cells"]["wmg"]["value"] == pytest.approx(10)
    assert data["scale"].endswith("3 of 100 runs, 1,200 of 1,200 steps, 2 diverged")


def test_when_every_run_diverged_there_is_no_value(tmp_path):
    write(tmp_path, "wmg", 0, [[50.0, None], [50.0, None]], seed=0)
    data = made(tmp_path)
    assert data["cells"]["wmg"]["value"] is None
    assert [claim["verdict"] for claim in data["claims"]] == ["not judged", "not judged"]


def test_the_json_file_holds_what_is_returned(tmp_path):
    write(tmp_path, "wmg", 0, [flat(10), flat(20)], seed=0)
    data = made(tmp_path)
    assert json.loads((tmp_path / "made-up" / "report.json").read_text()) == data


def test_the_markdown_file_has_a_row_for_each_cell_and_claim(tmp_path):
    write(tmp_path, "wmg", 0, [flat(90), flat(92)], seed=0)
    write(tmp_path, "gru", 0, [flat(86), flat(88)], seed=0)
    made(tmp_path)
    text = (tmp_path / "made-up" / "report.md").read_text()
    assert text.splitlines() == [
        "# Made up",
        "",
        "Source: nowhere. Scale: wmg: 2 of 100 runs, 1,200 of 1,200 steps; "
        "gru: 2 of 100 runs, 1,200 of 1,200 steps.",
        "",
        "| | ours (% of reward) | s.e. | paper |",
        "|---|---|---|---|",
        "| WMG | 91.00 | 1.00 | 99.6 |",
        "| GRU | 87.00 | 1.00 | - |",
        "",
        "| claim | verdict | numbers |",
        "|---|---|---|",
        "| WMG is above GRU | holds | 91.00 against 87.00, standard error of the gap 1.41 |",
        "| WMG obtains 99.6% | fails | 91.00 against 99.60 |",
        "",
        "A note.",
        "",
        "Hardware: abacus, 2020-07-08. Cost: 5.0 s.",
        "",
        "Commands, the results of which were pooled:",
        "",
        "```",
        "wmg reproduce made-up --cells wmg --groups 0",
        "wmg reproduce made-up --cells gru --groups 0",
        "```",
    ]


def test_a_figure_is_drawn_of_curves(tmp_path):
    write(tmp_path, "wmg", 0, [flat(90), flat(92)], seed=0)
    made(tmp_path)
    assert (tmp_path / "made-up" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_results_of_different_configs_are_not_pooled(tmp_path):
    one = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    other = write(tmp_path, "wmg", 1, [flat(20)], seed=1, t_max=8)
    with pytest.raises(BadInput) as refusal:
        made(tmp_path)
    assert str(refusal.value) == f"{other} has another config than {one}, so they cannot be pooled"


def test_a_run_is_not_counted_twice(tmp_path):
    one = write(tmp_path, "wmg", 0, [flat(10), flat(20)], seed=0)
    other = write(tmp_path, "wmg", 1, [flat(20)], seed=1)
    with pytest.raises(BadInput) as refusal:
        made(tmp_path)
    assert str(refusal.value) == f"{other} and {one} both hold the run of seed 1"


@pytest.mark.parametrize("contents", [b"", b'{"config": {', b"[]", b"{}", b"\xff\xfe", b"7"])
def test_a_damaged_result_is_refused(tmp_path, contents):
    damaged = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    damaged.write_bytes(contents)
    with pytest.raises(BadInput) as refusal:
        made(tmp_path)
    assert str(refusal.value) == f"{damaged} is damaged: it does not hold a result"


def test_without_results_there_is_no_report(tmp_path):
    with pytest.raises(BadInput) as refusal:
        made(tmp_path)
    assert str(refusal.value) == f"there are no results of made-up in {tmp_path}"


SOLVE = Config(steps=8000, report_every=25, goal=config.Goal())
RACE = Target(
    title="Race",
    source="nowhere",
    measure="efficiency",
    unit="thousand interactions",
    runs=4,
    cells={
        "wmg": Cell("WMG", SOLVE, 1.6),
        "gru": Cell("GRU", SOLVE, 1.7),
        "cnn": Cell("CNN+GRU", SOLVE),
    },
    claims=(
        Claim("WMG needs 1.6 thousand, or up to a quarter more", "wmg", "below", 1.6, times=1.25),
        Claim("WMG needs fewer than GRU", "wmg", "below", "gru"),
    ),
)


def write_race(out, cell, group, crossings, seed, diverged=0, **changes):
    settings = config.to_dict(SOLVE) | {"seed": seed, "runs": len(crossings)} | changes
    data = {
        "config": settings,
        "crossings": crossings,
        "diverged": diverged,
        "seconds": 40.0,
        "testing_seconds": 10.0 * (group + 1),
        "hardware": HERE,
        "command": f"wmg reproduce race --cells {cell} --groups {group}",
    }
    place = out / "race" / cell / f"group-{group:03d}"
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(data))
    return place / "result.json"


@pytest.fixture
def race(tmp_path):
    """WMG in two groups, one run of four censored; GRU mostly unsolved, one run diverged."""
    write_race(tmp_path, "wmg", 0, [1500.0, None], seed=0)
    write_race(tmp_path, "wmg", 1, [1700.0, 1900.0], seed=2)
    write_race(tmp_path, "gru", 0, [2000.0, None, None, None], seed=0, diverged=1)
    return tmp_path


def strictly(path):
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def test_runs_that_were_not_solved_count_as_slower_than_all_others(race):
    data = report.report("race", RACE, race)
    row = data["cells"]["wmg"]
    assert row["value"] == pytest.approx(1.8)  # of 1.5, 1.7, 1.9 and more than 8
    assert row["first_quartile"] == pytest.approx(1.65) and row["third_quartile"] is None
    assert (row["solved"], row["runs"]) == (3, 4)
    assert row["interval_of_median"] == [1.5, None] and row["standard_error"] is None
    assert row["test_every"] == 25
    assert row["share_of_time_testing"] == pytest.approx(30 / 80)


def test_a_median_that_was_not_reached_is_no_number(race):
    row = report.report("race", RACE, race)["cells"]["gru"]
    assert row["value"] is None and row["first_quartile"] is None
    assert (row["solved"], row["runs"]) == (1, 4)


def test_runs_that_diverged_are_among_those_that_were_not_solved(race):
    data = report.report("race", RACE, race)
    assert data["scale"] == (
        "wmg: 4 of 4 runs, 8,000 of 8,000 steps; gru: 4 of 4 runs, 8,000 of 8,000 steps, 1 diverged"
    )


def test_the_interval_of_tests_is_that_of_the_results(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0, report_every=50)
    assert report.report("race", RACE, tmp_path)["cells"]["wmg"]["test_every"] == 50


def test_cells_that_were_not_run_are_listed_with_their_commands(race):
    data = report.report("race", RACE, race)
    assert data["not_run"] == {"cnn": "wmg reproduce race --cells cnn"}
    text = (race / "race" / "report.md").read_text()
    assert "Not run:\n\n```\nwmg reproduce race --cells cnn\n```\n" in text


def test_a_report_of_efficiency_is_strict_json_and_a_table_with_dashes(race):
    data = report.report("race", RACE, race)
    assert strictly(race / "race" / "report.json") == data
    lines = (race / "race" / "report.md").read_text().splitlines()
    assert lines[4:8] == [
        "| thousand interactions | median | quartiles | 95% of median | solved | paper "
        "| test every | time spent testing |",
        "|---|---|---|---|---|---|---|---|",
        "| WMG | 1.80 | 1.65 to - | 1.50 to - | 3 of 4 | 1.6 | 25 steps | 38% |",
        "| GRU | - | - to - | 2.00 to - | 1 of 4 | 1.7 | 25 steps | 25% |",
    ]
    assert "| WMG needs fewer than GRU | holds | 1.80 against - |" in lines


def test_a_figure_is_drawn_of_medians(race):
    report.report("race", RACE, race)
    assert (race / "race" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_cell_that_nobody_solved_is_reported_and_drawn(tmp_path):
    write_race(tmp_path, "wmg", 0, [None, None], seed=0)
    data = report.report("race", RACE, tmp_path)
    assert data["cells"]["wmg"]["value"] is None
    assert data["cells"]["wmg"]["interval_of_median"] == [None, None]
    assert data["claims"][0]["verdict"] == "fails"
    assert (tmp_path / "race" / "figure.png").exists()


def test_a_run_with_a_goal_is_not_counted_twice(tmp_path):
    one = write_race(tmp_path, "wmg", 0, [1500.0, None], seed=0)
    other = write_race(tmp_path, "wmg", 1, [1700.0], seed=1)
    with pytest.raises(BadInput) as refusal:
        report.report("race", RACE, tmp_path)
    assert str(refusal.value) == f"{other} and {one} both hold the run of seed 1"


def test_results_with_other_intervals_are_not_pooled(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0)
    write_race(tmp_path, "wmg", 1, [1700.0], seed=1, report_every=50)
    with pytest.raises(BadInput, match="another config"):
        report.report("race", RACE, tmp_path)


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
    assert judge(claim, {"a": needed(*steps)}, True)[0] == verdict


FAST, FASTER = np.linspace(10, 11, 30), np.linspace(1, 1.1, 30)
HALF = [*[1.0] * 10, *[None] * 20]
"""More than half of these runs did not meet their goal."""


@pytest.mark.parametrize(
    ("ours", "other", "times", "verdict"),
    [
        (FASTER, FAST, 1.0, "holds"),
        (FAST, FASTER, 1.0, "fails"),
        (FAST, FAST + 0.1, 1.0, "fails"),  # by less than two standard errors
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
    assert judge(Claim("x", "a", "below", "b", times=times), cells, True)[0] == verdict


def test_medians_that_nobody_reached_are_named_in_the_verdict():
    cells = {"a": needed(*HALF), "b": needed(*HALF), "c": needed(*FAST)}
    assert judge(Claim("x", "a", "below", "b"), cells, True)[1] == "neither median was reached"
    assert judge(Claim("x", "c", "below", "a"), cells, True)[1] == "10.50 against -"
