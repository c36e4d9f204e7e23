"""Episodes of the viewer are those of `wmg eval`."""

import numpy as np
import pytest
from viewer import players

from wmg.cli.eval import EvalOptions
from wmg.play import evaluate
from wmg.viewer import chance
from wmg.viewer.play import Track


def test_the_seed_of_the_test_is_the_default_of_eval():
    assert EvalOptions.__dataclass_fields__["test_seed"].default == chance.TEST_SEED


def check_episodes(player):
    played = evaluate.evaluate(player.env, player.agent, chance.TEST_SEED, 4)
    for seed in range(4):
        track = Track(player, seed)
        while not track.over:
            track.act(len(track.steps) - 1, None, ())
        assert len(track.steps) - 1 == played.length[seed]
        assert (track.steps[-1].end == "solved") == played.success[seed]
        assert np.isclose(sum(step.reward for step in track.steps), played.reward[seed])


def test_whole_episodes_are_played_as_eval_plays_them():
    check_episodes(players.random())  # whose every action is chance


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pathfinding-wmg", "babyai-level4-wmg", "sokoban-wmg"])
def test_trained_agents_play_as_in_eval(name):
    check_episodes(players.shipped(name))
