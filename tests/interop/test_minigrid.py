"""The real minigrid: what its environments show and say, and copies of its levels."""

import importlib.util
import sys

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.babyai import encode, missions
from wmg.envs.babyai.env import BabyAI
from wmg.envs.babyai.vocabulary import TYPES
from wmg.play import evaluate
from wmg.runs import train
from wmg.tools.errors import BadInput
from wmg.types import Agent, Output

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("minigrid")

from gymnasium.utils import env_checker  # noqa: E402
from minigrid.core.world_object import Door, Wall  # noqa: E402

from wmg.interop import minigrid  # noqa: E402

SINGLE_ROOM = ["GoToObj", "GoToRedBallGrey", "GoToRedBall", "GoToLocal", "PickupLoc"]
SIMPLE = [
    *("GoToObjDoor", "GoToDoor", "GoToImpUnlock", "GoToObjMazeS4R2", "GoToOpen"),
    *("OpenDoorLoc", "OpenRedDoor", "Pickup", "UnblockPickup", "PickupDist", "PickupAbove"),
    *("PutNextLocalS5N3", "PutNextS5N2Carrying", "Unlock", "KeyInBox", "BlockedUnlockPickup"),
    *("UnlockToUnlock", "FindObjS5", "KeyCorridor", "OneRoomS20", "SynthLoc", "ActionObjDoor"),
]
COMPOUND = [
    *("GoToSeqS5R2", "OpenTwoDoors", "OpenDoorsOrderN4", "MoveTwoAcrossS5N2"),
    *("SynthSeq", "MiniBossLevel", "BossLevel"),
]


def babyai(name):
    return minigrid.make(f"BabyAI-{name}-v0")


def fresh(name, seed=0):
    """An environment at the start of an episode."""
    env = minigrid.Factored(babyai(name), clauses=True)
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize("name", SIMPLE + COMPOUND)
def test_any_environment_shows_what_its_space_promises(name):
    env = minigrid.Factored(babyai(name), clauses=name in COMPOUND)
    draw = np.random.default_rng(0)
    for seed in range(2):
        seen, info = env.reset(seed=seed)
        for _ in range(15):
            assert env.observation_space.contains(seen)
            image = env.unwrapped.gen_obs()["image"]
            assert seen["objects_present"].sum() == (image[..., 0] >= 4).sum()
            said = missions.parse_compound(info["mission"])
            assert missions.decode(seen["core"][11:47]) == said.first[0]
            if name in COMPOUND:
                rows = seen["clauses"], seen["clauses_present"].astype(bool)
                assert missions.decode_compound(*rows) == said
            seen, _, terminated, truncated, info = env.step(draw.integers(7))
            if terminated or truncated:
                break


def test_doors_and_what_is_carried_are_things():
    env = fresh("PutNextS5N2Carrying")
    carried = env.unwrapped.carrying
    assert carried is not None
    seen, *_ = env.step(6)
    rows = seen["objects"][seen["objects_present"] == 1]
    (mine,) = [row for row in rows if row[13] == 0 and row[21] == 0]
    assert TYPES[mine[:4].argmax()] == carried.type
    env = fresh("OpenDoor")
    image = env.unwrapped.gen_obs()["image"]
    seen, *_ = env.step(6)
    assert seen["objects"][:, 0].sum() == (image[..., 0] == 4).sum() > 0


def test_the_last_action_is_told_and_an_episode_starts_without():
    env = minigrid.Factored(babyai("GoToLocal"))
    for _ in range(2):
        seen, _ = env.reset(seed=1)
        assert not seen["core"][:7].any()
        seen, *_ = env.step(4)
        assert np.flatnonzero(seen["core"][:7]).tolist() == [4]


@pytest.mark.parametrize("kind", ["binary", "minigrid"])
def test_success_pays_one_or_what_minigrid_pays(kind):
    env = minigrid.Factored(babyai("GoToObj"), reward=kind)
    for seed in range(100):
        env.reset(seed=seed)
        for time in range(1, 6):
            _, reward, terminated, _, _ = env.step(2)
            assert (reward > 0) == terminated
            if terminated:
                expected = 1.0 if kind == "binary" else 1 - 0.9 * time / 64
                assert reward == pytest.approx(expected)
                return
    pytest.fail("nothing was straight ahead")


