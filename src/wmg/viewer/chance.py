"""Episodes by their number: how they start, and their random numbers.

Episode n is episode n of `wmg eval`, except in Sokoban.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.play.streams import Chance, chance_of, test_key
from wmg.types import Env, EnvSpec, Observation, Step
from wmg.viewer.hosted import HostedEpisodes

TEST_SEED = 1
"""That of `wmg eval`, unless told otherwise."""


def episode_key(seed: Int[Array, ""] | int) -> PRNGKeyArray:
    """The key of an episode of `wmg eval`."""
    return jax.random.fold_in(test_key(TEST_SEED), seed)


def chance(spec: EnvSpec, seed: Int[Array, ""] | int, time: Int[Array, ""] | int) -> Chance:
    """The random numbers of one step of an episode."""
    _, pkey, ekey = jax.random.split(episode_key(seed), 3)
    return chance_of(spec, pkey, ekey, jnp.asarray(time))


def reset(env: Env | HostedEpisodes, seed: Int[Array, ""] | int) -> tuple[Any, Observation]:
    """The start of an episode."""
    return env.reset(int(seed)) if isinstance(env, HostedEpisodes) else _reset(env, seed)


def step(env: Env | HostedEpisodes, state: Any, action: int, seed: int, time: int) -> Any:
    """What follows an action at a time."""
    if isinstance(env, HostedEpisodes):
        return env.step(state, action)
    return _step(env, state, action, seed, time)


@jax.jit
def _reset(env: Env, seed: Int[Array, ""] | int) -> tuple[Any, Observation]:
    return env.reset(jax.random.split(episode_key(seed), 3)[0])


@jax.jit
def _step(
    env: Env,
    state: Any,
    action: Int[Array, ""] | int,
    seed: Int[Array, ""] | int,
    time: Int[Array, ""] | int,
) -> Step:
    _, key = chance(env.spec, seed, time)
    return env.step(state, jnp.asarray(action, jnp.int32), key)
