"""The encoders on drawn views, and against a slow restatement.

tests/parity compares them with the authors' own.
"""

import numpy as np
import pytest

from wmg.envs.babyai import encode, missions

UNSEEN, EMPTY, WALL, DOOR, KEY, BALL, BOX = 0, 1, 2, 4, 5, 6, 7
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)
MISSION = missions.encode(missions.parse("put the red ball next to a key behind you"))
CELLS = {
    " ": (UNSEEN, 0, 0),
    ".": (EMPTY, 0, 0),
    "#": (WALL, GREY, 0),
    "L": (DOOR, YELLOW, 2),
    "k": (KEY, BLUE, 0),
    "o": (BALL, RED, 0),
    "b": (BOX, PURPLE, 0),
}
TWO_ROOMS = """
   .
   k
###L###
......#
.b....#
.o....#
.....k#
"""


def view(drawing, last_action=-1, direction=0):
    """What an agent at the middle of the last line sees, looking up."""
    lines = [line.ljust(7) for line in drawing.strip("\n").split("\n")]
    rows = np.array([[CELLS[letter] for letter in line] for line in lines])
    return encode.AgentView(rows.transpose(1, 0, 2), direction, MISSION, last_action)


def slow_walls(image):
    """The first column and row with two cells of wall or door, cell by cell."""

    def first(cells):
        for i in range(7):
            if sum(image[cell][0] in (WALL, DOOR) for cell in cells(i)) >= 2:
                return i
        return None

    return (
        first(lambda x: [(x, y) for y in range(7)]),
        first(lambda y: [(x, y) for x in range(7)]),
    )


def slow_factors(image):
    """A list of numbers for each thing, cell by cell."""
    found = []
    for y in range(7):
        for x in range(7):
            type, colour, state = image[x, y]
            if type >= DOOR:
                row = [float(type == t) for t in (DOOR, KEY, BALL, BOX)]
                row += [float(colour == c) for c in range(6)]
                row += [float(state == s) for s in range(3)]
                row += [x - 3, *(float(x == i) for i in range(7))]
                row += [6 - y, *(float(y == i) for i in range(7))]
                found.append(row)
    return np.array(found).reshape(-1, 29)


def random_views(count):
    draw = np.random.default_rng(0)
    for _ in range(count):
        types = draw.choice([0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7], (7, 7))
        image = np.stack([types, *draw.integers(0, 3, (2, 7, 7))], axis=-1)
        yield encode.AgentView(image, int(draw.integers(4)), MISSION, int(draw.integers(-1, 7)))


def test_the_sizes_are_the_papers():
    assert (encode.CORE, encode.FACTOR, encode.FLAT) == (63, 29, 929)
    assert (encode.VECTOR, encode.FLATTENED) == (47, 411)


def test_things_are_factors_in_the_order_of_reading():
    factors, present = encode.things(view(TWO_ROOMS))
    assert present.sum() == 5
    assert np.flatnonzero(factors[1, :13]).tolist() == [0, 4 + YELLOW, 4 + 6 + 2]
    key_ahead, door, box, ball, key_beside = factors[present]
    assert [row[13] for row in (key_ahead, door, box, ball, key_beside)] == [0, 0, -2, -2, 2]
    assert [row[21] for row in (key_ahead, door, box, ball, key_beside)] == [5, 4, 2, 1, 0]
    assert not factors[~present].any()


def test_a_row_with_a_door_in_it_is_a_wall():
    assert encode.find_walls(view(TWO_ROOMS).image) == (6, 2)
    only_a_door = view("\n".join(["......."] * 2 + ["L.....#"] + ["......."] * 4))
    assert encode.find_walls(only_a_door.image) == (None, 2)


def test_a_wall_that_is_not_seen_is_zeros():
    core = encode.core(view("\n".join(["......."] * 7)))
    assert not core[47:].any()
    core = encode.core(view(TWO_ROOMS))
    assert core[47:55].tolist() == [3, 0, 0, 0, 0, 0, 0, 1]
    assert core[55:].tolist() == [4, 0, 0, 1, 0, 0, 0, 0]


def test_the_core_starts_with_last_action_direction_and_mission():
    first = encode.core(view(TWO_ROOMS, direction=3))
    assert np.flatnonzero(first[:11]).tolist() == [7 + 3]
    assert (first[11:47] == MISSION).all()
    later = encode.core(view(TWO_ROOMS, last_action=5))
    assert np.flatnonzero(later[:11]).tolist() == [5, 7]
    assert (encode.vector(view(TWO_ROOMS, last_action=5)) == later[:47]).all()


def test_any_image_is_encoded_like_the_restatement():
    for one in random_views(50):
        factors, present = encode.things(one)
        assert (factors[present] == slow_factors(one.image)).all()
        assert encode.find_walls(one.image) == slow_walls(one.image)


def test_the_flat_form_is_three_planes_row_by_row():
    for one in random_views(5):
        flat = encode.flat(one)
        assert (np.concatenate([flat[:11], flat[-36:]]) == encode.vector(one)).all()
        types, colours, states = np.split(flat[11:-36], [49 * 9, 49 * 15])
        for plane, numbers in enumerate((types, colours, states)):
            one_hot = numbers.reshape(7, 7, -1)
            assert (one_hot.sum(-1) == 1).all()
            assert (one.image[..., plane] == one_hot.argmax(-1).T).all()


def test_flattened_is_the_core_and_twelve_padded_factors():
    flattened = encode.flattened(view(TWO_ROOMS))
    assert flattened.shape == (411,)
    assert (flattened[:63] == encode.core(view(TWO_ROOMS))).all()
    factors, _ = encode.things(view(TWO_ROOMS), 12)
    assert (flattened[63:].reshape(12, 29) == factors).all()


def test_a_full_view_has_room():
    _, present = encode.things(view("\n".join(["ooooooo"] * 7)))
    assert present.all()


def test_more_things_than_there_is_room_for_are_refused():
    assert encode.things(view(TWO_ROOMS), 5)[1].all()
    with pytest.raises(ValueError, match=r"^5 things are in view, and there is room for 4$"):
        encode.things(view(TWO_ROOMS), 4)


def test_a_thing_that_babyai_does_not_have_is_refused():
    image = view(TWO_ROOMS).image.copy()
    image[2, 3, 0] = 9
    with pytest.raises(ValueError, match="not type 9"):
        encode.AgentView(image, 0, MISSION, -1)
