"""Gymnasium's own checks on every environment, and the batched one against single ones."""

import functools
import json
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.babyai.observe import FORMATS
from wmg.envs.babyai.vocabulary import DONE, FORWARD, LEFT
from wmg.envs.sokoban.observe import FORMATS as BOARD_FORMATS
from wmg.envs.sokoban.world import RIGHT, STAY
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Step

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

from wmg.interop import gymnasium as interop  # noqa: E402
from wmg.interop.gymnasium import GymEnv, GymVectorEnv  # noqa: E402

OBJECT, GRAPH = "wmg/BabyAI-GoToObj-v0", "wmg/Pathfinding-v0"
BOARD = "wmg/Sokoban-v0"
THINGS = (("ball", "red", 4, 3), ("key", "blue", 1, 1), ("box", "grey", 6, 6))
LAYOUT = Layout((2, 3), 0, THINGS, "go to the red ball")
LANES = 3


@functools.cache
def given(observation):
    """An environment in which every episode starts alike, so that copies of it agree."""
    return BabyAI("GoToLocal", observation, "minigrid").with_layouts([LAYOUT])


def assert_same(one, other, where="it"):
    """The same types, shapes and values, all the way down."""
    assert type(one) is type(other), f"{where}: {one!r} and {other!r}"
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one:
            assert_same(one[name], other[name], f"{where}[{name!r}]")
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert other.dtype == object and one.shape == other.shape, where
        for i in range(len(one)):
            assert_same(one[i], other[i], f"{where}[{i}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        np.testing.assert_array_equal(one, other, where)
    else:
        assert one == other, where


def play(env, seed, steps=40):
    """What random play shows, pays and tells."""
    actions = np.random.default_rng(seed).integers(env.action_space.n, size=steps)
    shown = [env.reset(seed=seed)]
    for action in actions:
        shown.append(env.step(action))
        if shown[-1][2] or shown[-1][3]:
            shown.append(env.reset())
    return shown


# Formats are checked on the level that compiles fastest, and levels in one format.
CHECKED = [(OBJECT, {"observation": format}) for format in FORMATS]
CHECKED += [("wmg/BabyAI-PickupLoc-v0", {}), (GRAPH, {"nodes": 3, "pattern": 2})]
CHECKED += [(BOARD, {"observation": format}) for format in BOARD_FORMATS]
ALL = [(name, {"observation": f}) for name in interop.IDS if "BabyAI" in name for f in FORMATS]


@pytest.mark.parametrize(("name", "settings"), CHECKED)
def test_gymnasiums_checker_finds_nothing(name, settings):
    check_env(gymnasium.make(name, **settings).unwrapped)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), ALL)
def test_gymnasiums_checker_finds_nothing_in_any_level_and_format(name, settings):
    check_env(gymnasium.make(name, **settings).unwrapped)


@pytest.mark.parametrize("name", interop.IDS)
def test_every_name_is_registered_and_makes_that_environment(name):
    env = gymnasium.make(name)
    inner = env.unwrapped.inner
    assert type(inner).__name__ == name.removeprefix("wmg/").partition("-")[0]
    assert "BabyAI" not in name or name == f"wmg/BabyAI-{inner.level}-v0"
    assert env.action_space.n == inner.spec.actions


