"""Pictures of boards against the text they were made from."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.envs.sokoban import picture as sokoban
from wmg.envs.sokoban.env import Rewards
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.world import RIGHT, act, begin

TEXT = """
########
#@$.   #
# * .$ #
########
########
########
########
########"""


@jax.jit
def start(levels):
    return begin(levels.level(jnp.int32(0)), 36)


@jax.jit
def step(state, action):
    return act(state, action, Rewards(0.0, 1.0, -1.0, 2.0))


def plain(text):
    return re.sub("\x1b\\[\\d*m", "", text)


def test_a_text_is_the_board_and_where_the_episode_is():
    state = start(from_text(TEXT, 8))
    assert plain(sokoban.ansi(state)) == f"{TEXT.strip()}\nstep 0: 2 boxes to go"
    now = plain(sokoban.ansi(step(state, jnp.int32(RIGHT)))).splitlines()
    assert (now[1], now[-1]) == ("# @*   #", "step 1: 1 box to go")


def test_a_text_is_coloured():
    assert "\x1b[92m@\x1b[0m" in sokoban.ansi(start(from_text(TEXT, 8)))


def test_a_picture_is_its_cells_and_its_sides_are_even():
    picture = sokoban.rgb(start(from_text(TEXT, 8)))
    assert picture.shape == (8 * 40 + 62, 8 * 40 + 32, 3)
    assert picture.dtype == np.uint8
    for row, line in enumerate(TEXT.strip().split("\n")):
        for column, mark in enumerate(line):
            top, left = 16 + 40 * row, 16 + 40 * column
            np.testing.assert_array_equal(
                picture[top : top + 40, left : left + 40], sokoban.tile(mark)
            )


def test_no_two_kinds_of_cell_look_alike():
    tiles = {sokoban.tile(mark).tobytes() for mark in sokoban.KINDS}
    assert len(tiles) == len(sokoban.KINDS)


@pytest.mark.parametrize(("moves", "solved"), [(1, False), (2, True)])
def test_the_caption_says_when_it_is_solved(moves, solved):
    state = start(from_text("######\n#@$ .#\n######", 8))
    for _ in range(moves):
        state = step(state, jnp.int32(RIGHT))
    assert ("solved" in sokoban.ansi(state)) == solved
    green = (sokoban.rgb(state) == sokoban.SOLVED).all(-1).any()
    assert green == solved
