"""The states of one episode, for pictures and animations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg.play.evaluate import chance_of
from wmg.types import Agent, Env


def record(env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool = False) -> list[Any]:
    """The states of the held-out episode of that key, first and last included."""
    states, done = _play(env, agent, key, greedy)
    return one_by_one(states)[: int(np.argmax(done)) + 2]


def one_by_one(states: Any) -> list[Any]:
    """Each of the states on a first axis, as numpy arrays."""
    leaves, structure = jax.tree.flatten(jax.device_get(states))
    return [jax.tree.unflatten(structure, each) for each in zip(*leaves, strict=True)]


@functools.partial(jax.jit, static_argnums=3)
def _play(
    env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool
) -> tuple[Any, Bool[Array, " steps"]]:
    """The first state and that after every step; whether each step ended the episode."""
    rkey, pkey, ekey = jax.random.split(key, 3)

    def step(now: tuple[Any, Any, Any], time: Int[Array, ""]) -> tuple[Any, tuple[Any, Array]]:
        state, observation, memory = now
        noise, skey = chance_of(env.spec, pkey, ekey, time)
        output = agent(observation, memory)
        action = jnp.argmax(output.logits + (0.0 if greedy else noise))
        after = env.step(state, action, skey)
        return (after.state, after.observation, output.memory), (after.state, after.done)

    start, observation = env.reset(rkey)
    first = start, observation, agent.initial_memory()
    _, (states, done) = jax.lax.scan(step, first, jnp.arange(env.spec.max_steps))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states), done
