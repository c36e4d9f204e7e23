"""The rules of Sokoban, on a list of the cells that are not walls.

Which cells these are does not change in an episode, so they are listed once, at its start. A step
then finds the cells before the player by comparing, which costs less than to look them up on a
board, and the list is already what a factored observation shows.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, UInt8

from wmg.envs.sokoban.levels import Level

ACTIONS = ("stay", "up", "down", "left", "right")
STAY, UP, DOWN, LEFT, RIGHT = range(len(ACTIONS))

TARGET, BOX, PLAYER, WALL_LEFT, WALL_UP, WALL_RIGHT, WALL_DOWN, FLOOR = (
    np.uint8(1 << bit) for bit in range(8)
)
"""The marks of a cell, a bit each: what it is, what is on it, where walls bound it. No cell has
the player's: a Factor has a place for it, but the player's own cell is no Factor. FLOOR is
everywhere that is not a wall."""


class Rewards(NamedTuple):
    """Rewards for the events of one step; several events add up."""

    step: float
    """In every step."""
    on: float
    """For a box that is pushed onto a target."""
    off: float
    """For a box that is pushed off a target."""
    solved: float
    """When all boxes are on targets."""


class SokobanState(eqx.Module):
    """One episode. The board is closed, so no two steps lead from inside to the corner (0, 0),
    which stands for no cell."""

    row: Int8[Array, " cells"]
    column: Int8[Array, " cells"]
    marks: UInt8[Array, " cells"]
    """Cells row by row, then padding: 0 for no cell."""
    player: Int[Array, "2"]
    """Row and column."""
    here: UInt8[Array, ""]
    """The marks of the player's cell."""
    missing: Int[Array, ""]
    """Boxes that are not on targets."""
    last_action: Int[Array, ""]
    """STAY at the start."""
    last_reward: Float[Array, ""]
    time: Int[Array, ""]
    bound: int = eqx.field(static=True)
    """Height and width of the board."""

    @property
    def solved(self) -> Bool[Array, ""]:
        """Whether all boxes are on targets."""
        return self.missing == 0


def most_cells(bound: int) -> int:
    """How many cells of a board are not walls, at most."""
    return (bound - 2) ** 2


def begin(level: Level, cells: int) -> SokobanState:
    """A level at its start, padded to `cells` cells."""
    marks = mark(level).reshape(-1)
    inner = level.walls.shape[0] - 2
    (place,) = jnp.nonzero(marks, size=cells, fill_value=inner**2)
    exists = place < inner**2
    row, column = (
        jnp.where(exists, 1 + part, 0).astype(jnp.int8) for part in (place // inner, place % inner)
    )
    marks = marks.at[place].get(mode="fill", fill_value=0)
    player = level.player.astype(jnp.int32)
    zero = 0 * player[0]  # a constant would make a loop over states compile twice
    state = SokobanState(
        row=row,
        column=column,
        marks=marks,
        player=player,
        here=jnp.uint8(0),
        missing=(has(marks, BOX) & ~has(marks, TARGET)).sum(dtype=jnp.int32),
        last_action=zero,
        last_reward=zero.astype(jnp.float32),
        time=zero,
        bound=level.walls.shape[0],
    )
    return dataclasses.replace(state, here=find(state, is_at(state, player)))


def mark(level: Level) -> UInt8[Array, "inner inner"]:
    """The marks of the cells inside the border; 0 for walls."""
    inside, before, behind = slice(1, -1), slice(None, -2), slice(2, None)
    walls = level.walls
    parts = (
        (level.targets[inside, inside], TARGET),
        (level.boxes[inside, inside], BOX),
        (walls[inside, before], WALL_LEFT),
        (walls[before, inside], WALL_UP),
        (walls[inside, behind], WALL_RIGHT),
        (walls[behind, inside], WALL_DOWN),
    )
    marks = FLOOR
    for where, bit in parts:
        marks = marks | jnp.where(where, bit, 0)
    return jnp.where(walls[inside, inside], 0, marks)


def has(marks: UInt8[Array, "*cells"], bit: np.uint8) -> Bool[Array, "*cells"]:
    """Whether each cell has the mark."""
    return (marks & bit) != 0


def is_at(state: SokobanState, cell: Int[Array, "2"]) -> Bool[Array, " cells"]:
    """Which of the cells that one is, if any."""
    row, column = cell.astype(jnp.int8)
    return (state.row == row) & (state.column == column)


def find(state: SokobanState, where: Bool[Array, " cells"]) -> UInt8[Array, ""]:
    """The marks of the one cell; 0, as for a wall, where there is none."""
    return jnp.where(where, state.marks, 0).max()


def act(state: SokobanState, action: Int[Array, ""], rewards: Rewards) -> SokobanState:
    """What `action` leads to: the player moves, and pushes a box if there is room behind it.

    To stay is to move to where one is.
    """
    down = (action == DOWN).astype(jnp.int32) - (action == UP)
    right = (action == RIGHT).astype(jnp.int32) - (action == LEFT)
    way = jnp.stack([down, right])
    is_ahead, is_beyond = is_at(state, state.player + way), is_at(state, state.player + 2 * way)
    ahead, beyond = find(state, is_ahead), find(state, is_beyond)

    meets_box = has(ahead, BOX)
    pushes = meets_box & has(beyond, FLOOR) & ~has(beyond, BOX)
    moves = has(ahead, FLOOR) & (~meets_box | pushes)
    gained = pushes * (has(beyond, TARGET).astype(jnp.int32) - has(ahead, TARGET))
    missing = state.missing - gained
    reward = (
        rewards.step
        + jnp.where(gained > 0, rewards.on, 0.0)
        + jnp.where(gained < 0, rewards.off, 0.0)
        + jnp.where(missing == 0, rewards.solved, 0.0)
    )
    return dataclasses.replace(
        state,
        marks=state.marks ^ jnp.where(pushes & (is_ahead | is_beyond), BOX, 0),
        player=jnp.where(moves, state.player + way, state.player),
        here=jnp.where(moves, ahead & ~BOX, state.here),
        missing=missing,
        last_action=action.astype(jnp.int32),
        last_reward=reward.astype(jnp.float32),
        time=state.time + 1,
    )


def board(state: SokobanState) -> UInt8[Array, "bound bound"]:
    """The marks of all cells by row and column, with the player's; 0 for walls."""
    marks = jnp.where(is_at(state, state.player), state.marks | PLAYER, state.marks)
    empty = jnp.zeros((state.bound, state.bound), jnp.uint8)
    return empty.at[state.row, state.column].max(marks)
