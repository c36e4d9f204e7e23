"""Episodes by their number: where they start, and what chance does to them.

Episode n starts and goes on as episode n of `wmg eval` does.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.evaluate import TEST_STREAM
from wmg.types import Env, Observation, Step

TEST_SEED = 1
"""That of `wmg eval`, unless told otherwise."""


def episode_key(seed: Int[Array, ""] | int) -> PRNGKeyArray:
    """The key of an episode of `wmg eval`."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(TEST_STREAM), TEST_SEED), seed)


@jax.jit
def reset(env: Env, seed: Int[Array, ""] | int) -> tuple[Any, Observation]:
    """The start of an episode."""
    return env.reset(jax.random.split(episode_key(seed), 3)[0])


@jax.jit
def step(
    env: Env,
    state: Any,
    action: Int[Array, ""] | int,
    seed: Int[Array, ""] | int,
    time: Int[Array, ""] | int,
) -> Step:
    """What follows an action at a time."""
    key = jax.random.split(episode_key(seed), 3)[2]
    key = jax.random.split(key, env.spec.max_steps)[time]
    return env.step(state, jnp.asarray(action, jnp.int32), key)
