"""Depth-n against breadth-first search, and the random agent."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest
from plain import path_length
from probes import Constant, build, core

from wmg.agents.baselines.settings import DepthSettings, RandomSettings
from wmg.envs.pathfinding.env import Pathfinding
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec

EPISODES = 400


@functools.cache
def answers(nodes, depth):
    """Scripts of many episodes, and whether Depth-n says yes in each of their steps."""
    env = Pathfinding(nodes, 3)
    agent = build(DepthSettings(depth=depth, nodes=nodes), env.spec)

    def play(key):
        script, first = env.reset(key)

        def one(carry, key):
            state, observation, memory = carry
            output = agent(observation, memory)
            action = output.logits.argmax().astype("int32")
            step = env.step(state, action, key)
            return (step.state, step.observation, output.memory), (action, output.logits)

        start = script, first, agent.initial_memory()
        keys = jax.random.split(jax.random.key(8), env.spec.max_steps)
        return script, jax.lax.scan(one, start, keys)[1]

    keys = jax.random.split(jax.random.key(7), EPISODES)
    return jax.tree.map(np.asarray, eqx.filter_jit(jax.vmap(play))(keys))


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_depth_n_says_yes_to_paths_of_at_most_n_links(depth):
    script, (actions, _) = answers(7, depth)
    for episode in range(EPISODES):
        pairs = list(zip(script.source[episode], script.target[episode], strict=True))
        for time in range(1, 12, 2):
            length = path_length(pairs[0:time:2], *pairs[time])
            assert actions[episode, time] == (0 < length <= depth)


@pytest.mark.parametrize("nodes", [7, 13])
def test_depth_of_all_links_is_always_right(nodes):
    script, (actions, _) = answers(nodes, nodes - 1)
    np.testing.assert_array_equal(actions[:, 1::2], script.answers[:, 1::2])


@pytest.mark.parametrize(("depth", "percent"), [(1, 86.95), (2, 97.67)])
def test_depth_n_scores_what_it_does_in_the_authors_environment(depth, percent):
    script, (actions, _) = answers(7, depth)
    right = actions[:, 1::2] == script.answers[:, 1::2]
    assert 100 * right.mean() == pytest.approx(percent, abs=3)  # 2,400 quizzes: s.e. 0.7


def test_its_answer_is_never_left_to_chance():
    _, (_, logits) = answers(7, 1)
    assert np.abs(logits[..., 0] - logits[..., 1]).min() > 1000


@pytest.mark.parametrize(
    "spec",
    [
        EnvSpec(ObservationSpec(14), 2, 12, "reward"),
        EnvSpec(ObservationSpec(15), 3, 12, "reward"),
        EnvSpec(ObservationSpec(15, (("things", 1, 1),)), 2, 12, "reward"),
    ],
)
def test_depth_n_refuses_what_is_not_pathfinding(spec):
    with pytest.raises(BadInput, match="only plays Pathfinding"):
        build(DepthSettings(), spec)


def test_the_random_agent_finds_all_actions_equally_good():
    agent = build(RandomSettings(), Constant(actions=4).spec)
    output = agent(core(1, 2), agent.initial_memory())
    assert output.logits.tolist() == [0, 0, 0, 0]
