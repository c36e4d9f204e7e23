"""The paper's observation formats, from any of minigrid's images, with doors and rooms.

These are plain numpy, for one moment of a real minigrid environment and for recordings of
them; the compiled environments have their own encoders without images. The numbers equal the
authors' bit for bit.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from wmg.envs.babyai import missions
from wmg.envs.babyai.vocabulary import ACTIONS, COLOURS, FIRST_TYPE, TYPES, VIEW, WALL

DIRECTIONS = 4
DOOR_STATES = 3
"""Open, closed, locked; whatever is not a door counts as open."""
CELL_TYPES = 9
"""One more than there are here: minigrid's goal, which no BabyAI level has."""

VECTOR = len(ACTIONS) + DIRECTIONS + missions.SIZE
COORDINATE = 1 + VIEW
CORE = VECTOR + 2 * COORDINATE
FACTOR = len(TYPES) + len(COLOURS) + DOOR_STATES + 2 * COORDINATE
FLAT = VECTOR + VIEW * VIEW * (CELL_TYPES + len(COLOURS) + DOOR_STATES)
FLATTENED_THINGS = 12
FLATTENED = CORE + FLATTENED_THINGS * FACTOR
MOST_THINGS = VIEW * VIEW
"""A thing in every visible cell, and a carried thing."""


@dataclasses.dataclass(frozen=True)
class AgentView:
    """What the agent is told at one moment."""

    image: Integer[np.ndarray, "7 7 3"]
    """Type, colour and state of each cell that is seen; the first index is the column."""
    direction: int
    mission: Float[np.ndarray, "36"]
    last_action: int
    """-1 at the start of an episode."""

    def __post_init__(self):
        unknown = self.image[..., 0] >= FIRST_TYPE + len(TYPES)
        if unknown.any():
            column, row = np.argwhere(unknown)[0]
            raise ValueError(
                f"an image may hold walls, floors, doors, keys, balls and boxes, "
                f"not type {self.image[column, row, 0]}"
            )


def vector(view: AgentView) -> Float[np.ndarray, "47"]:
    """Last action, direction and mission: what goes beside the image."""
    said = np.zeros(VECTOR, np.float32)
    if view.last_action >= 0:
        said[view.last_action] = 1.0
    said[len(ACTIONS) + view.direction] = 1.0
    said[len(ACTIONS) + DIRECTIONS :] = view.mission
    return said


def core(view: AgentView) -> Float[np.ndarray, "63"]:
    """The vector, and the places of the walls: zeros for a wall that is not visible."""
    x, y = find_walls(view.image)
    across = np.zeros(COORDINATE, np.float32) if x is None else ACROSS[x]
    ahead = np.zeros(COORDINATE, np.float32) if y is None else AHEAD[y]
    return np.concatenate([vector(view), across, ahead])


def things(
    view: AgentView, limit: int = MOST_THINGS
) -> tuple[Float[np.ndarray, "limit 29"], Bool[np.ndarray, " limit"]]:
    """A Factor for each thing in view, row by row from the far end, and which rows are real.

    A thing that is carried is in the agent's own cell.
    """
    rows = view.image.transpose(1, 0, 2)  # by row, then column
    ys, xs = np.nonzero(rows[..., 0] >= FIRST_TYPE)
    if len(xs) > limit:
        raise ValueError(f"{len(xs)} things are in view, and there is room for {limit}")
    type, colour, state = rows[ys, xs].T
    parts = (
        np.eye(len(TYPES), dtype=np.float32)[type - FIRST_TYPE],
        np.eye(len(COLOURS), dtype=np.float32)[colour],
        np.eye(DOOR_STATES, dtype=np.float32)[state],
        ACROSS[xs],
        AHEAD[ys],
    )
    factors = np.zeros((limit, FACTOR), np.float32)
    factors[: len(xs)] = np.concatenate(parts, axis=1)
    return factors, np.arange(limit) < len(xs)


def flat(view: AgentView) -> Float[np.ndarray, "929"]:
    """Three planes of one-hots (type, colour, state), between direction and mission."""
    rows = view.image.transpose(1, 0, 2).reshape(-1, 3)
    sizes = (CELL_TYPES, len(COLOURS), DOOR_STATES)
    planes = [
        np.eye(size, dtype=np.float32)[rows[:, i]].reshape(-1) for i, size in enumerate(sizes)
    ]
    before, mission = np.split(vector(view), [len(ACTIONS) + DIRECTIONS])
    return np.concatenate([before, *planes, mission])


def flattened(view: AgentView) -> Float[np.ndarray, "411"]:
    """The Core and the Factors, padded to 12, as one vector."""
    factors, _ = things(view, FLATTENED_THINGS)
    return np.concatenate([core(view), factors.reshape(-1)])


def find_walls(image: Integer[np.ndarray, "7 7 3"]) -> tuple[int | None, int | None]:
    """The first column from the left, and the first row from the far end, with at least two
    cells of wall or door."""
    is_wall = (image[..., 0] == WALL) | (image[..., 0] == FIRST_TYPE + TYPES.index("door"))
    found = [np.flatnonzero(is_wall.sum(axis) >= 2) for axis in (1, 0)]
    x, y = (int(places[0]) if len(places) else None for places in found)
    return x, y


def _coordinates(offsets: Int[np.ndarray, "7"]) -> Float[np.ndarray, "7 8"]:
    """Each place along one side of the view: its offset from the agent, and a one-hot."""
    return np.concatenate([offsets[:, None], np.eye(VIEW)], axis=1).astype(np.float32)


ACROSS = _coordinates(np.arange(VIEW) - VIEW // 2)
AHEAD = _coordinates(VIEW - 1 - np.arange(VIEW))
