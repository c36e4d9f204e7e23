"""Tests of a goal against the same tests played one episode after the other."""

import itertools
import json
import math

import jax
import numpy as np
import pytest
import tiny
from probes import Errand, Skilled
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.config import Goal
from wmg.play import goal_test
from wmg.play.evaluate import FAILED, SOLVED, UNPLAYED
from wmg.play.goal_test import GoalTest
from wmg.play.streams import goal_keys
from wmg.runs import runlog

PAPER = Goal()


@pytest.mark.parametrize(
    ("goal", "spare"),
    [
        (PAPER, 100),
        (Goal(0.99, 1000), 10),
        (Goal(0.99, 150), 1),  # 148.5 are needed, so 149
        (Goal(0.99, 50), 0),
        (Goal(1.0, 10_000), 0),
        (Goal(0.07, 100), 93),  # 0.07 * 100 is more than 7 in floating point
        (Goal(0.29, 100), 71),  # and 0.29 * 100 is less than 29
        (Goal(1e-12, 10), 9),
        (Goal(0.5, 1), 0),
    ],
)
def test_as_many_episodes_may_fail_as_the_goal_leaves(goal, spare):
    assert goal_test.spare(goal) == spare


def test_the_paper_allows_a_hundred_failures_and_not_one_more():
    assert GoalTest(1000, 9_900, 10_000).meets(PAPER)
    assert not GoalTest(1000, 9_899, 10_000).meets(PAPER)


def test_a_test_that_was_cut_short_is_not_passed():
    assert not GoalTest(1000, 9_000, 9_000).meets(PAPER)


def test_a_test_that_fails_has_a_lower_rate_than_any_that_passes():
    many = itertools.product([*range(1, 13), 400], (0.01, 0.3, 1 / 3, 0.5, 0.9, 0.99, 1.0))
    for episodes, success in many:
        goal = Goal(success, episodes)
        spare, allowed = goal_test.spare(goal), goal_test.allowed_failures(goal).tolist()
        ends = [(n - most - 1, n) for n, most in enumerate(allowed) if n > most]  # one too many
        failed = [GoalTest(0, *end) for end in ends]
        passed = [GoalTest(0, n, episodes) for n in range(episodes - spare, episodes + 1)]
        assert all(t.meets(goal) for t in passed) and not any(t.meets(goal) for t in failed)
        worst = min(t.rate for t in passed)
        assert worst > max(t.rate for t in failed) and worst > 0
        assert worst > success - 1e-9


def test_no_more_failures_are_allowed_than_an_agent_at_the_goal_would_have():
    allowed = goal_test.allowed_failures(PAPER)
    assert len(allowed) == 10_001 and allowed[-1] == allowed.max() == 100
    assert (np.diff(allowed[64:]) >= 0).all()
    assert allowed[[5, 63, 64, 1000, 4000]].tolist() == [5, 63, 4, 20, 60]


def chance_to_pass(allowed, failing=0.01):
    """By the exact distribution: that never more episodes fail than are allowed."""
    chances = np.zeros(allowed.max() + 2)  # of each number of failures so far
    chances[0] = 1.0
    for most in allowed[1:]:
        chances = (1 - failing) * chances + failing * np.append(0.0, chances[:-1])
        chances[most + 1 :] = 0.0
    return chances.sum()


def test_an_agent_at_the_goal_is_hardly_ever_stopped_where_it_would_have_passed():
    allowed = goal_test.allowed_failures(PAPER)
    within_reach = np.minimum(np.arange(len(allowed)), 100)
    lost = chance_to_pass(within_reach) - chance_to_pass(allowed)
    assert 2.5e-3 < lost < 3.5e-3


def test_a_goal_that_leaves_no_failure_allows_none():
    assert not goal_test.allowed_failures(Goal(1.0, 100)).any()


def test_failures_that_are_likely_at_the_goal_are_allowed():
    allowed = goal_test.allowed_failures(Goal(0.01, 1000))
    assert allowed[64] == 64 and allowed[-1] == 990


