"""Pictures of environments, for people: frames, text for a terminal, recordings, animations.

A picture is made from a state alone, by `rgb` or `ansi`. A new environment adds a file here, or
registers functions for its class of states from anywhere: `render.rgb.register(State, draw)`.
"""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from wmg.envs.babyai import picture as babyai
from wmg.envs.babyai.env import State as Room
from wmg.envs.pathfinding import picture as pathfinding
from wmg.envs.pathfinding.env import State as Graph
from wmg.envs.sokoban import picture as sokoban
from wmg.envs.sokoban.env import State as Board
from wmg.play.act import Scene, sample
from wmg.tools.draw import Frame
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env


@functools.singledispatch
def rgb(state: Any) -> Frame:
    """A picture of a state. Its sides are even, as videos want them."""
    raise BadInput(f"there is no picture of {type(state).__name__}: register one with render.rgb")


@functools.singledispatch
def ansi(state: Any) -> str:
    """A state as text, with the colour codes of a terminal."""
    raise BadInput(f"there is no text for {type(state).__name__}: register one with render.ansi")


rgb.register(Room, babyai.rgb)
ansi.register(Room, babyai.ansi)
rgb.register(Graph, pathfinding.rgb)
ansi.register(Graph, pathfinding.ansi)
rgb.register(Board, sokoban.rgb)
ansi.register(Board, sokoban.ansi)


def record(env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool = False) -> list[Any]:
    """The states of one episode, first and last included, as a held-out episode of
    that key is played."""
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
    steps = env.spec.max_steps
    noise = jax.random.gumbel(pkey, (steps, env.spec.actions)) * (0.0 if greedy else 1.0)

    def step(scene: Scene, inputs: tuple[Array, Array]) -> tuple[Scene, tuple[Any, Array]]:
        output = agent(scene.observation, scene.memory)
        after = env.step(scene.state, sample(output.logits, inputs[0]), inputs[1])
        return Scene(after.state, after.observation, output.memory), (after.state, after.done)

    start = Scene(*env.reset(rkey), agent.initial_memory())
    _, (states, done) = jax.lax.scan(step, start, (noise, jax.random.split(ekey, steps)))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start.state, states), done


def gif(frames: Sequence[Frame], path: str | os.PathLike[str], fps: float = 6.0) -> None:
    """Write an animation that starts again at its end."""
    try:
        from PIL import Image
    except ImportError as error:
        raise BadInput("animations need pillow: pip install 'wmg[plot]'") from error
    if not frames:
        raise BadInput("there is no frame to animate")
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Without dithering, which would add noise to areas of one colour.
    images = [Image.fromarray(f).quantize(dither=Image.Dither.NONE) for f in frames]
    first, rest = images[0], images[1:]
    duration = round(1000 / fps)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=duration, loop=0)
