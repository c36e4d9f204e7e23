"""Pictures of graphs that are written down here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.envs.pathfinding import picture as pathfinding
from wmg.envs.pathfinding.env import Pathfinding
from wmg.envs.pathfinding.state import PathfindingState
from wmg.tools import draw

# Links 0>1 and 2>1; quizzes 1>0 (no) and 2>1 (yes).
SCRIPT = PathfindingState(
    patterns=jnp.array([[-1.0] * 4, [1.0] * 4, [0.0] * 4]),
    source=jnp.array([0, 1, 2, 2]),
    target=jnp.array([1, 0, 1, 1]),
    answers=jnp.array([False, False, False, True]),
    time=jnp.array(0),
    right=jnp.array(0),
)


def played(*actions):
    state = SCRIPT
    for action in actions:
        state = Pathfinding(3, 4).step(state, jnp.int32(action), jax.random.key(0)).state
    return state


def count(picture, colour):
    return int((picture == colour).all(-1).sum())


def test_a_pattern_is_drawn_row_by_row_from_blue_to_orange():
    drawn = pathfinding.patch(np.array([-1.0, 1.0, 0.0, 0.5]), 24, draw.INK)
    assert tuple(drawn[0, 0]) == draw.INK
    assert tuple(drawn[5, 5]) == pathfinding.LOW and tuple(drawn[5, 18]) == pathfinding.HIGH
    assert tuple(drawn[18, 5]) == draw.PAPER
    half = (np.array(draw.PAPER) + pathfinding.HIGH) / 2
    np.testing.assert_allclose(drawn[18, 18], half, atol=1)


def test_a_node_appears_with_its_link():
    first, third = pathfinding.rgb(played()), pathfinding.rgb(played(0, 0))
    x, y = (round(c) for c in pathfinding._centre(2, 3))
    patch = np.s_[y - 24 : y + 24, x - 24 : x + 24]
    assert count(first[patch], draw.PAPER) == 48 * 48
    assert tuple(third[y - 24, x - 24]) == pathfinding.LINK
    assert count(first, pathfinding.LOW) > 1000 and count(first, pathfinding.HIGH) > 1000


@pytest.mark.parametrize("time", range(4))
def test_a_quiz_has_a_colour_of_its_own(time):
    picture = pathfinding.rgb(played(*[0] * time))
    colours = (pathfinding.LINK, pathfinding.QUIZ)
    there = [count(picture, colour) > 200 for colour in colours]
    assert there == [time % 2 == 0, time % 2 == 1]


def test_old_links_stay_as_pale_arrows():
    first, second = pathfinding.rgb(played()), pathfinding.rgb(played(0, 0))
    assert count(first, draw.PALE) == 0 and count(second, draw.PALE) > 200


@pytest.mark.parametrize("nodes", [2, 7, 256])
def test_graphs_of_any_size_fit_into_the_same_picture(nodes):
    before = np.arange(nodes - 1).repeat(2)  # a chain, whose last link is asked about each time
    asked = np.arange(len(before)) % 2 == 1
    chain = PathfindingState(
        patterns=jnp.full((nodes, 5), -1.0),
        source=jnp.array(before),
        target=jnp.array(before + 1),
        answers=jnp.array(asked),
        time=jnp.array(len(before)),
        right=jnp.array(0),
    )
    picture = pathfinding.rgb(chain)
    assert picture.shape == (372, 340, 3)
    assert count(picture, pathfinding.LOW) >= nodes


def test_text_says_links_question_and_score():
    assert pathfinding.ansi(played()) == "links 0>1\na new link  0/0 right"
    asked = "links 0>1\npath 1>0?\nquiz: a path?  0/0 right"
    assert pathfinding.ansi(played(0)) == asked
    assert pathfinding.ansi(played(0, 0)) == "links 0>1, 2>1\na new link  1/1 right"
    ended = "links 0>1, 2>1\npath 2>1?\nquiz: a path?  1/2 right"
    assert pathfinding.ansi(played(0, 0, 0, 0)) == ended


def test_the_font_has_every_character():
    assert all(set(pathfinding._caption(played(*[0] * n))) <= set(draw.FONT) for n in range(5))