def outcomes(text):
    return np.array([{"x": FAILED, "o": SOLVED, ".": UNPLAYED}[c] for c in text])


@pytest.mark.parametrize(
    ("text", "spare", "counts"),
    [
        ("oooo", 0, (4, 4)),
        ("ooxo", 1, (3, 4)),
        ("ooxo", 0, (2, 3)),
        ("xxoxo...", 2, (1, 4)),  # what was in progress beside the third failure is not counted
        ("xxox....", 2, (1, 4)),
        ("xoo", 3, (2, 3)),
        ("x", 0, (0, 1)),
    ],
)
def test_episodes_are_counted_up_to_the_failure_that_is_one_too_many(text, spare, counts):
    assert goal_test.tally(outcomes(text), np.full(9, spare)) == counts


def test_a_test_ends_early_where_that_many_episodes_allow_fewer():
    allowed = np.array([0, 1, 1, 2, 9, 9])
    assert goal_test.tally(outcomes("xx..."), allowed) == (0, 2)
    assert goal_test.tally(outcomes("xoxx."), allowed) == (1, 4)


def test_a_crossing_is_interpolated_as_the_authors_do():
    tests = [GoalTest(1000, 500, 601), GoalTest(2000, 1900, 2001), GoalTest(3000, 9950, 10_000)]
    before, now = 1900 / 2001, 0.995
    expected = 2000 + 1000 * (0.99 - before) / (now - before)
    assert goal_test.crossing(tests, PAPER) == pytest.approx(expected)
    assert 2000 < expected < 3000


def test_a_goal_that_is_just_met_is_crossed_at_the_test():
    tests = [GoalTest(1000, 0, 101), GoalTest(2000, 9900, 10_000)]
    assert goal_test.crossing(tests, PAPER) == pytest.approx(2000)


def test_before_the_first_test_there_are_no_steps_and_no_success():
    assert goal_test.crossing([GoalTest(25, 10_000, 10_000)], PAPER) == pytest.approx(25 * 0.99)


def test_a_first_test_that_is_passed_is_interpolated_from_the_start():
    tests = [GoalTest(500, 10_000, 10_000)]
    assert goal_test.crossing(tests, PAPER) == pytest.approx(495)
    assert goal_test.crossing(tests, PAPER, start=400) == pytest.approx(499)


def test_without_a_test_that_is_passed_there_is_no_crossing():
    assert goal_test.crossing([], PAPER) is None
    assert goal_test.crossing([GoalTest(25, 9_898, 9_999)], PAPER) is None


def test_a_log_tells_of_the_tests():
    tests = [GoalTest(25, 3, 104), GoalTest(50, 9_900, 10_000)]
    lines = [{"steps": t.steps, **goal_test.log_entry(t)} for t in tests]
    lines.append({"steps": 70, **goal_test.log_entry(None)})  # it diverged
    read = [json.loads(runlog.encode(line)) for line in lines]
    assert goal_test.read_tests(read) == tests
    assert read[1]["score"] == 99.0 and read[2]["score"] is None
    assert math.isnan(goal_test.log_entry(None)["score"])


GOAL = Goal(0.9, 150)  # 15 may fail: on a CPU a first block of 64 and a second of 86
ALLOWED = goal_test.allowed_failures(GOAL)
SKILLS = np.array([0.97, 0.1, 0.82, 0.86, 1.0, 0.84, 0.0], np.float32)
KEYS = goal_keys(np.arange(10, 17), 3, 3)
MANY = 100  # runs: more than blocks that are played at once


@jax.jit
def how_hard(key):
    """The errands of a block."""
    start = jax.random.split(jax.random.wrap_key_data(key))[0]
    each = jax.vmap(jax.random.fold_in, (None, 0))(start, np.arange(150))
    return jax.vmap(jax.random.uniform)(each)


