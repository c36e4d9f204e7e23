"""What is drawn for which state, recordings against the evaluation, and animations."""

import dataclasses
import functools
import sys

import equinox as eqx
import jax
import numpy as np
import pytest

from wmg import registry
from wmg.agents.baselines.settings import RandomSettings
from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.play import evaluate
from wmg.tools.draw import blank
from wmg.tools.errors import BadInput
from wmg.viewer import render

LAYOUT = Layout((2, 3), 0, (("ball", "red", 4, 4),), "go to the red ball")


@functools.cache
def room():
    return BabyAI("GoToObj", "factored", "binary").with_layouts([LAYOUT])


@functools.cache
def graph():
    return registry.make_env(PathfindingSettings(nodes=3, pattern=2))


@functools.cache
def board():
    shapes = registry.make_env(SokobanSettings(bound=6), shapes_only=True)
    return dataclasses.replace(shapes, levels=from_text("######\n#@$ .#\n######", 6))


def random_agent(env):
    return registry.make_agent(RandomSettings(), env.spec, jax.random.key(0))


def test_every_environment_of_the_package_has_pictures_and_texts():
    for env in (room(), graph(), board()):
        state, _ = eqx.filter_jit(env.reset)(jax.random.key(0))
        assert render.rgb(state).dtype == np.uint8 and render.rgb(state).std() > 10
        assert render.ansi(state).count("\n") >= 1


def test_a_state_without_a_picture_is_refused_in_one_sentence():
    with pytest.raises(BadInput, match="there is no picture of int: register one"):
        render.rgb(3)
    with pytest.raises(BadInput, match="there is no text for int: register one"):
        render.ansi(3)


def test_a_new_kind_of_state_registers_its_own_picture():
    class Own:
        pass

    render.rgb.register(Own, lambda state: blank(2, 2, (1, 2, 3)))
    assert render.rgb(Own())[0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("make", [room, graph])
def test_a_recorded_episode_is_the_one_that_evaluation_plays(make):
    env = make()
    agent = random_agent(env)
    key = jax.random.fold_in(jax.random.key(evaluate.TEST_STREAM), 1)
    all_played, successes = evaluate.evaluate(env, agent, 1, 8), set()
    for episode in range(8):
        played = jax.tree.map(lambda each, episode=episode: each[episode], all_played)
        states = render.record(env, agent, jax.random.fold_in(key, episode))
        assert [int(state.time) for state in states] == list(range(int(played.length) + 1))
        successes.add(bool(played.success))
        if make is room:
            assert render.babyai.fulfilled(states[-1]) == bool(played.success)
            assert not any(map(render.babyai.fulfilled, states[:-1]))
        else:
            assert int(states[-1].right) == int(played.reward)
    assert successes == {True, False}


def test_a_greedy_recording_takes_the_most_likely_actions():
    # All actions are as likely for this agent, and the first of them turns left.
    states = render.record(room(), random_agent(room()), jax.random.key(0), greedy=True)
    assert {int(state.last_action) for state in states[1:]} == {0}


def frames():
    pictures = [blank(10, 20, colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    pictures[1][2:5, 3:9] = (10, 20, 30)
    return pictures


def test_an_animation_holds_the_frames_at_their_speed_for_ever(tmp_path):
    image = pytest.importorskip("PIL.Image")
    render.gif(frames(), tmp_path / "new" / "a.gif", fps=5.0)
    with image.open(tmp_path / "new" / "a.gif") as file:
        assert file.n_frames == 3 and file.info["loop"] == 0
        for index, frame in enumerate(frames()):
            file.seek(index)
            assert file.info["duration"] == 200
            np.testing.assert_allclose(np.array(file.convert("RGB")), frame, atol=4)


def test_colours_of_a_picture_survive_in_an_animation(tmp_path):
    image = pytest.importorskip("PIL.Image")
    picture = render.rgb(LAYOUT.state())
    render.gif([picture], tmp_path / "a.gif")
    with image.open(tmp_path / "a.gif") as file:
        error = np.abs(np.array(file.convert("RGB")).astype(int) - picture)
    assert error.max() <= 8


def test_an_animation_needs_frames_and_pillow(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="there is no frame to animate"):
        render.gif([], tmp_path / "a.gif")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match=r"animations need pillow: pip install 'wmg\[plot\]'"):
        render.gif(frames(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []
