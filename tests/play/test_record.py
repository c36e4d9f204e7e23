"""Recorded episodes against the evaluation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg import registry
from wmg.agents.baselines.settings import RandomSettings
from wmg.envs.babyai import picture
from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.interop.outside import UNLIMITED
from wmg.play import evaluate, streams
from wmg.play.record import one_by_one, record
from wmg.types import Env, EnvSpec, Observation, ObservationSpec, Step

LAYOUT = Layout((2, 3), 0, (("ball", "red", 4, 4),), "go to the red ball")


@functools.cache
def room():
    return BabyAI("GoToObj", "factored", "binary").with_layouts([LAYOUT])


@functools.cache
def graph():
    return registry.make_env(PathfindingSettings(nodes=3, pattern=2))


def random_agent(env):
    return registry.make_agent(RandomSettings(), env.spec, jax.random.key(0))


@pytest.mark.parametrize("make", [room, graph])
def test_a_recorded_episode_is_the_one_that_evaluation_plays(make):
    env = make()
    agent = random_agent(env)
    key = streams.test_key(1)
    all_played, successes = evaluate.evaluate(env, agent, 1, 8), set()
    for episode in range(8):
        played = jax.tree.map(lambda each, episode=episode: each[episode], all_played)
        states = record(env, agent, jax.random.fold_in(key, episode))
        assert [int(state.time) for state in states] == list(range(int(played.length) + 1))
        successes.add(bool(played.success))
        if make is room:
            assert picture.fulfilled(states[-1]) == bool(played.success)
            assert not any(map(picture.fulfilled, states[:-1]))
        else:
            assert int(states[-1].right) == int(played.reward)
    assert successes == {True, False}


def test_a_greedy_recording_takes_the_most_likely_actions():
    # All actions are as likely for this agent, and the first of them turns left.
    states = record(room(), random_agent(room()), jax.random.key(0), greedy=True)
    assert {int(state.last_action) for state in states[1:]} == {0}


class Sleeper(Env):
    """An episode of 300 steps in an environment without a step limit."""

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(1), actions=2, max_steps=UNLIMITED, metric="return")

    def reset(self, key):
        return jnp.int32(0), Observation(jnp.zeros(1))

    def step(self, state, action, key):
        time, no = state + 1, jnp.bool_(False)
        return Step(time, Observation(jnp.zeros(1)), jnp.float32(0), time == 300, no, no)


def test_an_episode_without_a_limit_is_recorded_to_its_end_and_no_further():
    # All 1,000,000 steps that it might have had would take minutes.
    states = record(Sleeper(), random_agent(Sleeper()), jax.random.key(0))
    assert list(map(int, states)) == list(range(301))


class Restless(Sleeper):
    """An episode that goes on after the limit, as an evaluation cuts it."""

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(1), actions=2, max_steps=290, metric="return")


def test_a_recording_ends_at_the_limit_as_an_evaluation_does():
    assert len(record(Restless(), random_agent(Restless()), jax.random.key(0))) == 291
    played = evaluate.evaluate(Restless(), random_agent(Restless()), 1, 2)
    assert played.length.tolist() == [290, 290]


def test_states_are_taken_apart_along_their_first_axis():
    parts = one_by_one({"a": np.arange(6).reshape(3, 2), "b": np.arange(3)})
    assert [(part["a"].tolist(), int(part["b"])) for part in parts] == [
        ([0, 1], 0),
        ([2, 3], 1),
        ([4, 5], 2),
    ]
