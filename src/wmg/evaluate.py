"""Held-out episodes: how well an agent plays, without learning."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.types import Agent, Env, EnvSpec


class Episodes(eqx.Module):
    """The outcome of one episode, or of each of a number of them."""

    reward: Float[Array, "*episodes"]
    length: Int[Array, "*episodes"]
    success: Bool[Array, "*episodes"]


def play_episode(env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool) -> Episodes:
    """One episode, acting by the policy or, if `greedy`, by its most likely action."""
    rkey, pkey, ekey = jax.random.split(key, 3)
    steps = env.spec.max_steps
    noise = jax.random.gumbel(pkey, (steps, env.spec.actions)) * (0.0 if greedy else 1.0)

    def step(carry: tuple, inputs: tuple[Array, Array]) -> tuple[tuple, None]:
        state, observation, memory, over, so_far = carry
        output = agent(observation, memory)
        after = env.step(state, jnp.argmax(output.logits + inputs[0]), inputs[1])
        so_far = Episodes(
            so_far.reward + jnp.where(over, 0.0, after.reward),
            so_far.length + ~over,
            jnp.where(over, so_far.success, after.success),
        )
        return (
            after.state,
            after.observation,
            output.memory,
            over | after.done,
            so_far,
        ), None

    state, observation = env.reset(rkey)
    nothing = Episodes(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    start = (state, observation, agent.initial_memory(), jnp.zeros((), bool), nothing)
    (*_, result), _ = jax.lax.scan(step, start, (noise, jax.random.split(ekey, steps)))
    return result


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _play(env: Env, agent: Agent, key: Any, episodes: int, greedy: bool, batch: int) -> Episodes:
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(episodes))
    play = lambda key: play_episode(env, agent, key, greedy)  # noqa: E731
    return jax.lax.map(play, keys, batch_size=batch)


def evaluate(env: Env, agent: Agent, seed: int, episodes: int, greedy: bool = False) -> Episodes:
    """The episodes of a test seed: the same for every agent, sampled actions aside."""
    batch = min(episodes, 250 if jax.default_backend() == "cpu" else 10_000)
    key = jax.random.fold_in(jax.random.key(TEST_STREAM), seed)
    return jax.device_get(_play(env, agent, key, episodes, greedy, batch))


TEST_STREAM = 20_200_708
"""Held-out episodes come from a key that no training run starts from."""


def scores(spec: EnvSpec, episodes: Episodes) -> np.ndarray:
    """Each episode's score in percent: its share of possible reward, or success."""
    if spec.metric == "success":
        return 100.0 * np.asarray(episodes.success, float)
    return (
        100.0 * np.asarray(episodes.reward) / (spec.reward_per_step * np.asarray(episodes.length))
    )


def summary(spec: EnvSpec, episodes: Episodes) -> dict[str, float | int]:
    """Mean score with its standard error, and what else a table wants to know."""
    each = scores(spec, episodes)
    return {
        "score": float(each.mean()),
        "standard_error": float(each.std(ddof=1) / len(each) ** 0.5),
        "success": float(np.mean(episodes.success)),
        "episodes": len(each),
        "mean_length": float(np.mean(episodes.length)),
    }
