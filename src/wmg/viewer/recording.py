"""Recorded episodes, for pages and videos, and the JSON format of all pages.

The format is described in docs/viewer.md. Whoever changes it so that an older page could not
show it raises VERSION.
"""

import base64
import dataclasses
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

FORMAT, VERSION = "wmg-episodes", 1

Precision = Literal["float32", "sqrt8"]
"""How attention is stored: exactly, or the square root of each probability in 8 bits. The root
is the side of the square that is drawn, and the small probabilities of a crowd keep two digits."""
FIRST_CHARACTER = 35
"""Stands for a byte of 0: the first that neither JSON nor a reader takes for something else."""
Attention = Float[np.ndarray, "layers heads nodes"]

SOLVED, FAILED, ENDED = "solved", "failed", "ended"
"""How an episode can end. One that is scored by its return is neither solved nor failed."""


@dataclasses.dataclass(frozen=True)
class Thought:
    """What an agent made of one observation."""

    policy: Float[np.ndarray, " actions"]
    value: float
    choice: int
    """The action it takes if nobody takes it for it."""
    attention: Attention | None
    """How the Core attends to every node; None if the agent has no attention."""
    present: Bool[np.ndarray, " nodes"]
    """Which nodes there are to attend to."""
    off: tuple[int, ...] = ()
    """Nodes that were switched off."""
    written: tuple[int, ...] | None = None
    """The step that wrote each memory node; None where slot i was written i + 1 steps before."""


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """One step of an episode and its action; the last step has no action."""

    scene: dict[str, Any]
    """What the environment looks like, as JSON."""
    thought: Thought | None
    """None where the episode is over."""
    action: int | None = None
    human: bool = False
    """Whether a person chose the action."""
    reward: float = 0.0
    end: str | None = None


@dataclasses.dataclass(frozen=True)
class Episode:
    """One episode as each of the agents played it, from the same start."""

    seed: int
    label: str
    """How the episode was chosen, in words."""
    tracks: list[list[RecordedStep]]


def pack(attention: Attention, precision: Precision) -> str:
    """Attention as text: base64, or a character a byte, which compresses better."""
    if precision == "float32":
        return base64.b64encode(attention.astype("<f4").tobytes()).decode()
    roots = np.round(255 * np.sqrt(attention)).astype(np.uint8).reshape(-1)
    return "".join(chr(FIRST_CHARACTER + root) for root in roots.tolist())


def unpack(text: str, shape: tuple[int, int, int], precision: Precision) -> Attention:
    """What `pack` packed."""
    if precision == "float32":
        return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)
    roots = np.array([ord(character) - FIRST_CHARACTER for character in text], np.float32)
    return (roots.reshape(shape) / 255) ** 2


def thought_json(thought: Thought, precision: Precision) -> dict[str, Any]:
    """A thought as JSON."""
    attention = thought.attention
    return {
        "policy": [round(float(p), 6) for p in thought.policy],
        "value": round(thought.value, 6),
        "choice": thought.choice,
        "attention": None if attention is None else pack(attention, precision),
        "present": "".join("01"[int(there)] for there in thought.present),
        "off": list(thought.off),
        **({} if thought.written is None else {"written": list(thought.written)}),
    }


def step_json(step: RecordedStep, precision: Precision) -> dict[str, Any]:
    """A step as JSON."""
    return {
        "scene": step.scene,
        "thought": step.thought and thought_json(step.thought, precision),
        "action": step.action,
        "human": step.human,
        "reward": round(step.reward, 6),
        "end": step.end,
    }


def to_json(about: dict[str, Any], episodes: list[Episode], precision: Precision) -> dict[str, Any]:
    """A whole file: what is true of all episodes, and the episodes."""
    return {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "attention": precision,
        "episodes": [
            {
                "seed": episode.seed,
                "label": episode.label,
                "tracks": [
                    [step_json(step, precision) for step in track] for track in episode.tracks
                ],
            }
            for episode in episodes
        ],
    }


def counted_layers(layers: int) -> list[int]:
    """The layers whose attention the paper adds up: all above the lowest, if there are any."""
    return list(range(1, layers)) or [0]


def shares(attention: Attention) -> Float[np.ndarray, " nodes"]:
    """The part of the attention counted that each node gets: the areas of the squares."""
    return attention[counted_layers(len(attention))].mean((0, 1))
