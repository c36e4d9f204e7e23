"""What is seen, against slow restatements; the differential test compares all of it at once."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs.babyai import live

from wmg.envs.babyai import encode, missions
from wmg.envs.babyai.observe import (
    SORTING_NETWORK,
    core,
    factors,
    image,
    in_order,
    lay_out,
    observe,
    walls_in_view,
)
from wmg.envs.babyai.vocabulary import EMPTY, GREY, PICKUP, TYPES, UNSEEN, WALL
from wmg.envs.babyai.world import Layout, act

MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))
POSES = [(x, y, d) for x in range(1, 7) for y in range(1, 7) for d in range(4)]


def room(agent, direction, *things):
    far = next((x, y) for x, y in ((1, 1), (6, 6)) if (x, y) != agent)
    things = things or (("key", "green", *far),)
    return Layout(agent, direction, things, f"go to the {things[0][1]} {things[0][0]}").state()


def plain_image(agent, direction, things):
    """Every cell of the view, looked up in the room."""
    (ax, ay), (dx, dy) = agent, MOVES[direction]
    seen = np.zeros((7, 7, 3), int)
    for vx, vy in itertools.product(range(7), range(7)):
        ahead, right = 6 - vy, vx - 3
        x, y = ax + ahead * dx - right * dy, ay + ahead * dy + right * dx
        if not (0 <= x < 8 and 0 <= y < 8):
            seen[vx, vy] = UNSEEN, 0, 0
        elif x in (0, 7) or y in (0, 7):
            seen[vx, vy] = WALL, GREY, 0
        else:
            seen[vx, vy] = things.get((x, y), (EMPTY, 0, 0))
    return seen


@pytest.fixture(scope="module")
def all_poses():
    """A room with one thing, from every cell and in every direction."""
    with live.without_keys():
        states = [jax.tree.map(np.asarray, room((x, y), d)) for x, y, d in POSES]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *states)


def test_the_image_is_what_lies_in_the_view(all_poses):
    images = np.asarray(jax.jit(jax.vmap(image))(all_poses))
    places = np.asarray(all_poses.position)[:, 0]
    for got, (x, y, d), where in zip(images, POSES, places, strict=True):
        things = {tuple(where.tolist()): (4 + TYPES.index("key"), 1, 0)}
        np.testing.assert_array_equal(got, plain_image((x, y), d, things))


def test_walls_are_where_the_image_first_shows_two_cells_of_them(all_poses):
    columns, rows = jax.jit(jax.vmap(walls_in_view))(all_poses)
    images = np.asarray(jax.jit(jax.vmap(image))(all_poses))
    found = [encode.find_walls(one) for one in images]
    assert found == list(zip(columns.tolist(), rows.tolist(), strict=True))


def test_the_sorting_network_sorts():
    """It is enough that it sorts every sequence of zeros and ones."""
    sequences = np.array(list(itertools.product([0, 1], repeat=8)))
    got = jax.jit(jax.vmap(in_order))(jnp.array(sequences))
    np.testing.assert_array_equal(got, np.sort(sequences, axis=1))
    assert len(SORTING_NETWORK) == 19


def test_parts_are_laid_end_to_end():
    got = lay_out((2, jnp.int32(1), 1), (3, jnp.int32(3), 1), (1, 0, jnp.int32(-2)), (2, 0, 1))
    np.testing.assert_array_equal(got, [0, 1, 0, 0, 0, -2, 1, 0])


def test_factors_come_row_by_row_from_the_far_end():
    things = [("ball", "red", 4, 4), ("box", "blue", 5, 2), ("key", "grey", 2, 2)]
    state = room((3, 5), 3, *things)
    seen = factors(state, 8)
    assert seen.present.tolist() == [True] * 3 + [False] * 5
    at = [(row[13], row[21]) for row in np.asarray(seen.values[:3])]
    assert at == [(-1, 3), (2, 3), (1, 1)]
    assert [TYPES[int(np.argmax(row[:4]))] for row in seen.values[:3]] == ["key", "box", "ball"]
    assert (seen.values[3:] == 0).all()


def test_what_is_behind_or_too_far_aside_is_not_seen():
    state = room((2, 3), 0, ("ball", "red", 1, 3), ("ball", "blue", 2, 6), ("key", "red", 2, 4))
    assert factors(state, 8).present.sum() == 2  # three cells to the right is in view
    state = room((2, 2), 0, ("ball", "red", 1, 2), ("ball", "blue", 2, 6), ("key", "red", 2, 4))
    assert factors(state, 8).present.sum() == 1


def test_what_is_carried_is_where_the_agent_is():
    state, _ = act(room((3, 3), 0, ("ball", "red", 4, 3)), jnp.int32(PICKUP))
    values = np.asarray(factors(state, 8).values[0])
    assert (values[13], values[21]) == (0, 0)
    assert values[14 + 3] == 1 and values[22 + 6] == 1
    assert image(state)[3, 6].tolist() == [4 + TYPES.index("ball"), 0, 0]


def test_the_last_action_is_shown_once_there_is_one():
    state = room((3, 3), 0)
    assert (core(state)[:7] == 0).all()
    after, _ = act(state, jnp.int32(PICKUP))
    assert core(after)[:7].tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_flattened_is_the_core_and_the_factors_padded_to_twelve():
    state = room((3, 5), 3, ("ball", "red", 4, 4), ("box", "blue", 5, 2))
    one = observe(state, "flattened", 8).core
    seen = observe(state, "factored", 8)
    values = seen.factors["objects"].values.reshape(-1)
    np.testing.assert_array_equal(one, np.concatenate([seen.core, values, np.zeros(4 * 29)]))


@pytest.mark.parametrize(
    "mission",
    [
        "go to the red key",
        "pick up a ball",
        "pick up the object in front of you",
        "pick up a grey box on your right",
    ],
)
def test_words_are_those_of_the_sentence_in_order(mission):
    things = [("key", "red", 4, 3), ("ball", "blue", 5, 4), ("box", "grey", 3, 5)]
    things += [("ball", "green", 2, 2), ("box", "grey", 4, 5)]
    state = Layout((3, 3), 0, tuple(things), mission).state()
    seen = observe(state, "words", 8)
    said = [missions.WORDS[int(number) - 1] for number in seen.core if number > 0]
    assert " ".join(said) == mission
    assert seen.core.shape == (9,)
    np.testing.assert_array_equal(seen.image, image(state))


def test_each_word_has_a_number_of_its_own():
    numbers = np.unique(np.concatenate([table.ravel() for table in missions.word_tables()]))
    np.testing.assert_array_equal(numbers, np.arange(1 + len(missions.WORDS)))
