"""The live viewer without its server: messages in, JSON out.

A message is a JSON object whose `do` names what to do; docs/viewer.md lists them. Whatever is
wrong with one is a BadInput, and changes nothing.
"""

import threading
from typing import Any

import jax
import numpy as np

from wmg.config import to_dict
from wmg.envs.scenery import Choice
from wmg.tools.errors import BadInput
from wmg.viewer import LARGEST_SEED, recording
from wmg.viewer.chance import reset
from wmg.viewer.page_files import page_files
from wmg.viewer.play import Player, Track
from wmg.viewer.recording import Episode

LONGEST_TEXT = 8192
"""Characters of a text that chooses an episode."""


def by_seed(env: Any, seed: int, last: int, reset: Any) -> tuple[int, None]:
    """The episode of that seed, from where it starts."""
    del env, last, reset
    return seed, None


BY_SEED = Choice("seed", "number", "0", by_seed)


def choices_of(player: Player) -> dict[str, Choice]:
    """The ways in which an episode can be chosen."""
    return {"seed": BY_SEED, **player.scenery.choices}


class ViewerSession:
    """An episode in progress, played by one agent or by several side by side."""

    def __init__(self, players: list[Player], seed: int = 0):
        check_players(players)
        self.players = players
        self.files = page_files(players[0].scenery.drawing)
        self.choices = choices_of(players[0])
        self._lock = threading.Lock()
        self.turn = 0  # counts the changes of the episode
        self._begin(seed, None, f"seed {seed}")

    def _begin(self, seed: int, state: Any, label: str) -> None:
        tracks = [Track(player, seed, state) for player in self.players]
        self.seed, self.state, self.label, self.tracks = seed, state, label, tracks
        self.turn += 1

    def handle(self, message: Any) -> dict[str, Any]:
        """The answer to a message."""
        if not isinstance(message, dict):
            raise BadInput("a message must be a JSON object")
        wanted = message.get("do")
        if not isinstance(wanted, str) or wanted not in MESSAGES:
            raise BadInput(f"a message must say what to do: one of {', '.join(MESSAGES)}")
        method, fields = MESSAGES[wanted]
        turned = method in TURNED and "turn" in message
        if set(message) != {"do", *fields, *(("turn",) if turned else ())}:
            raise BadInput(f"the message {wanted!r} must have {', '.join(('do', *fields))}")
        given = {name: message[name] for name in fields}
        if method is ViewerSession.begin:  # it takes the lock when it has read the text of a board
            return self.begin(**given)
        with self._lock:
            if turned and message["turn"] != self.turn:
                raise BadInput("another page has changed this episode: reload to see it")
            return method(self, **given)

    def show(self) -> dict[str, Any]:
        """The episode so far, as a file of one episode."""
        episode = Episode(self.seed, self.label, [track.steps for track in self.tracks])
        file = recording.to_json(about(self.players), [episode], "float32")
        return {**file, "turn": self.turn}

    def begin(self, choice: Any, value: Any) -> dict[str, Any]:
        """Start an episode that is chosen by its seed or in one of the environment's own ways;
        or the same 'again'."""
        chosen = None if choice == "again" else self._choose(choice, value)
        with self._lock:
            self._begin(*(chosen or (self.seed, self.state, self.label)))
            return self.show()

    def _choose(self, choice: Any, value: Any) -> tuple[int, Any, str]:
        """Seed, first state and label of the episode that is chosen."""
        if not isinstance(choice, str) or choice not in self.choices:
            raise BadInput(f"an episode is chosen by one of {', '.join(self.choices)}, or again")
        chosen = self.choices[choice]
        if chosen.kind == "number":
            value = whole_number(value, chosen.label, LARGEST_SEED)
        elif not isinstance(value, str) or not 0 < len(value) <= LONGEST_TEXT:
            raise BadInput(f"{chosen.label} must be a text of 1 to {LONGEST_TEXT:,} characters")
        try:
            seed, state = chosen.start(self.players[0].env, value, self.seed, reset)
        except ValueError as error:
            raise BadInput(str(error)) from None
        named = {"number": f"{chosen.label} {value}", "lines": f"your own {chosen.label}"}
        return seed, state, named.get(chosen.kind, f"seed {seed}")

    def act(self, time: Any, action: Any, off: Any) -> dict[str, Any]:
        """Go on from a step, by an action of a person or, with None, as each agent chooses."""
        longest = max(len(track.steps) for track in self.tracks)
        time = whole_number(time, "time", longest - 1)
        if action is not None:
            action = whole_number(action, "action", self.players[0].env.spec.actions - 1)
        if not isinstance(off, list) or len(off) != len(self.tracks):
            raise BadInput("off must be a list with the nodes of each agent that are off")
        switched = [nodes(off, track.player) for off, track in zip(off, self.tracks, strict=True)]
        answer = []
        for track, missing in zip(self.tracks, switched, strict=True):
            start = min(time, len(track.steps) - 1)
            track.act(start, action, missing)
            steps = [recording.step_json(step, "float32") for step in track.steps[start:]]
            answer.append({"time": start, "steps": steps})
        self.turn += 1
        return {"tracks": answer, "turn": self.turn}

    def think(self, track: Any, time: Any, off: Any) -> dict[str, Any]:
        """What an agent would have thought at a step without some of its nodes."""
        thinker = self.tracks[whole_number(track, "track", len(self.tracks) - 1)]
        time = whole_number(time, "time", len(thinker.steps) - 1)
        if thinker.steps[time].end is not None:
            raise BadInput("the episode is over at that time, and there is nothing to think")
        thought = thinker.think(time, nodes(off, thinker.player))
        return recording.thought_json(thought, "float32")

    def edges(self, track: Any, time: Any, node: Any) -> dict[str, Any]:
        """The vectors of the edges from a node to all nodes, at a step of an agent."""
        asked = self.tracks[whole_number(track, "track", len(self.tracks) - 1)]
        time = whole_number(time, "time", len(asked.steps) - 1)
        node = whole_number(node, "node", asked.player.factors + asked.player.slots)
        return {"edges": asked.edges(time, node)}


