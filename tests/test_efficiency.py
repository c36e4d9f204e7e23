"""Tests of a goal against the same tests played one episode after the other."""

import itertools
import json
import math

import jax
import numpy as np
import pytest
from probes import Errand, Skilled
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import efficiency, runlog
from wmg.config import Goal
from wmg.efficiency import Stretch, Trial, Trials
from wmg.evaluate import FAILED, SOLVED, UNPLAYED

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
    assert efficiency.spare(goal) == spare


def test_the_paper_allows_a_hundred_failures_and_not_one_more():
    assert Trial(1000, 9_900, 10_000).meets(PAPER)
    assert not Trial(1000, 9_899, 10_000).meets(PAPER)


def test_a_test_that_was_cut_short_is_not_passed():
    assert not Trial(1000, 9_000, 9_000).meets(PAPER)


def test_a_test_that_fails_has_a_lower_rate_than_any_that_passes():
    many = itertools.product([*range(1, 13), 400], (0.01, 0.3, 1 / 3, 0.5, 0.9, 0.99, 1.0))
    for episodes, success in many:
        goal = Goal(success, episodes)
        spare, allowed = efficiency.spare(goal), efficiency.allowed_failures(goal).tolist()
        ends = [(n - most - 1, n) for n, most in enumerate(allowed) if n > most]  # one too many
        failed = [Trial(0, *end) for end in ends]
        passed = [Trial(0, n, episodes) for n in range(episodes - spare, episodes + 1)]
        assert all(t.meets(goal) for t in passed) and not any(t.meets(goal) for t in failed)
        worst = min(t.rate for t in passed)
        assert worst > max(t.rate for t in failed) and worst > 0
        assert worst > success - 1e-9


def test_no_more_failures_are_allowed_than_an_agent_at_the_goal_would_have():
    allowed = efficiency.allowed_failures(PAPER)
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
    allowed = efficiency.allowed_failures(PAPER)
    within_reach = np.minimum(np.arange(len(allowed)), 100)
    lost = chance_to_pass(within_reach) - chance_to_pass(allowed)
    assert 2.5e-3 < lost < 3.5e-3


def test_a_goal_that_leaves_no_failure_allows_none():
    assert not efficiency.allowed_failures(Goal(1.0, 100)).any()


def test_failures_that_are_likely_at_the_goal_are_allowed():
    allowed = efficiency.allowed_failures(Goal(0.01, 1000))
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
    assert efficiency.tally(outcomes(text), np.full(9, spare)) == counts


def test_a_test_ends_early_where_that_many_episodes_allow_fewer():
    allowed = np.array([0, 1, 1, 2, 9, 9])
    assert efficiency.tally(outcomes("xx..."), allowed) == (0, 2)
    assert efficiency.tally(outcomes("xoxx."), allowed) == (1, 4)


def test_a_crossing_is_interpolated_as_the_authors_do():
    tests = [Trial(1000, 500, 601), Trial(2000, 1900, 2001), Trial(3000, 9950, 10_000)]
    before, now = 1900 / 2001, 0.995
    expected = 2000 + 1000 * (0.99 - before) / (now - before)
    assert efficiency.crossing(tests, PAPER) == pytest.approx(expected)
    assert 2000 < expected < 3000


def test_a_goal_that_is_just_met_is_crossed_at_the_test():
    tests = [Trial(1000, 0, 101), Trial(2000, 9900, 10_000)]
    assert efficiency.crossing(tests, PAPER) == pytest.approx(2000)


def test_before_the_first_test_there_are_no_steps_and_no_success():
    assert efficiency.crossing([Trial(25, 10_000, 10_000)], PAPER) == pytest.approx(25 * 0.99)


def test_a_first_test_that_is_passed_is_interpolated_from_the_start():
    tests = [Trial(500, 10_000, 10_000)]
    assert efficiency.crossing(tests, PAPER) == pytest.approx(495)
    assert efficiency.crossing(tests, PAPER, start=400) == pytest.approx(499)


def test_without_a_test_that_is_passed_there_is_no_crossing():
    assert efficiency.crossing([], PAPER) is None
    assert efficiency.crossing([Trial(25, 9_898, 9_999)], PAPER) is None


