"""Reports of hand-made results."""

import json
import sys

import pytest
from paper.made_up import HERE, RACE, TARGET, THERE, flat, write, write_race

from wmg.paper import report
from wmg.tools.errors import BadInput


def made(out):
    return report.report("made-up", TARGET, out)


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
    assert data["scale"] == "3 of 100 runs, 1 diverged: wmg"


def test_a_scale_says_which_cells_took_fewer_steps_than_the_papers(tmp_path):
    write(tmp_path, "wmg", 0, [flat(10, 7)], seed=0, steps=700)
    write(tmp_path, "gru", 0, [flat(20)], seed=0)
    fewer = "1 of 100 runs, 700 of 1,200 steps: wmg"
    assert made(tmp_path)["scale"] == f"{fewer}; 1 of 100 runs: gru"


def test_a_group_that_diverged_altogether_is_shorter_than_the_others(tmp_path):
    write(tmp_path, "wmg", 0, [flat(90, 4), [*flat(90, 2), None, None]], seed=0)
    write(tmp_path, "wmg", 1, [flat(10)], seed=2)
    data = made(tmp_path)
    assert data["cells"]["wmg"]["value"] == pytest.approx(10)
    assert data["scale"] == "3 of 100 runs, 2 diverged: wmg"


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
    write(tmp_path, "wmg", 0, [flat(90), flat(92)] * 50, seed=0)
    write(tmp_path, "gru", 0, [flat(86), flat(88)] * 50, seed=0)
    made(tmp_path)
    text = (tmp_path / "made-up" / "report.md").read_text()
    assert text.splitlines() == [
        "# Made up",
        "",
        "- **worse** (1): WMG 0.91 times the paper's",
        "",
        "| | ours (% of reward) | 95% | runs | paper | verdict |",
        "|---|---|---|---|---|---|",
        "| WMG | 91.00 | 90.80 to 91.20 | 100 | 99.6 | worse |",
        "| GRU | 87.00 | 86.80 to 87.20 | 100 | - | - |",
        "",
        "| claim | verdict | numbers |",
        "|---|---|---|",
        "| WMG is above GRU | holds | 91.00 against 87.00, standard error of the difference 0.14 |",
        "| WMG is above 95% | fails | 90.80 to 91.20 against 95.00 |",
        "",
        "A note.",
        "",
        "Source: nowhere. Scale: 100 of 100 runs: wmg, gru. A cell matches if the 95% interval of "
        "its centre lies within 1 of the paper's number: because.",
        "",
        "Hardware: abacus, 2020-07-08. Products in float32. Cost: 5.0 s.",
        "",
        "Commands:",
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
    assert row["interval"] == [1.5, None] and row["standard_error"] is None
    assert row["test_every"] == 25
    assert row["share_of_time_testing"] == pytest.approx(30 / 80)


def test_a_median_that_was_not_reached_is_no_number(race):
    row = report.report("race", RACE, race)["cells"]["gru"]
    assert row["value"] is None and row["first_quartile"] is None
    assert (row["solved"], row["runs"]) == (1, 4)


def test_runs_that_diverged_are_among_those_that_were_not_solved(race):
    data = report.report("race", RACE, race)
    assert data["scale"] == "4 of 4 runs: wmg; 4 of 4 runs, 1 diverged: gru"


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
    few = "4 runs; 10 are needed"
    assert lines[2] == f"- **not judged** (2): WMG ({few}); GRU ({few})"
    assert lines[6:8] == [
        "| WMG | 1.80 | 1.50 to - | 1.65 to - | 3 of 4 | 1.6 | not judged | 25 steps | float32 "
        "| no | 38% |",
        "| GRU | - | 2.00 to - | - to - | 1 of 4 | 1.7 | not judged | 25 steps | float32 "
        "| no | 25% |",
    ]
    assert f"| WMG needs fewer than GRU | not judged | 1.80, from {few} |" in lines


def test_training_episodes_are_reported_where_results_count_them(race, tmp_path):
    assert "training episodes" not in report.markdown(report.report("race", RACE, race))
    crossings, episodes = [1500.0, 1600.0, None], [70_000.0, 90_000.0, None]
    counted = tmp_path / "counted"
    write_race(counted, "wmg", 0, crossings, seed=0, about={"episodes": episodes})
    data = report.report("race", RACE, counted)
    assert data["cells"]["wmg"]["episodes"] == 90
    line = "Thousands of training episodes until then, medians: WMG: 90.00."
    assert line in report.markdown(data).splitlines()


def test_a_figure_is_drawn_of_medians(race):
    report.report("race", RACE, race)
    assert (race / "race" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_cell_that_nobody_solved_is_reported_and_drawn(tmp_path):
    write_race(tmp_path, "wmg", 0, [None, None], seed=0)
    data = report.report("race", RACE, tmp_path)
    assert data["cells"]["wmg"]["value"] is None
    assert data["cells"]["wmg"]["interval"] == [None, None]
    assert data["claims"][0]["verdict"] == "not judged"
    assert (tmp_path / "race" / "figure.png").exists()


def test_without_matplotlib_there_is_a_report_and_a_sentence(tmp_path, monkeypatch, capsys):
    write(tmp_path, "wmg", 0, [flat(99)] * 2, seed=0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    data = report.report("made-up", TARGET, tmp_path)
    assert json.loads((tmp_path / "made-up" / "report.json").read_text()) == data
    assert capsys.readouterr().err.startswith("no figure: plots need matplotlib: pip install")
    assert not (tmp_path / "made-up" / "figure.png").exists()


@pytest.mark.parametrize("missing", ["diverged", "testing_seconds", "command"])
def test_a_result_that_lacks_something_is_damaged(tmp_path, missing):
    path = write_race(tmp_path, "wmg", 0, [1000.0], seed=0)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({key: whole[key] for key in whole if key != missing}))
    with pytest.raises(BadInput, match=r"result\.json is damaged"):
        report.report("race", RACE, tmp_path)


def test_what_does_not_match_is_said_first_and_what_excludes_the_papers_number_is_named(tmp_path):
    write_race(tmp_path, "wmg", 0, [1700.0] * 20, seed=0)
    write_race(tmp_path, "gru", 0, [3000.0] * 20, seed=0)
    lines = report.markdown(report.make("race", RACE, tmp_path)).splitlines()
    assert lines[2:4] == [
        "- **worse** (1): GRU 1.76 times the paper's",
        "- **matches** (1): WMG 1.06 times the paper's, interval excludes it",
    ]


def test_a_rerun_is_shown_and_the_first_is_judged(tmp_path):
    later = {"started": "2026-11-18"}
    write_race(tmp_path, "wmg", 0, [3000.0] * 20, seed=0, about={"started": "2026-11-17"})
    write_race(tmp_path, "wmg", 0, [1600.0] * 20, seed=0, series="again-01", about=later)
    data = report.make("race", RACE, tmp_path)
    assert data["cells"]["wmg"]["verdict"] == "worse"
    (other,) = data["other_series"]["wmg"]
    assert (other["series"], other["value"], other["other_settings"]) == ("again-01", 1.6, [])
    shown = "| WMG | again-01 | 1.60 | 1.60 to 1.60 | 20 | float32 | 2020-07-08 | 0.0001 | none: a"
    assert f"{shown} rerun |" in report.markdown(data)


def test_a_regridded_report_says_what_cannot_be_and_writes_nothing(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0] * 20, seed=0)
    data = report.make("race", RACE, tmp_path, 100)
    row = data["cells"]["wmg"]
    assert (row["value"], row["verdict"], row["why"]) == (
        None,
        "not judged",
        "cannot be re-gridded",
    )
    assert "| WMG | cannot be re-gridded |" in report.markdown(data)
    assert not (tmp_path / "race" / "report.md").exists()