def test_a_name_with_its_module_needs_no_import_and_the_package_needs_no_gymnasium():
    code = """
import sys, wmg
assert "gymnasium" not in sys.modules
import gymnasium
env = gymnasium.make("wmg.interop.gymnasium:wmg/Pathfinding-v0", nodes=3)
print(env.spec.id, env.observation_space.shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "wmg/Pathfinding-v0 (15,)\n", done.stderr


def test_without_gymnasium_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "wmg.interop.gymnasium")
    with pytest.raises(BadInput, match=r"need gymnasium: pip install 'wmg\[gym\]'"):
        import wmg.interop.gymnasium  # noqa: F401


SHAPES = {
    "factored": {"core": (63,), "objects": (8, 29), "objects_present": (8,)},
    "image": {"core": (47,), "image": (7, 7, 3)},
    "flat": (929,),
    "flattened": (411,),
    "words": {"core": (9,), "image": (7, 7, 3)},
}


@pytest.mark.parametrize("format", FORMATS)
def test_an_observation_is_what_the_environment_shows(format):
    env = GymEnv(given(format))
    seen, _ = env.reset(seed=0)
    expected = jax.jit(lambda state: given(format).observe(state))(LAYOUT.state())
    if isinstance(SHAPES[format], tuple):
        assert (seen.shape, seen.dtype) == (SHAPES[format], np.float32)
        np.testing.assert_array_equal(seen, expected.core)
        return
    assert {name: part.shape for name, part in seen.items()} == SHAPES[format]
    np.testing.assert_array_equal(seen["core"], expected.core)
    if format in ("image", "words"):
        np.testing.assert_array_equal(seen["image"], expected.image)
    else:
        np.testing.assert_array_equal(seen["objects"], expected.factors["objects"].values)
        assert seen["objects_present"].dtype == np.int8
        assert seen["objects_present"].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("format", [*FORMATS, None])
def test_bounds_hold_in_random_play(format):
    graph = {"env": "pathfinding", "nodes": 3, "pattern": 2}
    env = GymVectorEnv(num_envs=LANES, **({"env": given(format)} if format else graph))
    env.action_space.seed(0)
    seen, _ = env.reset(seed=0)
    for _ in range(70):
        assert env.observation_space.contains(seen)
        seen, *_ = env.step(env.action_space.sample())


def test_a_seed_decides_all_that_follows():
    env, other = gymnasium.make(OBJECT), gymnasium.make(OBJECT)
    for one, two in zip(play(env, 1), play(other, 1), strict=True):
        for part, (a, b) in enumerate(zip(one, two, strict=True)):
            assert_same(a, b, f"part {part}")
    assert_same(play(env, 1)[0][0], play(other, 1)[0][0])
    missions = {env.reset(seed=seed)[1]["mission"] for seed in range(20)}
    assert len(missions) > 5


def test_episodes_without_a_seed_are_all_different():
    env, other = gymnasium.make(OBJECT), gymnasium.make(OBJECT)
    starts = [json.dumps(e.reset()[0]["core"].tolist()) for e in (env, other) for _ in range(4)]
    assert len(set(starts)) > 5


@pytest.mark.parametrize("make", [GymEnv, GymVectorEnv])
@pytest.mark.parametrize("begun", [False, True])
def test_a_pickled_environment_goes_on_as_it_would_have(make, begun):
    env = make("pathfinding", nodes=3, pattern=2)
    if begun:
        env.reset(seed=0)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.observation_space == env.observation_space
    if not begun:
        env.reset(seed=1)
        copy.reset(seed=1)
    env.action_space.seed(0)
    for _ in range(3):
        action = env.action_space.sample()
        for one, other in zip(env.step(action), copy.step(action), strict=True):
            assert_same(one, other)
    assert_same(env.reset()[0], copy.reset()[0])


def test_environments_of_equal_settings_compile_once():
    def make_and_play():
        env = GymEnv("pathfinding", nodes=2, pattern=3)
        env.reset(seed=0)
        env.step(0)

    make_and_play()
    compiled = interop._reset._cache_size(), interop._step._cache_size()
    make_and_play()
    assert (interop._reset._cache_size(), interop._step._cache_size()) == compiled


def test_success_terminates_and_is_told():
    env = GymEnv(given("flat"))
    _, info = env.reset(seed=0)
    assert info == {"mission": "go to the red ball"}
    _, reward, terminated, truncated, info = env.step(FORWARD)
    assert (terminated, truncated) == (True, False)
    assert reward == pytest.approx(1 - 0.9 / 64)
    assert info == {"mission": "go to the red ball", "success": True}


def test_the_end_of_time_truncates():
    env = GymEnv(given("flat"))
    env.reset(seed=0)
    ends = [env.step(DONE)[1:] for _ in range(64)]
    told = {"mission": "go to the red ball", "success": False}
    assert ends == [(0.0, False, False, told)] * 63 + [(0.0, False, True, told)]


@pytest.mark.parametrize("action", [7, -1, 1.5, "left", None, np.array([1])])
def test_an_action_that_there_is_not_is_refused(action):
    env = GymEnv(given("flat"))
    env.reset(seed=0)
    with pytest.raises(BadInput, match="an action must be a whole number from 0 to 6, got"):
        env.step(action)


def test_without_an_episode_there_is_nothing_to_go_on_with():
    env, batch = GymEnv(given("flat"), "ansi"), GymVectorEnv(given("flat"), 2, "ansi")
    for one, actions in ((env, FORWARD), (batch, [FORWARD] * 2)):
        with pytest.raises(BadInput, match="there is no episode to go on with"):
            one.step(actions)
        with pytest.raises(BadInput, match="there is nothing to render"):
            one.render()
    env.reset(seed=0)
    env.step(FORWARD)
    with pytest.raises(BadInput, match="there is no episode to go on with"):
        env.step(LEFT)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"level": "GoToMoon"}, "babyai.level must be one of 'GoToObj', .*, got 'GoToMoon'"),
        ({"observation": "pixels"}, "babyai.observation must be one of .*, got 'pixels'"),
        ({"nodes": 3}, "babyai has no setting 'nodes'; it has level, observation, reward"),
        ({"env": "chess"}, "env must be one of babyai, outside, pathfinding, sokoban, got 'chess'"),
        ({"env": BabyAI("GoToObj", "flat", "binary")}, "your own has no setting 'level'"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(settings, sentence):
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(BadInput, match=sentence):
            make(OBJECT, **settings)


def test_a_render_mode_that_there_is_not_is_refused():
    for make in (GymEnv, GymVectorEnv):
        with pytest.raises(BadInput, match="render_mode must be one of rgb_array, ansi, got 'svg'"):
            make(given("flat"), render_mode="svg")


def test_pictures_and_texts_follow_the_episode():
    for mode, kind in (("rgb_array", np.ndarray), ("ansi", str)):
        env = GymEnv(given("flat"), mode)
        env.reset(seed=0)
        before = env.render()
        env.step(LEFT)
        after = env.render()
        assert type(before) is type(after) is kind
        assert not np.array_equal(before, after)
    assert GymEnv(given("flat")).render() is None


def test_a_list_of_pictures_is_gymnasiums_business():
    env = gymnasium.make(GRAPH, nodes=3, pattern=2, render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(0)
    assert [frame.dtype for frame in env.render()] == [np.uint8] * 2


def test_episodes_can_be_filmed(tmp_path):
    pytest.importorskip("moviepy")
    env = gymnasium.make(GRAPH, nodes=3, pattern=2, render_mode="rgb_array")
    env = gymnasium.wrappers.RecordVideo(env, str(tmp_path / "film"))
    env.reset(seed=0)
    for _ in range(4):
        env.step(1)
    env.close()
    (film,) = (tmp_path / "film").iterdir()
    assert film.suffix == ".mp4" and film.stat().st_size > 1000


def test_statistics_of_single_episodes():
    env = gymnasium.wrappers.RecordEpisodeStatistics(GymEnv(given("flat")))
    env.reset(seed=0)
    env.step(DONE)
    *_, info = env.step(FORWARD)
    assert (info["episode"]["l"], info["success"]) == (2, True)


# The batch


def test_make_vec_gives_the_compiled_batch_by_default():
    env = gymnasium.make_vec(GRAPH, num_envs=LANES, nodes=3)
    assert isinstance(env.unwrapped, GymVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.spec.id == GRAPH and env.num_envs == LANES
    copies = gymnasium.make_vec(GRAPH, num_envs=LANES, vectorization_mode="sync", nodes=3)
    assert isinstance(copies, SyncVectorEnv)
    for name in ("single_observation_space", "single_action_space", "observation_space"):
        assert getattr(env, name) == getattr(copies, name)
    assert env.action_space == copies.action_space == batch_space(copies.single_action_space, 3)


@pytest.mark.parametrize("format", ["factored", "flat"])
def test_the_batch_does_what_gymnasiums_batch_of_single_ones_does(format):
    batch = GymVectorEnv(given(format), LANES)
    copies = SyncVectorEnv(
        [lambda: GymEnv(given(format))] * LANES, autoreset_mode=AutoresetMode.SAME_STEP
    )
    for one, other in zip(batch.reset(seed=0), copies.reset(seed=0), strict=True):
        assert_same(one, other)
    actions = np.random.default_rng(0).integers(7, size=(100, LANES))
    actions[0] = FORWARD  # all end together
    actions[1:70, 0] = DONE  # runs out of time
    ends = []
    for time in range(100):
        one, other = batch.step(actions[time]), copies.step(actions[time])
        for part, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"part {part} in step {time}")
        ends.append((one[2] | one[3]).sum())
    assert {0, 1, LANES} <= set(ends)


def test_a_seed_decides_the_batch_and_its_environments_differ():
    def starts(seed):
        env = gymnasium.make_vec(OBJECT, num_envs=LANES)
        return [env.reset(seed=seed)[0]["core"], env.reset()[0]["core"]]

    np.testing.assert_array_equal(starts(1), starts(1))
    rows = np.concatenate([*starts(1), *starts(2)])
    assert len(np.unique(rows, axis=0)) > 8


def test_what_a_batch_returns_may_be_changed():
    env = GymVectorEnv(given("factored"), LANES)
    seen, infos = env.reset(seed=0)
    seen["core"][:], infos["mission"][:] = 9, "fly"
    again, *_, infos = env.step([DONE] * LANES)
    assert again["core"].max() < 9 and set(infos["mission"]) == {"go to the red ball"}


@pytest.mark.parametrize("actions", [[0, 1], [0, 1, 7], [0, 1, -1], [0.0, 1.0, 2.0], 1, None])
def test_actions_that_there_are_not_are_refused(actions):
    env = GymVectorEnv(given("factored"), LANES)
    env.reset(seed=0)
    with pytest.raises(BadInput, match="actions must be 3 whole numbers from 0 to 6, got"):
        env.step(actions)


def test_a_batch_has_at_least_one_environment():
    with pytest.raises(BadInput, match="num_envs must be at least 1, got 0"):
        gymnasium.make_vec(GRAPH, num_envs=0)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_in_every_mode_the_batch_does_what_gymnasiums_batch_of_single_ones_does(mode):
    batch = GymVectorEnv(given("factored"), LANES, autoreset_mode=mode)
    assert batch.metadata["autoreset_mode"] is mode
    copies = SyncVectorEnv([lambda: GymEnv(given("factored"))] * LANES, autoreset_mode=mode)
    pairs: list[tuple] = [(batch.reset(seed=0), copies.reset(seed=0))]
    actions = np.random.default_rng(0).integers(7, size=(90, LANES))
    actions[0] = FORWARD  # all end together
    actions[1:70, 0] = DONE  # runs out of time
    ends = set()
    for time in range(90):
        stepped = batch.step(actions[time])
        pairs.append((stepped, copies.step(actions[time])))
        over = stepped[2] | stepped[3]
        ends.add(int(over.sum()))
        if mode is AutoresetMode.DISABLED and over.any():
            given_mask = [{"reset_mask": over.copy()} for _ in range(2)]
            pairs.append((batch.reset(options=given_mask[0]), copies.reset(options=given_mask[1])))
    for time, (one, other) in enumerate(pairs):
        for part, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"part {part} of return {time}")
    assert {0, 1, LANES} <= ends


def test_an_episode_that_has_ended_is_reset_by_the_user_if_nobody_else_does():
    env = GymVectorEnv(given("factored"), LANES, autoreset_mode="DISABLED")
    env.reset(seed=0)
    env.step([DONE, FORWARD, DONE])
    with pytest.raises(BadInput, match="environments 1 have ended: reset them with"):
        env.step([DONE] * LANES)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.array([True, False]), "reset_mask must be an array of 3 bools"),
        (np.zeros(3, bool), "one of them True"),
        ([True, False, True], "got .True, False, True"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, sentence):
    env = GymVectorEnv(given("factored"), LANES)
    with pytest.raises(BadInput, match="no episodes yet"):
        env.reset(options={"reset_mask": np.ones(3, bool)})
    env.reset(seed=0)
    with pytest.raises(BadInput, match=sentence):
        env.reset(options={"reset_mask": mask})


def test_a_mode_that_there_is_not_is_refused():
    with pytest.raises(BadInput, match="one of NEXT_STEP, SAME_STEP, DISABLED, got 'never'"):
        GymVectorEnv(Coin(), 2, autoreset_mode="never")


def test_each_environment_may_have_its_own_seed():
    env = GymVectorEnv("pathfinding", LANES, nodes=3, pattern=4)
    first = env.reset(seed=[1, 2, 3])[0]
    moved = env.reset(seed=[3, 1, None])[0]
    np.testing.assert_array_equal(moved[:2], first[[2, 0]])
    assert len(np.unique(np.asarray(first), axis=0)) == LANES
    np.testing.assert_array_equal(env.reset(seed=[1, 2, 3])[0], first)
    for wrong in ([1, 2], [1, 2, -3]):
        with pytest.raises(BadInput, match="seed must be a whole number or a list of 3"):
            env.reset(seed=wrong)


def test_a_list_of_seeds_begins_the_episodes_of_single_environments():
    seeds = [3, 4, 2**32]
    env = gymnasium.make_vec(OBJECT, num_envs=LANES)
    copies = SyncVectorEnv([lambda: gymnasium.make(OBJECT)] * LANES)
    seen, infos = env.reset(seed=seeds)
    assert_same(seen, copies.reset(seed=seeds)[0])
    single = gymnasium.make(OBJECT)
    for lane, seed in enumerate(seeds):
        shown, info = single.reset(seed=seed)
        np.testing.assert_array_equal(seen["core"][lane], shown["core"])
        np.testing.assert_array_equal(seen["objects"][lane], shown["objects"])
        assert infos["mission"][lane] == info["mission"]


def test_wrappers_of_batches_work_in_the_modes_that_they_take():
    wrappers = gymnasium.wrappers.vector
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED):
        env = wrappers.FlattenObservation(GymVectorEnv(Coin(), LANES, autoreset_mode=mode))
        assert env.reset(seed=0)[0].shape == (LANES, 9)
        for _ in range(3):
            seen, *_ = env.step([0, 1, 1])
        assert seen.shape == (LANES, 9)
    env = GymVectorEnv("pathfinding", LANES, nodes=3, pattern=4, autoreset_mode="NextStep")
    env = wrappers.NormalizeObservation(env)
    env.reset(seed=0)
    assert np.isfinite(env.step([0, 1, 1])[0]).all()


def test_processes_that_are_spawned_play():
    env = gymnasium.make_vec(
        GRAPH, 2, "async", vector_kwargs={"context": "spawn"}, nodes=3, pattern=2
    )
    try:
        assert env.reset(seed=0)[0].shape == (2, 5)
        assert env.step(np.array([0, 1]))[1].shape == (2,)
    finally:
        env.close()


FORK = """
import gymnasium, jax, warnings
import wmg.interop.gymnasium
warnings.simplefilter("ignore")
jax.numpy.zeros(1).block_until_ready()
env = gymnasium.make_vec("wmg/Pathfinding-v0", 2, "async", vector_kwargs={"context": "fork"})
try:
    env.reset(seed=0)
