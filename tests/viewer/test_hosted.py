"""Environments of the host in the viewer: every moment can be gone back to."""

import jax
import numpy as np
import pytest
import toy
from tiny import time_limit

import wmg
from wmg.config import Config
from wmg.interop import outside
from wmg.play import host
from wmg.play.source import play_episodes
from wmg.registry import make_agent
from wmg.tools.errors import BadInput
from wmg.viewer import generic, recording
from wmg.viewer.hosted import HostedEpisodes
from wmg.viewer.play import Player, Track

AGENT = wmg.WMGSettings(slots=2, memo_size=4, layers=1, heads=1, head_size=4, hidden=4)


class Painted(toy.Toy):
    """A walk that can be seen."""

    render_mode = "rgb_array"

    def render(self):
        return np.full((4, 6, 3), 10 + self.x, np.uint8)


def make(kind=toy.Toy):
    source = outside.from_gymnasium(kind, "walk")
    agent = make_agent(AGENT, source.spec, jax.random.key(0))
    settings = Config(env=None, agent=AGENT)
    return Player("walker", agent, HostedEpisodes(source, 1), settings, greedy=True), source


def play(track, actions):
    for action in actions:
        if not track.over:
            track.act(len(track.steps) - 1, action, ())
    return [np.asarray(moment.observation.core) for moment in track.snapshots]


def test_going_back_and_on_again_shows_the_same_as_the_first_time():
    player, _ = make()
    once = play(Track(player, 3), [1, 0, 1, 1])
    track = Track(player, 3)
    play(track, [1, 1])
    track.act(1, 0, ())  # from the second moment on, as above
    again = [np.asarray(moment.observation.core) for moment in track.snapshots]
    np.testing.assert_array_equal(once[:3], again[:3])
    np.testing.assert_array_equal(once, play(track, [1, 1]))


def test_an_episode_is_that_of_an_evaluation():
    player, source = make()
    played = play_episodes(source, player.agent, 1, 4, greedy=True)
    for number in range(4):
        track = Track(player, number)
        start = source.mapping.observe(toy.Toy().reset(seed=host.episode_seeds(1, 4)[number])[0])
        np.testing.assert_array_equal(track.snapshots[0].observation.core, start.core)
        while not track.over:
            track.act(len(track.steps) - 1, None, ())
        assert len(track.steps) - 1 == played.length[number]


@pytest.mark.parametrize("number", [10_000_000, 2**31 - 20_001])
def test_an_episode_beyond_those_of_an_evaluation_is_refused_at_once(number):
    player, _ = make()
    with time_limit(5), pytest.raises(BadInput, match="of walk must be from 0 to 9,999,999, got"):
        Track(player, number)


def test_an_episode_scored_by_its_return_ends_and_is_neither_solved_nor_failed():
    player, _ = make()
    track = Track(player, 0)
    while not track.over:
        track.act(len(track.steps) - 1, 1, ())
    assert (player.env.spec.metric, track.steps[-1].end) == ("return", recording.ENDED)
    assert track.success == (len(track.steps) % 2 == 1)  # after an even number of actions


def test_pictures_are_those_of_the_state_and_without_them_there_is_a_sentence():
    player, _ = make(Painted)
    track = Track(player, 0)
    play(track, [0, 1])
    states = [moment.state for moment in track.snapshots]
    shades = [int(player.env.picture(state)[0, 0, 0]) for state in (states[2], states[0])]
    assert shades[0] != shades[1] and generic.picture_of(player.env, states[0])["width"] == 6
    with pytest.raises(BadInput, match="walk draws no pictures in render_mode rgb_array"):
        make()[0].env.picture(states[0])
