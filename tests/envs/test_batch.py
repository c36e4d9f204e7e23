"""Batches of environments that begin anew: no episode lost, none twice, none altered."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain import chi_square, chi_square_limit

from wmg.envs.babyai.env import BabyAI
from wmg.envs.batch import Batch
from wmg.envs.pathfinding.env import Pathfinding

SIZE, STEPS = 96, 150


@functools.cache
def played(level="GoToLocal"):
    """States and observations to go on from, and steps, at every time of random play."""
    batch = Batch(BabyAI(level, "factored", "binary"), SIZE)

    @jax.jit
    def play(key):
        rkey, key = jax.random.split(key)
        state, seen = batch.reset(rkey)

        def one(carry, key):
            akey, skey = jax.random.split(key)
            actions = jax.random.randint(akey, (SIZE,), 0, 7)
            state, seen, step = batch.step(carry, actions, skey)
            return state, (state, seen, step, actions)

        return (state, seen), jax.lax.scan(one, state, jax.random.split(key, STEPS))[1]

    return jax.tree.map(np.asarray, play(jax.random.key(0)))


def test_the_step_is_that_of_each_environment_alone():
    (first, _), (states, _, steps, actions) = played()
    before = jax.tree.map(lambda a, b: np.concatenate([a[None], b[:-1]]), first, states)
    env = BabyAI("GoToLocal", "factored", "binary")
    alone = jax.jit(jax.vmap(jax.vmap(env.step, (0, 0, None)), (0, 0, None)))
    want = alone(before, actions, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, steps, want)


def test_where_no_episode_ended_play_goes_on_from_the_step():
    _, (states, seen, steps, _) = played()
    on = ~(steps.terminated | steps.truncated)
    kept = lambda a, b: np.testing.assert_array_equal(a[on], b[on])  # noqa: E731
    jax.tree.map(kept, (states, seen), (steps.state, steps.observation))


def test_where_an_episode_ended_a_new_one_is_at_its_start():
    _, (states, seen, steps, _) = played()
    over = steps.terminated | steps.truncated
    assert over.sum() > SIZE  # bursts of many and of few at once
    assert (states.time[over] == 0).all() and (states.last_action[over] == -1).all()
    env = BabyAI("GoToLocal", "factored", "binary")
    fresh = jax.tree.map(lambda leaf: leaf[over], states)
    want = jax.jit(jax.vmap(env.observe))(fresh)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[over], b), seen, want)


def test_the_last_observation_of_an_episode_is_in_the_step():
    _, (_, seen, steps, _) = played()
    over = steps.terminated | steps.truncated
    assert (steps.state.time[over] > 0).all()
    assert (steps.observation.core[over][:, :7].sum(1) == 1).all()  # it shows the last action
    assert (seen.core[over][:, :7] == 0).all()


def test_no_two_new_episodes_are_the_same():
    (first, _), (states, _, steps, _) = played()
    over = steps.terminated | steps.truncated
    pairs = zip(features(first), features(states), strict=True)
    start = [np.concatenate([a, b[over]]) for a, b in pairs]
    levels = np.concatenate([part.reshape(len(part), -1) for part in start], axis=1)
    assert len(np.unique(levels, axis=0)) == len(levels)


def features(states):
    return states.agent, states.position, states.type, states.colour


def test_new_episodes_are_distributed_as_the_first():
    _, (states, _, steps, _) = played("GoToObj")
    over = steps.terminated | steps.truncated
    counts = np.bincount((states.direction + 4 * (states.mission_type - 1))[over], minlength=12)
    assert counts.sum() > 200
    assert chi_square(counts, np.full(12, counts.sum() / 12)) < chi_square_limit(11)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_all_episodes_may_end_at_once(size):
    """In Pathfinding they do."""
    batch = Batch(Pathfinding(3, 2), size)
    state, _ = jax.jit(batch.reset)(jax.random.key(0))
    step = jax.jit(batch.step)
    actions = jnp.zeros(size, jnp.int32)
    for time in range(1, 9):
        state, seen, made = step(state, actions, jax.random.key(time))
        assert (made.terminated == (time % 4 == 0)).all()
        assert (state.time == time % 4).all()
    patterns = np.asarray(state.patterns).reshape(size, -1)
    assert len(np.unique(patterns, axis=0)) == size
    assert seen.core.shape == (size, 5)
