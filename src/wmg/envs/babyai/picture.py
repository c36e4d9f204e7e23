"""A room of BabyAI: the room with what the agent sees lit up, its own view, and the mission."""

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from wmg.envs.babyai import missions
from wmg.envs.babyai.observe import MIDDLE, NEAR
from wmg.envs.babyai.vocabulary import (
    ARTICLES,
    COLOURS,
    LOCATIONS,
    MAX_STEPS,
    SIZE,
    TYPES,
    VERBS,
    VIEW,
)
from wmg.envs.babyai.world import CARRIED, GO, LYING, BabyAIState
from wmg.tools.draw import (
    INK,
    QUIET,
    Colour,
    Frame,
    Mask,
    blank,
    disc,
    paint,
    put,
    slab,
    triangle,
    write,
)

PAINTS: dict[str, Colour] = {
    "red": (232, 64, 64),
    "green": (72, 190, 90),
    "blue": (70, 130, 250),
    "purple": (170, 96, 232),
    "yellow": (244, 210, 40),
    "grey": (160, 166, 172),
}
GROUNDS: dict[str, tuple[Colour, Colour]] = {
    "nothing": ((240, 241, 242), (228, 230, 232)),
    "dark floor": ((28, 31, 34), (40, 43, 47)),
    "floor": ((58, 63, 69), (74, 80, 87)),
    "dark wall": ((96, 101, 106), (84, 89, 94)),
    "wall": ((138, 144, 150), (122, 128, 134)),
}
"""The colours of the ground, and of the line around a cell."""
AGENT: Colour = (255, 72, 72)
FULFILLED: Colour = (0, 140, 96)

CODES: dict[str, int] = dict(zip(COLOURS, (91, 92, 94, 95, 93, 37), strict=True))
"""What makes a terminal write in a colour."""
LETTERS = {"key": "K", "ball": "O", "box": "B"}
GROUND_LETTERS = {"nothing": " ", "dark floor": " ", "floor": ".", "dark wall": "#", "wall": "#"}

MARGIN, TILE, SMALL_TILE = 16, 40, 24
ROOM_SIDE, VIEW_SIDE = SIZE * TILE, VIEW * SMALL_TILE

Thing = tuple[str, str]
"""Type and colour."""
Cell = tuple[str, Thing | None, int | None]
"""Ground, what lies there, and the direction of an agent that stands there. Where both are, the
agent carries the thing."""


def rgb(state: BabyAIState) -> Frame:
    """The room, the view and the mission, which is green once it is fulfilled."""
    state = jax.device_get(state)
    room, view = look(state)
    picture = blank(ROOM_SIDE + 3 * MARGIN + 14, ROOM_SIDE + VIEW_SIDE + 3 * MARGIN)
    put(picture, draw_cells(room, TILE), MARGIN, MARGIN)
    side = ROOM_SIDE + 2 * MARGIN
    put(picture, draw_cells(view, SMALL_TILE), side, MARGIN)
    write(picture, f"step {state.time}/{MAX_STEPS}", side, VIEW_SIDE + 2 * MARGIN, QUIET)
    colour = FULFILLED if fulfilled(state) else INK
    write(picture, mission_text(state), MARGIN, ROOM_SIDE + 2 * MARGIN - 2, colour)
    return picture


def ansi(state: BabyAIState) -> str:
    """The room, the view and the mission. K is a key, O a ball, B a box, ><v^ the agent."""
    state = jax.device_get(state)
    blocks = [write_cells(cells) for cells in look(state)]
    gap = " " * 4
    rows = [gap.join(row).rstrip() for row in zip(blocks[0], [*blocks[1], ""], strict=True)]
    return "\n".join([*rows, f"step {state.time}/{MAX_STEPS}: {mission_text(state)}"])


def mission_text(state: BabyAIState) -> Any:
    """What the mission says: a string, or an array of strings for states on a first axis."""
    words = state.verb, state.article, state.mission_colour, state.mission_type, state.location
    return _say_each(*map(np.asarray, words))


@functools.cache
def _say(verb: int, article: int, colour: int, type: int, location: int) -> str:
    described = missions.Description(
        (*TYPES, missions.ANY)[type],
        ARTICLES[article],
        (*COLOURS, None)[colour],
        (*LOCATIONS, None)[location],
    )
    return str(missions.Mission(VERBS[verb], described))


_say_each = np.frompyfunc(_say, 5, 1)


