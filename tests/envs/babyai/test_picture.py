"""Pictures of rooms against what the environment itself says is seen."""

import functools
import itertools

import jax
import numpy as np
import pytest

from wmg.envs.babyai import missions, world
from wmg.envs.babyai import picture as babyai
from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.babyai.observe import vector
from wmg.envs.babyai.vocabulary import (
    COLOURS,
    DROP,
    FIRST_TYPE,
    FORWARD,
    LEFT,
    PICKUP,
    TOGGLE,
    TYPES,
)
from wmg.tools import draw

THINGS = (
    ("ball", "red", 2, 5),
    ("ball", "blue", 4, 3),
    ("key", "yellow", 6, 1),
    ("box", "green", 1, 1),
    ("key", "purple", 5, 6),
)
LAYOUT = Layout((2, 3), 0, THINGS, "go to the red ball")
EPISODES = 8


@functools.cache
def played(level):
    """States, actions' success and ends of random play, with an eye for interaction."""
    env = BabyAI(level, "image", "binary")

    @jax.jit
    def play(key):
        rkey, akey, skey = jax.random.split(key, 3)
        state, _ = env.reset(rkey)
        actions = jax.random.randint(akey, (40,), LEFT, DROP + 1)

        def one(state, inputs):
            step = env.step(state, *inputs)
            return step.state, (step.state, step.success, step.observation.image)

        return jax.lax.scan(one, state, (actions, jax.random.split(skey, 40)))[1]

    keys = jax.random.split(jax.random.key(1), EPISODES)
    return jax.tree.map(np.asarray, jax.vmap(play)(keys))


def state_at(states, *index):
    return jax.tree.map(lambda leaf: leaf[index], states)


act = jax.jit(world.act)


def after(layout, *actions):
    state = layout.state()
    for action in actions:
        state, _ = act(state, np.int32(action))
    return jax.device_get(state)


def cell_of(picture, x, y, left=babyai.MARGIN, size=babyai.TILE):
    top = babyai.MARGIN + y * size
    return picture[top : top + size, left + x * size : left + (x + 1) * size]


def holds(picture, colour):
    return bool((picture == colour).all(-1).any())


NOTHING, EMPTY, WALL = range(3)


def as_image(rows):
    """The drawn view in minigrid's numbers."""
    image = np.zeros((7, 7, 3), int)
    for (vy, row), vx in itertools.product(enumerate(rows), range(7)):
        ground, thing, _ = row[vx]
        if thing is not None:
            image[vx, vy] = FIRST_TYPE + TYPES.index(thing[0]), COLOURS.index(thing[1]), 0
        elif ground != "nothing":
            wall = "wall" in ground
            image[vx, vy] = (WALL, COLOURS.index("grey"), 0) if wall else (EMPTY, 0, 0)
    return image


def test_the_drawn_view_is_what_the_agent_sees():
    states, _, images = played("PickupLoc")
    carrying = (states.status == 1).any(-1)
    assert carrying.any() and not carrying.all()
    for index in itertools.product(range(EPISODES), range(40)):
        _, view = babyai.look(state_at(states, *index))
        np.testing.assert_array_equal(as_image(view), images[index])


@pytest.mark.parametrize("level", ["GoToObj", "PickupLoc"])
def test_a_mission_is_shown_as_fulfilled_where_the_environment_says_so(level):
    states, success, _ = played(level)
    assert success.any()
    for episode in range(EPISODES):
        until = np.argmax(success[episode]) + 1 if success[episode].any() else 40
        for time in range(until):
            state = state_at(states, episode, time)
            assert babyai.fulfilled(state) == success[episode, time]


def test_a_mission_is_fulfilled_by_something_that_is_done():
    facing = Layout((2, 3), 0, (("box", "red", 3, 3),), "go to the red box")
    assert not babyai.fulfilled(after(facing))
    for action in (PICKUP, DROP, TOGGLE):
        state, success = act(facing.state(), np.int32(action))
        assert bool(success) and babyai.fulfilled(jax.device_get(state))
    turned, success = act(facing.state(), np.int32(LEFT))
    assert not bool(success) and not babyai.fulfilled(jax.device_get(turned))


def test_a_cell_is_lit_if_and_only_if_it_is_in_view():
    room, _ = babyai.look(after(LAYOUT))
    # Looking right from (2, 3), the agent sees three cells to either side and nothing behind.
    lit = {(x, y) for x in range(2, 8) for y in range(7)}
    drawn = {(x, y) for x in range(8) for y in range(8) if "dark" not in room[y][x][0]}
    assert drawn == lit


