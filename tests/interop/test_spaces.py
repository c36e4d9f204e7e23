"""Gymnasium's spaces as agents take them, on spaces of real environments and on made ones."""

import functools
import importlib
import pathlib
import subprocess
import sys

import equinox as eqx
import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from wmg.agents.wmg.agent import WMG
from wmg.interop.spaces import map_spaces
from wmg.tools.errors import BadInput
from wmg.types import ObservationSpec

importlib.import_module("minigrid")  # registers its environments
TWO = spaces.Discrete(2)
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
REAL = {
    "CartPole-v1": (4, (), 2),
    "Acrobot-v1": (6, (), 3),
    "Blackjack-v1": (32 + 11 + 2, (), 2),
    TAXI: (500, (), 6),
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


def test_an_agent_that_takes_no_image_says_so():
    mapping = mapped(spaces.Box(0, 255, (40, 40, 3), np.uint8))
    from wmg.agents.wmg.settings import WMGSettings
    from wmg.registry import make_agent
    from wmg.types import EnvSpec

    spec = EnvSpec(mapping.observation, 2, 10, "success")
    with pytest.raises(BadInput, match="takes no image"):
        make_agent(WMGSettings(), spec, jax.random.key(0))


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


def test_this_packages_own_environments_come_back_as_they_were():
    from wmg.interop import gymnasium as ours

    env = ours.GymEnv("babyai", level="GoToLocal")
    mapping = map_spaces(env.observation_space, env.action_space)
    want = env.inner.spec.observation
    assert (mapping.observation, mapping.actions) == (want, env.inner.spec.actions)
    seen, _ = env.reset(seed=0)
    got = mapping.observe(seen)
    rows = got.factors["objects"]
    np.testing.assert_array_equal(rows.present, seen["objects_present"].astype(bool))
    np.testing.assert_array_equal(rows.values > 0, seen["objects"] > 0)
    np.testing.assert_array_equal(got.core > 0, seen["core"] > 0)


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


BITS = spaces.MultiBinary(2)
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


def test_flattened_the_core_has_all_factors_one_after_the_other():
    space = spaces.Dict({"x": BOX, "foes": spaces.Box(-1, 1, (2, 2)), "foes_mask": BITS})
    plain, flat = (map_spaces(space, spaces.Discrete(2), flattened=f) for f in (False, True))
    seen = {"x": np.float32([0.5, 1]), "foes": np.float32([[0.25, 1], [-1, 1]])}
    seen["foes_mask"] = np.int8([1, 0])
    assert plain.observe(seen).factors["foes"].present.tolist() == [True, False]
    flattened = flat.observe(seen)
    assert flattened.core.tolist() == [0.5, 1, 0.25, 1, 1, 0, 0, 0] and not flattened.factors
    assert flat.observation.core == 8 and flat.observation.factors == ()
    both = jax.tree.map(lambda *parts: np.stack(parts), seen, seen)
    assert flat.observe_all(both).core.tolist() == [flattened.core.tolist()] * 2
    assert "Core 2-7: all Factors, flattened" in flat.describe()


def test_flattened_factors_are_the_whole_core_if_there_is_nothing_else():
    space = spaces.Dict({"foes": spaces.Box(-1, 1, (2, 2)), "foes_mask": BITS})
    flat = map_spaces(space, TWO, flattened=True)
    seen = {"foes": np.float32([[0.25, 1], [-1, 1]]), "foes_mask": np.int8([1, 0])}
    assert flat.observation == ObservationSpec(6)
    assert flat.observe(seen).core.tolist() == [0.25, 1, 1, 0, 0, 0]
    both = jax.tree.map(lambda *parts: np.stack(parts), seen, seen)
    assert flat.observe_all(both).core.shape == (2, 6)
    assert "always 1" not in flat.describe() and "Core 0-5: all" in flat.describe()


def test_flattened_changes_nothing_where_there_are_no_factors():
    plain, flat = (map_spaces(BOX, TWO, flattened=f) for f in (False, True))
    assert plain.observation == flat.observation and plain.describe() == flat.describe()


def test_an_observation_without_a_part_is_refused():
    with pytest.raises(BadInput, match="the observation has no part 'kind'"):
        mapped(RUNTIME).observe({"x": np.zeros(2)})


def test_an_agent_acts_on_the_mapped_observation():
    mapping = mapped(RUNTIME, spaces.MultiDiscrete([2, 2]))
    spec = mapping.observation
    small = dict(memory="memos", slots=2, memo_size=4, layers=1, heads=1, head_size=4, hidden=4)
    rest = dict(actor_critic=4, shared_heads=False, start="full", age="concatenated")
    agent = WMG(spec, mapping.actions, **small, **rest, key=jax.random.key(0))
    seen = mapping.observe(RUNTIME.sample())
    output = eqx.filter_eval_shape(agent, seen, agent.initial_memory())
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
    envs = gymnasium.make_vec(name, 16, "sync")
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
