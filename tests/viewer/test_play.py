"""What is recorded is what the agent thought, and every moment can be gone back to exactly."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from viewer import players

from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.viewer import recording
from wmg.viewer.play import Track

MAKERS = [players.pathfinding, players.babyai, players.sokoban]
EACH = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


@jax.jit
def call(agent, observation, memory):
    """The model itself, without anything of the viewer."""
    return agent(observation, memory)


def attention(thought):
    assert thought.attention is not None
    return thought.attention


def played(make, steps=4):
    track = Track(make(), 0)
    for _ in range(steps):
        track.act(len(track.steps) - 1, None, ())
    return track


@EACH
def test_thoughts_are_what_the_model_makes_of_the_observation(make):
    track = played(make)
    for moment, step in zip(track.snapshots, track.steps, strict=True):
        if step.end:
            continue
        direct = call(track.player.agent, moment.observation, moment.memory)
        thought = step.thought
        np.testing.assert_allclose(attention(thought), direct.attention, atol=1e-5)
        np.testing.assert_allclose(thought.policy, jax.nn.softmax(direct.logits), atol=1e-5)
        np.testing.assert_allclose(thought.value, direct.value, rtol=1e-4, atol=1e-5)


@EACH
def test_every_row_of_attention_is_a_distribution_and_nothing_absent_gets_any(make):
    thought = played(make).steps[2].thought
    layers, heads, _ = attention(thought).shape
    counted = attention(thought)[recording.counted_layers(layers)].sum((0, 1))
    assert np.isclose(counted.sum(), heads * (layers - 1), rtol=1e-5)
    assert (attention(thought)[..., ~thought.present] == 0).all()
    assert (attention(thought)[..., thought.present] > 0).all()


@pytest.mark.parametrize("make", MAKERS[1:], ids=lambda make: make.__name__)
def test_padded_factors_are_neither_present_nor_anywhere(make):
    track = played(make)
    moment, step = track.snapshots[1], track.steps[1]
    (factors,) = moment.observation.factors.values()
    assert not factors.present.all()
    there = step.thought.present[1 : 1 + len(factors.present)]
    assert (there == np.asarray(factors.present)).all()
    assert [place is not None for place in step.scene["places"]] == there.tolist()


@EACH
def test_going_on_from_an_earlier_moment_repeats_what_followed(make):
    track = played(make)
    first = [dataclasses.astuple(step) for step in track.steps]
    track.act(1, None, ())
    assert len(track.steps) == 3
    while len(track.steps) < len(first):
        track.act(len(track.steps) - 1, None, ())
    again = [dataclasses.astuple(step) for step in track.steps]
    for one, other in zip(first, again, strict=True):
        assert str(one) == str(other)


def test_another_action_in_an_earlier_moment_leads_elsewhere():
    track = played(players.babyai)
    before = track.steps[1].scene
    track.act(1, 1, ())  # turn right
    assert track.steps[1].scene == before
    assert track.steps[2].scene["direction"] == (before["direction"] + 1) % 4
    assert track.steps[1].human and track.steps[1].action == 1


def test_nothing_follows_the_end():
    track = Track(players.random(), 0)
    for _ in range(12):
        track.act(len(track.steps) - 1, None, ())
    assert track.over and track.steps[-1].thought is None
    track.act(12, 1, ())
    assert len(track.steps) == 13


def test_a_factor_that_is_off_is_as_if_it_were_not_there():
    track = played(players.sokoban, steps=1)
    moment = track.snapshots[0]
    present = moment.observation.factors["cells"].present
    node = 1 + int(np.flatnonzero(present)[0])
    without = eqx.tree_at(
        lambda seen: seen.factors["cells"].present,
        moment.observation,
        present.at[node - 1].set(False),
    )
    direct = call(track.player.agent, without, moment.memory)
    thought = track.think(0, (node,))
    np.testing.assert_allclose(thought.policy, jax.nn.softmax(direct.logits), atol=1e-6)
    assert np.abs(thought.policy - track.steps[0].thought.policy).max() > 1e-5
    assert (attention(thought)[..., node] == 0).all()


def test_a_memo_that_is_off_gets_no_attention_and_changes_the_policy():
    track = played(players.pathfinding, steps=7)
    before = track.steps[7].thought
    newest = 1  # after the Core; there are no Factors
    thought = track.think(7, (newest,))
    assert (attention(thought)[..., newest] == 0).all()
    assert np.allclose(attention(thought).sum(-1), 1, atol=1e-5)
    assert np.abs(thought.policy - before.policy).max() > 1e-3


def test_an_agent_acts_and_remembers_without_what_is_off():
    track = played(players.pathfinding, steps=7)
    memory = track.snapshots[7].memory
    track.act(7, None, (1, 2, 3))
    assert track.steps[7].thought.off == (1, 2, 3)
    kept = track.snapshots[8].memory.vectors
    assert (kept[1:] == memory.vectors[:-1]).all()  # those before it are as they were
    track.act(7, None, ())
    assert (kept[0] != track.snapshots[8].memory.vectors[0]).any()


@pytest.mark.parametrize("make", [players.gru, players.random], ids=["gru", "random"])
def test_agents_without_attention_show_everything_else(make):
    track = Track(make(), 0)
    assert track.player.about()["attention"] is None
    assert track.steps[0].thought.attention is None
    assert np.isclose(track.steps[0].thought.policy.sum(), 1)


@pytest.mark.parametrize(("kept", "slots"), [("observations", 3), ("none", 0)])
def test_agents_that_keep_something_else_than_memos_are_shown_too(kept, slots):
    agent = dataclasses.replace(players.TINY, memory=kept)
    track = Track(players.fresh(PathfindingSettings(nodes=4), agent), 0)
    track.act(0, None, ())
    about = track.player.about()["attention"]
    assert (about["memory"], about["slots"]) == (kept, slots)
    assert attention(track.steps[1].thought).shape == (2, 2, 1 + slots)
    assert track.steps[1].thought.present.shape == (1 + slots,)


def test_the_nodes_of_an_agent_are_counted():
    about = players.babyai().about()["attention"]
    assert about == {
        "layers": 4,
        "heads": 4,
        "factors": [["objects", 1]],
        "slots": 1,
        "memory": "memos",
        "switchable": True,
    }


def test_the_greedy_take_what_is_most_likely():
    player = dataclasses.replace(players.babyai(), greedy=True)
    track = Track(player, 0)
    for _ in range(5):
        track.act(len(track.steps) - 1, None, ())
    for step in track.steps[:-1]:
        assert step.action == step.thought.policy.argmax()