def test_resets_print_nothing(capsys):
    env = babyai("PickupLoc")
    for seed in range(12):
        env.reset(seed=seed)
    assert "Sampling rejected" in capsys.readouterr().out
    env = minigrid.Factored(env)
    for seed in range(12):
        env.reset(seed=seed)
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore:.*not within the expected|.*We recommend:UserWarning")
def test_gymnasium_accepts_the_wrapper():
    env_checker.check_env(
        minigrid.Factored(babyai("BossLevel"), clauses=True), skip_render_check=True
    )


def test_a_single_room_has_room_for_eight_things_and_others_for_all_that_fit():
    assert minigrid.Factored(babyai("GoToLocal")).things == 8
    assert minigrid.Factored(babyai("BossLevel")).things == encode.MOST_THINGS == 49
    assert minigrid.Factored(babyai("BossLevel"), things=20).things == 20


class Reflex(Agent[jax.Array]):
    """Acts on what it sees and on the time, by fixed random numbers."""

    core: jax.Array
    objects: jax.Array
    times: jax.Array

    def initial_memory(self):
        return jnp.zeros((), jnp.int32)

    def __call__(self, observation, memory):
        things = observation.factors["objects"]
        seen = jnp.where(things.present[:, None], things.values, 0.0).sum(0)
        logits = observation.core @ self.core + seen @ self.objects + self.times[memory]
        return Output(logits, jnp.zeros(()), memory + 1)


@pytest.fixture(scope="module")
def reflex():
    draw = np.random.default_rng(3)
    weights = [draw.normal(size=(size, 7)) for size in (63, 29, 64)]
    weights[2] *= 4
    return Reflex(*(jnp.asarray(w, jnp.float32) for w in weights))


def test_an_episode_is_the_same_in_a_compiled_copy_of_its_level(reflex):
    episodes = 24
    real = minigrid.evaluate(
        reflex, "BabyAI-GoToLocal-v0", seed=2, episodes=episodes, greedy=True, copies=5
    )
    layouts = []

    class Watched(gymnasium.Wrapper):
        def reset(self, **options):
            result = self.env.reset(**options)
            layouts.append(minigrid.copy_level(self.env))
            return result

    env = Watched(babyai("GoToLocal"))
    alone = minigrid.evaluate(reflex, env, seed=2, episodes=episodes, greedy=True)
    level = BabyAI("GoToLocal", "factored", "binary")
    assert len(layouts) == episodes + 1  # after the last one, it only begins
    for i, layout in enumerate(layouts[:episodes]):
        copied = level.with_layouts([layout])
        compiled = evaluate.evaluate(copied, reflex, seed=i, episodes=1, greedy=True)
        for played in (real, alone):
            assert played.length[i] == compiled.length
            assert played.success[i] == compiled.success
            assert played.reward[i] == compiled.reward
    assert 0 < real.success.sum() < episodes


@pytest.mark.parametrize("name", SINGLE_ROOM)
def test_a_copied_level_looks_like_the_real_one(name):
    env = minigrid.host(babyai(name))
    compiled = BabyAI("GoToLocal", "factored", "binary")
    for seed in range(5):
        seen = env.reset(seed)
        layout = minigrid.copy_level(env.env)
        assert layout.mission == env.env.unwrapped.mission
        copy = compiled.observe(layout.state())
        np.testing.assert_array_equal(seen.core, copy.core)
        objects = seen.factors["objects"], copy.factors["objects"]
        rows = [np.asarray(one.values)[np.asarray(one.present)] for one in objects]
        np.testing.assert_array_equal(*map(in_order, rows))


def in_order(rows):
    return rows[np.lexsort(rows.T)]


def test_targets_are_copied_by_identity():
    """A thing that was on the left stays meant after the agent has turned."""
    env = babyai("PickupLoc")
    for seed in range(60):
        env.reset(seed=seed)
        if "on your left" in env.unwrapped.mission:
            before = minigrid.copy_level(env).targets
            env.step(0)
            env.step(0)
            assert minigrid.copy_level(env).targets == before != ()
            return
    pytest.fail("no mission with a location was drawn")