except Exception as error:
    print(error)
"""


def test_processes_that_are_forked_after_jax_was_used_say_so():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert 'give AsyncVectorEnv context="spawn"' in done.stdout, done.stderr


def test_pictures_of_a_batch_are_those_of_its_environments():
    env = GymVectorEnv(given("factored"), LANES, "rgb_array")
    env.reset(seed=0)
    env.step([LEFT, DONE, DONE])
    frames = env.render() or ()
    assert len(frames) == LANES
    assert (frames[0] != frames[1]).any() and (frames[1] == frames[2]).all()


def test_statistics_of_a_batch():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(GymVectorEnv(given("factored"), LANES))
    env.reset(seed=0)
    env.step([DONE] * LANES)
    *_, infos = env.step([DONE, FORWARD, DONE])
    assert infos["_episode"].tolist() == [False, True, False]
    assert infos["episode"]["l"].tolist() == [0, 2, 0]
    *_, infos = env.step([FORWARD] * LANES)
    # Older ones take a step after an end for the start of an episode, which here it is not.
    first = 1 if gymnasium.__version__ >= "1.4" else 0
    assert infos["episode"]["l"].tolist() == [3, first, 3]


class Coin(Env[jax.Array]):
    """An environment of a user's: two types of Factors, and chance in every step."""

    @property
    def spec(self) -> EnvSpec:
        factors = (("coins", 2, 1), ("hats", 1, 3))
        return EnvSpec(ObservationSpec(1, factors), actions=2, max_steps=3, metric="success")

    def reset(self, key):
        return jnp.zeros((), jnp.int32), self.observe(key)

    def observe(self, key):
        coins = Factors(jax.random.normal(key, (2, 1)), jnp.array([True, False]))
        return Observation(
            jnp.ones(1), {"coins": coins, "hats": Factors(jnp.ones((1, 3)), jnp.ones(1, bool))}
        )

    def step(self, state, action, key):
        time, over = state + 1, state == 2
        return Step(time, self.observe(key), action * 1.0, over, over & False, action == 1)