def plainly(skill, keys, lengths):
    """The same test, one episode after the other."""
    solved = failed = 0
    errands = [
        np.asarray(how_hard(key))[:length] for key, length in zip(keys, lengths, strict=False)
    ]
    for hard in np.concatenate(errands)[:150]:
        solved, failed = solved + (hard < skill), failed + (hard >= skill)
        if failed > ALLOWED[solved + failed]:
            break
    return solved, solved + failed


def expected(tester, skills=SKILLS):
    """What each agent does: some pass, some fail early and some late."""
    found = [plainly(*one, tester.blocks) for one in zip(skills, KEYS, strict=True)]
    played = [episodes for _, episodes in found]
    assert min(played) < 64 and any(64 < n < 150 for n in played) and max(played) == 150
    return found


@pytest.fixture(scope="module", params=["cpu", "gpu", "gpu, in three blocks"])
def tester(request):
    """Tests as on a CPU, agent by agent, and as on an accelerator, some blocks at a time."""
    backend, *more = request.param.split(",")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goal_test, "BLOCK", 60 if more else 500)
        return tiny.goal_tester(Errand(), GOAL, MANY, backend=backend)


@pytest.fixture(params=[50, 3])
def parts(request, monkeypatch):
    """How many blocks are one program, where they are."""
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", request.param)
    return request.param


@pytest.fixture
def calls(tester, monkeypatch):
    """The rows, keys and failures to spare that are asked for."""
    made, play = [], tester.play

    def counted(agents, rows, keys, spare):
        made.append((rows.tolist(), keys.tolist(), spare.tolist()))
        return play(agents, rows, keys, spare)

    monkeypatch.setattr(tester, "play", counted)
    return made


def test_blocks_are_few_on_a_cpu_and_alike_on_an_accelerator(tester, request):
    backend = request.node.callspec.params["tester"]
    alike = [50] * 3 if "three" in backend else [150]
    assert tester.blocks == ([64, 86] if backend == "cpu" else alike)


def test_tests_together_end_as_one_episode_after_the_other(tester, parts):
    assert tester(Skilled(SKILLS), np.arange(7), KEYS) == expected(tester)


def test_any_rows_end_the_same(tester, parts):
    rows = np.array([4, 5, 0, 2, 3])
    found, everyone = tester(Skilled(SKILLS), rows, KEYS[rows]), expected(tester)
    assert found == [everyone[row] for row in rows]


def test_an_agent_alone_ends_as_among_others(tester, parts):
    for row in (1, 3, 4):
        alone, keys = Skilled(SKILLS[row : row + 1]), KEYS[row : row + 1]
        assert tester(alone, np.array([0]), keys) == [expected(tester)[row]]
        assert tester(Skilled(SKILLS), np.array([row]), keys) == [expected(tester)[row]]


