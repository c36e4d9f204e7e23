"""The paper as data: presets (columns of its tables) and targets (its tables and figures).

A new preset is an entry in one of the files here, a new target in a file of `targets`. A preset's
name begins with the name of its file, so that a command that names one loads that file only.
"""

import difflib
import functools
import importlib
from typing import Any

from wmg import registry
from wmg.config import Config
from wmg.paper.target import Target
from wmg.tools.errors import BadInput, quote

FILES = ("pathfinding", "babyai", "sokoban", "extensions")
PRESETS: dict[str, Config]
TARGETS: dict[str, Target]
"""Those of all files, loaded when they are first asked for."""


def __getattr__(name: str) -> Any:
    if name not in ("PRESETS", "TARGETS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load_all(name)


@functools.cache
def _load_all(what: str) -> dict[str, Any]:
    return {name: item for file in FILES for name, item in _load(what, file).items()}


def _load(what: str, file: str) -> dict[str, Any]:
    folder = "wmg.paper" if what == "PRESETS" else "wmg.paper.targets"
    return getattr(importlib.import_module(f"{folder}.{file}"), what)


def scored_after(name: str, cell: str) -> list[tuple[str, str]]:
    """(target, cell) of every transfer that scores the models of a trained cell."""
    return [
        (other, each)
        for other, target in _load_all("TARGETS").items()
        if target.models == name
        for each, of in target.cells.items()
        if of.trained == cell
    ]


MOST_NAMES = 12
"""A sentence that names more than this is not one to read."""


def find_preset(name: str) -> Config:
    """The preset of that name."""
    for file in FILES:
        if name.startswith(file) and (preset := _load("PRESETS", file).get(name)):
            return preset
    raise BadInput(f"there is no preset {name!r}; {_hint(name, 'PRESETS')}")


def presets() -> list[str]:
    """The names of all presets, for `wmg.train`."""
    return list(_load_all("PRESETS"))


def find_config(name: str) -> Config:
    """A preset, or the `Config` at an import path, `module:name`."""
    if ":" not in name:
        return find_preset(name)
    found = registry.load(name, "a preset")
    if not isinstance(found, Config):
        raise BadInput(f"{name} must be a wmg.Config, got {quote(found)}")
    return found


def find_target(name: str) -> Target:
    """The target of that name."""
    targets = _load_all("TARGETS")
    if name not in targets:
        raise BadInput(f"there is no target {name!r}; {_hint(name, 'TARGETS')}")
    return targets[name]


def _hint(name: str, what: str) -> str:
    known = list(_load_all(what))
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if len(known) <= MOST_NAMES else "wmg list shows them"