def test_an_environment_of_ones_own_needs_no_registration():
    env = GymEnv(Coin())
    seen, info = env.reset(seed=0)
    assert set(seen) == {"core", "coins", "coins_present", "hats", "hats_present"} and info == {}
    assert env.observation_space.contains(seen)
    later = [env.step(1) for _ in range(3)]
    thrown = [s["coins"][0, 0] for s in (seen, *(step[0] for step in later))]
    assert len(set(thrown)) == 4  # every step has its own chance
    assert later[-1][1:] == (1.0, True, False, {"success": True})
    batch = GymVectorEnv(Coin(), LANES)
    batch.reset(seed=0)
    seen, rewards, *_, infos = batch.step([0, 1, 1])
    assert len(np.unique(seen["coins"])) == 2 * LANES and rewards.tolist() == [0, 1, 1]
    assert infos["success"].tolist() == [False, True, True]


PUSH = "######\n#@$ .#\n######"


@pytest.fixture(scope="module")
def corridor(tmp_path_factory):
    """The path of a level that two steps to the right solve."""
    path = tmp_path_factory.mktemp("levels") / "corridor.txt"
    path.write_text(PUSH)
    return str(path)


def test_a_level_of_sokoban_is_played_to_its_end(corridor):
    env = gymnasium.make(BOARD, levels=corridor, bound=6, render_mode="ansi").unwrapped
    seen, info = env.reset(seed=0)
    shapes = {"core": (11,), "cells": (16, 23), "cells_present": (16,)}
    assert {name: part.shape for name, part in seen.items()} == shapes
    assert info == {} and seen["cells_present"].sum() == 3
    assert env.step(RIGHT)[1:] == (0.0, False, False, {"success": False})
    assert env.step(RIGHT)[1:] == (3.0, True, False, {"success": True})
    assert "solved" in env.render()


