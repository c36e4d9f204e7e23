"""What the agent sees, in every format, straight from the list of things.

In a single room nothing hides anything: what lies in the 7x7 view is seen. So no grid is made
where none is asked for, and the first row and column with walls have a closed form.

factored: a Core of 63 numbers (last action, direction, mission, walls) and a Factor of 29 for
    each thing in view (type, colour, state of a door, x, y), row by row from the far end. A
    carried thing is where the agent is.
flattened: the same in one vector of 411, with room for 12 Factors.
image: minigrid's image, and a vector of 47 (last action, direction, mission).
words: minigrid's image, and the numbers of the mission's words (9; 0 where nothing is said).
flat: the vector of 47 with all cells of the image, one-hot, in its midst: 929.
"""

import typing

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from wmg.envs.babyai import missions
from wmg.envs.babyai.encode import (
    CELL_TYPES,
    CORE,
    DIRECTIONS,
    DOOR_STATES,
    FACTOR,
    FLAT,
    FLATTENED,
    FLATTENED_THINGS,
    VECTOR,
)
from wmg.envs.babyai.missions import THING
from wmg.envs.babyai.settings import Format
from wmg.envs.babyai.vocabulary import (
    ACTIONS,
    ARTICLES,
    COLOURS,
    EMPTY,
    FIRST_TYPE,
    GREY,
    LOCATIONS,
    OBJECTS,
    SIZE,
    TYPES,
    UNSEEN,
    VERBS,
    VIEW,
    WALL,
)
from wmg.envs.babyai.world import CARRIED, LYING, BabyAIState, ahead_of, seen_from
from wmg.types import Factors, Observation, ObservationSpec

FORMATS = typing.get_args(Format)

MIDDLE, NEAR = VIEW // 2, VIEW - 1
"""The column and the row of the view that the agent is in."""


def spec(format: str, slots: int) -> ObservationSpec:
    """The shapes of an observation with room for a number of Factors."""
    return {
        "factored": ObservationSpec(CORE, (("objects", slots, FACTOR),)),
        "flattened": ObservationSpec(FLATTENED),
        "image": ObservationSpec(VECTOR, image=(VIEW, VIEW, 3)),
        "flat": ObservationSpec(FLAT),
        "words": ObservationSpec(missions.MOST_WORDS, image=(VIEW, VIEW, 3)),
    }[format]


def observe(state: BabyAIState, format: str, slots: int) -> Observation:
    """The observation of a state. A factored one shows the first `slots` things only."""
    if format == "image":
        return Observation(vector(state), image=image(state).astype(jnp.float32))
    if format == "words":
        return Observation(words(state), image=image(state).astype(jnp.float32))
    if format == "flat":
        return Observation(flat(state))
    seen = factors(state, slots)
    if format == "factored":
        return Observation(core(state), {"objects": seen})
    padding = jnp.zeros((FLATTENED_THINGS - slots) * FACTOR)
    return Observation(jnp.concatenate([core(state), seen.values.reshape(-1), padding]))


Part = tuple[int, Int[Array, "*rows"] | int, Float[Array, "*rows"] | Int[Array, "*rows"] | int]


def lay_out(*parts: Part) -> Float[Array, "*rows columns"]:
    """Parts end to end. Each is (size, place, value): zeros, and the value in that place, if
    the part has such a place.

    Every number is made by comparing, which costs less than to concatenate or to scatter.
    """
    columns, start = jnp.arange(sum(size for size, _, _ in parts)), 0
    row = jnp.float32(0)
    for size, place, value in parts:
        place, value = jnp.asarray(place), jnp.asarray(value, jnp.float32)
        at = jnp.where((place >= 0) & (place < size), start + place, -1)
        row = jnp.where(columns == at[..., None], value[..., None], row)
        start += size
    return row


def mission_parts(state: BabyAIState) -> list[Part]:
    """Last action, direction and mission: VECTOR columns."""
    return [
        (len(ACTIONS), state.last_action, 1),
        (DIRECTIONS, state.direction, 1),
        (len(VERBS), state.verb, 1),
        (len(ARTICLES), state.article, 1),
        (len(COLOURS), state.mission_colour, 1),
        (len(TYPES), state.mission_type, 1),
        (len(LOCATIONS), state.location, 1),
        (THING, -1, 1),  # no mission here has a second thing
    ]


def coordinate_parts(vx: Int[Array, "*rows"], vy: Int[Array, "*rows"]) -> list[Part]:
    """A place in the view: each coordinate seen from the agent, and one-hot."""
    return [(1, 0, vx - MIDDLE), (VIEW, vx, 1), (1, 0, NEAR - vy), (VIEW, vy, 1)]


def vector(state: BabyAIState) -> Float[Array, "47"]:
    """Last action, direction and mission."""
    return lay_out(*mission_parts(state))


def words(state: BabyAIState) -> Float[Array, "9"]:
    """The number of each word of the mission, in order; gaps where it says nothing."""
    parts = (state.verb, state.article, state.mission_colour, state.mission_type, state.location)
    said = zip(missions.word_tables(), parts, strict=True)
    return jnp.concatenate([jnp.asarray(table)[part] for table, part in said])


