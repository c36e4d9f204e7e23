"""Random numbers of play without learning: which key decides what.

No training run starts from the keys that are used here, so held-out episodes stay held out.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from wmg.types import EnvSpec

TEST_STREAM = 20_200_708
"""Of the episodes that `wmg eval` and the viewer play."""
GOAL_STREAM = 20_200_713
"""Of the tests of a goal."""
TRY_STREAM = 20_200_714
"""Of further tries of the same levels."""

LONGEST_DRAWN = 1024
"""Steps of an episode whose random numbers are drawn together. In environments with longer ones
each step draws its own, which costs less."""

Chance = tuple[Float[Array, " actions"], PRNGKeyArray]
"""Of one step: Gumbel noise for the policy, and the environment's key."""


def test_key(seed: Int[Array, ""] | int) -> PRNGKeyArray:
    """The key of the held-out episodes with a test seed."""
    return jax.random.fold_in(jax.random.key(TEST_STREAM), seed)


def try_key(seed: int, number: int) -> PRNGKeyArray:
    """The key of all levels in the try of a number, counted from 1: the first is `test_key`'s."""
    if number == 1:
        return test_key(seed)
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(TRY_STREAM), seed), number)


def episode_keys(key: PRNGKeyArray, index: Int[Array, ""] | int) -> Key[Array, "3"]:
    """Keys of one of the episodes: how it starts, what the policy draws, what the environment
    draws."""
    return jax.random.split(jax.random.fold_in(key, index), 3)


def chance_of(
    spec: EnvSpec, pkey: PRNGKeyArray, ekey: PRNGKeyArray, time: Int[Array, ""]
) -> Chance:
    """What is random in one step of a held-out episode."""
    if spec.max_steps > LONGEST_DRAWN:
        noise = jax.random.gumbel(jax.random.fold_in(pkey, time), (spec.actions,))
        return noise, jax.random.fold_in(ekey, time)
    noise, keys = chances_of(spec, pkey, ekey)
    return noise[time], keys[time]


def chances_of(
    spec: EnvSpec, pkey: PRNGKeyArray, ekey: PRNGKeyArray
) -> tuple[Float[Array, "steps actions"], Key[Array, " steps"]]:
    """What is random in each step of a held-out episode."""
    if spec.max_steps > LONGEST_DRAWN:
        each = functools.partial(chance_of, spec, pkey, ekey)
        return jax.vmap(each)(jnp.arange(spec.max_steps))
    noise = jax.random.gumbel(pkey, (spec.max_steps, spec.actions))
    return noise, jax.random.split(ekey, spec.max_steps)


@functools.partial(jax.jit, static_argnums=2)
def _goal_keys(seeds: Int[Array, " runs"], report: Int[Array, ""], blocks: int) -> Array:
    stream = jax.random.fold_in(jax.random.key(GOAL_STREAM), report)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(stream, seeds)
    return jax.random.key_data(jax.vmap(lambda key: jax.random.split(key, blocks))(keys))


def goal_keys(seeds: np.ndarray, report: int, blocks: int) -> np.ndarray:
    """Keys for the blocks of each run's test at a report. A run's keys depend on its seed alone.

    They are key data in a numpy array: any rows of it can be taken without compiling.
    """
    return np.asarray(_goal_keys(jnp.asarray(seeds), jnp.int32(report), blocks))
