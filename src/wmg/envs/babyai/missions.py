"""Missions: the sentences BabyAI says, what they mean, and the numbers that stand for them.

A mission is one clause: "go to", "pick up" or "open" and a thing, or "put" a thing "next to"
another. Its 36 numbers are the authors' (the paper's factored, flat and image formats all hold
them): a one-hot verb, then for each of the two things its article, colour, type and location,
zeros for what is not said. "Object" stands for a thing of any type, so its type is not said.

A compound mission joins up to four clauses. It is two stages of one or two clauses each: those
of a stage may be done in any order, and the first stage comes before the second. "A, then B"
and "B after you A" mean the same and have the same numbers: a row for each clause, its 36 and
a one-hot stage.
"""

import dataclasses
import functools
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from wmg.envs.babyai.vocabulary import ARTICLES, COLOURS, LOCATIONS, TYPES, VERBS

THING = len(ARTICLES) + len(COLOURS) + len(TYPES) + len(LOCATIONS)
SIZE = len(VERBS) + 2 * THING
"""Numbers of one mission."""
STAGES = 2
CLAUSES = 4
"""The most clauses of a compound mission."""
CLAUSE_SIZE = SIZE + STAGES

ANY = "object"
"""What a thing is called whose type does not matter."""
SAID = {"go": "go to", "pick": "pick up", "put": "put", "open": "open"}
WHERE = {
    "behind": "behind you",
    "front": "in front of you",
    "left": "on your left",
    "right": "on your right",
}

WORDS = tuple(
    dict.fromkeys(
        " ".join([*SAID.values(), *ARTICLES, *COLOURS, *TYPES, ANY, *WHERE.values()]).split()
    )
)
"""All words of a mission of one thing. The number of a word is its place here, from 1 on."""

_THING = (
    rf"({'|'.join(ARTICLES)})(?: ({'|'.join(COLOURS)}))? ({'|'.join((*TYPES, ANY))})"
    rf"(?: ({'|'.join(WHERE.values())}))?"
)
_MISSION = re.compile(rf"({'|'.join(SAID.values())}) {_THING}(?: next to {_THING})?")


@dataclasses.dataclass(frozen=True)
class Description:
    """Which things are meant: "the" if there was exactly one such at the start."""

    type: str
    article: str
    colour: str | None = None
    location: str | None = None
    """Seen from where the agent started."""

    def __post_init__(self):
        _require("type", self.type, (*TYPES, ANY))
        _require("article", self.article, ARTICLES)
        _require("colour", self.colour, (None, *COLOURS))
        _require("location", self.location, (None, *LOCATIONS))

    def __str__(self) -> str:
        where = self.location and WHERE[self.location]
        return " ".join(word for word in (self.article, self.colour, self.type, where) if word)


@dataclasses.dataclass(frozen=True)
class Mission:
    """One clause. `second` is what the first thing is put next to."""

    verb: str
    first: Description
    second: Description | None = None

    def __post_init__(self):
        _require("verb", self.verb, VERBS)
        if (self.verb == "put") != (self.second is not None):
            raise ValueError("a mission has a second thing if its verb is 'put', and only then")
        if self.verb == "open" and self.first.type != "door":
            raise ValueError(f"only a door can be opened, not {str(self.first)!r}")
        if self.verb in ("pick", "put") and self.first.type == "door":
            raise ValueError(f"a door cannot be picked up, so not {str(self.first)!r}")

    def __str__(self) -> str:
        said = f"{SAID[self.verb]} {self.first}"
        return said if self.second is None else f"{said} next to {self.second}"


@dataclasses.dataclass(frozen=True)
class Compound:
    """Up to four clauses: all of `first`, in any order, and then all of `then`."""

    first: tuple[Mission, ...]
    then: tuple[Mission, ...] = ()

    def __post_init__(self):
        if not 1 <= len(self.first) <= 2 or len(self.then) > 2:
            raise ValueError("a compound mission has one or two clauses, then at most two more")

    @property
    def clauses(self) -> tuple[Mission, ...]:
        return self.first + self.then

    def __str__(self) -> str:
        stages = [" and ".join(map(str, stage)) for stage in (self.first, self.then) if stage]
        return ", then ".join(stages)


def parse(text: str) -> Mission:
    """The mission that a sentence of one clause says."""
    match = _MISSION.fullmatch(text)
    if match is None:
        compound = any(word in text for word in (" and ", ", then ", " after you "))
        reason = "a compound mission" if compound else "not in BabyAI's grammar"
        raise ValueError(f"the mission {text!r} is {reason}, where one clause is needed")
    said, *words = match.groups()
    verb = next(verb for verb in SAID if SAID[verb] == said)
    second = None if words[4] is None else _describe(words[4:])
    try:
        return Mission(verb, _describe(words[:4]), second)
    except ValueError as error:
        raise ValueError(f"the mission {text!r} is not in BabyAI's grammar: {error}") from None


