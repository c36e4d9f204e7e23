"""Messages to a live session: what they do, and what they may not be."""

import json
import threading

import numpy as np
import pytest
import tiny
from viewer import players

from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.scenery import Choice
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.tools.errors import BadInput
from wmg.viewer import recording, session
from wmg.viewer.session import ViewerSession

SMALL = PathfindingSettings(nodes=4)
OWN_LEVEL = "#####\n#@$.#\n#####"


@pytest.fixture(scope="module")
def shared():
    """One session for tests that start episodes of their own."""
    return ViewerSession([players.fresh(SMALL), players.random(SMALL)])


@pytest.fixture(scope="module")
def warehouse():
    return ViewerSession([players.random(SokobanSettings(levels="embedded-test"))])


@pytest.fixture
def begun(shared):
    shared.handle({"do": "begin", "choice": "seed", "value": 5})
    return shared


def act(one, time, action=None, off=([], [])):
    return one.handle({"do": "act", "time": time, "action": action, "off": list(off)})


def test_an_episode_is_shown_as_a_file_of_one(begun):
    file = json.loads(json.dumps(begun.handle({"do": "show"})))
    assert (file["format"], file["attention"]) == (recording.FORMAT, "float32")
    assert file["title"] == "Pathfinding, 4 nodes"
    assert [agent["name"] for agent in file["agents"]] == ["fresh", "random"]
    (episode,) = file["episodes"]
    assert episode["seed"] == 5 and [len(track) for track in episode["tracks"]] == [1, 1]
    scenes = [track[0]["scene"] for track in episode["tracks"]]
    assert scenes[0] == scenes[1]


def test_a_move_is_made_in_every_track(begun):
    answer = act(begun, 0, 1)
    for track in answer["tracks"]:
        assert track["time"] == 0
        assert [step["action"] for step in track["steps"]] == [1, None]
        assert track["steps"][0]["human"]


def test_the_reward_is_as_the_rules_say(begun):
    act(begun, 0)
    scene = begun.tracks[0].steps[1].scene
    answer = scene["path"] is not None
    for guess in (0, 1):
        first, _ = act(begun, 1, guess)["tracks"]
        assert first["steps"][0]["reward"] == (guess == answer)


def test_what_followed_an_earlier_step_is_replaced(begun):
    for time in range(4):
        act(begun, time)
    assert len(begun.tracks[0].steps) == 5
    act(begun, 1, 0)
    assert len(begun.tracks[0].steps) == 3


def test_the_same_again_starts_the_same_episode(begun):
    before = begun.handle({"do": "show"})
    act(begun, 0, 1)
    again = begun.handle({"do": "begin", "choice": "again", "value": None})
    assert again == {**before, "turn": before["turn"] + 2}


def test_a_thought_without_a_node_changes_nothing_that_is_recorded(begun):
    before = begun.handle({"do": "show"})
    thought = begun.handle({"do": "think", "track": 0, "time": 0, "off": [1, 3]})
    shape = begun.players[0].attention_shape
    attention = recording.unpack(thought["attention"], shape, "float32")
    assert (attention[..., [1, 3]] == 0).all() and np.allclose(attention.sum(-1), 1, atol=1e-5)
    assert begun.handle({"do": "show"}) == before


def test_a_level_is_chosen_by_its_number(warehouse):
    shown = warehouse.handle({"do": "begin", "choice": "level", "value": 7})
    (episode,) = shown["episodes"]
    assert episode["label"] == "level 7"
    board = episode["tracks"][0][0]["scene"]["board"]
    assert sum(row.count("$") for row in board) == 4


def test_a_level_of_ones_own_is_played(warehouse):
    shown = warehouse.handle({"do": "begin", "choice": "text", "value": OWN_LEVEL})
    assert shown["episodes"][0]["tracks"][0][0]["scene"]["board"][1].startswith("#@$.#")
    answer = act(warehouse, 0, 4, [[]])["tracks"][0]["steps"]
    assert answer[1]["scene"]["board"][1].startswith("# @*#")
    assert answer[0]["reward"] == 3 and answer[1]["end"] == "solved"
    again = warehouse.handle({"do": "begin", "choice": "again", "value": None})
    assert again == {**shown, "turn": shown["turn"] + 2}