def test_only_agents_that_can_still_pass_play_on(tester, calls, monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", 7)
    first, keys, whole = tester.blocks[0], KEYS[:, 0].tolist(), expected(tester)
    assert tester(Skilled(SKILLS), np.arange(7), KEYS) == whole
    assert calls[0] == (list(range(7)), keys, [ALLOWED[: first + 1].tolist()] * 7)
    going = [row for row, (_, episodes) in enumerate(whole) if episodes > first]
    if first == 150:
        assert len(calls) == 1
        return
    rows, keys, spare = calls[1]
    assert 0 < len(going) < 7 and rows[: len(going)] == going
    for row, key, left in zip(going, keys, spare, strict=False):
        failed = (np.asarray(how_hard(KEYS[row][0]))[:first] >= SKILLS[row]).sum()
        second = ALLOWED[first : first + tester.blocks[1] + 1]
        assert key == KEYS[row][1].tolist() and left == (second - failed).tolist()


def test_agents_that_have_learned_nothing_play_one_block_alone(tester, calls, monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", 7)
    nothing = Skilled(np.zeros(7, np.float32))
    assert tester(nothing, np.arange(7), KEYS) == [(0, 16)] * 7
    assert len(calls) == 1


def test_where_few_tests_go_on_further_blocks_of_them_are_played_in_advance(monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCK", 50)
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", 5)
    tester, asked = tiny.goal_tester(Errand(), GOAL, MANY, backend="gpu"), []

    def solve_all(agents, rows, keys, allowed):
        numbers = [
            KEYS[:2].tolist()[int(row == 6)].index(key)
            for row, key in zip(rows, keys.tolist(), strict=True)
        ]
        asked.append((rows.tolist(), numbers))
        return np.full((len(rows), allowed.shape[1] - 1), SOLVED)

    monkeypatch.setattr(tester, "play", solve_all)
    assert tester(Skilled(SKILLS), np.array([3, 6]), KEYS[:2]) == [(150, 150)] * 2
    assert asked == [([3, 6, 3, 6, 3], [0, 0, 1, 1, 2]), ([6] * 5, [2] * 5)]


@pytest.mark.parametrize(
    ("first", "further", "ends"),
    [
        ("x" * 16 + "." * 34, "o" * 50, (0, 16)),  # what was played in advance counts for nothing
        ("x" * 10 + "o" * 40, "x" * 10 + "o" * 40, (40, 56)),
        ("x" * 15 + "o" * 35, "o" * 50, (49, 64)),  # 15 may fail of 50, and 14 of 64
        ("x" * 5 + "o" * 45, "x" * 5 + "o" * 45, (135, 150)),
    ],
)
@pytest.mark.parametrize("parts", [1, 2, 56])
def test_a_test_ends_where_it_does_in_order(first, further, ends, parts, monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCK", 50)
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", parts)
    tester, begins = tiny.goal_tester(Errand(), GOAL, MANY, backend="gpu"), KEYS[0, 0].tolist()

    def play(agents, rows, keys, allowed):
        return [outcomes(first if key == begins else further) for key in keys.tolist()]

    monkeypatch.setattr(tester, "play", play)
    assert tester(Skilled(SKILLS), np.array([0]), KEYS[:1]) == [ends]


def test_episodes_beyond_the_last_do_not_count(monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCK", 100)
    goal = Goal(0.9, 298)
    tester = tiny.goal_tester(Errand(), goal, MANY, backend="gpu")
    assert tester.blocks == [100] * 3
    asked = []

    def play(agents, rows, keys, allowed):
        asked.append(allowed)
        return [outcomes("o" * 98 + "xx")] * len(rows)

    monkeypatch.setattr(tester, "play", play)
    assert tester(Skilled(SKILLS), np.array([0]), KEYS[:1]) == [(294, 298)]
    allowed = goal_test.allowed_failures(goal).tolist()
    assert asked[0][2].tolist() == [*allowed[200:], *allowed[-1:] * 2]


def test_the_program_is_the_same_whatever_is_left(monkeypatch, caplog):
    monkeypatch.setattr(goal_test, "BLOCK", 60)
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", 4)
    tester = tiny.goal_tester(Errand(), GOAL, MANY, backend="gpu")
    everyone, whole = Skilled(SKILLS), expected(tester)
    tester(everyone, np.arange(7), KEYS)
    with jax.log_compiles():
        caplog.clear()
        for rows in ([4], [0, 4, 2], [6], [0, 1, 2, 3, 4, 5]):
            assert tester(everyone, np.array(rows), KEYS[rows]) == [whole[row] for row in rows]
        assert [r.getMessage() for r in caplog.records if "ompil" in r.getMessage()] == []
        # From a smaller batch agents are taken by another program, and tested by the same one.
        assert tester(Skilled(SKILLS[:2]), np.arange(2), KEYS[:2]) == whole[:2]
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA" in r.getMessage()]
    assert len(compiled) == 1 and "take_rows" in compiled[0]


@pytest.mark.parametrize(("runs", "parts"), [(1, 3), (5, 5), (7, 6), (100, 6)])
def test_few_runs_play_as_many_blocks_as_they_are_or_a_test_has(runs, parts, monkeypatch):
    monkeypatch.setattr(goal_test, "BLOCK", 50)
    monkeypatch.setattr(goal_test, "BLOCKS_PER_CALL", 6)
    tester, asked = tiny.goal_tester(Errand(), GOAL, runs, backend="gpu"), []

    def fail_all(agents, rows, keys, allowed):
        asked.append(len(rows))
        return np.full((len(rows), allowed.shape[1] - 1), FAILED)

    monkeypatch.setattr(tester, "play", fail_all)
    count = min(runs, 7)
    assert tester(Skilled(SKILLS), np.arange(count), KEYS[:count]) == [(0, 16)] * count
    assert set(asked) == {parts}


def test_a_short_test_has_one_block():
    for backend in ("cpu", "gpu"):
        tester = tiny.goal_tester(Errand(), Goal(0.5, 10), MANY, backend=backend)
        assert tester.blocks == [10]
        keys = goal_keys(np.arange(2), 1, 1)
        one_of_two = Skilled(np.array([1.0, 0.0], np.float32))
        assert tester(one_of_two, np.arange(2), keys) == [(10, 10), (0, 6)]


def test_keys_depend_on_seed_and_report_alone_and_are_all_different():
    many = goal_keys(np.arange(5, 9), 2, 3)
    np.testing.assert_array_equal(many[2], goal_keys(np.array([7]), 2, 3)[0])
    both = np.concatenate([many, goal_keys(np.arange(5, 9), 3, 3)])
    assert len({key.tobytes() for test in both for key in test}) == 24


GRIDDED = Goal(0.9, 10, grids=(50, 100))
PASS, FAIL = (9, 10), (3, 5)


def test_a_crossing_is_at_the_first_passed_test_whatever_follows():
    tests = [GoalTest(25, *FAIL), GoalTest(50, *PASS), GoalTest(100, *FAIL), GoalTest(200, *PASS)]
    assert goal_test.crossing(tests, GRIDDED) == pytest.approx(50)


@pytest.mark.parametrize(
    ("passed", "left"),
    [((), {25, 50, 100}), ((75,), {50, 100}), ((50,), {100}), ((75, 100), set()), ((107,), set())],
)
def test_grids_are_unmet_until_a_test_on_them_is_passed(passed, left):
    tests = [GoalTest(25, *FAIL), *(GoalTest(steps, *PASS) for steps in passed)]
    assert goal_test.unmet(tests, GRIDDED, 25) == left


def test_a_test_belongs_to_the_report_its_window_ended_after():
    assert GoalTest(107, *PASS).is_on(100, 25) and not GoalTest(99, *PASS).is_on(100, 25)


def test_on_another_grid_than_the_goals_a_run_that_was_not_tested_to_the_end_is_unknown():
    tests = [GoalTest(25, *FAIL), GoalTest(50, *FAIL), GoalTest(75, *PASS), GoalTest(100, *PASS)]
    assert goal_test.crossing_on_grid(tests, GRIDDED, 25, 75) == pytest.approx(75 * 0.9 / 0.9)
    assert math.isnan(goal_test.crossing_on_grid(tests, GRIDDED, 25, 200))
    late = [*tests[:3], GoalTest(100, *FAIL), GoalTest(150, *PASS), GoalTest(200, *PASS)]
    late[2] = GoalTest(75, *PASS)
    assert goal_test.crossing_on_grid(late, GRIDDED, 25, 100) == pytest.approx(200)
    gap = [GoalTest(50, *PASS), GoalTest(100, *FAIL), GoalTest(200, *PASS), GoalTest(250, *PASS)]
    assert math.isnan(goal_test.crossing_on_grid(gap, GRIDDED, 25, 125))


def test_a_run_that_never_passes_is_censored_on_every_grid():
    tests = [GoalTest(steps, *FAIL) for steps in range(25, 401, 25)]
    assert {goal_test.crossing_on_grid(tests, GRIDDED, 25, g) for g in (25, 50, 75, 400)} == {None}
