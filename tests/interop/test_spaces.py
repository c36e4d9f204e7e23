"""Gymnasium's spaces as agents take them, on spaces of real environments and on made ones."""

import functools
import importlib
import pathlib
import subprocess
import sys

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from wmg.agents.wmg.agent import WMG
from wmg.interop.spaces import map_spaces
from wmg.tools.errors import BadInput

importlib.import_module("minigrid")  # registers its environments
TWO = spaces.Discrete(2)
REAL = {
    "CartPole-v1": (4, (), 2),
    "Acrobot-v1": (6, (), 3),
    "Blackjack-v1": (32 + 11 + 2, (), 2),
    "Taxi-v4": (500, (), 6),
    "FrozenLake-v1": (16, (), 4),
    "MiniGrid-MemoryS7-v0": (4 + 98, (("image", 16, 37),), 7),
    "MiniGrid-DoorKey-6x6-v0": (4 + 98, (("image", 16, 37),), 7),
    "MiniGrid-GoToObject-6x6-N2-v0": (4 + 98 + 6 + 3, (("image", 16, 37),), 7),
    "BabyAI-GoToLocal-v0": (4 + 98 + 64, (("image", 16, 37),), 7),
}


def make(name):
    return gymnasium.make(name, disable_env_checker=True)


def mapped(space, action=TWO, **given):
    return map_spaces(space, action, **given)


def leaves(observation):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(observation)]


def refused(*args, **given):
    with pytest.raises(BadInput) as error:
        map_spaces(*args, **given)
    return str(error.value)


@pytest.mark.parametrize("name", REAL)
def test_real_environments_are_mapped_without_roles(name):
    env = make(name)
    mapping = map_spaces(env.observation_space, env.action_space)
    core, factors, actions = REAL[name]
    seen = mapping.observe(env.reset(seed=1)[0])
    assert (mapping.observation.core, mapping.observation.factors) == (core, factors)
    assert mapping.actions == actions and mapping.observation.image is None
    assert seen.core.shape == (core,) and seen.core.dtype == np.float32
    shapes = {name: rows.values.shape for name, rows in seen.factors.items()}
    assert shapes == {name: (count, size) for name, count, size in factors}
    assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(seen))


@pytest.mark.parametrize("name", REAL)
def test_a_batch_is_its_observations_side_by_side(name):
    envs = SyncVectorEnv([functools.partial(make, name)] * 3)
    mapping = map_spaces(envs.single_observation_space, envs.single_action_space)
    seen, _ = envs.reset(seed=5)
    for _ in range(4):
        together = mapping.observe_all(seen)
        singly = [mapping.observe(one) for one in each(envs.single_observation_space, seen, 3)]
        for batch, *rows in zip(leaves(together), *map(leaves, singly), strict=True):
            np.testing.assert_array_equal(batch, np.stack(rows))
        seen = envs.step(mapping.to_actions([1, 0, 1]))[0]


def each(space, batch, n):
    """The single observations of a batch, by hand."""
    if isinstance(space, spaces.Dict):
        parts = {key: each(part, batch[key], n) for key, part in space.items()}
        return [{key: parts[key][i] for key in parts} for i in range(n)]
    if isinstance(space, spaces.Tuple):
        parts = [each(part, batch[i], n) for i, part in enumerate(space)]
        return [tuple(part[i] for part in parts) for i in range(n)]
    return [batch[i] for i in range(n)]


def test_the_core_is_what_gymnasium_flattens():
    space = spaces.Dict(
        {
            "bits": spaces.MultiBinary((2, 2)),
            "kind": spaces.Discrete(4, start=-2),
            "many": spaces.MultiDiscrete([3, 2]),
            "nested": spaces.Dict({"a": spaces.Tuple((TWO, spaces.Box(-1, 1, (3,))))}),
        }
    )
    mapping = mapped(space)
    for seed in range(5):
        space.seed(seed)
        sample = space.sample()
        want = spaces.flatten(space, sample)
        np.testing.assert_array_equal(mapping.observe(sample).core, want.astype(np.float32))
    assert [part.key for part in mapping.parts[:-1]] == [
        *("bits", "kind", "many", "nested/a/0", "nested/a/1")
    ]


@pytest.mark.parametrize(
    ("low", "high", "value", "shown"),
    [
        (0, 255, 51, 0.2),
        (-4, 2, 1, 0.25),
        (-0.07, 0.07, 0.035, 0.5),
        (990, 1010, 1005, 0.5),
        (-np.inf, np.inf, 37, 37),
        (0, np.inf, 37, 37),
        (-3e38, 3e38, 37, 37),
        (5, 5, 5, 0),
        (0, 0, 0, 0),
    ],
)
def test_numbers_are_scaled_by_their_bounds(low, high, value, shown):
    space = spaces.Box(np.array([low], np.float32), np.array([high], np.float32))
    assert mapped(space).observe(np.array([value], np.float32)).core == pytest.approx([shown])