@pytest.mark.parametrize(
    ("choice", "value", "complaint"),
    [
        ("level", 1000, "level must be from 0 to 999"),
        ("text", "<img src=x>", "no levels"),
        ("text", "#####\n#@$ #\n#####", "fewer targets than boxes"),
        ("text", "#" * 9000, "1 to 8,192 characters"),
        ("text", "#\n" * 4096, "the level at line 1 has more than 64 rows"),
        ("text", " " * 4000 + "#\n" + "#\n" * 2000, "more than 64 rows"),
        ("text", "#\n" + " " * 8000 + "#", "more than 64 columns"),
        ("text", 5, "must be a text"),
        ("seed", -1, "whole number from 0"),
        ("seed", True, "whole number"),
        ("mission", "go", "chosen by one of seed, level, text"),
        (["seed"], 1, "chosen by one of"),
    ],
)
def test_an_episode_that_there_is_not_changes_nothing(warehouse, choice, value, complaint):
    before = warehouse.handle({"do": "show"})
    with tiny.time_limit(5), pytest.raises(BadInput, match=complaint):
        warehouse.handle({"do": "begin", "choice": choice, "value": value})
    assert warehouse.handle({"do": "show"}) == before


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "show",
        {},
        {"do": "everything"},
        {"do": ["show"]},
        {"do": "show", "more": 1},
        {"do": "show", "turn": 1},
        {"do": "act", "time": 0, "action": 0, "off": [[], []], "turn": "1"},
        {"do": "act", "time": 0},
        {"do": "act", "time": 1, "action": None, "off": [[], []]},
        {"do": "act", "time": -1, "action": None, "off": [[], []]},
        {"do": "act", "time": 0.0, "action": None, "off": [[], []]},
        {"do": "act", "time": 10**30, "action": None, "off": [[], []]},
        {"do": "act", "time": 0, "action": 2, "off": [[], []]},
        {"do": "act", "time": 0, "action": "yes", "off": [[], []]},
        {"do": "act", "time": 0, "action": 0, "off": []},
        {"do": "act", "time": 0, "action": 0, "off": [[0], []]},
        {"do": "act", "time": 0, "action": 0, "off": [[4], []]},
        {"do": "act", "time": 0, "action": 0, "off": [[1] * 9, []]},
        {"do": "act", "time": 0, "action": 0, "off": [[], [1]]},
        {"do": "think", "track": 2, "time": 0, "off": []},
        {"do": "think", "track": 0, "time": 1, "off": []},
        {"do": "think", "track": 0, "time": 0, "off": {}},
    ],
    ids=json.dumps,
)
def test_malformed_messages_are_refused_in_one_sentence_and_change_nothing(begun, message):
    before = begun.handle({"do": "show"})
    with pytest.raises(BadInput) as refused:
        begun.handle(message)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200
    assert begun.handle({"do": "show"}) == before


def test_a_message_about_an_episode_that_another_page_changed_is_refused(begun):
    turn = begun.handle({"do": "show"})["turn"]
    move = {"do": "act", "time": 0, "action": 0, "off": [[], []]}
    think = {"do": "think", "track": 0, "time": 0, "off": []}
    assert begun.handle({**think, "turn": turn}) == begun.handle(think)
    assert begun.handle({**move, "turn": turn})["turn"] == turn + 1
    for message in (move, think):
        with pytest.raises(BadInput, match="another page has changed this episode"):
            begun.handle({**message, "turn": turn})
    begun.handle({**think, "turn": turn + 1})
    assert begun.handle({"do": "begin", "choice": "again", "value": None})["turn"] == turn + 2
    begun.handle(move)  # without a turn it is not asked for


def test_there_is_nothing_to_think_when_the_episode_is_over(begun):
    for time in range(6):
        act(begun, time)
    with pytest.raises(BadInput, match="over"):
        begun.handle({"do": "think", "track": 0, "time": 6, "off": []})


def test_agents_of_different_environments_are_not_shown_together():
    with pytest.raises(BadInput, match="random plays another environment than fresh"):
        ViewerSession([players.fresh(SMALL), players.random()])


