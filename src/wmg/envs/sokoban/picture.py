"""A board of Sokoban: walls, boxes, targets and the player, and how far the episode is."""

import functools

import jax
import numpy as np
from jaxtyping import Array, Int

from wmg.envs.sokoban.observe import kinds
from wmg.envs.sokoban.world import SokobanState
from wmg.tools.draw import INK, Colour, Frame, Mask, blank, disc, paint, put, slab, write

KINDS = "# .$*@+"
"""The usual characters of what `kinds` tells apart."""
FLOOR: tuple[Colour, Colour] = ((58, 63, 69), (74, 80, 87))
WALL: tuple[Colour, Colour] = ((138, 144, 150), (122, 128, 134))
"""The colours of the ground, and of the line around a cell."""
TARGET: Colour = (232, 64, 64)
BOX: Colour = (244, 196, 48)
STORED: Colour = (250, 140, 40)
PLAYER: Colour = (72, 190, 90)
SOLVED: Colour = (0, 140, 96)

CODES = {"#": 90, ".": 91, "$": 93, "*": 33, "@": 92, "+": 92}
"""What makes a terminal write in a colour."""
MARGIN, TILE = 16, 40


def rgb(state: SokobanState) -> Frame:
    """The board, and how many boxes are still to be moved."""
    rows, caption = look(state)
    side = len(rows) * TILE
    picture = blank(side + 3 * MARGIN + 14, side + 2 * MARGIN)
    drawn = np.concatenate([np.concatenate([tile(mark) for mark in row], 1) for row in rows])
    put(picture, drawn, MARGIN, MARGIN)
    colour = SOLVED if state.missing == 0 else INK
    write(picture, caption, MARGIN, side + 2 * MARGIN - 2, colour)
    return picture


def ansi(state: SokobanState) -> str:
    """The board in the usual characters: # wall, @ player, $ box, . target, * box on a target, +
    player on a target."""
    rows, caption = look(state)
    shown = ["".join(_coloured(mark) for mark in row) for row in rows]
    return "\n".join([*shown, caption])


def look(state: SokobanState) -> tuple[list[str], str]:
    """The rows of the board, and a line about the episode."""
    rows = ["".join(KINDS[kind] for kind in row) for row in np.asarray(_kinds(state))]
    missing = int(state.missing)
    left = "solved" if missing == 0 else f"{missing} box{'es' if missing > 1 else ''} to go"
    return rows, f"step {state.time}: {left}"


@jax.jit
def _kinds(state: SokobanState) -> Int[Array, "bound bound"]:
    return kinds(state)


@functools.cache
def tile(mark: str) -> Frame:
    """One cell, by its character."""
    fill, line = WALL if mark == "#" else FLOOR
    picture = blank(TILE, TILE, line)
    picture[1:, 1:] = fill
    if mark in ".+":
        paint(picture, ring(), TARGET)
    if mark in "$*":
        paint(picture, crate(), STORED if mark == "*" else BOX)
    if mark == "*":
        paint(picture, disc(TILE, 0.5, 0.5, 0.12), TARGET)
    if mark in "@+":
        paint(picture, disc(TILE, 0.5, 0.5, 0.28), PLAYER)
    return picture


def ring() -> Mask:
    """A target: a circle around a dot, so that it shows under the player."""
    return (disc(TILE, 0.5, 0.5, 0.42) & ~disc(TILE, 0.5, 0.5, 0.34)) | disc(TILE, 0.5, 0.5, 0.12)


def crate() -> Mask:
    """A box: a square with a line along its edges."""
    edge = slab(TILE, 0.2, 0.2, 0.8, 0.8) & ~slab(TILE, 0.24, 0.24, 0.76, 0.76)
    return slab(TILE, 0.12, 0.12, 0.88, 0.88) & ~edge


def _coloured(mark: str) -> str:
    return f"\x1b[{CODES[mark]}m{mark}\x1b[0m" if mark in CODES else mark
