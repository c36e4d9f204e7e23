"""BabyAI in the viewer: the room, what the agent sees of it, and the mission."""

import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg.envs.babyai import picture as render
from wmg.envs.babyai.encode import DOOR_STATES
from wmg.envs.babyai.observe import MIDDLE, NEAR
from wmg.envs.babyai.vocabulary import ACTIONS, COLOURS, SIZE, TYPES, VIEW
from wmg.envs.babyai.world import ABSENT, CARRIED, BabyAIState
from wmg.envs.scenery import Choice, Reset, Scenery
from wmg.tools.errors import quote
from wmg.types import Env, Observation

KEYS = ("ArrowLeft", "ArrowRight", "ArrowUp", "p", "d", "t", "x")
BRIEFS = ("", "L", "R", "F", "p", "d", "t", "x")
"""Letters for the last action, after the empty one of the start."""
ACROSS = len(TYPES) + len(COLOURS) + DOOR_STATES
AHEAD = ACROSS + 1 + VIEW
"""The columns of a Factor that say how far to the right and how far ahead a thing is."""
BATCH, BATCHES = 1024, 8
"""How many episodes are searched for a mission."""


def describe(state: BabyAIState, observation: Observation) -> dict[str, Any]:
    """The room as the agent has it before it."""
    seen = render.view_places(state)
    things = [
        {
            "type": TYPES[state.type[i]],
            "colour": COLOURS[state.colour[i]],
            "at": state.position[i].tolist(),
            "carried": bool(state.status[i] == CARRIED),
            "target": bool(state.target[i]),
        }
        for i in np.flatnonzero(state.status != ABSENT)
    ]
    inside = (seen >= 0).all(-1) & (seen < SIZE).all(-1)
    return {
        "says": str(render.mission_text(state)),
        "brief": BRIEFS[int(state.last_action) + 1],
        "places": places(state, observation),
        "size": SIZE,
        "agent": state.agent.tolist(),
        "direction": int(state.direction),
        "seen": seen[inside].tolist(),
        "things": things,
    }


def places(state: BabyAIState, observation: Observation) -> list[list[int] | None]:
    """x and y in the room of what each Factor tells about, read from the Factor itself."""
    if not observation.factors:
        return []
    objects = observation.factors["objects"]
    seen = render.view_places(state)
    columns = (MIDDLE + objects.values[:, ACROSS]).astype(int)
    rows = (NEAR - objects.values[:, AHEAD]).astype(int)
    return [
        seen[row, column].tolist() if there else None
        for row, column, there in zip(rows, columns, objects.present, strict=True)
    ]


def find_mission(env: Env, text: str, seed: int, reset: Reset) -> tuple[int, None]:
    """The next episode after a seed whose mission has these words in it."""
    wanted = " ".join(text.lower().split())
    for start in range(seed + 1, seed + 1 + BATCH * BATCHES, BATCH):
        said = render.mission_text(_starts(reset, env, start))
        if len(found := [i for i, mission in enumerate(said) if wanted in mission]):
            return start + found[0], None
    raise ValueError(f"no mission of {BATCH * BATCHES:,} episodes has the words {quote(text)}")


@functools.partial(jax.jit, static_argnums=0)
def _starts(reset: Reset, env: Env, start: Int[Array, ""] | int) -> BabyAIState:
    return jax.vmap(lambda seed: reset(env, seed)[0])(start + jnp.arange(BATCH))


def square(place: list[int]) -> tuple[int, int, int]:
    """The cell of a room in a picture of it."""
    x, y = place
    return render.MARGIN + x * render.TILE, render.MARGIN + y * render.TILE, render.TILE


SCENERY = Scenery(
    drawing=pathlib.Path(__file__).with_name("scene.js"),
    actions=tuple(zip(ACTIONS, KEYS, strict=True)),
    describe=describe,
    choices={"mission": Choice("mission", "text", "the red ball", find_mission)},
    squares=square,
)
