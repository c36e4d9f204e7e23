"""The states of one episode, for pictures and animations."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg.play.evaluate import act
from wmg.play.streams import LONGEST_DRAWN, chance_of
from wmg.types import Agent, Env, Scene, start_scene

PART = 256
"""Steps of a long episode after which it is seen whether it has ended: nobody may have said how
long it can be."""


def record(env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool = False) -> list[Any]:
    """The states of the held-out episode of that key, first and last included."""
    most = env.spec.max_steps
    part = most if most <= LONGEST_DRAWN else PART
    scene, keys = _start(env, agent, key)
    states = one_by_one(jax.tree.map(lambda leaf: leaf[None], scene.state))
    while len(states) <= most:
        scene, after, done = _play(env, agent, scene, keys, len(states) - 1, part, greedy)
        ends = np.flatnonzero(done)
        states += one_by_one(after)[: ends[0] + 1 if ends.size else None]
        if ends.size:
            break
    return states[: most + 1]


def one_by_one(states: Any) -> list[Any]:
    """Each of the states on a first axis, as numpy arrays."""
    leaves, structure = jax.tree.flatten(jax.device_get(states))
    return [jax.tree.unflatten(structure, each) for each in zip(*leaves, strict=True)]


@jax.jit
def _start(env: Env, agent: Agent, key: PRNGKeyArray) -> tuple[Scene, tuple[Array, Array]]:
    """How the episode starts, and the keys of what is random in its steps."""
    rkey, pkey, ekey = jax.random.split(key, 3)
    return start_scene(env, agent, rkey), (pkey, ekey)


@functools.partial(jax.jit, static_argnums=(5, 6))
def _play(
    env: Env,
    agent: Agent,
    scene: Scene,
    keys: tuple[PRNGKeyArray, PRNGKeyArray],
    time: Int[Array, ""] | int,
    steps: int,
    greedy: bool,
) -> tuple[Scene, Any, Bool[Array, " steps"]]:
    """Some steps from a time on: where they lead, the state after each, and whether it ended the
    episode."""
    chances = jax.vmap(functools.partial(chance_of, env.spec, *keys))(time + jnp.arange(steps))

    def step(scene: Scene, chance: tuple[Array, Array]) -> tuple[Scene, tuple[Any, Array]]:
        noise, key = chance
        action, output = act(agent, scene.observation, scene.memory, noise * (not greedy))
        after = env.step(scene.state, action, key)
        return Scene(after.state, after.observation, output.memory), (after.state, after.done)

    scene, (states, done) = jax.lax.scan(step, scene, chances)
    return scene, states, done
