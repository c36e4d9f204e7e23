"""The graph as the viewer shows it."""

import pytest
from viewer import players

from wmg.envs.pathfinding.scene import find_path
from wmg.viewer.play import Track


@pytest.fixture(scope="module")
def track():
    track = Track(players.random(), 4)
    while not track.over:
        track.act(len(track.steps) - 1, None, ())
    return track


def reached(links, start):
    """Every node that a walk along the links leads to."""
    found, old = {start}, set()
    while found != old:
        old, found = found, found | {b for a, b in links if a in found}
    return found - {start}


def test_the_path_that_is_shown_is_one_and_is_there_when_the_answer_is_yes(track):
    answers = track.snapshots[0].state.answers.tolist()
    for time, step in enumerate(track.steps[:-1]):
        scene = step.scene
        start, end = scene["shown"]
        if not scene["quiz"]:
            assert scene["path"] is None and (start, end) == tuple(scene["links"][-1])
            continue
        assert (scene["path"] is not None) == answers[time]
        assert answers[time] == (end in reached(scene["links"], start))
        if scene["path"]:
            steps = zip(scene["path"], scene["path"][1:], strict=False)
            assert set(steps) <= set(map(tuple, scene["links"]))
            assert (scene["path"][0], scene["path"][-1]) == (start, end)


def test_only_nodes_so_far_are_shown(track):
    for time, step in enumerate(track.steps[:-1]):
        assert len(step.scene["patterns"]) == time // 2 + 2
        assert max(map(max, step.scene["links"])) < len(step.scene["patterns"])


def test_the_count_of_right_answers_is_said(track):
    right = sum(step.reward for step in track.steps)
    assert track.steps[-1].scene["says"] == (
        f"That was the last question. {right:.0f} of 6 answers were right."
    )


def test_there_is_no_path_against_the_arrows():
    links = [(0, 1), (1, 2), (3, 1)]
    assert find_path(links, 0, 2) == [0, 1, 2]
    assert find_path(links, 2, 0) is None and find_path(links, 0, 3) is None
