"""The board as the viewer shows it."""

import jax
import pytest
from viewer import players

from wmg.envs.sokoban import levels
from wmg.envs.sokoban import scene as sokoban
from wmg.viewer import chance

TEXT = "#######\n#@$ . #\n# $*. #\n#######"


@pytest.fixture(scope="module")
def env():
    return players.sokoban().env


@pytest.fixture(scope="module")
def own(env):
    _, state = sokoban.by_text(env, TEXT, 3, chance.reset)
    return sokoban.describe(*jax.device_get((state, env.observe(state))))


def test_a_level_of_ones_own_is_shown_as_it_was_written(own):
    rows = [row[:7] for row in own["board"][:4]]
    assert rows == TEXT.split("\n")
    assert own["says"] == "1 of 3 boxes are on targets."


def test_factors_are_on_every_cell_but_the_players_own(own):
    open_cells = [
        [x, y] for y, row in enumerate(own["board"]) for x, mark in enumerate(row) if mark in " .$*"
    ]
    assert [place for place in own["places"] if place] == open_cells


def test_a_level_of_the_bank_is_shown_as_it_is_there(env):
    seed, state = sokoban.by_number(env, 17, 3, chance.reset)
    scene = sokoban.describe(*jax.device_get((state, env.observe(state))))
    board = levels.to_text(levels.to_board(jax.jit(levels.Levels.level)(env.levels, 17)))
    assert seed == 3 and "\n".join(scene["board"]) + "\n" == board


def test_a_number_outside_the_bank_is_one_sentence(env):
    with pytest.raises(ValueError, match="level must be from 0 to 999 in this bank, got 1,000"):
        sokoban.by_number(env, 1000, 0, chance.reset)


def test_a_level_that_is_too_large_is_one_sentence(env):
    with pytest.raises(ValueError, match="bound must be at least 12"):
        sokoban.by_text(env, "#" * 12 + "\n#@$." + " " * 7 + "#\n" + "#" * 12, 0, chance.reset)
