"""The rules of Sokoban, one by one; `test_sokoban` compares them with a plain restatement."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.envs.sokoban.env import Rewards
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.observe import kinds
from wmg.envs.sokoban.world import DOWN, LEFT, RIGHT, STAY, UP, act, begin, board, most_cells

BOUND = 8
PICTURE = "# .$*@+"
"""A character for each kind of cell."""
PAID = Rewards(0.0, 1.0, -1.0, 2.0)


@jax.jit
def start(levels):
    return begin(levels.level(jnp.int32(0)), most_cells(BOUND))


@functools.partial(jax.jit, static_argnums=2)
def step(state, action, rewards):
    return act(state, action, rewards)


@jax.jit
def look(state):
    return kinds(state)


def play(text, *actions, rewards=PAID):
    """The states of an episode."""
    states = [start(from_text(text, BOUND))]
    for action in actions:
        states.append(step(states[-1], jnp.int32(action), rewards))
    return states


def corridor(row):
    wall = "#" * len(row)
    return f"{wall}\n{row}\n{wall}"


def picture(state):
    """The rows of a state's board."""
    return ["".join(PICTURE[kind] for kind in row) for row in np.asarray(look(state))]


ROOM = """
#######
#  .  #
#  $  #
#.$@$.#
#  $  #
#  .  #
#######"""


@pytest.mark.parametrize(
    ("action", "row", "column"), [(UP, 2, 3), (DOWN, 4, 3), (LEFT, 3, 2), (RIGHT, 3, 4)]
)
def test_a_box_is_pushed_and_the_player_follows(action, row, column):
    before, now = play(ROOM, action)
    assert now.player.tolist() == [row, column]
    assert (before.missing, now.missing, now.last_reward) == (4, 3, 1.0)


def test_to_stay_changes_nothing_but_time():
    before, now = play(ROOM, STAY)
    assert picture(before) == picture(now)
    assert (now.time, now.last_action, now.last_reward) == (1, STAY, 0.0)


@pytest.mark.parametrize(
    ("before", "actions", "now"),
    [
        ("#@$ .#", [RIGHT], "# @$.#"),
        ("#@$ .#", [RIGHT, RIGHT], "#  @*#"),
        ("#@$ .#", [RIGHT, RIGHT, RIGHT], "#  @*#"),  # a wall behind the box
        ("#@$$..#", [RIGHT], "#@$$..#"),  # a box behind the box
        ("#@*. $.#", [RIGHT], "# +* $.#"),  # onto the target that the box leaves
        ("# $@.#", [RIGHT], "# $ +#"),  # boxes are not pulled
        ("# $@.#", [LEFT], "#$@ .#"),
        ("# $@.#", [LEFT, LEFT], "#$@ .#"),
        ("#@$ .#", [LEFT], "#@$ .#"),
        ("#@$ .#", [UP, DOWN], "#@$ .#"),
        ("#+$ .#", [STAY], "#+$ .#"),
        ("#+$ .#", [RIGHT], "#.@$.#"),
    ],
)
def test_in_a_corridor(before, actions, now):
    assert picture(play(corridor(before), *actions)[-1])[1][: len(now)] == now


def rewards_of(row, *actions, rewards=PAID):
    states = play(corridor(row), *actions, rewards=rewards)
    return [round(float(state.last_reward), 6) for state in states[1:]]


@pytest.mark.parametrize(
    ("row", "actions", "paid"),
    [
        ("#@$ .#", [RIGHT, RIGHT], [0, 3]),  # onto the last target
        ("#@*. $.#", [RIGHT, RIGHT], [0, -1]),  # from target to target, then off it
        ("#@$. $.#", [RIGHT, RIGHT], [1, -1]),
    ],
)
def test_what_is_paid(row, actions, paid):
    assert rewards_of(row, *actions) == paid


def test_other_rewards_are_paid_as_they_are_set():
    assert rewards_of("#@$ .#", LEFT, RIGHT, RIGHT, rewards=Rewards(-0.1, 1.0, -1.0, 10.0)) == [
        -0.1,
        -0.1,
        10.9,
    ]
    assert rewards_of("#@$.$.#", RIGHT, rewards=Rewards(0.0, 5.0, -7.0, 0.0)) == [5.0]


def test_a_level_is_solved_when_every_box_is_on_a_target_whatever_the_number_of_targets():
    states = play("#####\n#@$.#\n#. .#\n#####", RIGHT)
    assert [bool(state.solved) for state in states] == [False, True]


def test_cells_are_listed_row_by_row_and_the_rest_is_none():
    state = play("#####\n#@$.#\n# # #\n#####")[0]
    found = list(zip(state.row.tolist(), state.column.tolist(), strict=True))
    assert found[:5] == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 3)]
    assert set(found[5:]) == {(0, 0)} and not state.marks[5:].any()
    assert np.asarray(board(state)).astype(bool).sum() == 5