def look(state: BabyAIState) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """The rows of the room, and the rows of the agent's view."""
    names = [(TYPES[t], COLOURS[c]) for t, c in zip(state.type, state.colour, strict=True)]
    here, *positions = map(_place, [state.agent, *state.position])
    things = {positions[i]: names[i] for i in np.flatnonzero(state.status == LYING)}
    for carried in np.flatnonzero(state.status == CARRIED):
        things[here] = names[carried]
    places = [[_place(place) for place in row] for row in view_places(state)]
    seen = {place for row in places for place in row}

    def cell(place: tuple[int, int], facing: int | None) -> Cell:
        x, y = place
        if not (0 <= x < SIZE and 0 <= y < SIZE):
            return "nothing", None, None
        ground = "wall" if {x, y} & {0, SIZE - 1} else "floor"
        ground = ground if place in seen else f"dark {ground}"
        return ground, things.get(place), facing if place == here else None

    room = [[cell((x, y), int(state.direction)) for x in range(SIZE)] for y in range(SIZE)]
    # Like minigrid's, the view shows what is carried in the agent's place.
    facing = None if here in things else UP
    return room, [[cell(place, facing) for place in row] for row in places]


UP = 3


def _place(position: Any) -> tuple[int, int]:
    return int(position[0]), int(position[1])


def view_places(state: BabyAIState) -> Int[np.ndarray, "7 7 2"]:
    """x and y of what the agent sees, by row and column; some are outside the room."""
    ahead = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[state.direction]
    right = np.array([-ahead[1], ahead[0]])
    rows, columns = np.mgrid[:VIEW, :VIEW][..., None]
    return state.agent + (NEAR - rows) * ahead + (columns - MIDDLE) * right


def fulfilled(state: BabyAIState) -> bool:
    """Whether the agent has just done what it was told to."""
    front = view_places(state)[NEAR - 1, MIDDLE]
    # Where the target lay before the step, in which it may have been picked up or opened.
    faced = (state.position == front).all(-1)
    done = faced if state.verb == GO else state.status == CARRIED
    return bool(state.time > 0 and (state.target & done).any())


def draw_cells(rows: list[list[Cell]], size: int) -> Frame:
    """Cells side by side, each `size` pixels wide."""
    return np.concatenate([np.concatenate([tile(c, size) for c in row], 1) for row in rows])


@functools.cache
def tile(cell: Cell, size: int) -> Frame:
    """One cell. A carried thing is small, on the agent's back."""
    ground, thing, direction = cell
    fill, line = GROUNDS[ground]
    picture = blank(size, size, line)
    picture[1:, 1:] = fill
    if direction is not None:
        paint(picture, triangle(size, direction), AGENT)
    if thing is not None:
        type, colour = thing
        if direction is None:
            paint(picture, SHAPES[type](size), PAINTS[colour])
        else:
            small, start = size // 2, size // 4
            area = picture[start : start + small, start : start + small]
            paint(area, disc(small, 0.5, 0.5, 0.5), fill)
            paint(area, SHAPES[type](small), PAINTS[colour])
    return picture


def ball(size: int) -> Mask:
    """A disc."""
    return disc(size, 0.5, 0.5, 0.32)


def box(size: int) -> Mask:
    """A frame with a slit across."""
    inside = slab(size, 0.24, 0.24, 0.76, 0.47) | slab(size, 0.24, 0.53, 0.76, 0.76)
    return slab(size, 0.16, 0.16, 0.84, 0.84) & ~inside


def key(size: int) -> Mask:
    """A ring on a stem with two teeth."""
    ring = disc(size, 0.46, 0.29, 0.19) & ~disc(size, 0.46, 0.29, 0.08)
    stem = slab(size, 0.41, 0.44, 0.52, 0.88)
    teeth = slab(size, 0.52, 0.62, 0.68, 0.7) | slab(size, 0.52, 0.79, 0.68, 0.88)
    return ring | stem | teeth


SHAPES = {"ball": ball, "box": box, "key": key}


def write_cells(rows: list[list[Cell]]) -> list[str]:
    """Cells as lines of text."""
    return [" ".join(map(_letter, row)) for row in rows]


def _letter(cell: Cell) -> str:
    ground, thing, direction = cell
    letter = GROUND_LETTERS[ground] if thing is None else LETTERS[thing[0]]
    letter = letter if direction is None else ">v<^"[direction]
    return letter if thing is None else f"\x1b[{CODES[thing[1]]}m{letter}\x1b[0m"
