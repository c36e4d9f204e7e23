"""Recorded episodes against the evaluation."""

import functools

import jax
import numpy as np
import pytest

from wmg import registry
from wmg.agents.baselines.settings import RandomSettings
from wmg.envs.babyai import picture
from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.play import evaluate, streams
from wmg.play.record import one_by_one, record

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


def test_states_are_taken_apart_along_their_first_axis():
    parts = one_by_one({"a": np.arange(6).reshape(3, 2), "b": np.arange(3)})
    assert [(part["a"].tolist(), int(part["b"])) for part in parts] == [
        ([0, 1], 0),
        ([2, 3], 1),
        ([4, 5], 2),
    ]