def test_a_number_and_a_small_array_are_vectors():
    space = spaces.Tuple((spaces.Box(-2, 2, ()), spaces.Box(-1, 1, (2, 2))))
    seen = mapped(space).observe((np.float32(1), np.float32([[1, 2], [3, 4]])))
    assert seen.core.tolist() == [0.5, 1, 2, 3, 4] and not seen.factors


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


def test_columns_are_scaled_alike_in_all_rows():
    space = spaces.Box(np.float32([[0, -4], [0, -2]] * 2), np.float32([[9, 1], [10, 3]] * 2))
    space = spaces.Dict({"x": spaces.Box(np.tile(space.low, (2, 1)), np.tile(space.high, (2, 1)))})
    rows = np.full((8, 2), [5, 2], np.float32)
    got = mapped(space, roles={"x": "factors order=no"}).observe({"x": rows}).factors["x"]
    np.testing.assert_allclose(got.values, np.tile([0.5, 0.5], (8, 1)))


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


@pytest.mark.parametrize("stack", [False, True])
def test_sequences_of_a_vector_environment_are_read_as_gymnasium_gives_them(stack):
    class Bag(gymnasium.Env):
        observation_space = spaces.Dict(
            {"bag": spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=stack), "said": spaces.Text(9)}
        )
        action_space = TWO

        def reset(self, *, seed=None, options=None):
            self.observation_space.seed(seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 0.0, False, False, {}

    envs = SyncVectorEnv([Bag] * 4)
    mapping = map_spaces(envs.single_observation_space, envs.single_action_space)
    for seen in (envs.reset(seed=3)[0], envs.step(np.zeros(4, int))[0]):
        got = mapping.observe_all(seen)
        lengths = [len(bag) for bag in seen["bag"]]
        assert got.factors["bag"].present.sum(1).tolist() == lengths
        for row, bag in zip(got.factors["bag"].values, seen["bag"], strict=True):
            want = np.array(bag, np.float32).reshape(-1, 2)
            np.testing.assert_array_equal(row[: len(want)], want)
        assert got.core.shape == (4, 64)


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
    space = spaces.Box(0, 1, (5, 5, 4), bool)
    seen = np.zeros((5, 5, 4), bool)
    seen[1, 2, 3] = seen[1, 2, 0] = True
    got = mapped(space).observe(seen).factors["cells"]
    assert got.present.sum() == 1 and got.values[0, :4].tolist() == [1, 0, 0, 1]


def test_pictures_are_images_of_fractions_with_channels_last():
    rng = np.random.default_rng(0)
    for shape, size in [
        ((56, 48, 3), (56, 48, 3)),
        ((4, 84, 84), (84, 84, 4)),
        ((84, 80), (84, 80, 1)),
    ]:
        space = spaces.Box(0, 255, shape, np.uint8)
        mapping, seen = mapped(space), rng.integers(0, 256, shape, dtype=np.uint8)
        got = mapping.observe(seen).image
        assert mapping.observation.image == size == got.shape and got.dtype == np.float32
        moved = np.moveaxis(seen, 0, -1) if shape[0] == 4 else seen
        np.testing.assert_allclose(got, moved.reshape(size) / 255, rtol=1e-6)
        assert mapping.observe_all(seen[None]).image.shape == (1, *size)


def test_an_agent_that_takes_no_image_says_so():
    mapping = mapped(spaces.Box(0, 255, (40, 40, 3), np.uint8))
    from wmg.agents.wmg.settings import WMGSettings
    from wmg.registry import make_agent
    from wmg.types import EnvSpec

    spec = EnvSpec(mapping.observation, 2, 10, "success")
    with pytest.raises(BadInput, match="takes no image"):
        make_agent(WMGSettings(), spec, jax.random.key(0))


def test_missions_are_the_words_that_vary():
    env = make("MiniGrid-GoToObject-6x6-N2-v0")
    mapping = map_spaces(env.observation_space, env.action_space)
    seen, _ = env.reset(seed=0)
    colours, kinds = ["blue", "green", "grey", "purple", "red", "yellow"], ["key", "ball", "box"]
    for colour in colours:
        for kind in kinds:
            said = mapping.observe({**seen, "mission": f"go to the {colour} {kind}"}).core[102:]
            want = [float(word in (colour, kind)) for word in colours + kinds]
            assert said.tolist() == want
    with pytest.raises(BadInput, match="none of the 18"):
        mapping.observe({**seen, "mission": "go home"})


def test_texts_are_encoded_by_the_users_encoder():
    space = spaces.Dict({"a": TWO, "text": spaces.Text(20)})
    mapping = mapped(space, text=lambda text: np.array([len(text), text.count("e")]))
    assert mapping.observe({"a": 0, "text": "here we"}).core.tolist() == [1, 0, 7, 3]
    uneven = mapped(space, text=lambda text: np.zeros(len(text)))
    with pytest.raises(BadInput, match="must always return 2 numbers"):
        uneven.observe({"a": 0, "text": "long"})


def test_texts_without_an_encoder_differ_by_words_and_their_order():
    mapping = mapped(spaces.Text(50))
    said = {
        text: mapping.observe(text).core
        for text in ("put the red ball by the box", "put the box by the red ball", "a key", "")
    }
    assert len({vector.tobytes() for vector in said.values()}) == 4
    again = mapped(spaces.Text(50)).observe("put the red ball by the box").core
    np.testing.assert_array_equal(again, said["put the red ball by the box"])
    assert all(np.abs(vector).max() <= 4 for vector in said.values())


def test_a_mission_that_never_changes_is_left_out_and_a_role_ignores_a_part():
    env = make("MiniGrid-MemoryS7-v0")
    mapping = map_spaces(env.observation_space, env.action_space, roles={"direction": "ignore"})
    assert mapping.observation.core == 98
    assert "always the same" in mapping.describe() and "ignored" in mapping.describe()


def test_actions_of_several_choices_are_all_combinations():
    space = spaces.MultiDiscrete([2, 3], start=[0, 5])
    mapping = map_spaces(TWO, space)
    assert mapping.actions == 6
    each = [mapping.to_action(i) for i in range(6)]
    assert [tuple(one) for one in each] == [(a, b) for a in (0, 1) for b in (5, 6, 7)]
    assert all(space.contains(one) for one in each)
    np.testing.assert_array_equal(mapping.to_actions(np.arange(6)), np.stack(each))
    each[0][:] = 9
    assert mapping.to_action(0).tolist() == [0, 5]


def test_actions_may_start_at_another_number():
    mapping = map_spaces(TWO, spaces.Discrete(3, start=-1))
    assert [mapping.to_action(np.int32(i)) for i in range(3)] == [-1, 0, 1]
    assert mapping.to_actions(np.array([2, 0], np.int32)).tolist() == [1, -1]


BOX = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (BOX, "must be Discrete or MultiDiscrete, got Box(-1.0, 1.0, (2,), float32)"),
        (spaces.MultiBinary(3), "must be Discrete or MultiDiscrete"),
        (spaces.MultiDiscrete([99, 99]), "has 9,801 combinations, and there may be at most 4,096"),
    ],
)
def test_other_actions_are_refused(action, said):
    assert said in refused(TWO, action)


