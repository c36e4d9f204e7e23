"""What is shown, in each format; `test_sokoban` compares the factored one in random play."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs.sokoban.plain_sokoban import Plain, draw_level

from wmg.envs.sokoban.env import Rewards
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.observe import COLOURS, FORMATS, exact_multiple, observe, spec
from wmg.envs.sokoban.world import DOWN, act, begin, most_cells

ROOM = """
##########
#   .    #
# @  $   #
# $# .   #
#        #
##########"""


@jax.jit
def shown(levels, actions):
    """The last observation, in each format."""
    state = begin(levels.level(jnp.int32(0)), most_cells(levels.height))
    state, _ = jax.lax.scan(
        lambda state, action: (act(state, action, Rewards(0.0, 1.0, -1.0, 2.0)), None),
        state,
        actions,
    )
    return {format: observe(state, format) for format in FORMATS}


def look(text, *actions, bound=10):
    seen = shown(from_text(text, bound), jnp.array(actions, jnp.int32))
    return jax.tree.map(np.asarray, seen)


def test_the_core_tells_of_the_last_step_and_of_the_players_cell():
    start, now = look(ROOM), look(ROOM, DOWN)
    assert start["factored"].core.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    # Action down; no reward, no target; a wall to the right.
    assert now["factored"].core.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]


def test_a_factor_tells_where_a_cell_is_and_what_is_there():
    cells = look(ROOM)["factored"].factors["cells"]
    assert cells.present.sum() == 8 * 4 - 1 - 1
    target = cells.values[3]  # in row 1, column 4: two to the right, one up
    assert target[0] == np.float32(2 / 7) and np.flatnonzero(target[1:16]).tolist() == [9]
    assert target[16] == np.float32(-1 / 7) and np.flatnonzero(target[17:32]).tolist() == [6]
    assert target[32:].tolist() == [1, 0, 0, 0, 1, 0, 0]  # a target with a wall above
    assert not cells.present[9] and not cells.values[9].any()  # the player's own


@pytest.mark.parametrize("seed", range(4))
def test_planes_are_those_of_the_plain_restatement(seed):
    text = draw_level(np.random.default_rng(seed))
    seen = look(text)
    np.testing.assert_array_equal(seen["planes"].image, Plain(text).planes())
    assert seen["planes"].core.tolist() == [1, 0, 0, 0, 0, 0]


def test_every_kind_of_cell_has_its_colour():
    seen = look("######\n#+$.*#\n#  $.#\n######", bound=6)["rgb"]
    wall, floor, target, box, stored, _, player_on_target = (COLOURS / np.float32(255)).tolist()
    row = [wall, player_on_target, box, target, stored, wall]
    assert seen.image[1].tolist() == row and seen.image[2, 1].tolist() == floor
    player = look(ROOM)["rgb"].image[2, 2]
    assert player.tolist() == (COLOURS[5] / np.float32(255)).tolist()


@pytest.mark.parametrize("bound", range(4, 65))
def test_distances_are_rounded_as_a_division_is(bound):
    far = bound - 3
    distance = np.arange(-far, far + 1)
    multiple = exact_multiple(far)
    ours = (multiple * distance).astype(np.float32) * np.float32(1 / (multiple * far))
    np.testing.assert_array_equal(ours, (distance / far).astype(np.float32))


def test_a_factor_of_the_papers_bound_has_39_numbers_and_others_as_many_as_they_need():
    assert spec("factored", 10, 64).factors == (("cells", 64, 39),)
    assert [spec("factored", bound, 1).factors[0][2] for bound in (4, 7, 20)] == [15, 27, 79]