def test_a_log_tells_of_the_tests():
    tests = [Trial(25, 3, 104), Trial(50, 9_900, 10_000)]
    lines = [{"steps": t.steps, **efficiency.log_entry(t)} for t in tests]
    lines.append({"steps": 70, **efficiency.log_entry(None)})  # it diverged
    read = [json.loads(runlog.encode(line)) for line in lines]
    assert efficiency.read_trials(read) == tests
    assert read[1]["score"] == 99.0 and read[2]["score"] is None
    assert math.isnan(efficiency.log_entry(None)["score"])


GOAL = Goal(0.9, 150)  # 15 may fail: a first stretch of 64 and a second of 86
ALLOWED = efficiency.allowed_failures(GOAL)
SKILLS = np.array([0.97, 0.1, 0.92, 0.86, 1.0, 0.9, 0.0], np.float32)
KEYS = efficiency.trial_keys(np.arange(10, 17), 3)


@jax.jit
def how_hard(key):
    """The errands of a stretch."""
    start = jax.random.split(jax.random.wrap_key_data(key))[0]
    each = jax.vmap(jax.random.fold_in, (None, 0))(start, np.arange(86))
    return jax.vmap(jax.random.uniform)(each)


def plainly(skill, keys, lengths=(64, 86)):
    """The same test, one episode after the other."""
    solved = failed = 0
    errands = [
        np.asarray(how_hard(key))[:length] for key, length in zip(keys, lengths, strict=False)
    ]
    for hard in np.concatenate(errands):
        solved, failed = solved + (hard < skill), failed + (hard >= skill)
        if failed > ALLOWED[solved + failed]:
            break
    return solved, solved + failed


@pytest.fixture(scope="module")
def expected():
    """What each agent does: some pass, some fail in either stretch."""
    found = [plainly(*one) for one in zip(SKILLS, KEYS, strict=True)]
    played = [episodes for _, episodes in found]
    assert min(played) < 64 < sorted(played)[3] < 150 == max(played)
    return found


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def trials(request):
    """Tests as on a CPU, agent by agent, and as on an accelerator, batched."""
    return Trials(Errand(), GOAL, request.param)


@pytest.fixture
def calls(trials, monkeypatch):
    """The rows and the failures to spare that each stretch is asked for."""
    made = []

    def counted(number, play):
        def call(agents, rows, keys, spare):
            made.append((number, rows.tolist(), spare.tolist()))
            return play(agents, rows, keys, spare)

        return call

    wrapped = [counted(*one) for one in enumerate(trials.play)]
    monkeypatch.setattr(trials, "play", wrapped)
    return made


def test_tests_together_end_as_one_episode_after_the_other(trials, expected):
    assert trials(Skilled(SKILLS), np.arange(7), KEYS) == expected


def test_any_rows_in_any_groups_end_the_same(trials, expected, monkeypatch):
    pairs = [stretch._replace(runs=2) for stretch in trials.stretches]
    monkeypatch.setattr(trials, "stretches", pairs)
    rows = np.array([4, 5, 0, 2, 3])
    assert trials(Skilled(SKILLS), rows, KEYS[rows]) == [expected[row] for row in rows]


def test_an_agent_alone_ends_as_among_others(trials, expected):
    for row in (1, 3, 4):
        alone = Skilled(SKILLS[row : row + 1])
        assert trials(alone, np.array([0]), KEYS[row : row + 1]) == [expected[row]]
        assert trials(Skilled(SKILLS), np.array([row]), KEYS[row : row + 1]) == [expected[row]]


def test_only_agents_that_can_still_pass_play_the_second_stretch(trials, expected, calls):
    assert trials(Skilled(SKILLS), np.arange(7), KEYS) == expected
    assert calls[0] == (0, list(range(7)), [ALLOWED[:65].tolist()] * 7)
    played = [row for row, (_, episodes) in enumerate(expected) if episodes > 64]
    assert 0 < len(played) < 7 and len(calls) == 2
    number, rows, spare = calls[1]
    assert number == 1 and sorted(set(rows)) == played
    for row, left in zip(rows, spare, strict=True):
        failed = (np.asarray(how_hard(KEYS[row][0]))[:64] >= SKILLS[row]).sum()
        assert left == (ALLOWED[64:] - failed).tolist()


