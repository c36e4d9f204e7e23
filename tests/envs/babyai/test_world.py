"""The rules of a step, one at a time, and layouts that make no sense."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from wmg.envs.babyai.vocabulary import DONE, DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE
from wmg.envs.babyai.world import ABSENT, CARRIED, LYING, Layout, act

EAST, SOUTH, WEST, NORTH = range(4)
FAR = ("key", "grey", 6, 6)
"""What the mission is about, where nothing happens to it."""

compiled = jax.jit(act)


def room(*things, agent=(3, 3), direction=EAST, mission="go to the grey key", **more):
    return Layout(agent, direction, (FAR, *things), mission, **more).state()


def after(state, *actions):
    """The state after the actions, and whether the last one fulfilled the mission."""
    success = False
    for action in actions:
        state, success = compiled(state, jnp.int32(action))
    return state, bool(success)


def pose(state):
    return (*state.agent.tolist(), int(state.direction))


@pytest.mark.parametrize(
    ("action", "direction", "turned"),
    [(LEFT, EAST, NORTH), (LEFT, NORTH, WEST), (RIGHT, NORTH, EAST), (RIGHT, EAST, SOUTH)],
)
def test_turning(action, direction, turned):
    state, _ = after(room(direction=direction), action)
    assert pose(state) == (3, 3, turned)


@pytest.mark.parametrize(
    ("direction", "cell"), [(EAST, (4, 3)), (SOUTH, (3, 4)), (WEST, (2, 3)), (NORTH, (3, 2))]
)
def test_forward_is_where_the_agent_looks(direction, cell):
    state, _ = after(room(direction=direction), FORWARD)
    assert pose(state) == (*cell, direction)


@pytest.mark.parametrize(
    ("agent", "direction"), [((6, 2), EAST), ((2, 6), SOUTH), ((1, 2), WEST), ((2, 1), NORTH)]
)
def test_walls_block(agent, direction):
    state, _ = after(room(agent=agent, direction=direction), FORWARD)
    assert pose(state) == (*agent, direction)


@pytest.mark.parametrize("type", ["key", "ball", "box"])
def test_things_block_until_they_are_picked_up(type):
    state, _ = after(room((type, "red", 4, 3)), FORWARD)
    assert pose(state) == (3, 3, EAST)
    state, _ = after(state, PICKUP, FORWARD)
    assert pose(state) == (4, 3, EAST) and state.status[1] == CARRIED


def test_hands_hold_one_thing():
    state, _ = after(room(("ball", "red", 4, 3), ("ball", "blue", 5, 3)), PICKUP, FORWARD, PICKUP)
    assert state.status[1:3].tolist() == [CARRIED, LYING]


def test_a_thing_is_dropped_into_the_cell_ahead():
    state, _ = after(room(("ball", "red", 4, 3)), PICKUP, RIGHT, DROP)
    assert state.status[1] == LYING and state.position[1].tolist() == [3, 4]


def test_nothing_is_dropped_into_a_wall():
    state, _ = after(room(("ball", "red", 4, 1), agent=(3, 1)), PICKUP, LEFT, DROP)
    assert state.status[1] == CARRIED


def test_nothing_is_dropped_onto_a_thing():
    state = room(("ball", "red", 4, 3), ("ball", "blue", 3, 4))
    state, _ = after(state, PICKUP, RIGHT, DROP)
    assert state.status[1] == CARRIED


def test_dropping_nothing_does_nothing():
    before = room()
    state, _ = after(before, DROP)
    assert (state.position == before.position).all() and (state.status == before.status).all()


@pytest.mark.parametrize(("type", "status"), [("box", ABSENT), ("ball", LYING), ("key", LYING)])
def test_a_box_that_is_opened_is_gone(type, status):
    state, _ = after(room((type, "red", 4, 3)), TOGGLE)
    assert state.status[1] == status
    state, _ = after(state, FORWARD)
    assert pose(state) == (4 if status == ABSENT else 3, 3, EAST)


def test_a_box_is_opened_with_full_hands_too():
    state = room(("ball", "red", 4, 3), ("box", "red", 5, 3))
    state, _ = after(state, PICKUP, FORWARD, TOGGLE)
    assert state.status[1:3].tolist() == [CARRIED, ABSENT]


def test_done_only_passes_time():
    before = room(("ball", "red", 4, 3))
    state, success = after(before, DONE)
    same = dataclasses.replace(state, time=before.time, last_action=before.last_action)
    assert not success and (state.time, state.last_action) == (1, DONE)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: bool((a == b).all()), same, before)))


BALL = ("ball", "red", 5, 3)


@pytest.mark.parametrize(
    ("actions", "success"),
    [
        ([FORWARD], True),
        ([LEFT], False),
        ([LEFT, FORWARD, RIGHT, FORWARD], False),  # beside it, not before it
        ([LEFT, FORWARD, RIGHT, FORWARD, FORWARD, RIGHT], True),  # any action that faces it
    ],
)
def test_going_to_a_thing_is_to_face_it(actions, success):
    state = room(BALL, mission="go to the red ball")
    assert after(state, *actions)[1] == success


def test_another_thing_is_not_the_target():
    assert not after(room(BALL, mission="go to the grey key"), FORWARD)[1]


def test_any_of_several_targets_will_do():
    state = room(("ball", "red", 1, 1), BALL, mission="go to a red ball")
    assert after(state, FORWARD)[1]


def test_a_target_faced_from_the_start_is_reached_even_if_it_is_picked_up():
    state = room(BALL, agent=(4, 3), mission="go to the red ball")
    assert after(state, PICKUP)[1] and after(state, DONE)[1] and not after(state, LEFT)[1]


PICK = "pick up the red ball"


def test_picking_up_the_target_succeeds_and_facing_it_does_not():
    assert not after(room(BALL, mission=PICK), FORWARD)[1]
    assert after(room(BALL, mission=PICK), FORWARD, PICKUP)[1]


def test_with_full_hands_nothing_succeeds_until_they_are_free():
    state = room(("key", "blue", 4, 3), BALL, mission=PICK)
    state, success = after(state, PICKUP, FORWARD, PICKUP)
    assert not success
    state, success = after(state, LEFT, DROP, RIGHT, PICKUP)
    assert success


def test_a_target_stays_the_same_when_the_agent_turns():
    mission = "pick up the red ball on your right"
    state = room(BALL, ("ball", "red", 3, 4), mission=mission)
    assert state.target.tolist()[:3] == [False, False, True]
    assert not after(state, FORWARD, PICKUP)[1]
    assert after(state, RIGHT, PICKUP)[1]


@pytest.mark.parametrize(
    ("direction", "places"),
    [
        (EAST, {"front": (5, 3), "behind": (1, 3), "left": (3, 1), "right": (3, 5)}),
        (NORTH, {"front": (3, 1), "behind": (3, 5), "left": (1, 3), "right": (5, 3)}),
    ],
)
def test_locations_are_seen_from_the_agent(direction, places):
    said = {
        "front": "in front of you",
        "behind": "behind you",
        "left": "on your left",
        "right": "on your right",
    }
    things = [("ball", "red", *cell) for cell in places.values()]
    for index, place in enumerate(places):
        mission = f"pick up the red ball {said[place]}"
        state = room(*things, direction=direction, mission=mission)
        assert [i for i in range(4) if state.target[1 + i]] == [index]


def test_an_opened_target_is_lost():
    state = room(("box", "red", 4, 3), mission="pick up the red box")
    state, success = after(state, TOGGLE, PICKUP)
    assert not success and state.status[1] == ABSENT


def test_targets_can_be_given():
    state = room(BALL, ("ball", "red", 1, 1), mission="go to a red ball", targets=(2,))
    assert state.target.tolist()[:3] == [False, False, True]
    assert not after(state, FORWARD)[1]


def test_any_object_can_be_meant():
    assert room(BALL, mission="go to the red object").target.tolist()[:2] == [False, True]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"agent": (0, 3)}, r"the agent must be in a cell from \(1, 1\) to \(6, 6\), got \(0, 3\)"),
        ({"direction": 4}, "a direction is 0, 1, 2 or 3, got 4"),
        ({"things": (FAR, ("ball", "red", 7, 1))}, "the red ball must be in a cell"),
        ({"things": (FAR, ("ball", "red", 3, 3))}, "the red ball and the agent are both in cell"),
        ({"things": (FAR, FAR)}, r"the grey key and the grey key are both in cell \(6, 6\)"),
        ({"things": (FAR, ("door", "red", 1, 1))}, "a thing is a key, ball or box"),
        ({"things": (FAR, ("ball", "pink", 1, 1))}, "got 'pink' 'ball'"),
        (
            {"things": tuple(("ball", "red", x, y) for x in (1, 2, 5) for y in (1, 2, 5))},
            "at most 8 things, got 9",
        ),
        ({"mission": "go to the red ball"}, "nothing in the room is what 'go to the red ball'"),
        ({"mission": "open the red door"}, "to go to a thing or to pick it up"),
        ({"mission": "dance"}, "'dance' is not in BabyAI's grammar"),
        ({"targets": (1,)}, r"places in the list of things, got \(1,\)"),
        ({"targets": ()}, "nothing in the room"),
    ],
)
def test_layouts_that_make_no_sense_are_refused_in_one_sentence(change, complaint):
    sound = {"agent": (3, 3), "direction": 0, "things": (FAR,), "mission": "go to the grey key"}
    Layout(**sound)
    with pytest.raises(ValueError, match=complaint) as refusal:
        Layout(**{**sound, **change})
    assert "\n" not in str(refusal.value)
