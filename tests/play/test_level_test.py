"""Whole banks, played by agents whose every step is known."""

import dataclasses
import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Int
from tiny import time_limit

from wmg import registry
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.play import evaluate, level_test
from wmg.play.evaluate import Episodes
from wmg.play.streams import try_key
from wmg.tools.errors import BadInput
from wmg.types import Agent, Output

LEVELS = """\
; one step to the right
#######
#@$.  #
#######

; two steps to the right
#######
#@$ . #
#######

; to the left
#######
#.$@  #
#######
"""
LEFT, RIGHT = 3, 4


class Follower(Agent):
    """Stays for so many steps, then goes right, or, if it wavers, as likely left."""

    patience: Int[Array, ""]
    wavers: Bool[Array, ""]

    def initial_memory(self):
        return jnp.int32(0)

    def __call__(self, observation, memory):
        right = jnp.zeros(5).at[RIGHT].set(50.0).at[LEFT].set(50.0 * self.wavers)
        waits = memory < self.patience
        logits = jnp.where(waits, jnp.zeros(5).at[0].set(50.0), right)
        return Output(logits, jnp.float32(0), memory + 1)


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "levels.txt"
    path.write_text(LEVELS)
    return SokobanSettings(levels=str(path), bound=7, max_steps=2).pinned()


def play(settings, patience=0, wavers=False, **options):
    agent = Follower(jnp.int32(patience), jnp.array(wavers))
    return level_test.play_levels(registry.make_env(settings), agent, **options)


def test_each_level_is_played_once_and_in_order(settings):
    played = play(settings)
    np.testing.assert_array_equal(played.success, [True, True, False])
    np.testing.assert_array_equal(played.length, [1, 2, 2])
    np.testing.assert_array_equal(played.reward, [3.0, 3.0, 0.0])


def test_so_many_levels_are_the_first(settings):
    np.testing.assert_array_equal(play(settings, count=2).success, [True, True])
    for count in (0, 4):
        with pytest.raises(BadInput, match=f"episodes must be from 1 to 3, .* got {count}"):
            play(settings, count=count)


def test_thinking_steps_are_beyond_the_limit(settings):
    assert not play(settings, patience=3).success.any()
    thought = play(settings, patience=3, thinking=3)
    np.testing.assert_array_equal(thought.success, [True, True, False])
    np.testing.assert_array_equal(thought.length, [1, 2, 2])
    one_step = dataclasses.replace(settings, max_steps=1)
    thought = play(one_step, patience=2, thinking=2)
    np.testing.assert_array_equal(thought.success, [True, False, False])
    with pytest.raises(BadInput, match="thinking must be from 0 to 10,000, got -1"):
        play(settings, thinking=-1)


def test_thinking_leaves_the_samples_as_they_are(many):
    # This agent counts what it sees and never waits, so it plays as without thinking.
    sampled, thought = (play(many, wavers=True, thinking=thinking) for thinking in (0, 7))
    assert jax.tree.all(jax.tree.map(np.array_equal, sampled, thought))
    assert 0 < sampled.success.sum() < 42


@eqx.filter_jit
def look(agent, seen, memory):
    return agent(seen, memory)


def plain_try(env, agent, key, index, thinking=0):
    """Reward, length and success of a level, played step by step."""
    pkey, _ = jax.random.split(jax.random.fold_in(key, index))
    noise = np.asarray(jax.random.gumbel(pkey, (env.spec.max_steps, 5)))
    (state, seen), memory = env.start(jnp.int32(index)), agent.initial_memory()
    for _ in range(thinking):
        memory = look(agent, seen, memory).memory
    reward = 0.0
    for time in range(env.spec.max_steps):
        output = look(agent, seen, memory)
        action = int(np.argmax(np.asarray(output.logits) + noise[time]))
        after = env.step(state, jnp.int32(action), jax.random.key(0))
        state, seen, memory = after.state, after.observation, output.memory
        reward += float(after.reward)
        if after.terminated:
            break
    return reward, time + 1, bool(after.success)


