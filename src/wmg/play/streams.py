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

LONG = 10_000
"""Steps from which on the noise of an episode is not drawn for all its steps at once."""

Chance = tuple[Float[Array, " actions"], PRNGKeyArray]
"""Of one step: Gumbel noise for the policy, and the environment's key."""


def test_key(seed: Int[Array, ""] | int) -> PRNGKeyArray:
    """The key of the held-out episodes with a test seed."""
    return jax.random.fold_in(jax.random.key(TEST_STREAM), seed)


def episode_keys(key: PRNGKeyArray, index: Int[Array, ""] | int) -> Key[Array, "3"]:
    """Keys of one of the episodes: how it starts, what the policy draws, what the environment
    draws."""
    return jax.random.split(jax.random.fold_in(key, index), 3)


def chance_of(
    spec: EnvSpec, pkey: PRNGKeyArray, ekey: PRNGKeyArray, time: Int[Array, ""]
) -> Chance:
    """What is random in one step of a held-out episode."""
    if spec.max_steps > LONG:
        return jax.random.gumbel(jax.random.fold_in(pkey, time), (spec.actions,)), (
            jax.random.fold_in(ekey, time)
        )
    noise = jax.random.gumbel(pkey, (spec.max_steps, spec.actions))
    return noise[time], jax.random.split(ekey, spec.max_steps)[time]


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
