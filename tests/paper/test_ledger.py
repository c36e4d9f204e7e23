"""The ledger of runs: what is missing, what it costs, and in which order."""

import dataclasses
import json

import pytest
import tiny
from paper.made_up import RACE, SOLVE, write_race

from wmg import config
from wmg.paper import ledger
from wmg.paper.ledger import Speed
from wmg.paper.targets import TARGETS

GPU = {"hardware": {"device": "a GPU", "devices": 1, "date": "2020-07-08"}}


@pytest.fixture
def race(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "TARGETS", {"race": RACE})
    monkeypatch.setattr(ledger, "ENOUGH", 4)
    return tmp_path


def timed(out, cell, runs, seconds, taken, **changes):
    about = {**GPU, "seconds": seconds, "steps_taken": [taken] * runs, "precision": "float32"}
    write_race(out, cell, 0, [float(taken)] * runs, seed=0, about=about, **changes)


def test_a_cell_with_enough_runs_is_done_and_others_are_listed(race):
    timed(race, "wmg", 4, 60.0, 1600)
    timed(race, "gru", 3, 60.0, 1600)
    data = ledger.make(race)
    assert [each["cell"] for each in data["done"]] == ["wmg"]
    missing = {each["cell"]: (each["there"], each["wanted"]) for each in data["missing"]}
    assert missing == {"gru": (3, 4), "cnn": (0, 4)}
    assert data["next"] is None
    assert [each["command"] for each in data["missing"]] == [
        "wmg reproduce race --cells gru --runs 4 --group-size 1 --groups 3",
        "wmg reproduce race --cells cnn --runs 4 --group-size 4 --groups 0",
    ]
    assert data["next_on_a_gpu"] == data["missing"][0]["command"]


def test_what_is_missing_is_asked_for_with_seeds_that_nobody_has(race):
    timed(race, "gru", 3, 60.0, 1600)
    (found,) = [each for each in ledger.make(race)["missing"] if each["cell"] == "gru"]
    assert found["command"].endswith("--runs 4 --group-size 1 --groups 3")
    assert found["minutes"] == (0.3, 1.0)  # three took a minute


def test_a_group_begins_after_the_last_seed_that_is_there(race):
    timed(race, "gru", 1, 60.0, 1600)
    (found,) = [each for each in ledger.make(race)["missing"] if each["cell"] == "gru"]
    assert found["command"].endswith("--runs 4 --group-size 1 --groups 1 2 3")


@pytest.mark.parametrize(
    "minutes, cost, fits, ending",
    [
        (20, (20.0, 20.0), True, "--runs 4 --group-size 2 --groups 1"),  # seeds 2 and 3
        (30, (30.0, 30.0), False, "--runs 4 --group-size 1 --groups 2"),
    ],
)
def test_only_what_is_missing_is_paid_for(race, minutes, cost, fits, ending):
    timed(race, "wmg", 2, 60.0 * minutes, 1600)
    found = ledger.entry("race", RACE, "wmg", race, speeds(9.0))
    assert (found.minutes, found.fits) == (cost, fits) and found.command.endswith(ending)


def test_missing_runs_are_priced_by_others_where_the_cell_was_not_timed(race):
    write_race(race, "wmg", 0, [1600.0] * 2, seed=0, about={"precision": "float32"})
    found = ledger.entry("race", RACE, "wmg", race, speeds(0.6, runs=4))  # 33 minutes for four
    assert found.there == 2 and found.minutes == (17.0, 33.0) and found.fits
    assert found.command.endswith("--runs 4 --group-size 1 --groups 2")


def test_the_next_group_goes_on_where_the_last_one_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "TARGETS", {"race": dataclasses.replace(RACE, runs=50)})
    timed(tmp_path, "wmg", 25, 60.0 * 15, 1600)
    (found,) = [each for each in ledger.make(tmp_path)["missing"] if each["cell"] == "wmg"]
    assert found["fits"] and found["command"].endswith("--runs 50 --group-size 25 --groups 1")


def test_runs_with_other_settings_or_fewer_steps_do_not_count(race):
    timed(race, "wmg", 4, 60.0, 1600, report_every=50)
    timed(race, "gru", 4, 60.0, 1600, steps=4000)
    missing = {
        each["cell"]: (each["there"], each["older"]) for each in ledger.make(race)["missing"]
    }
    assert missing["wmg"] == missing["gru"] == (0, 4)


def speeds(seconds, runs=50):
    size = ledger.parameters(SOLVE)
    return [Speed("wmg", size, seconds, 0.0, runs, 1), Speed("wmg", 9 * size, 9.0, 0.0, runs, 1)]


def test_a_cost_is_a_range_from_the_nearest_size():
    # Twice the paper's median is 3,200 steps, a tenth of a second each, and a minute to compile.
    assert ledger.minutes(SOLVE, 1.6, 100, speeds(0.1)) == pytest.approx(
        (320 / 60 + 1, 640 / 60 + 1), abs=0.05
    )
    unsolved = ledger.minutes(SOLVE, None, 50, speeds(0.1))
    assert unsolved == pytest.approx((800 / 60 + 1, 800 / 60 + 1), abs=0.05)
    assert ledger.minutes(SOLVE, 1.6, 100, []) is None


def test_runs_without_a_goal_are_not_charged_for_tests():
    tested = [dataclasses.replace(speed, testing=0.05) for speed in speeds(0.1)]
    curve = dataclasses.replace(SOLVE, goal=None, steps=600)
    assert ledger.minutes(curve, None, 50, tested) == pytest.approx((1.5, 1.5))


def test_what_takes_too_long_is_cut_into_groups(race):
    found = ledger.entry("race", RACE, "wmg", race, speeds(1.0, runs=1))  # 53 minutes, or 213
    assert found.minutes == pytest.approx((54.3, 214.3), abs=0.1) and not found.fits
    assert found.command.endswith("--runs 4 --group-size 1 --groups 0")
    quick = ledger.entry("race", RACE, "wmg", race, speeds(0.3, runs=1))
    assert quick.fits and quick.command.endswith("--group-size 2 --groups 0")


def test_the_ledger_is_printed_and_written_with_the_next_command(capsys, race):
    timed(race, "wmg", 4, 60.0, 1600)
    code, out, _ = tiny.command(capsys, "reproduce", "--ledger", "--out", race)
    assert code == 0 and out == (race / "ledger.md").read_text() + "\n"
    data = json.loads((race / "ledger.json").read_text())
    assert f"```\n{data['next_on_a_gpu']}\n# nothing\n```" in out


def test_every_cell_of_every_target_is_in_the_ledger(tmp_path):
    data = ledger.make(tmp_path)
    listed = [(each["target"], each["cell"]) for each in data["missing"]]
    every = [(name, cell) for name, target in TARGETS.items() for cell in target.cells]
    assert sorted(listed) == sorted(every) and data["done"] == []


def test_models_of_another_target_are_scored_with_their_training(tmp_path):
    data = ledger.make(tmp_path)
    (found,) = [e for e in data["missing"] if e["cell"] == "nr-wmg-as-trained"]
    assert found["command"] == "wmg reproduce pathfinding --cells nr-wmg"
    assert found["gpu"] and not found["fits"]


def test_size_does_not_depend_on_what_is_not_the_agent():
    longer = dataclasses.replace(SOLVE, steps=7, runs=3, seed=4, goal=config.Goal(0.5))
    assert ledger.parameters(longer) == ledger.parameters(SOLVE)
