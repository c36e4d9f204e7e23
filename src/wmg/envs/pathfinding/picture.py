"""A graph of Pathfinding: its nodes as patches of their patterns, its links, what is shown."""

import math

import jax
import numpy as np
from jaxtyping import Float

from wmg.envs.pathfinding.state import PathfindingState
from wmg.tools.draw import INK, PALE, PAPER, Colour, Frame, Point, blank, line, put, write

LOW: Colour = (0, 114, 178)
HIGH: Colour = (213, 94, 0)
"""What -1 and 1 look like in a pattern; 0 is white."""
LINK, QUIZ = INK, (178, 60, 134)
"""The colours of what is shown."""
SIDE, RADIUS, MARGIN = 340, 128, 16
NARROWEST_PATCH, WIDEST_PATCH = 6, 48


def rgb(state: PathfindingState) -> Frame:
    """The nodes so far, the links so far, and an arrow for the pair that is shown."""
    state = jax.device_get(state)
    time, links = _so_far(state)
    shown = int(state.source[time]), int(state.target[time])
    colour = QUIZ if time % 2 else LINK
    nodes = len(state.patterns)
    width = max(NARROWEST_PATCH, min(WIDEST_PATCH, 4 * RADIUS // nodes))
    picture = blank(SIDE + 2 * MARGIN, SIDE)
    for source, target in links:
        arrow(picture, _centre(source, nodes), _centre(target, nodes), width, PALE)
    arrow(picture, _centre(shown[0], nodes), _centre(shown[1], nodes), width, colour)
    for node in range(len(links) + 1):
        drawn = patch(np.asarray(state.patterns[node]), width, colour if node in shown else PALE)
        x, y = _centre(node, nodes)
        put(picture, drawn, round(x) - width // 2, round(y) - width // 2)
    write(picture, _caption(state), MARGIN, SIDE, colour)
    return picture


def ansi(state: PathfindingState) -> str:
    """The links so far, and what is shown."""
    state = jax.device_get(state)
    time, links = _so_far(state)
    drawn = ", ".join(f"{source}>{target}" for source, target in links)
    asked = f"\npath {state.source[time]}>{state.target[time]}?" if time % 2 else ""
    return f"links {drawn}{asked}\n{_caption(state)}"


def _so_far(state: PathfindingState) -> tuple[int, list[tuple[int, int]]]:
    """The step that is shown, after the end the last; and the links up to it."""
    time = min(int(state.time), len(state.source) - 1)
    pairs = zip(state.source.tolist(), state.target.tolist(), strict=True)
    return time, list(pairs)[: time + 1 : 2]


def _caption(state: PathfindingState) -> str:
    time, _ = _so_far(state)
    what = "quiz: a path?" if time % 2 else "a new link"
    return f"{what}  {state.right}/{int(state.time) // 2} right"


def _centre(node: int, nodes: int) -> Point:
    """Nodes stand in a circle, clockwise from the top."""
    angle = 2 * math.pi * node / nodes
    return SIDE / 2 + RADIUS * math.sin(angle), SIDE / 2 - RADIUS * math.cos(angle)


def arrow(picture: Frame, start: Point, end: Point, patch: int, colour: Colour) -> None:
    """An arrow between the patches around two points."""
    length = math.dist(start, end)
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    # As far from a patch's centre as its edge is in this direction, and a little more.
    away = patch / 2 / max(abs(dx), abs(dy)) + 4
    tail = start[0] + away * dx, start[1] + away * dy
    tip = end[0] - away * dx, end[1] - away * dy
    line(picture, tail, tip, 3.0, colour)
    for side in (-1, 1):
        barb = tip[0] - 9 * dx - side * 6 * dy, tip[1] - 9 * dy + side * 6 * dx
        line(picture, barb, tip, 3.0, colour)


def patch(pattern: Float[np.ndarray, " numbers"], width: int, frame: Colour) -> Frame:
    """The numbers of a pattern as coloured squares, row by row, in a frame."""
    side = math.ceil(math.sqrt(len(pattern)))
    squares = np.zeros(side * side)
    squares[: len(pattern)] = pattern
    end = np.where(squares[:, None] < 0, LOW, HIGH)
    share = np.abs(squares)[:, None]
    colours = np.round((1 - share) * PAPER + share * end).astype(np.uint8)
    picture = blank(width, width, frame)
    inner = width - 4
    index = np.arange(inner) * side // inner
    put(picture, colours.reshape(side, side, 3)[index][:, index], 2, 2)
    return picture