def plain_tries(env, agent, tries, seed):
    """The deciding outcome of each level, and the try that solved it."""
    outcomes, solved_in = [], []
    for index in range(env.count):
        for number in range(1, tries + 1):
            outcome = plain_try(env, agent, try_key(seed, number), index)
            if outcome[2]:
                break
        outcomes.append(outcome)
        solved_in.append(number if outcome[2] else 0)
    return outcomes, solved_in


@pytest.fixture
def many(settings, tmp_path):
    path = tmp_path / "many.txt"
    path.write_text(LEVELS * 14)
    return dataclasses.replace(settings, levels=str(path), max_steps=3).pinned()


def play_tries(settings, tries, **options):
    agent = Follower(jnp.int32(0), jnp.array(True))
    return level_test.play_tries(registry.make_env(settings), agent, tries, **options)


def test_thinking_is_that_of_a_plain_loop(many):
    env, agent = registry.make_env(many), Follower(jnp.int32(3), jnp.array(True))
    played = level_test.play_levels(env, agent, thinking=2)
    expected = [plain_try(env, agent, try_key(0, 1), index, thinking=2) for index in range(42)]
    for found, part in zip(jax.tree.leaves(played), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(found, part)
    # Without thinking this agent waits until the limit.
    assert played.success.any() and not play(many, patience=3, wavers=True).success.any()


def test_tries_are_those_of_a_plain_loop(many):
    agent = Follower(jnp.int32(0), jnp.array(True))
    played, solved_in = play_tries(many, 3, seed=5)
    outcomes, expected = plain_tries(registry.make_env(many), agent, 3, 5)
    assert solved_in.tolist() == expected and set(expected) == {0, 1, 2, 3}
    for found, part in zip(jax.tree.leaves(played), zip(*outcomes, strict=True), strict=True):
        np.testing.assert_array_equal(found, part)


def test_the_first_try_is_play_without_tries_and_more_of_them_change_no_earlier_one(many):
    once, _ = play_tries(many, 1)
    assert jax.tree.all(jax.tree.map(np.array_equal, once, play(many, wavers=True)))
    two, four = (play_tries(many, tries)[1] for tries in (2, 4))
    np.testing.assert_array_equal(two, np.where(four > 2, 0, four))
    np.testing.assert_array_equal(once.success, two == 1)


def test_tries_of_a_level_do_not_depend_on_other_levels(many):
    few, all_of_them = (play_tries(many, 4, count=count)[1] for count in (7, 42))
    np.testing.assert_array_equal(few, all_of_them[:7])


def test_each_try_samples_anew(many):
    _, solved_in = play_tries(many, 8)
    left = [(solved_in == 0).sum() + (solved_in > number).sum() for number in range(8)]
    assert left[0] == 42 > left[1] > left[2] > left[3]
    keys = [try_key(seed, number) for seed in range(3) for number in range(1, 9)]
    assert len({jax.random.key_data(key).tobytes() for key in keys}) == 24


def test_levels_are_counted_by_the_try_that_solved_them():
    solved_in = np.array([1, 0, 3, 1, 2, 3, 0])
    assert level_test.count_by_try(solved_in, 4) == [2, 3, 5, 5]


def test_numbers_of_tries_that_make_no_sense_are_refused(settings):
    for tries in (0, 1001):
        with pytest.raises(BadInput, match=f"tries must be from 1 to 1,000, got {tries}"):
            play_tries(settings, tries)
    with pytest.raises(BadInput, match=r"tries differ by their samples: .* got 2"):
        play_tries(settings, 2, greedy=True)


def test_sampling_depends_on_seed_and_level_alone(settings):
    one = [play(settings, wavers=True, seed=seed).success.tolist() for seed in range(12)]
    again = [play(settings, wavers=True, seed=seed).success.tolist() for seed in range(12)]
    first = [play(settings, wavers=True, seed=seed, count=2).success.tolist() for seed in range(12)]
    assert one == again and first == [outcomes[:2] for outcomes in one]
    assert len(set(map(tuple, one))) > 2
    greedy = [play(settings, wavers=True, greedy=True, seed=seed).success for seed in range(3)]
    np.testing.assert_array_equal(greedy, [[False, False, True]] * 3)


def episodes(*solved):
    count = len(solved)
    return Episodes(jnp.arange(1.0, count + 1), jnp.arange(10, 10 + count), jnp.array(solved))


def test_the_summary_counts_and_has_wilsons_interval():
    found = level_test.summary(episodes(True, False, True, True))
    assert (found["levels"], found["solved"], found["share"]) == (4, 3, 0.75)
    assert found["mean_length_solved"] == pytest.approx((10 + 12 + 13) / 3)
    for end in found["interval"]:  # what makes it Wilson's
        assert abs(0.75 - end) == pytest.approx(1.959964 * (end * (1 - end) / 4) ** 0.5, rel=1e-5)
    assert level_test.summary(episodes(False))["mean_length_solved"] is None


def test_outcomes_are_saved_and_read_level_by_level(settings, tmp_path):
    path = tmp_path / "new" / "outcome.json"
    level_test.save(path, episodes(True, True, False), settings, model="a", greedy=True)
    saved = json.loads(path.read_text())
    assert (saved["model"], saved["greedy"], saved["solved"]) == ("a", True, 2)
    assert saved["env"]["levels"] == settings.levels and saved["env"]["max_steps"] == 2
    assert (saved["solved_each"], saved["length_each"]) == ([1, 1, 0], [10, 11, 12])
    assert saved["reward_each"] == [1.0, 2.0, 3.0]
    assert level_test.read(path, settings, 3).tolist() == [True, True, False]


def test_outcomes_of_other_levels_are_refused(settings, tmp_path):
    path = tmp_path / "outcome.json"
    level_test.save(path, episodes(True, True, False), settings)
    with pytest.raises(BadInput, match=r"is of 3 levels of .*, not 2 of "):
        level_test.read(path, settings, 2)
    with pytest.raises(BadInput, match="not 3 of embedded-test"):
        level_test.read(path, SokobanSettings(levels="embedded-test"), 3)
    for text in ("{}", "no json", '{"env": 3}', '{"env": {"levels": "x"}, "solved_each": "?"}'):
        path.write_text(text)
        with pytest.raises(BadInput):
            level_test.read(path, settings, 3)


def test_outcomes_of_another_number_of_tries_are_refused(settings, tmp_path):
    path = tmp_path / "outcome.json"
    level_test.save(path, episodes(True, True, False), settings, tries=3)
    assert level_test.read(path, settings, 3, tries=3).tolist() == [True, True, False]
    with pytest.raises(BadInput, match="is of 3 tries for each level, not 1"):
        level_test.read(path, settings, 3)


def test_a_pipe_is_no_file_of_outcomes(settings, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with time_limit(5), pytest.raises(BadInput, match="pipe does not hold the outcomes of levels"):
        level_test.read(tmp_path / "pipe", settings, 3)


def test_the_bank_is_an_argument_of_the_program(settings):
    env, agent = registry.make_env(settings), Follower(jnp.int32(0), jnp.array(False))
    chosen = jax.random.key(0), jnp.arange(3)
    trace = jax.make_jaxpr(
        lambda env: evaluate._play(env, agent, chosen, level_test.levels, 3, 3, True, 0)
    )
    inner = trace(env).eqns[-1].params["jaxpr"]
    assert env.levels.packed.shape in [value.aval.shape for value in inner.jaxpr.invars]
    assert not [const for const in inner.consts if np.size(const) >= env.levels.packed.size]