def parse_compound(text: str) -> Compound:
    """The mission that a sentence of one or more clauses says."""
    if " after you " in text:
        later, earlier = text.split(" after you ", 1)
        stages = [earlier, later]
    else:
        stages = text.split(", then ", 1)
    try:
        return Compound(*(tuple(map(parse, stage.split(" and "))) for stage in stages))
    except ValueError as error:
        where = "" if repr(text) in str(error) else f" (in {text!r})"
        raise ValueError(f"{error}{where}") from None


def encode(mission: Mission) -> Float[np.ndarray, "36"]:
    """The mission's numbers."""
    verb = _one_hot(mission.verb, VERBS)
    things = [_encode_thing(thing) for thing in (mission.first, mission.second)]
    return np.concatenate([verb, *things])


@functools.cache
def word_tables() -> tuple[Float[np.ndarray, "choices words"], ...]:
    """The numbers of the words for each verb, article, colour, type and location, 0 for no word.
    The last row of the colours and of the locations is for none, of the types for any."""
    said = (
        [SAID[verb] for verb in VERBS],
        ARTICLES,
        [*COLOURS, ""],
        [*TYPES, ANY],
        [*(WHERE[place] for place in LOCATIONS), ""],
    )
    return tuple(map(_number_words, said))


def _number_words(phrases: Sequence[str]) -> Float[np.ndarray, "choices words"]:
    """A row for each phrase, as long as the longest one."""
    rows = [[1 + WORDS.index(word) for word in phrase.split()] for phrase in phrases]
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows], np.float32)


MOST_WORDS = sum(table.shape[1] for table in word_tables())
"""Room for all words of a mission of one thing."""


def decode(vector: np.ndarray) -> Mission:
    """The mission whose 36 numbers these are."""
    if np.shape(vector) != (SIZE,):
        raise ValueError(f"a mission has {SIZE} numbers, got shape {np.shape(vector)}")
    verb, first, second = np.split(np.asarray(vector), (len(VERBS), len(VERBS) + THING))
    described = _decode_thing(first)
    if described is None:
        raise ValueError("the numbers of a mission must name a thing")
    return Mission(_hot_word("verb", verb, VERBS) or "", described, _decode_thing(second))


def encode_compound(
    mission: Compound,
) -> tuple[Float[np.ndarray, "4 38"], Bool[np.ndarray, "4"]]:
    """A row for each clause, and which rows are clauses."""
    rows = np.zeros((CLAUSES, CLAUSE_SIZE), np.float32)
    for row, clause in zip(rows, mission.clauses, strict=False):
        row[:SIZE] = encode(clause)
    rows[: len(mission.first), SIZE] = 1.0
    rows[len(mission.first) : len(mission.clauses), SIZE + 1] = 1.0
    return rows, np.arange(CLAUSES) < len(mission.clauses)


def decode_compound(rows: Float[np.ndarray, "4 38"], present: Bool[np.ndarray, "4"]) -> Compound:
    """The compound mission whose rows these are."""
    stages = ([], [])
    for row in rows[present]:
        stages[_hot("stage", row[SIZE:]) or 0].append(decode(row[:SIZE]))
    return Compound(*map(tuple, stages))


def _describe(words: Sequence[str | None]) -> Description:
    article, colour, type, said = words
    location = next((place for place in WHERE if WHERE[place] == said), None)
    return Description(type or "", article or "", colour, location)


def _encode_thing(thing: Description | None) -> Float[np.ndarray, "16"]:
    if thing is None:
        return np.zeros(THING, np.float32)
    parts = (
        _one_hot(thing.article, ARTICLES),
        _one_hot(thing.colour, COLOURS),
        _one_hot(thing.type, TYPES),
        _one_hot(thing.location, LOCATIONS),
    )
    return np.concatenate(parts)


def _decode_thing(vector: Float[np.ndarray, "16"]) -> Description | None:
    if not vector.any():
        return None
    ends = np.cumsum([len(ARTICLES), len(COLOURS), len(TYPES)])
    article, colour, type, location = np.split(vector, ends)
    return Description(
        _hot_word("type", type, TYPES) or ANY,
        _hot_word("article", article, ARTICLES) or "",
        _hot_word("colour", colour, COLOURS),
        _hot_word("location", location, LOCATIONS),
    )


def _one_hot(word: str | None, words: tuple[str, ...]) -> Float[np.ndarray, " words"]:
    """Zeros for a word that is not among them."""
    return np.array([word == one for one in words], np.float32)


def _hot(name: str, numbers: Float[np.ndarray, " words"]) -> int | None:
    """Where the one is, None if there is none."""
    ones = np.flatnonzero(numbers)
    if len(ones) > 1 or not np.isin(numbers, (0, 1)).all():
        raise ValueError(f"the {name} of a mission must be a one-hot, got {numbers.tolist()}")
    return int(ones[0]) if len(ones) else None


def _hot_word(name: str, numbers: np.ndarray, words: tuple[str, ...]) -> str | None:
    index = _hot(name, numbers)
    return None if index is None else words[index]


def _require(name: str, value: str | None, words: tuple[str | None, ...]) -> None:
    if value not in words:
        known = ", ".join(word for word in words if word)
        raise ValueError(f"the {name} of a mission must be one of {known}, got {value!r}")