def core(state: BabyAIState) -> Float[Array, "63"]:
    """Last action, direction, mission, and where the walls are."""
    return lay_out(*mission_parts(state), *coordinate_parts(*walls_in_view(state)))


def wall_distances(state: BabyAIState) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Steps to the wall ahead and to the wall on the right. The two opposite walls are 7 less
    these away."""
    dx, dy = ahead_of(state.direction)
    far = SIZE - 1

    def distance(dx: Int[Array, ""], dy: Int[Array, ""]) -> Int[Array, ""]:
        along = state.agent[0] * dx + state.agent[1] * dy  # negative if looking left or up
        return jnp.where(dx + dy > 0, far - along, -along)

    return distance(dx, dy), distance(-dy, dx)


def walls_in_view(state: BabyAIState) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The first column from the left and the first row from the far end that show two cells of
    wall or more. One of the side walls is always in view, and so is the one ahead."""
    ahead, right = wall_distances(state)
    column = jnp.where(right <= MIDDLE, MIDDLE + right, MIDDLE - (SIZE - 1 - right))
    return column, NEAR - ahead


def factors(state: BabyAIState, slots: int) -> Factors:
    """The things in view, row by row from the far end, each row from the left."""
    vx, vy, seen = in_view(state)
    key = jnp.where(seen, vy << 8 | vx << 5 | state.type << 3 | state.colour, UNSEEN_KEY)
    key = in_order(key[:slots])
    present = key < UNSEEN_KEY
    values = lay_out(
        (len(TYPES), key >> 3 & 3, 1),
        (len(COLOURS), key & 7, 1),
        (DOOR_STATES, 0, 1),  # set for every thing, though none is a door
        *coordinate_parts(key >> 5 & 7, key >> 8),
    )
    return Factors(jnp.where(present[:, None], values, 0), present)


UNSEEN_KEY = VIEW << 8
"""Greater than the key of anything seen."""


def in_view(state: BabyAIState) -> tuple[Int[Array, " 8"], Int[Array, " 8"], Bool[Array, " 8"]]:
    """Column and row of each thing in the view, and whether it is seen."""
    ahead, right = seen_from(state.agent, state.direction, state.position)
    carried = state.status == CARRIED
    vx = jnp.where(carried, MIDDLE, MIDDLE + right)
    vy = jnp.where(carried, NEAR, NEAR - ahead)
    inside = (vx >= 0) & (vx < VIEW) & (vy >= 0) & (vy < VIEW)
    return vx, vy, carried | ((state.status == LYING) & inside)


def in_order(keys: Int[Array, " slots"]) -> Int[Array, " slots"]:
    """One or eight numbers, sorted, by comparing pairs of them: cheaper than a sort."""
    values = list(keys)
    for low, high in SORTING_NETWORK if len(values) == OBJECTS else ():
        one, other = values[low], values[high]
        values[low], values[high] = jnp.minimum(one, other), jnp.maximum(one, other)
    return jnp.stack(values)


SORTING_NETWORK = (
    *((0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6)),
    *((0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6)),
)
"""Batcher's for eight numbers: each pair is put in order, one after the other."""


def image(state: BabyAIState) -> Int[Array, "7 7 3"]:
    """minigrid's image: type, colour and state of every cell, first index the column."""
    vx, vy, seen = in_view(state)
    column, row = jnp.arange(VIEW)[:, None], jnp.arange(VIEW)[None, :]
    here = seen & (vx == column[..., None]) & (vy == row[..., None])
    thing = here.any(-1)
    type, colour = (jnp.where(here, what, 0).sum(-1) for what in (state.type, state.colour))

    right, ahead = column - MIDDLE, NEAR - row
    wall_ahead, wall_right = wall_distances(state)
    wall_left = wall_right - (SIZE - 1)
    room = (ahead <= wall_ahead) & (right <= wall_right) & (right >= wall_left)
    edge = (ahead == wall_ahead) | (right == wall_right) | (right == wall_left)
    wall = room & edge
    background = jnp.where(wall, WALL, jnp.where(room, EMPTY, UNSEEN))
    types = jnp.where(thing, FIRST_TYPE + type, background)
    colours = jnp.where(thing, colour, jnp.where(wall, GREY, 0))
    return jnp.stack([types, colours, jnp.zeros_like(types)], axis=-1)


def flat(state: BabyAIState) -> Float[Array, "929"]:
    """Last action, direction, the types of all cells, their colours, their states, mission."""
    cells = jnp.swapaxes(image(state), 0, 1).reshape(VIEW * VIEW, 3)
    sizes = CELL_TYPES, len(COLOURS), DOOR_STATES
    planes = [lay_out((size, cells[:, i], 1)).reshape(-1) for i, size in enumerate(sizes)]
    rest = vector(state)
    split = len(ACTIONS) + DIRECTIONS
    return jnp.concatenate([rest[:split], *planes, rest[split:]])
