"""Grids: the paper's values for every hyperparameter, grids of one's own, and their settings."""

import dataclasses
import itertools
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import HYPER_NAMES, Config, from_dict, to_dict
from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON

LARGEST_GRID = 1_000_000
"""Bytes of a grid file; the paper's grid has 2,000."""
Grid = dict[str, list[Any]]
"""The values of each hyperparameter, in order."""

PAPER: Grid = {  # its table of values considered, under our names
    "t_max": [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 120],
    "actor_critic": [64, 90, 128, 180, 256, 360, 512, 720, 1024, 1440, 2048, 2880, 4096, 5760],
    "adam_eps": [1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2],
    "channels.1": [12, 16, 20],
    "channels.2": [24, 32, 40],
    "channels.3": [64, 128, 192],
    "discount": [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998],
    "entropy": [0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2],
    "grad_clip": [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0],
    "embedding": [128, 256, 512, 1024, 2048, 4096],
    "size": [64, 96, 128, 192, 256, 384, 512, 768, 1024],
    "learning_rate": [4e-6, 6.3e-6, 1e-5, 1.6e-5, 2.5e-5, 4e-5, 6.3e-5, 1e-4, 1.6e-4, 2.5e-4, 4e-4],
    "anneal": [0.60, 0.64, 0.68, 0.72, 0.76, 0.80, 0.84, 0.88, 0.93, 0.98],
    "rewards.1": [-0.02, -0.01, 0.0],  # Sokoban's, in every step
    "rewards.4": [2.0, 5.0, 10.0, 15.0, 20.0],  # and when solved
    "reward_scale": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
    "head_size": [8, 12, 16, 24, 32, 48, 64, 90, 128, 180, 256, 360, 512],
    "heads": [1, 2, 3, 4, 6, 8, 10, 12, 16, 20],
    "memo_size": [32, 45, 64, 90, 128, 180, 256, 360, 512, 720, 1024, 1440, 2048],
    "slots": [1, 2, 3, 4, 6, 8, 10, 12, 16, 20],
    "hidden": [6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512],
    "layers": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
}
LATER = ("anneal",)
"""Tuned by the paper in a second search of its own, on Sokoban: here only where it is named."""


def paper_grid(settings: Config) -> Grid:
    """The paper's grid for the agent of these settings."""
    agent = settings.agent
    left_out = set(LATER)
    if isinstance(agent, WMGSettings) and agent.memory != "memos":
        left_out |= {"slots", "memo_size"}  # as in the paper's tables of nr-WMG
    return {
        name: values
        for name, values in PAPER.items()
        if name not in left_out and _has(settings, name)
    }


def choose(settings: Config, names: Sequence[str], path: pathlib.Path | None) -> Grid:
    """The grid of a file, or the paper's for the agent; all of it, or some of its names."""
    grid = paper_grid(settings) if path is None else read(path)
    for name in names:
        if name not in grid and (path is not None or name not in PAPER):
            raise BadInput(f"the grid has no {name!r}; it has {', '.join(grid)}")
    chosen = {name: (grid | PAPER if path is None else grid)[name] for name in names or grid}
    check(settings, chosen)
    return chosen


def read(path: pathlib.Path) -> dict[str, Any]:
    """The grid of a TOML or JSON file: a list of values for each name."""
    if not path.is_file():
        raise BadInput(f"there is no grid file {path}")
    try:
        text = files.read_bounded(path, LARGEST_GRID).decode()
        data = files.parse_json(text) if path.suffix == ".json" else tomllib.loads(text)
    except NOT_JSON as error:  # TOML's errors are ValueErrors, too
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise BadInput(f"{path} is not {kind}: {error}") from None
    if not isinstance(data, dict) or not data:
        raise BadInput(f"{path} must hold a list of values for each hyperparameter")
    return data


def check(settings: Config, grid: Mapping[str, Any]) -> None:
    """Refuse a grid whose values are not in order, or that the settings cannot take."""
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise BadInput(f"{name} needs a list of at least one value, got {values!r}")
        numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in values]
        if not all(numbers) and len(set(map(type, values))) > 1:
            raise BadInput(f"the values of {name} must be of one type, got {values!r}")
        if all(numbers) and any(a >= b for a, b in itertools.pairwise(values)):
            raise BadInput(f"the values of {name} must ascend, got {values!r}")
        if len(set(map(repr, values))) < len(values):
            raise BadInput(f"the values of {name} must all be different, got {values!r}")
        _find(settings, name)
        for value in values:
            try:
                apply(settings, {name: value})
            except BadInput as error:
                raise BadInput(f"{value!r} is no value for {name}: {error}") from None


def apply(settings: Config, values: Mapping[str, Any]) -> Config:
    """The settings with these values of hyperparameters, which are checked."""
    data = to_dict(settings)
    for name, value in values.items():
        owner, field, place = _find(settings, name)
        section = data[owner] if owner else data
        if place:
            section[field][place - 1] = value
        else:
            section[field] = value
    return from_dict(Config, data)


def current(settings: Config, names: Sequence[str]) -> dict[str, Any]:
    """The values that the settings have."""
    found = {}
    for name in names:
        owner, field, place = _find(settings, name)
        value = getattr(getattr(settings, owner) if owner else settings, field)
        found[name] = value[place - 1] if place else value
    return found


def options(settings: Config, names: Sequence[str]) -> list[str]:
    """Options of `wmg train` that give a preset the values that the settings have."""
    words = []
    for field in dict.fromkeys(name.partition(".")[0] for name in names):
        owner = next(part for part in PARTS if field in _fields(settings, part))
        value = getattr(getattr(settings, owner) if owner else settings, field)
        part, name = f"--{owner}." if owner else "--", field.replace("_", "-")
        if isinstance(value, bool):
            words += [part + name if value else f"{part}no-{name}"]
        else:
            words += [part + name, *map(str, value if isinstance(value, tuple) else (value,))]
    return words


def shapes(names: Sequence[str]) -> list[str]:
    """Those whose values must be the same in runs that are trained together."""
    return [name for name in names if name not in HYPER_NAMES]


PARTS = ("agent", "hyper", "env", "")
"""Where a hyperparameter may be: in these parts of the settings, or directly."""


def _fields(settings: Config, part: str) -> set[str]:
    if not part:
        return {"t_max"}
    section = getattr(settings, part)
    return set() if section is None else {field.name for field in dataclasses.fields(section)}


def _find(settings: Config, name: str) -> tuple[str, str, int]:
    """Where a hyperparameter is: part, setting, and place (from 1) if that is a list."""
    field, _, place = name.partition(".")
    for part in PARTS:
        if field in _fields(settings, part):
            value = getattr(getattr(settings, part) if part else settings, field)
            if isinstance(value, tuple) and place in map(str, range(1, len(value) + 1)):
                return part, field, int(place)
            if not isinstance(value, tuple) and not place:
                return part, field, 0
    raise BadInput(
        f"{name!r} is no setting of {settings.agent.name}, of its environment or of training"
    )


def _has(settings: Config, name: str) -> bool:
    try:
        return bool(_find(settings, name))
    except BadInput:
        return False
