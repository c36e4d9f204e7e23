"""Making levels: a room by a random walk, boxes placed by playing backwards from the solution.

As Racaniere et al. (2017, appendix) describe and Boxoban was made, with one difference: where they
search backwards for the state of the highest score, here the player walks at random, pulling
boxes, and the best state on the way is kept. That needs no search, and so all rooms of a batch
are played at once; the levels are like Boxoban's, not of the same distribution.
"""

import lzma
import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt8

from wmg.envs.sokoban import levels
from wmg.envs.sokoban.levels import BOXES, SIZE, Boards

BATCH = 250
WALK = 40
"""Steps of the walk that opens a room."""
TURN = 0.35
"""How often it changes direction."""
TRIES = 8
"""Placements of the targets that are tried in a room; the best is kept."""
PLAY = 2000
"""Steps of playing backwards."""
PULL = 0.8
"""How often a box that can be pulled is."""
STEPS = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
"""Up, down, left, right, as the actions 1 to 4 of the environment."""
STRIDES = STEPS[:, 0] * SIZE + STEPS[:, 1]
CELLS = np.stack(np.divmod(np.arange(SIZE**2), SIZE), axis=1)
DISTANCE = np.abs(CELLS[:, None] - CELLS).sum(axis=2)
"""Between two cells, in steps."""
PATTERNS = np.array(
    [
        [[0, 0, 0], [1, 1, 1], [0, 0, 0]],
        [[0, 1, 0], [0, 1, 0], [0, 1, 0]],
        [[0, 0, 0], [1, 1, 0], [0, 1, 0]],
        [[0, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[0, 0, 0], [0, 1, 1], [0, 1, 0]],
    ],
    bool,
)
"""What a step of the walk opens around it."""

Rooms = Bool[np.ndarray, "rooms cells"]
"""Where there is floor; cells are in rows of ten."""


class Made(NamedTuple):
    """Levels, and the proof that each can be solved."""

    boards: Boards
    solutions: list[UInt8[np.ndarray, " steps"]]
    """Actions, 1 to 4, that solve each level: seldom the shortest."""


def generate(count: int, seed: int) -> Made:
    """Levels, all different. The first ones of a seed are the same for every count."""
    boards, solutions, seen, batch = [], [], set(), 0
    while len(boards) < count:
        made = _generate_batch(np.random.default_rng((seed, batch)))
        batch += 1
        for board, solution in zip(*made, strict=True):
            if board.tobytes() not in seen:
                seen.add(board.tobytes())
                boards.append(board)
                solutions.append(solution)
    return Made(np.stack(boards[:count]), solutions[:count])


def _choose(random: np.random.Generator, size: int, options: int) -> Int[np.ndarray, " size"]:
    # `random` is the only method whose numbers are the same in every version of numpy.
    return (random.random(size) * options).astype(np.int64)


def draw_rooms(random: np.random.Generator, rooms: int) -> Rooms:
    """Rooms whose floor is one region."""
    floor = np.zeros((rooms, SIZE, SIZE), bool)
    place = np.stack([_choose(random, rooms, SIZE - 2) + 1 for _ in range(2)])
    direction = _choose(random, rooms, 4)
    each = np.arange(rooms)
    for _ in range(WALK):
        turns = random.random(rooms) < TURN
        direction = np.where(turns, _choose(random, rooms, 4), direction)
        place = np.clip(place + STEPS[direction].T, 1, SIZE - 2)
        opened = PATTERNS[_choose(random, rooms, len(PATTERNS))]
        for row in range(3):
            for column in range(3):
                floor[each, place[0] + row - 1, place[1] + column - 1] |= opened[:, row, column]
    floor[:, [0, -1]] = floor[:, :, [0, -1]] = False
    return floor.reshape(rooms, -1)


def draw_targets(
    random: np.random.Generator, floor: Rooms
) -> tuple[Int[np.ndarray, "rooms boxes"], Int[np.ndarray, " rooms"]]:
    """Cells for the targets, and another one for the player."""
    chances = np.where(floor, random.random(floor.shape), -1.0)
    places = np.argsort(-chances, axis=1, kind="stable")[:, : BOXES + 1]
    return places[:, :-1], places[:, -1]


class Best(NamedTuple):
    """The best state of each room on the way, and the way."""

    boxes: Int[np.ndarray, "rooms boxes"]
    player: Int[np.ndarray, " rooms"]
    away: Int[np.ndarray, " rooms"]
    """How far, in all, the boxes are from where they came; 0 if there was no such state."""
    time: Int[np.ndarray, " rooms"]
    undo: UInt8[np.ndarray, "steps rooms"]
    """The action that undoes each step, 0 where nothing moved."""


def play_backwards(
    random: np.random.Generator,
    floor: Rooms,
    targets: Int[np.ndarray, "rooms boxes"],
    player: Int[np.ndarray, " rooms"],
) -> Best:
    """Play at random from the solved state, pulling boxes, and keep the state in which boxes are
    farthest from their targets, with none of them and no player on a target."""
    each = np.arange(len(floor))
    boxes, held = targets.copy(), np.zeros(floor.shape, np.int64)
    np.put_along_axis(held, targets, np.arange(1, BOXES + 1)[None], axis=1)
    is_target = held > 0
    best_boxes, best_player = boxes.copy(), player.copy()
    best, when = np.zeros(len(floor), np.int64), np.zeros(len(floor), np.int64)
    undo = np.zeros((PLAY, len(floor)), np.uint8)
    for time in range(PLAY):
        direction = _choose(random, len(floor), 4)
        pulling = random.random(len(floor)) < PULL
        step = STRIDES[direction]
        ahead, behind = player + step, player - step
        free = floor[each, ahead] & (held[each, ahead] == 0)
        box = held[each, behind]
        pulled = np.flatnonzero(free & pulling & (box > 0))
        held[pulled, behind[pulled]] = 0
        held[pulled, player[pulled]] = box[pulled]
        boxes[pulled, box[pulled] - 1] = player[pulled]
        player = np.where(free, ahead, player)
        undo[time] = np.where(free, (direction ^ 1) + 1, 0)
        away = DISTANCE[boxes, targets].sum(axis=1)
        on_target = is_target[each, player] | is_target[each[:, None], boxes].any(axis=1)
        better = np.flatnonzero(~on_target & (away > best))
        best[better], when[better] = away[better], time + 1
        best_boxes[better], best_player[better] = boxes[better], player[better]
    return Best(best_boxes, best_player, best, when, undo)


def _generate_batch(random: np.random.Generator) -> Made:
    rooms = draw_rooms(random, BATCH)
    rooms = rooms[rooms.sum(axis=1) > 2 * BOXES + 1]
    floor = np.repeat(rooms, TRIES, axis=0)
    targets, start = draw_targets(random, floor)
    best = play_backwards(random, floor, targets, start)
    kept = best.away.reshape(-1, TRIES).argmax(axis=1) + TRIES * np.arange(len(rooms))
    kept = kept[best.away[kept] > 0]
    boards = np.where(floor[kept], np.uint8(levels.FLOOR), np.uint8(levels.WALL))
    np.put_along_axis(boards, targets[kept], np.uint8(levels.TARGET), axis=1)
    np.put_along_axis(boards, best.boxes[kept], np.uint8(levels.BOX), axis=1)
    np.put_along_axis(boards, best.player[kept, None], np.uint8(levels.PLAYER), axis=1)
    ways = [best.undo[: best.time[index], index][::-1] for index in kept]
    return Made(boards.reshape(-1, SIZE, SIZE), [way[way > 0] for way in ways])


def write_embedded(path: pathlib.Path = levels.EMBEDDED_FILE) -> None:
    """Make the banks that come with the package."""
    boards = generate(max(place.stop for place in levels.EMBEDDED.values()), seed=0).boards
    columns = np.ascontiguousarray(levels.pack(boards).T)  # compresses better than rows
    path.write_bytes(lzma.compress(columns.tobytes(), preset=9 | lzma.PRESET_EXTREME))
