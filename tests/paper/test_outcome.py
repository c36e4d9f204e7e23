"""What is pooled and what is not, and which series of a cell is judged."""

import json

import numpy as np
import pytest
from paper.made_up import RACE, TARGET, flat, write, write_race

from wmg import config
from wmg.paper import result_file
from wmg.paper.outcome import Outcome, crossings_on_grid, other_settings, pool
from wmg.play.goal_test import GoalTest
from wmg.tools.errors import BadInput


def test_groups_that_were_tested_at_other_steps_are_pooled_where_both_were(tmp_path):
    for group, steps in enumerate([[100, 700], [700]]):
        path = write(tmp_path, "wmg", group, [[0.5] * len(steps)] * 2, seed=2 * group)
        data = json.loads(path.read_text())
        scores = [[float(10 * group + run + s / 100) for s in steps] for run in range(2)]
        data |= {"steps": steps, "scores": scores, "scores_in_240_steps": scores}
        path.write_text(json.dumps(data))
    (pooled,) = pool("made-up", TARGET, tmp_path)["wmg"]
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


def test_results_of_another_precision_are_not_pooled(tmp_path):
    one = write_race(tmp_path, "wmg", 0, [1500.0], seed=0, about={"precision": "float32"})
    other = write_race(tmp_path, "wmg", 1, [1700.0], seed=1, about={"precision": "tf32"})
    with pytest.raises(BadInput) as refusal:
        pool("race", RACE, tmp_path)
    told = f"{other} has another precision than {one}, so they cannot be pooled"
    assert str(refusal.value) == told


def series(out, target=RACE, name="race"):
    return [(each.series, each.centre) for each in pool(name, target, out)["wmg"]]


def test_a_rerun_is_shown_after_the_first_whatever_it_came_to(tmp_path):
    later = {"started": "2026-11-18T10:00:00+00:00"}
    first = {"started": "2026-11-17T10:00:00+00:00"}
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0, series="again-01", about=later)
    write_race(tmp_path, "wmg", 0, [1900.0], seed=0, about=first)
    assert series(tmp_path) == [("", 1.9), ("again-01", 1.5)]


def test_the_series_with_the_targets_settings_is_judged_though_it_is_younger(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0, series="v0.1", report_every=50)
    write_race(tmp_path, "wmg", 0, [1900.0], seed=0, about={"started": "2026-11-18"})
    assert series(tmp_path) == [("", 1.9), ("v0.1", 1.5)]
    old = pool("race", RACE, tmp_path)["wmg"][1]
    assert other_settings(RACE.cells["wmg"], old.results[0]) == [("report_every", 50, 25)]


def test_a_full_series_is_judged_though_a_short_or_small_one_came_first(tmp_path):
    times = [{"started": f"2026-11-1{day}"} for day in (7, 8, 9)]
    write_race(tmp_path, "wmg", 0, [1.0e3] * 20, seed=0, steps=4000, about=times[0])
    write_race(tmp_path, "wmg", 0, [2.0e3] * 3, seed=0, series="again-01", about=times[1])
    write_race(tmp_path, "wmg", 0, [3.0e3] * 20, seed=0, series="again-02", about=times[2])
    assert series(tmp_path) == [("again-02", 3.0), ("again-01", 2.0), ("", 1.0)]


def test_two_series_may_hold_the_same_seeds_and_one_may_not(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0)
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0, series="again-01")
    assert len(series(tmp_path)) == 2
    write_race(tmp_path, "wmg", 1, [1500.0], seed=0, series="again-01")
    with pytest.raises(BadInput, match="both hold the run of seed 0"):
        series(tmp_path)


GRIDDED = config.Goal(0.9, 10, grids=(50, 100))
GOOD, BAD = (9, 10), (3, 5)


def walked(*passed, until):
    """Tests every 25 steps, passed at some steps; after the first, on the goal's grids alone."""
    first = min(passed, default=until)
    steps = [s for s in range(25, until + 1, 25) if s <= first or s % 50 == 0]
    return [GoalTest(s, *(GOOD if s in passed else BAD)) for s in steps]


def by_brute_force(tests, grid):
    """Walk along the grid until a test passes; interpolate from the test before."""
    found = {test.steps: test for test in tests}
    before, rate = 0, 0.0
    for steps in range(grid, 1000, grid):
        if steps not in found:
            return None
        test = found[steps]
        now = test.solved / test.episodes
        if (test.solved, test.episodes) == GOOD:
            return before + grid * (0.9 - rate) / (now - rate)
        before, rate = steps, now
    return None


def write_gridded(out, runs, **changes):
    about = {"tests": result_file.pack_tests(runs), "precision": "float32"}
    goal = config.to_dict(GRIDDED)
    crossings = [by_brute_force(tests, 25) for tests in runs]
    return write_race(out, "wmg", 0, crossings, seed=0, about=about, goal=goal, **changes)


RUNS = [
    walked(75, 100, until=100),
    walked(50, 200, until=200),  # passes at 50, fails at 100: needs 200 on the coarsest grid
    walked(25, 50, 100, until=100),
    walked(until=400),
]


@pytest.mark.parametrize("grid", [25, 50, 100])
def test_regridding_equals_walking_along_the_grid(tmp_path, grid):
    result = result_file.read(write_gridded(tmp_path, RUNS))
    found = crossings_on_grid(result, grid)
    assert found == [by_brute_force(tests, grid) for tests in RUNS]
    (pooled,) = pool("race", RACE, tmp_path, grid)["wmg"]
    expected = [np.inf if x is None else x / 1000 for x in found]
    assert pooled.regridded and pooled.values.tolist() == pytest.approx(expected)
    assert pooled.test_every == grid


def test_with_fewer_tests_runs_are_found_to_need_more_steps():
    expected = {25: [75.0, 50.0, 25.0], 50: [100.0, 50.0, 50.0], 100: [100.0, 200.0, 100.0]}
    for grid, steps in expected.items():
        assert [by_brute_force(tests, grid) for tests in RUNS[:3]] == pytest.approx(steps)


@pytest.mark.parametrize("grid", [75, 30, 200])
def test_a_grid_that_runs_were_not_tested_on_to_the_end_is_refused(tmp_path, grid):
    """Not a multiple of 25; or on a multiple of it, a run ended before it passed a test there."""
    write_gridded(tmp_path, RUNS)
    (pooled,) = pool("race", RACE, tmp_path, grid)["wmg"]
    assert not pooled.regridded and len(pooled.values) == 0


def test_results_without_tests_cannot_be_regridded(tmp_path):
    write_race(tmp_path, "wmg", 0, [1500.0], seed=0)
    (pooled,) = pool("race", RACE, tmp_path, 50)["wmg"]
    assert not pooled.regridded
    (as_tested,) = pool("race", RACE, tmp_path, 25)["wmg"]
    assert as_tested.regridded and as_tested.centre == 1.5


def outcome(*values, **about):
    return Outcome(np.array(values, float), None, [{}], about.pop("steps", None), **about)


def test_an_interval_is_of_the_mean_of_the_median_or_of_one_measured_value():
    low, high = outcome(*range(100), steps=1).interval
    assert low == pytest.approx(49.5 - 1.96 * 2.9, abs=0.5) and low + high == pytest.approx(
        99, 0.02
    )
    assert outcome(*[5.0] * 30, *[9.0] * 10, censored=True, steps=1).interval == (5, 5)
    assert outcome(80.0, error=0.5).interval == pytest.approx((79.02, 80.98))
    assert outcome(80.0).interval == (80, 80)
    assert outcome(80.0, steps=1).interval == (-np.inf, np.inf)