@pytest.mark.parametrize(
    ("space", "roles", "said"),
    [
        (3, {}, "an observation space must be one of Gymnasium's, got 3"),
        (spaces.OneOf((TWO, BOX)), {}, "which has no rule"),
        ({"x": spaces.OneOf((TWO, BOX))}, {}, "give roles {'x': 'ignore'} to leave it out"),
        ({"x": spaces.Sequence(spaces.Sequence(BOX))}, {}, "'x' of the observation space is Seq"),
        (spaces.Box(-1, 1, (2, 2, 2, 2)), {}, "more than 3 axes"),
        (spaces.Box(-1, 1, (100, 4)), {}, "more than 64 rows become Factors only on request"),
        (spaces.Discrete(9999), {}, "'core numbers=yes'"),
        ({"x": BOX}, {"y": "core"}, "roles has 'y', but the parts are '', 'x'"),
        ({"x": BOX}, {"": "core"}, "has parts"),
        ({"x": BOX}, {"x": "ignore"}, "nothing of the observation is left"),
        ({"x": BOX}, {"x": "factors"}, "must be 2-D to become Factors, got shape (2,)"),
        ({"x": BOX}, {"x": "image"}, "cannot have the role 'image'"),
        ({"x": BOX}, {"x": "grid"}, "cannot have the role 'grid'"),
        ({"x": TWO}, {"x": "factors"}, "cannot have the role 'factors'"),
        (spaces.Box(-1, 1, (3, 3)), {"": "factors presence=3"}, "a column from 0 to 2, got 3"),
        (spaces.Box(-1, 1, (3, 3)), {"": "factors most=2"}, "always has 3 rows"),
        (spaces.Box(0, 255, (9, 9), np.uint8), {"": "grid"}, "'grid values=8'"),
        (spaces.Box(0, 255, (9, 9), np.uint8), {"": "grid values=8/8"}, "must be 1 numbers"),
        (
            {"x": spaces.Box(-1, 1, (3, 4)), "x_mask": spaces.MultiBinary(2)},
            {},
            "mask 'x_mask' must have a 0 or 1 for each of the 3 rows of 'x', got MultiBinary(2)",
        ),
        (
            {"a": spaces.Box(0, 1, (40, 40, 3)), "b": spaces.Box(0, 1, (40, 40, 3))},
            {},
            "'a' and 'b' are both images",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_one_sentence(space, roles, said):
    space = spaces.Dict(space) if isinstance(space, dict) else space
    text = refused(space, TWO, roles=roles)
    assert said in text and "\n" not in text


RUNTIME = spaces.Dict(
    {
        "bag": spaces.Sequence(spaces.Box(-1, 1, (2,))),
        "foes": spaces.Box(-1, 1, (3, 4)),
        "grid": spaces.Box(0, 3, (5, 5), np.uint8),
        "kind": spaces.Discrete(3),
        "x": BOX,
    }
)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"x": np.array([0, np.nan])}, "'x' of the observation has NaN or infinity"),
        ({"foes": np.full((3, 4), np.inf)}, "'foes' of the observation has NaN or infinity"),
        ({"bag": (np.array([0, np.nan]),)}, "'bag' of the observation has NaN or infinity"),
        ({"x": np.zeros(3)}, "has shape (3,), but its space says (2,)"),
        ({"x": [[0], [0, 1]]}, "must always have shape (2,)"),
        ({"x": np.array(["a", "b"])}, "must hold numbers"),
        ({"foes": np.zeros((4, 4))}, "has shape (4, 4), but its space says (3, 4)"),
        ({"kind": 3}, "'kind' of the observation must be from 0 to 2, got 3"),
        ({"kind": -1}, "must be from 0 to 2, got -1"),
        ({"grid": np.full((5, 5), 4, np.uint8)}, "has the value 4 in channel 0"),
        ({"bag": (np.zeros(2),) * 33}, "has 33 items, more than the 32"),
        ({"bag": (np.zeros(3),)}, "has shape (3,), but its space says (2,)"),
    ],
)
def test_an_observation_that_its_space_does_not_have_is_refused(changed, said):
    mapping = mapped(RUNTIME)
    good = RUNTIME.sample()
    mapping.observe(good)
    with pytest.raises(BadInput) as error:
        mapping.observe({**good, **changed})
    assert said in str(error.value)


