"""The room as the viewer shows it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from viewer import players

from wmg import registry
from wmg.envs.babyai import picture as render
from wmg.envs.babyai import scene as babyai
from wmg.envs.babyai.env import Layout
from wmg.envs.babyai.settings import BabyAISettings
from wmg.types import Observation
from wmg.viewer import chance

ROOM = Layout(
    agent=(3, 4),
    direction=3,
    things=(("ball", "red", 3, 2), ("key", "blue", 5, 6), ("box", "grey", 1, 3)),
    mission="go to the red ball",
)


@pytest.fixture(scope="module")
def env():
    return registry.make_env(BabyAISettings("GoToLocal"))


@jax.jit
def observe(env, state):
    return env.observe(state)


def shown(env, layout):
    state = layout.state()
    return babyai.describe(*jax.device_get((state, observe(env, state))))


def test_factors_are_where_the_things_are(env):
    scene = shown(env, ROOM)
    assert [place for place in scene["places"] if place] == [[3, 2], [1, 3]]  # from the far end
    assert scene["places"][2:] == [None] * 6  # the key is behind the agent


@pytest.mark.parametrize("direction", range(4))
def test_every_factor_is_on_a_thing_that_is_seen(env, direction):
    things = (("ball", "red", 2, 2), ("key", "blue", 5, 3), ("box", "grey", 2, 5))
    layout = Layout((3, 3), direction, things, "go to the red ball")
    scene = shown(env, layout)
    seen = [thing["at"] for thing in scene["things"] if thing["at"] in scene["seen"]]
    assert sorted(place for place in scene["places"] if place) == sorted(seen)


def test_what_is_seen_is_the_lit_part_of_the_picture(env):
    room, _ = render.look(jax.device_get(ROOM.state()))
    lit = [[x, y] for y in range(8) for x in range(8) if not room[y][x][0].startswith("dark")]
    assert sorted(shown(env, ROOM)["seen"]) == sorted(lit)


def test_things_the_mission_means_are_marked(env):
    scene = shown(env, ROOM)
    assert scene["says"] == "go to the red ball"
    assert [thing["target"] for thing in scene["things"]] == [True, False, False]


def test_without_factors_there_are_no_places():
    state = jax.device_get(ROOM.state())
    assert babyai.places(state, Observation(jnp.zeros(929))) == []


def test_a_mission_is_found_after_the_last_episode():
    env = players.babyai().env
    seed, state = babyai.find_mission(env, "  Grey  BALL ", 10, chance.reset)
    assert seed > 10 and state is None
    said = render.mission_text(babyai._starts(chance.reset, env, 11))
    first = np.flatnonzero(["grey ball" in mission for mission in said])[0]
    assert seed == 11 + first


def test_a_mission_that_there_is_not_is_one_sentence(monkeypatch):
    monkeypatch.setattr(babyai, "BATCHES", 1)
    with pytest.raises(
        ValueError, match="no mission of 1,024 episodes has the words 'open a door'"
    ):
        babyai.find_mission(players.babyai().env, "open a door", 0, chance.reset)
    with pytest.raises(ValueError, match=r"has the words 'a{77}\.\.\.'$"):
        babyai.find_mission(players.babyai().env, "a" * 8000, 0, chance.reset)
