"""The paper as data: presets (columns of its tables) and targets (its tables and figures).

A new preset or target is an entry in one of the files here and, for a new file, a line below.
"""

import difflib

from wmg.config import Config
from wmg.paper import babyai, pathfinding, sokoban
from wmg.paper.target import Target
from wmg.tools.errors import BadInput

PRESETS: dict[str, Config] = {**pathfinding.PRESETS, **babyai.PRESETS, **sokoban.PRESETS}
TARGETS: dict[str, Target] = {**pathfinding.TARGETS, **babyai.TARGETS, **sokoban.TARGETS}


def scored_after(name: str, cell: str) -> list[tuple[str, str]]:
    """(target, cell) of every transfer that scores the models of a trained cell."""
    return [
        (other, each)
        for other, target in TARGETS.items()
        if target.models == name
        for each, of in target.cells.items()
        if of.trained == cell
    ]


MOST_NAMES = 12
"""A sentence that names more than this is not one to read."""


def find_preset(name: str) -> Config:
    """The preset of that name."""
    if name not in PRESETS:
        raise BadInput(f"there is no preset {name!r}; {_hint(name, list(PRESETS))}")
    return PRESETS[name]


def find_target(name: str) -> Target:
    """The target of that name."""
    if name not in TARGETS:
        raise BadInput(f"there is no target {name!r}; {_hint(name, list(TARGETS))}")
    return TARGETS[name]


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if len(known) <= MOST_NAMES else "wmg list shows them"