def test_agents_that_have_learned_nothing_play_the_first_stretch_alone(trials, calls):
    nothing = Skilled(np.zeros(7, np.float32))
    assert trials(nothing, np.arange(7), KEYS) == [(0, 16)] * 7
    assert [number for number, _, _ in calls] == [0]


THREE = (Stretch(64, 64, 1000), Stretch(50, 16, 4), Stretch(1000, 20, 2))


def test_in_three_stretches_tests_end_as_one_episode_after_the_other(monkeypatch):
    monkeypatch.setattr(efficiency, "TOGETHER", THREE)
    trials = Trials(Errand(), GOAL, "gpu")
    assert [stretch.episodes for stretch in trials.stretches] == [64, 50, 36]
    skills = np.array([0.97, 0.1, 0.8, 0.84, 1.0, 0.88, 0.85], np.float32)
    found = trials(Skilled(skills), np.arange(7), KEYS)
    assert found == [plainly(*one, (64, 50, 36)) for one in zip(skills, KEYS, strict=True)]
    played = [episodes for _, episodes in found]
    assert any(64 < n <= 114 for n in played) and any(114 < n < 150 for n in played)


def test_stretches_follow_each_other_in_groups_of_their_own_size(monkeypatch):
    monkeypatch.setattr(efficiency, "TOGETHER", THREE)
    trials = Trials(Errand(), Goal(0.9, 1000), "gpu")
    asked = []

    def solve_all(agents, rows, keys, allowed):
        asked.append((len(rows), allowed[0].tolist()))
        return np.full((len(rows), allowed.shape[1] - 1), SOLVED)

    monkeypatch.setattr(trials, "play", [solve_all] * 3)
    assert trials(Skilled(SKILLS), np.arange(7), KEYS) == [(1000, 1000)] * 7
    parts = [trials.allowed[first : last + 1].tolist() for first, last in ((0, 64), (64, 114))]
    last = trials.allowed[114:].tolist()
    assert asked == [(7, parts[0]), *[(4, parts[1])] * 2, *[(2, last)] * 4]
    assert parts[1][0] < parts[1][-1] < last[-1]


def test_together_is_always_the_same_number_whatever_is_left(expected, monkeypatch, caplog):
    monkeypatch.setattr(efficiency, "TOGETHER", (THREE[0], Stretch(1000, 20, 2), THREE[2]))
    trials = Trials(Errand(), GOAL, "gpu")
    everyone, keys = Skilled(SKILLS), efficiency.trial_keys(np.arange(10, 17), 3)
    trials(everyone, np.arange(7), keys)
    with jax.log_compiles():
        caplog.clear()
        for rows in ([4], [0, 4, 2], [6], [0, 1, 2, 3, 4, 5]):
            keys = efficiency.trial_keys(np.arange(10, 17), 3)[rows]
            assert trials(everyone, np.array(rows), keys) == [expected[row] for row in rows]
    assert [r.getMessage() for r in caplog.records if "ompil" in r.getMessage()] == []


def test_a_short_test_has_one_stretch():
    trials = Trials(Errand(), Goal(0.5, 10), "cpu")
    assert trials.stretches == [Stretch(10, 10, 1)]
    keys = efficiency.trial_keys(np.arange(2), 1)
    assert trials(Skilled(np.array([1.0, 0.0], np.float32)), np.arange(2), keys) == [
        (10, 10),
        (0, 6),
    ]


def test_keys_depend_on_seed_and_report_alone_and_are_all_different():
    many = efficiency.trial_keys(np.arange(5, 9), 2)
    np.testing.assert_array_equal(many[2], efficiency.trial_keys(np.array([7]), 2)[0])
    both = np.concatenate([many, efficiency.trial_keys(np.arange(5, 9), 3)])
    assert len({key.tobytes() for test in both for key in test}) == 24
