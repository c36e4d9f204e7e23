"""The states of one episode, for pictures and animations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from wmg.play.evaluate import act
from wmg.play.streams import chances_of
from wmg.types import Agent, Env, Scene, start_scene


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
    noise, keys = chances_of(env.spec, pkey, ekey)
    noise = noise * (0.0 if greedy else 1.0)

    def step(scene: Scene, chance: tuple[Array, Array]) -> tuple[Scene, tuple[Any, Array]]:
        noise, key = chance
        action, output = act(agent, scene.observation, scene.memory, noise)
        after = env.step(scene.state, action, key)
        return Scene(after.state, after.observation, output.memory), (after.state, after.done)

    start = start_scene(env, agent, rkey)
    _, (states, done) = jax.lax.scan(step, start, (noise, keys))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start.state, states), done
