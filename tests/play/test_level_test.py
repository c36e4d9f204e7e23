"""Whole banks played once, by agents whose every step is known."""

import json
import os

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
    with pytest.raises(BadInput, match="thinking must be from 0 to 10,000, got -1"):
        play(settings, thinking=-1)


def test_an_agent_that_wants_to_go_must_stay_while_thinking(settings):
    np.testing.assert_array_equal(play(settings, thinking=3).length, [1, 2, 2])


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


def test_a_pipe_is_no_file_of_outcomes(settings, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with time_limit(5), pytest.raises(BadInput, match="pipe does not hold the outcomes of levels"):
        level_test.read(tmp_path / "pipe", settings, 3)


def test_the_bank_is_an_argument_of_the_program(settings):
    env, agent = registry.make_env(settings), Follower(jnp.int32(0), jnp.array(False))
    trace = jax.make_jaxpr(
        lambda env: evaluate._play(env, agent, jax.random.key(0), level_test.levels, 3, 3, True, 0)
    )
    inner = trace(env).eqns[-1].params["jaxpr"]
    assert env.levels.packed.shape in [value.aval.shape for value in inner.jaxpr.invars]
    assert not [const for const in inner.consts if np.size(const) >= env.levels.packed.size]