MESSAGES = {
    "show": (ViewerSession.show, ()),
    "begin": (ViewerSession.begin, ("choice", "value")),
    "act": (ViewerSession.act, ("time", "action", "off")),
    "think": (ViewerSession.think, ("track", "time", "off")),
    "edges": (ViewerSession.edges, ("track", "time", "node")),
}
"""What a message can ask for, and what it must say."""
TURNED = (ViewerSession.act, ViewerSession.think, ViewerSession.edges)
"""These may say with `turn` which state of the episode they mean."""


def about(players: list[Player]) -> dict[str, Any]:
    """What all episodes of these players have in common, as JSON."""
    first = players[0]
    return {
        "title": first.title,
        "env": first.settings.env and to_dict(first.settings.env),
        "actions": [{"name": name, "key": key} for name, key in first.scenery.actions],
        "choices": [
            {"name": name, "label": way.label, "kind": way.kind, "hint": way.hint}
            for name, way in choices_of(first).items()
        ],
        "agents": [player.about() for player in players],
    }


def check_players(players: list[Player]) -> None:
    """Refuse agents that do not play the same episodes; what they see of them may differ."""
    first, *others = players
    start, _ = jax.device_get(reset(first.env, 0))
    for other in others:
        state, _ = jax.device_get(reset(other.env, 0))
        same = jax.tree.structure(start) == jax.tree.structure(state) and all(
            np.array_equal(a, b)
            for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(state), strict=True)
        )
        if not same:
            raise BadInput(f"{other.name} plays another environment than {first.name}")


def whole_number(value: Any, name: str, most: int) -> int:
    """The value, if it is a number from 0 to the most."""
    if type(value) is not int or not 0 <= value <= most:
        raise BadInput(f"{name} must be a whole number from 0 to {most:,}, got {value!r:.40}")
    return value


def nodes(off: Any, player: Player) -> tuple[int, ...]:
    """The nodes, if they are some that can be switched off."""
    most = player.factors + player.slots if player.switchable else 0
    if not isinstance(off, list) or len(off) > most:
        raise BadInput(f"off must be a list of at most {most} nodes")
    numbers = [whole_number(node, "a node that is off", most) for node in off]
    if 0 in numbers:
        raise BadInput("the Core cannot be switched off")
    return tuple(sorted(set(numbers)))


def record(
    players: list[Player], seed: int, count: int, solved: bool = False
) -> list[tuple[Episode, list[Track]]]:
    """`count` episodes from a seed on, each played to its end or for 2,000 steps, and their tracks
    with all states.

    With `solved`, only episodes that the first agent solves.
    """
    check_players(players)
    found, tried = [], 0
    while len(found) < count:
        if tried == TRIES * count:
            raise BadInput(
                f"{players[0].name} solved {len(found)} of {tried:,} episodes, "
                f"which is less than the {count} wanted"
            )
        tracks = [Track(player, seed + tried) for player in players]
        for track in tracks:
            while not track.over and len(track.steps) <= LONGEST_RECORDED:
                track.act(len(track.steps) - 1, None, ())
        if not solved or tracks[0].success:
            cut = (
                "" if all(track.over for track in tracks) else f", {LONGEST_RECORDED:,} steps of it"
            )
            label = f"seed {seed + tried}{cut}"
            steps = [track.steps for track in tracks]
            found.append((Episode(seed + tried, label, steps), tracks))
        tried += 1
    return found


LONGEST_RECORDED = 2_000
"""Steps of an episode that are recorded: one without a limit of steps may never end."""
TRIES = 20
"""Most episodes tried for each solved episode wanted."""
