"""The paper as data: its tables of settings as presets, its tables and figures in `targets`.

A preset's name begins with the name of its file, up to a `_`. So a command that names a preset
does not load the presets of other environments.
"""

import functools
import importlib
from typing import Any

from wmg import registry
from wmg.config import Config
from wmg.tools.errors import BadInput, did_you_mean, quote

FILES = ("pathfinding", "pathfinding_baselines", "babyai", "sokoban")
PRESETS: dict[str, Config]
"""The presets of all files, loaded when they are first asked for."""


def __getattr__(name: str) -> Any:
    if name != "PRESETS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _all_presets()


@functools.cache
def _all_presets() -> dict[str, Config]:
    return {name: preset for file in FILES for name, preset in _presets_in(file).items()}


def _presets_in(file: str) -> dict[str, Config]:
    return importlib.import_module(f"wmg.paper.{file}").PRESETS


def presets() -> list[str]:
    """The names of all presets, for `wmg.train`."""
    return list(_all_presets())


def find_preset(name: str) -> Config:
    """The preset of that name."""
    for file in FILES:
        if name.startswith(file.partition("_")[0]) and (found := _presets_in(file).get(name)):
            return found
    hint = did_you_mean(name, _all_presets(), "wmg list shows them")
    raise BadInput(f"there is no preset {name!r}; {hint}")


def named_config(name: str) -> Config:
    """A preset, or the `Config` at an import path, `module:name`."""
    if ":" not in name:
        return find_preset(name)
    found = registry.load(name, "a preset")
    if not isinstance(found, Config):
        raise BadInput(f"{name} must be a wmg.Config, got {quote(found)}")
    return found
