"""Levels of our own: solved by a plain player, and like Boxoban's by published numbers."""

import numpy as np
import pytest
from envs.sokoban import level_statistics

from wmg.envs.sokoban import generate, levels

MOVES = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}


@pytest.fixture(scope="module")
def made():
    return generate.generate(250, seed=0)


@pytest.fixture(scope="module")
def embedded():
    return level_statistics.boards_of("embedded-train")


def solved_by(board, actions):
    """Whether the actions solve the level, by the rules of the game and nothing else."""
    cells = {(r, c): chr(mark) for (r, c), mark in np.ndenumerate(board)}
    boxes = {place for place, mark in cells.items() if mark == "$"}
    targets = {place for place, mark in cells.items() if mark == "."}
    (player,) = [place for place, mark in cells.items() if mark == "@"]
    for action in actions:
        row, column = MOVES[int(action)]
        ahead = (player[0] + row, player[1] + column)
        beyond = (ahead[0] + row, ahead[1] + column)
        if ahead in boxes:
            assert cells[beyond] != "#" and beyond not in boxes, "a push that cannot be"
            boxes = boxes - {ahead} | {beyond}
        assert cells[ahead] != "#", "a step into a wall"
        player = ahead
    return boxes == targets


def test_the_solution_of_every_level_solves_it(made):
    assert all(solved_by(*level) for level in zip(*made, strict=True))
    assert not any(solved_by(board, []) for board in made.boards)


def test_levels_are_levels_of_boxobans_kind(made):
    levels.check(made.boards, range(250))
    assert levels.fits_compact(made.boards)
    assert not np.isin(made.boards, list(b"*+")).any()


def test_the_floor_of_a_room_is_one_region(made):
    for board in made.boards[:100]:
        floor = set(zip(*np.nonzero(board != ord("#")), strict=True))
        reached, edge = set(), [min(floor)]
        while edge:
            row, column = edge.pop()
            if (row, column) in floor - reached:
                reached.add((row, column))
                edge += [(row + r, column + c) for r, c in MOVES.values()]
        assert reached == floor


def test_a_seed_makes_the_same_levels_whatever_the_count(made):
    again = generate.generate(20, seed=0)
    np.testing.assert_array_equal(again.boards, made.boards[:20])
    other = generate.generate(20, seed=1)
    assert (other.boards != made.boards[:20]).any(axis=(1, 2)).all()


def test_the_embedded_bank_is_what_the_generator_makes(made, embedded):
    np.testing.assert_array_equal(embedded[:250], made.boards)


BOXOBAN = {
    "floor": (31.73, 0.5),
    "floor_deviation": (6.48, 0.5),
    "blocks": (14.9, 0.8),
    "matching": (10.54, 0.5),
    "matching_deviation": (3.49, 0.4),
    "walls_by_box": (0.45, 0.05),
    "walls_by_target": (1.12, 0.1),
    "player_to_box": (3.95, 0.7),
}
"""Measured on 50,000 unfiltered training levels, and how far ours may be from that."""


def test_embedded_levels_look_like_boxobans(embedded):
    found = level_statistics.describe(embedded)
    for name, (boxobans, apart) in BOXOBAN.items():
        assert found[name] == pytest.approx(boxobans, abs=apart), name
    assert len(np.unique(embedded, axis=0)) == len(embedded)


@pytest.mark.slow
def test_the_whole_embedded_file_can_be_made_again(tmp_path):
    generate.write_embedded(tmp_path / "again.xz")
    assert (tmp_path / "again.xz").read_bytes() == levels.EMBEDDED_FILE.read_bytes()
