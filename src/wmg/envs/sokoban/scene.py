"""Sokoban in the viewer: the board, by number or of one's own making."""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg.envs.scenery import Choice, Reset, Scenery
from wmg.envs.sokoban import levels
from wmg.envs.sokoban import picture as render
from wmg.envs.sokoban.observe import CELLS, reach
from wmg.envs.sokoban.world import ACTIONS, SokobanState
from wmg.types import LevelEnv, Observation

KEYS = (".", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
BRIEFS = ("·", "↑", "↓", "←", "→")
"""Signs for the last action."""
Sokoban = Any
"""The environment. Its class imports this module, not the other way round."""


def describe(state: SokobanState, observation: Observation) -> dict[str, Any]:
    """The board as text, in the usual letters."""
    board, _ = render.look(state)
    boxes = sum(mark in "$*" for row in board for mark in row)
    stored = boxes - int(state.missing)
    return {
        "says": f"{stored} of {boxes} boxes are on targets.",
        "brief": BRIEFS[int(state.last_action)] if state.time else "",
        "places": places(state, observation),
        "size": state.bound,
        "board": board,
    }


def places(state: SokobanState, observation: Observation) -> list[list[int] | None]:
    """Column and row of the cell each Factor tells about, read from the Factor itself."""
    if not observation.factors:
        return []
    cells = observation.factors[CELLS]
    far = reach(state.bound)
    down_at = 2 + 2 * far
    away = np.rint(cells.values[:, [0, down_at]] * far).astype(int)
    at = away + state.player[::-1]
    return [
        place if there else None for place, there in zip(at.tolist(), cells.present, strict=True)
    ]


def by_number(env: LevelEnv, number: int, seed: int, reset: Reset) -> tuple[int, SokobanState]:
    """The level at a place of the bank."""
    del reset
    if number >= env.count:
        raise ValueError(f"level must be from 0 to {env.count - 1:,} in this bank, got {number:,}")
    return seed, _start(env, jnp.int32(number))


def by_text(env: Sokoban, text: str, seed: int, reset: Reset) -> tuple[int, SokobanState]:
    """The first level in a text."""
    del reset
    level = _unpack(levels.from_text(text, env.bound))
    cells = int((~level.walls).sum())
    if cells > env.cells:
        raise ValueError(f"the level has {cells} cells, and this model has room for {env.cells}")
    return seed, _begin(env, level)


@jax.jit
def _start(env: LevelEnv, index: Int[Array, ""]) -> SokobanState:
    return env.start(index)[0]


@jax.jit
def _observe(env: Sokoban, state: SokobanState) -> Observation:
    return env.observe(state)


@jax.jit
def _unpack(bank: levels.Levels) -> levels.Level:
    return bank.level(jnp.int32(0))


@jax.jit
def _begin(env: Sokoban, level: levels.Level) -> SokobanState:
    return env.begin(level)[0]


def square(place: list[int]) -> tuple[int, int, int]:
    """A cell in a picture of the board."""
    x, y = place
    return render.MARGIN + x * render.TILE, render.MARGIN + y * render.TILE, render.TILE


SCENERY = Scenery(
    drawing=pathlib.Path(__file__).with_name("scene.js"),
    actions=tuple(zip(ACTIONS, KEYS, strict=True)),
    describe=describe,
    observe=_observe,
    choices={
        "level": Choice("level", "number", "0", by_number),
        "text": Choice("level of your own", "lines", "#####\n#@$.#\n#####", by_text),
    },
    squares=square,
)