def test_boards_of_sokoban_begin_anew_in_a_batch(corridor):
    settings = {"levels": corridor, "bound": 6, "max_steps": 3}
    envs = gymnasium.make_vec(BOARD, num_envs=2, render_mode="rgb_array", **settings)
    first, _ = envs.reset(seed=0)
    envs.step([RIGHT, STAY])
    seen, rewards, terminated, truncated, infos = envs.step([RIGHT, STAY])
    assert (rewards.tolist(), terminated.tolist()) == ([3.0, 0.0], [True, False])
    np.testing.assert_array_equal(seen["core"], first["core"])
    assert infos["final_info"]["success"].tolist() == [True, False]
    *_, terminated, truncated, _ = envs.step([STAY, STAY])
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
    assert [picture.shape for picture in envs.render()] == [(302, 272, 3)] * 2


@pytest.mark.parametrize(
    "rewards", [(0.0, 1.0, -1.0, 2.0), (-0.1, 1.0, -1.0, 10.0), (5.0, 0, 0, 0)]
)
def test_the_rewards_of_sokoban_are_within_the_bounds(corridor, rewards):
    env = gymnasium.make(BOARD, levels=corridor, bound=6, rewards=rewards)
    seen, _ = env.reset(seed=0)
    for action in (STAY, RIGHT, RIGHT):
        assert env.observation_space.contains(seen)
        seen, *_ = env.step(action)
    assert env.observation_space.contains(seen)


def test_levels_that_there_are_not_are_refused():
    with pytest.raises(BadInput, match=r"levels must be a text file or one of .*, got 'moon'"):
        GymEnv("sokoban", levels="moon")