def test_each_thing_is_drawn_in_its_cell_and_in_no_other():
    picture = babyai.rgb(after(LAYOUT))
    for x, y in itertools.product(range(8), range(8)):
        here = {colour for _, colour, *place in THINGS if place == [x, y]}
        drawn = {
            name for name, paint in babyai.PAINTS.items() if holds(cell_of(picture, x, y), paint)
        }
        assert drawn == here


def test_the_view_is_drawn_beside_the_room():
    picture = babyai.rgb(after(LAYOUT))
    left = babyai.ROOM_SIDE + 2 * babyai.MARGIN
    # The blue ball is two ahead of the agent, which is at (3, 6) of its view.
    assert holds(cell_of(picture, 3, 4, left, babyai.SMALL_TILE), babyai.PAINTS["blue"])
    assert holds(cell_of(picture, 3, 6, left, babyai.SMALL_TILE), babyai.AGENT)


def test_what_is_carried_is_drawn_with_the_agent():
    before, carrying = after(LAYOUT, FORWARD), after(LAYOUT, FORWARD, PICKUP)
    blue = babyai.PAINTS["blue"]
    assert not holds(cell_of(babyai.rgb(before), 3, 3), blue)
    picture = babyai.rgb(carrying)
    assert holds(cell_of(picture, 3, 3), blue) and holds(cell_of(picture, 3, 3), babyai.AGENT)
    assert not holds(cell_of(picture, 4, 3), blue)


def test_the_mission_is_written_underneath_and_turns_green():
    def written(state):
        return babyai.rgb(state)[babyai.ROOM_SIDE + babyai.MARGIN + 2 :, : babyai.ROOM_SIDE]

    ahead = Layout((2, 3), 0, (("ball", "red", 4, 3),), "go to the red ball")
    expected = draw.blank(*written(after(ahead)).shape[:2])
    draw.write(expected, "go to the red ball", babyai.MARGIN, babyai.MARGIN - 4, draw.INK)
    np.testing.assert_array_equal(written(after(ahead)), expected)
    assert holds(written(after(ahead, FORWARD)), babyai.FULFILLED)
    assert not holds(written(after(ahead, FORWARD)), draw.INK)


def test_pictures_have_even_sides():
    assert [side % 2 for side in babyai.rgb(after(LAYOUT)).shape[:2]] == [0, 0]


def test_drawing_a_picture_leaves_the_next_one_clean():
    first = babyai.rgb(after(LAYOUT))
    first[:] = 0
    assert babyai.rgb(after(LAYOUT)).any()


TEXT = """\
# # # # # # # #
# G . . . . Y #    # # # # # # #
#   . . . . . #    # Y . . . . .
#   > . B . . #    # . . . . . P
#   . . . . . #    # . . B . . .
#   R . . . . #    # . . . . . .
#   . . . P . #    # . . ^ . R .
# # # # # # # #
step 0/64: go to the red ball"""
LETTERS = {"red": "O", "green": "B", "blue": "O", "yellow": "K", "purple": "K"}


def test_text_shows_room_view_and_mission():
    codes = {"red": 91, "green": 92, "blue": 94, "yellow": 93, "purple": 95}
    expected = TEXT
    for colour, code in codes.items():
        thing = f"\x1b[{code}m{LETTERS[colour]}\x1b[0m"
        expected = expected.replace(f" {colour[0].upper()}", f" {thing}")
    assert babyai.ansi(after(LAYOUT)) == expected


def test_mission_texts_are_those_of_the_encoding():
    states, *_ = played("PickupLoc")
    state = jax.tree.map(lambda leaf: leaf[:, 0], states)
    vectors = np.asarray(jax.vmap(vector)(state))[:, 11:47]
    expected = [str(missions.decode(numbers)) for numbers in vectors]
    assert babyai.mission_text(state).tolist() == expected
    assert babyai.mission_text(state_at(states, 3, 0)) == expected[3]
    assert len(set(expected)) > 5


def test_the_font_can_write_every_mission_and_it_fits():
    width = babyai.rgb(after(LAYOUT)).shape[1] - 2 * babyai.MARGIN
    for words in itertools.product((0, 1), (0, 1), range(7), (1, 2, 3, 4), range(5)):
        text = babyai._say(*words)
        assert set(text) <= set(draw.FONT) and len(text) * draw.PITCH * 2 <= width


def test_colours_of_a_picture_survive_in_an_animation(tmp_path):
    image = pytest.importorskip("PIL.Image")
    picture = babyai.rgb(LAYOUT.state())
    draw.gif([picture], tmp_path / "a.gif")
    with image.open(tmp_path / "a.gif") as file:
        error = np.abs(np.array(file.convert("RGB")).astype(int) - picture)
    assert error.max() <= 8
