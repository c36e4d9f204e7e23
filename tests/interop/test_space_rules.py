"""Which part of a space becomes what, and what is refused."""

import importlib

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from wmg.interop.spaces import map_spaces
from wmg.tools.errors import BadInput

importlib.import_module("minigrid")  # registers its environments
TWO = spaces.Discrete(2)
BOX = spaces.Box(-1, 1, (2,))


def make(name):
    return gymnasium.make(name, disable_env_checker=True)


def mapped(space, action=TWO, **given):
    return map_spaces(space, action, **given)


def full_range(kind):
    """A Box of all numbers that the type has."""
    limits = np.iinfo(kind)
    return spaces.Box(limits.min, limits.max, (9, 9), kind)


def refused(*args, **given):
    with pytest.raises(BadInput) as error:
        map_spaces(*args, **given)
    return str(error.value)


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
        (full_range(np.int64), {"": "grid"}, "18446744073709551616 values in a cell"),
        (full_range(np.uint64), {"": "grid"}, "18446744073709551616 values in a cell"),
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


def test_a_mission_that_never_changes_is_left_out_and_a_role_ignores_a_part():
    env = make("MiniGrid-MemoryS7-v0")
    mapping = map_spaces(env.observation_space, env.action_space, roles={"direction": "ignore"})
    assert mapping.observation.core == 98
    assert "always the same" in mapping.describe() and "ignored" in mapping.describe()


def test_a_number_and_a_small_array_are_vectors():
    space = spaces.Tuple((spaces.Box(-2, 2, ()), spaces.Box(-1, 1, (2, 2))))
    seen = mapped(space).observe((np.float32(1), np.float32([[1, 2], [3, 4]])))
    assert seen.core.tolist() == [0.5, 1, 2, 3, 4] and not seen.factors