def test_agents_that_see_the_same_episodes_differently_are():
    both = [players.random(BabyAISettings("GoToObj", seen)) for seen in ("factored", "flat")]
    session.check_players(both)


def test_only_solved_episodes_are_recorded_if_so_asked():
    recorded = session.record([players.random(SMALL)], 0, 4, solved=True)
    assert [episode.tracks[0][-1].end for episode, _ in recorded] == ["solved"] * 4
    seeds = [episode.seed for episode, _ in recorded]
    assert seeds == sorted(seeds) and seeds != [0, 1, 2, 3]


def test_an_episode_that_may_never_end_is_recorded_for_a_while(monkeypatch):
    monkeypatch.setattr(session, "LONGEST_RECORDED", 3)
    ((episode, (track,)),) = session.record([players.random(SMALL)], 0, 1)
    assert episode.label == "seed 0, 3 steps of it" and not track.over
    assert len(track.steps) == 4 and track.steps[-1].thought is not None


def test_recording_gives_up_on_an_agent_that_solves_too_little(monkeypatch):
    monkeypatch.setattr(session, "TRIES", 1)
    with pytest.raises(BadInput, match="random solved 0 of 1 episodes, which is less than the 1"):
        session.record([players.random(SokobanSettings(levels="embedded-test"))], 0, 1, solved=True)


def test_others_are_answered_while_a_board_is_read(monkeypatch):
    reading, done = threading.Event(), threading.Event()

    def read_slowly(env, value, last, reset):
        reading.set()
        assert done.wait(60)
        return 5, None

    session = ViewerSession([players.random(SMALL)])
    monkeypatch.setitem(session.choices, "seed", Choice("seed", "number", "0", read_slowly))
    begin = {"do": "begin", "choice": "seed", "value": 5}
    reader = threading.Thread(target=session.handle, args=(begin,), daemon=True)
    reader.start()
    assert reading.wait(60)
    shown = []
    other = threading.Thread(target=lambda: shown.append(session.handle({"do": "show"})))
    other.daemon = True
    other.start()
    other.join(10)
    done.set()
    assert len(shown) == 1
    reader.join(60)
    assert session.seed == 5


@pytest.fixture(scope="module")
def extended():
    session = ViewerSession([players.extended()])
    for time in range(8):
        act(session, time, None, [[]])
    return session


def test_the_writers_of_memos_are_those_of_the_memory_and_only_where_they_are_not_in_turn(
    extended, begun
):
    assert "written" not in begun.handle({"do": "show"})["episodes"][0]["tracks"][0][0]["thought"]
    (track,) = extended.tracks
    late = 0
    for time, (step, snapshot) in enumerate(zip(track.steps, track.snapshots, strict=True)):
        memos, store = snapshot.memory.memos, snapshot.memory.store
        shown = recording.thought_json(step.thought, "float32")
        assert shown["written"][:3] == [time - age for age in memos.ages.tolist()]
        there = [int(mark) for mark in shown["present"][-5:]]
        assert there == [*memos.present.tolist(), time > 0, time > 0]
        agent = track.player.agent
        weights = agent.memory_vectors.weights(
            agent.core_embedding(snapshot.observation.core), store
        )
        for read, step_shown in zip(weights, shown["written"][3:], strict=True):
            if time:
                assert step_shown == store.written[int(np.argmax(read))]
        late += time > 3 and not memos.present.all()
    assert late > 0, "the agent drops Memos"


def test_edges_are_told_for_one_node_on_demand(extended, begun):
    (track,) = extended.tracks
    message = {"do": "edges", "track": 0, "time": 5, "node": 0}
    edges = extended.handle(message)["edges"]
    memos = track.snapshots[5].memory.memos
    assert [row[0] for row in edges] == [1, 1, 1, 1, 0, 0]
    neighbour = [row[2] for row in edges[1:4]]
    assert neighbour == [float(age == 1) for age in memos.ages]
    assert begun.handle(message | {"time": 0})["edges"] == []
    with pytest.raises(BadInput, match="node must be a whole number from 0 to 5"):
        extended.handle(message | {"node": 6})
