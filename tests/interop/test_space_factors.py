"""Rows, items and cells of grids as Factors."""

import importlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from interop.test_space_parts import TWO, mapped

from wmg.interop.spaces import map_spaces
from wmg.tools.errors import BadInput

importlib.import_module("minigrid")  # registers its environments


def make(name):
    return gymnasium.make(name, disable_env_checker=True)


def refused(*args, **given):
    with pytest.raises(BadInput) as error:
        map_spaces(*args, **given)
    return str(error.value)


def test_columns_are_scaled_alike_in_all_rows():
    space = spaces.Box(np.float32([[0, -4], [0, -2]] * 2), np.float32([[9, 1], [10, 3]] * 2))
    space = spaces.Dict({"x": spaces.Box(np.tile(space.low, (2, 1)), np.tile(space.high, (2, 1)))})
    rows = np.full((8, 2), [5, 2], np.float32)
    got = mapped(space, roles={"x": "factors order=no"}).observe({"x": rows}).factors["x"]
    np.testing.assert_allclose(got.values, np.tile([0.5, 0.5], (8, 1)))


def test_a_presence_column_becomes_the_mask():
    """As in highway-env's Kinematics observation."""
    space = spaces.Box(-np.inf, np.inf, (3, 5), np.float32)
    rows = np.array([[1, 9, 8, 7, 6], [1, 5, 4, 3, 2], [0, 0, 0, 0, 0]], np.float32)
    mapping = mapped(space, roles={"": "factors presence=0 order=no"})
    got = mapping.observe(rows).factors["rows"]
    assert got.values.tolist() == rows[:, 1:].tolist()
    assert got.present.tolist() == [True, True, False]
    both = mapping.observe_all(np.stack([rows, rows[::-1]])).factors["rows"]
    assert both.present.tolist() == [[True, True, False], [False, True, True]]


def test_rows_with_a_mask_are_factors_and_absent_ones_may_hold_anything():
    space = spaces.Dict(
        {
            "foes": spaces.Box(-np.inf, np.inf, (3, 3)),
            "foes_mask": spaces.MultiBinary(3),
            "gems": spaces.MultiDiscrete([[2, 3]] * 2),
            "gems_present": spaces.Box(0, 1, (2,), np.int8),
        }
    )
    mapping = mapped(space)
    foes = np.array([[1, 2, 3], [np.nan, np.inf, 0], [4, 5, 6]], np.float32)
    seen = {
        "foes": foes,
        "foes_mask": np.array([1, 0, 1], np.int8),
        "gems": np.array([[1, 2], [0, 1]]),
        "gems_present": np.array([0, 1], np.int8),
    }
    got = mapping.observe(seen).factors
    assert mapping.observation.factors == (("foes", 3, 3), ("gems", 2, 5))
    assert got["foes"].values.tolist() == [[1, 2, 3], [0, 0, 0], [4, 5, 6]]
    assert got["foes"].present.tolist() == [True, False, True]
    assert got["gems"].values.tolist() == [[0] * 5, [1, 0, 0, 1, 0]]
    assert got["gems"].present.tolist() == [False, True]
    assert mapping.observe(seen).core.tolist() == [1.0] and "always 1" in mapping.describe()


def test_rows_without_a_mask_are_always_there_and_know_their_number():
    space = spaces.Box(-np.inf, np.inf, (3, 4), np.float32)
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = mapped(space).observe(rows).factors["rows"]
    np.testing.assert_array_equal(got.values, np.concatenate([rows, np.eye(3)], axis=1))
    assert got.present.all()
    plain = mapped(space, roles={"": "factors order=no"}).observe(rows).factors["rows"]
    np.testing.assert_array_equal(plain.values, rows)


ITEM = spaces.Dict({"kind": spaces.Discrete(3), "at": spaces.Box(-10, 10, (2,))})


@pytest.mark.parametrize("stack", [False, True])
def test_the_items_of_a_sequence_are_factors(stack):
    space = spaces.Dict({"bag": spaces.Sequence(ITEM, stack=stack), "n": TWO})
    mapping = mapped(space, roles={"bag": "factors most=5"})
    assert mapping.observation.factors == (("bag", 5, 5),)
    at = np.float32([[1, 2], [3, 4], [5, 6]])
    items = tuple({"kind": kind, "at": row} for kind, row in zip([2, 0, 1], at, strict=True))
    stacked = {"kind": np.array([2, 0, 1]), "at": at}
    none = {"kind": np.zeros(0, int), "at": np.zeros((0, 2))}
    full, empty = (stacked, none) if stack else (items, ())
    batch = {"bag": (full, empty), "n": np.array([0, 1])}
    got = mapping.observe_all(batch).factors["bag"]
    assert got.present.sum(1).tolist() == [3, 0] and not got.values[1].any()
    want = [[0.1, 0.2, 0, 0, 1], [0.3, 0.4, 1, 0, 0], [0.5, 0.6, 0, 1, 0], [0] * 5, [0] * 5]
    np.testing.assert_allclose(got.values[0], want, rtol=1e-6)
    alone = mapping.observe({"bag": full, "n": 0}).factors["bag"]
    np.testing.assert_array_equal(alone.values, got.values[0])