def with_thing(name, thing, x, y):
    env = fresh(name)
    env.unwrapped.grid.set(x, y, thing)
    return env


def carrying():
    env = fresh("GoToLocal")
    env.unwrapped.carrying = env.unwrapped.instrs.desc.obj_set[0]
    return env


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: fresh("OpenDoor"), "this grid is 22x22"),
        (lambda: fresh("PutNextS5N2"), "this grid is 9x5"),
        (lambda: fresh("PutNextLocal"), "one target, not 'put the"),
        (lambda: with_thing("GoToLocal", Wall(), 3, 3), "keys, balls and boxes in it alone"),
        (lambda: with_thing("GoToLocal", Door("red"), 0, 3), "this one has a door"),
        (carrying, "being carried"),
        (lambda: gymnasium.make("MiniGrid-Empty-8x8-v0"), "not one of minigrid's BabyAI"),
    ],
)
def test_a_level_that_does_not_fit_is_refused_in_one_sentence(make, reason):
    with pytest.raises(BadInput, match=reason) as error:
        minigrid.copy_level(make())
    assert "\n" not in str(error.value)


def test_other_environments_views_and_names_are_refused_in_one_sentence():
    with pytest.raises(BadInput, match="not one of minigrid's BabyAI environments"):
        minigrid.Factored(gymnasium.make("MiniGrid-Empty-8x8-v0"))
    with pytest.raises(BadInput, match=r"view is 7 cells wide, not 5"):
        minigrid.Factored(gymnasium.make("BabyAI-GoToObj-v0", agent_view_size=5))
    with pytest.raises(BadInput, match="no environment 'BabyAI-GoNowhere-v0'") as error:
        minigrid.make("BabyAI-GoNowhere-v0")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("things", [0, -1, True])
def test_room_for_things_is_a_whole_number(things):
    with pytest.raises(BadInput, match="things must be a whole number from 1 on"):
        minigrid.Factored(babyai("GoToObj"), things=things)


def test_a_reward_of_another_name_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with pytest.raises(BadInput, match="reward must be 'binary' or 'minigrid', got 'Binary'"):
        minigrid.host("BabyAI-GoToObj-v0", reward="Binary")  # type: ignore[arg-type]


def test_a_compound_mission_is_refused_unless_clauses_are_asked_for():
    with pytest.raises(BadInput, match=r"then .* is compound: wrap the environment with clauses"):
        minigrid.Factored(babyai("OpenTwoDoors")).reset(seed=0)


def test_a_mission_outside_the_grammar_is_refused():
    env = minigrid.Factored(babyai("GoToObj"))
    env.env.reset = lambda **options: ({"mission": "dance", "image": None}, {})
    with pytest.raises(BadInput, match="the mission 'dance' is not in BabyAI's grammar"):
        env.reset()


def test_more_things_in_view_than_room_are_refused():
    env = minigrid.Factored(babyai("GoToLocal"), things=1)
    with pytest.raises(BadInput, match="things are in view, and there is room for 1"):
        for seed in range(20):
            env.reset(seed=seed)


def test_an_agent_trains_on_the_real_thing():
    settings = Config(
        env=None,
        agent=WMGSettings(
            slots=1, memo_size=4, layers=1, heads=1, head_size=8, hidden=4, actor_critic=8
        ),
        t_max=6,
        steps=200,
        report_every=100,
    )
    real = minigrid.host("BabyAI-MiniBossLevel-v0", things=16, clauses=True)
    with jax.debug_key_reuse(False):  # it takes two rows of a batch of keys for the same
        result = train.train(settings, env=real)
    assert result.steps[0] >= 100 and int(result.runs.steps[0]) >= 200
    assert (result.agent.actor_critic.policy.weight != 0).any()  # before training it was 0


def test_without_minigrid_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "minigrid"]:
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("without", minigrid.__file__)
    with pytest.raises(BadInput, match=r"pip install 'wmg\[minigrid\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