def test_an_observation_without_a_part_is_refused():
    with pytest.raises(BadInput, match="the observation has no part 'kind'"):
        mapped(RUNTIME).observe({"x": np.zeros(2)})


def test_more_things_than_a_grid_has_room_for_are_refused_with_the_way_out():
    mapping = mapped(spaces.Box(0, 3, (10, 10), np.uint8))
    with pytest.raises(BadInput, match="'grid most=100'"):
        mapping.observe(np.ones((10, 10), np.uint8))


def test_an_agent_acts_on_the_mapped_observation():
    mapping = mapped(RUNTIME, spaces.MultiDiscrete([2, 2]))
    spec = mapping.observation
    small = dict(memory="memos", slots=2, memo_size=4, layers=1, heads=1, head_size=4, hidden=4)
    rest = dict(actor_critic=4, shared_heads=False, start="full", age="concatenated")
    agent = WMG(spec, mapping.actions, **small, **rest, key=jax.random.key(0))
    seen = jax.tree.map(jax.numpy.asarray, mapping.observe(RUNTIME.sample()))
    output = agent(seen, agent.initial_memory())
    assert output.logits.shape == (4,)


def test_each_observation_has_arrays_of_its_own():
    mapping = mapped(BOX)
    first = mapping.observe(np.float32([1, 1]))
    mapping.observe(np.float32([0, 0]))
    assert first.core.tolist() == [1, 1]


SPEED = """
import functools, sys, timeit, gymnasium, minigrid
from wmg.interop.spaces import map_spaces
for name in ("CartPole-v1", "MiniGrid-DoorKey-6x6-v0"):
    envs = gymnasium.make_vec(name, 16, "sync", vector_kwargs={"observation_mode": "same"})
    mapping = map_spaces(envs.single_observation_space, envs.single_action_space)
    seen = envs.reset(seed=0)[0]
    times = timeit.repeat(lambda: mapping.observe_all(seen), number=50, repeat=20)
    print(min(times) / 50)
"""


def run_python(code):
    root = pathlib.Path(__file__).parents[2] / "src"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(root)}
    ).stdout


def test_sixteen_observations_cost_microseconds():
    """In a process of its own: here, the types of all calls are checked. Measured: 5 and 60."""
    cart, door = map(float, run_python(SPEED).split())
    assert cart < 100e-6 and door < 800e-6


def test_roles_can_be_read_without_jax_and_gymnasium():
    code = "import sys, wmg.interop.roles; print({'jax', 'gymnasium'} & set(sys.modules))"
    assert run_python(code).strip() == "set()"