def test_the_nodes_of_a_graph_are_factors():
    space = spaces.Graph(spaces.Box(-1, 1, (2,)), None)
    mapping = mapped(space, roles={"": "factors most=4"})
    one = spaces.GraphInstance(np.float32([[0.5, 1], [0, -1]]), None, None)
    got = mapping.observe(one).factors["nodes"]
    assert got.present.tolist() == [True, True, False, False]
    assert got.values[:2].tolist() == [[0.5, 1], [0, -1]]
    edged = spaces.Graph(spaces.Discrete(3), spaces.Discrete(2))
    assert "'factors edges=ignore'" in refused(edged, TWO)
    mapping = mapped(edged, roles={"": "factors edges=ignore"})
    one = spaces.GraphInstance(np.array([2, 0]), np.array([1]), np.array([[0, 1]]))
    assert mapping.observe(one).factors["nodes"].values[:2].tolist() == [[0, 0, 1], [1, 0, 0]]


def cells_by_hand(image):
    """The things of minigrid's view: (type, colour, state, x - 3, y - 6), in any order."""
    found = set()
    for x in range(7):
        for y in range(7):
            if image[x, y, 0] not in (0, 1, 2, 9):
                found.add((*image[x, y].tolist(), x - 3, y - 6))
    return found


def cells_of(factors):
    """The same, read from the Factors."""
    found = []
    for row in factors.values[factors.present]:
        kind, colour, state = row[:11].argmax(), row[11:17].argmax(), row[17:21].argmax()
        x, y = row[21] * 3, row[22] * 3
        assert row[23:30].argmax() == round(float(x)) + 3
        assert row[30:37].argmax() == round(float(y)) + 6
        found.append((int(kind), int(colour), int(state), round(float(x)), round(float(y))))
    return found


@pytest.mark.parametrize("name", ["MiniGrid-DoorKey-6x6-v0", "BabyAI-GoToLocal-v0"])
def test_minigrids_things_are_factors_and_its_walls_are_bits(name):
    env = make(name)
    mapping = map_spaces(env.observation_space, env.action_space)
    seen, _ = env.reset(seed=0)
    rng, counted = np.random.default_rng(0), 0
    for _ in range(40):
        got = mapping.observe(seen)
        found = cells_of(got.factors["image"])
        assert set(found) == cells_by_hand(seen["image"]) and len(set(found)) == len(found)
        counted += len(found)
        bits = got.core[4 : 4 + 98].reshape(49, 2)
        kinds = seen["image"][..., 0].reshape(49)
        np.testing.assert_array_equal(bits, np.stack([kinds == 2, kinds == 9], axis=1))
        assert got.core[:4].argmax() == seen["direction"]
        seen = env.step(int(rng.integers(3)))[0]
    assert counted > 20


def test_where_there_are_too_many_things_the_nearest_are_shown():
    space = make("MiniGrid-Empty-5x5-v0").observation_space
    mapping = mapped(space, roles={"image": "grid most=3"})
    image = np.zeros((7, 7, 3), np.uint8)
    for x, y in [(0, 0), (3, 5), (6, 6), (2, 6), (3, 0)]:
        image[x, y] = (5, 1, 0)
    seen = {"direction": 0, "image": image, "mission": "get to the green goal square"}
    found = cells_of(mapping.observe(seen).factors["image"])
    assert {(x, y) for *_, x, y in found} == {(0, -1), (3, 0), (-1, 0)}


def test_a_board_is_a_factor_for_each_cell_that_is_not_empty():
    space = spaces.Box(-1, 1, (6, 7), np.int8)
    board = np.zeros((6, 7), np.int8)
    board[5, 3], board[4, 3] = 1, -1
    got = mapped(space).observe(board).factors["cells"]
    rows = got.values[got.present]
    assert sorted(rows[:, :3].tolist()) == [[0, 0, 1], [1, 0, 0]]
    assert sorted(rows[:, 5 : 5 + 6].argmax(1).tolist()) == [4, 5]
    assert rows[:, 11:].argmax(1).tolist() == [3, 3]
    assert got.values.shape == (42, 3 + 2 + 6 + 7)


def test_planes_of_bits_are_a_grid_with_one_bit_for_each_plane():
    bits: Any = bool
    space = spaces.Box(0, 1, (5, 5, 4), bits)
    seen = np.zeros((5, 5, 4), bool)
    seen[1, 2, 3] = seen[1, 2, 0] = True
    got = mapped(space).observe(seen).factors["cells"]
    assert got.present.sum() == 1 and got.values[0, :4].tolist() == [1, 0, 0, 1]


def test_more_things_than_a_grid_has_room_for_are_refused_with_the_way_out():
    mapping = mapped(spaces.Box(0, 3, (10, 10), np.uint8))
    with pytest.raises(BadInput, match="'grid most=100'"):
        mapping.observe(np.ones((10, 10), np.uint8))
