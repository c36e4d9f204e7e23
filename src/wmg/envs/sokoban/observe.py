"""What the agent sees, in every format. Numbers are for a bound of 10, the paper's.

factored: a Core of 11 numbers (last action 5, last reward, whether the player is on a target, walls
    to the left, above, to the right and below) and a Factor of 39 for every other cell that is not
    a wall, row by row: columns to the right of the player (16), rows below (16), target, box,
    player (never), and the four walls. A distance is a number from -1 to 1, and one-hot (15).
planes: an image of 10x10x4 (wall, target, box, player) and a Core of 6 (last action, last reward).
rgb: an image of 10x10x3, a pixel for each cell, from 0 to 1, and the same Core.
"""

import functools
import itertools
import typing
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from wmg.envs.sokoban.settings import Format
from wmg.envs.sokoban.world import (
    ACTIONS,
    BOX,
    FLOOR,
    PLAYER,
    TARGET,
    SokobanState,
    board,
    has,
    is_at,
)
from wmg.types import Factors, Observation, ObservationSpec

FORMATS = typing.get_args(Format)
CELLS = "cells"
"""The name of the Factors."""
MARKS = 7
"""How many of a cell's marks a Factor shows."""
VECTOR = len(ACTIONS) + 1
CORE = VECTOR + 5

COLOURS = np.array(
    [
        (0, 0, 0),  # wall
        (243, 248, 238),  # floor
        (254, 126, 125),  # target
        (142, 121, 56),  # box
        (254, 95, 56),  # box on a target
        (160, 212, 56),  # player
        (219, 212, 56),  # player on a target
    ],
    np.uint8,
)
"""Those that gym-sokoban and its users give small pictures."""


def reach(bound: int) -> int:
    """The largest distance between two cells, along rows or columns."""
    return bound - 3


def factor_size(bound: int) -> int:
    """How many numbers a Factor has."""
    return 2 * (2 + 2 * reach(bound)) + MARKS


def spec(format: str, bound: int, cells: int) -> ObservationSpec:
    """The shapes of an observation."""
    return {
        "factored": ObservationSpec(CORE, ((CELLS, cells, factor_size(bound)),)),
        "planes": ObservationSpec(VECTOR, image=(bound, bound, 4)),
        "rgb": ObservationSpec(VECTOR, image=(bound, bound, 3)),
    }[format]


def observe(state: SokobanState, format: str) -> Observation:
    """What the agent sees."""
    if format == "factored":
        return Observation(core(state), {CELLS: factors(state)})
    image = planes(state) if format == "planes" else rgb(state)
    return Observation(vector(state), image=image)


def vector(state: SokobanState) -> Float[Array, "6"]:
    """Last action and last reward."""
    return jnp.append(jax.nn.one_hot(state.last_action, len(ACTIONS)), state.last_reward)


def core(state: SokobanState) -> Float[Array, "11"]:
    """Last action and last reward, and of the marks of the player's cell target and walls."""
    shown = jnp.array([0, 3, 4, 5, 6], jnp.uint8)
    return jnp.concatenate([vector(state), ((state.here >> shown) & 1).astype(jnp.float32)])


def factors(state: SokobanState) -> Factors:
    """A row for every cell. Padding and the player's own cell are absent and zero."""
    present = has(state.marks, FLOOR) & ~is_at(state, state.player)
    right = state.column.astype(jnp.int32) - state.player[1]
    down = state.row.astype(jnp.int32) - state.player[0]
    columns = columns_of(state.bound)
    distance = jnp.where(columns.is_right, right[:, None], down[:, None])
    is_one = (distance == columns.hot) | ((state.marks[:, None] & columns.mark) != 0)
    values = is_one + columns.scale * (columns.multiple * distance).astype(jnp.float32)
    return Factors(jnp.where(present[:, None], values, 0.0), present)


class Columns(NamedTuple):
    """What a Factor has in each of its columns.

    One formula with these constants computes all columns, so a batch of observations takes one pass
    over memory with few operations per number. Observations take most of the time of a step.
    """

    is_right: Bool[np.ndarray, " size"]
    """Whether it is about the distance to the right; others: the distance below, or neither."""
    hot: Int[np.ndarray, " size"]
    """It is 1 at this distance; NEVER where it is not part of a one-hot."""
    mark: UInt8[np.ndarray, " size"]
    """It is 1 for cells with this mark; 0 where it is not about marks."""
    scale: Float[np.ndarray, " size"]
    """It is the distance times `multiple` times this; 0 where it is not a number."""
    multiple: int


NEVER = 127


@functools.cache
def columns_of(bound: int) -> Columns:
    """The columns of a Factor, for boards of a bound."""
    far = reach(bound)
    part, size = 2 + 2 * far, factor_size(bound)
    multiple = exact_multiple(far)
    index = np.arange(size)
    hot, mark = np.full(size, NEVER, np.int32), np.zeros(size, np.uint8)
    scale = np.zeros(size, np.float32)
    for start in (0, part):
        scale[start] = 1 / (multiple * far)
        hot[start + 1 : start + part] = np.arange(-far, far + 1)
    mark[2 * part :] = 1 << np.arange(MARKS)
    return Columns(index < part, hot, mark, scale, multiple)


@functools.cache
def exact_multiple(far: int) -> int:
    """The least m for which m * d times the reciprocal of m * far is d / far, correctly rounded,
    for every distance d.

    To divide by a constant, XLA multiplies by its reciprocal; with m = 1 that is not exact.
    """
    distance = np.arange(1, far + 1)

    def is_exact(multiple: int) -> bool:
        product = (multiple * distance).astype(np.float32) * np.float32(1 / (multiple * far))
        return bool((product == (distance / far).astype(np.float32)).all())

    return next(multiple for multiple in itertools.count(1) if is_exact(multiple))


def planes(state: SokobanState) -> Float[Array, "bound bound 4"]:
    """Walls, targets, boxes and the player."""
    marks = board(state)
    parts = [marks == 0, *(has(marks, bit) for bit in (TARGET, BOX, PLAYER))]
    return jnp.stack(parts, axis=-1).astype(jnp.float32)


def rgb(state: SokobanState) -> Float[Array, "bound bound 3"]:
    """A pixel for each cell."""
    return (jnp.asarray(COLOURS) / jnp.float32(255))[kinds(state)]


def kinds(state: SokobanState) -> Int[Array, "bound bound"]:
    """The content of each cell, as an index into COLOURS."""
    marks = board(state)
    on_target = has(marks, TARGET).astype(jnp.int32)
    floor = jnp.where(marks == 0, 0, 1 + on_target)
    occupied = jnp.where(has(marks, BOX), 3 + on_target, floor)
    return jnp.where(has(marks, PLAYER), 5 + on_target, occupied)
