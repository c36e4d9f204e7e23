"""The environments. A new one is a file here, its settings in `wmg.config`, and a line in ENVS."""

from collections.abc import Callable, Mapping
from typing import Any

from wmg.envs.babyai.env import BabyAI as BabyAI
from wmg.envs.pathfinding.env import Pathfinding as Pathfinding
from wmg.envs.sokoban.env import Sokoban as Sokoban
from wmg.types import Env

ENVS: dict[str, Callable[..., Env]] = {
    "babyai": BabyAI,
    "pathfinding": Pathfinding,
    "sokoban": Sokoban.create,
}


DATA = {"sokoban": "levels"}
"""The setting that names an environment's data, where it has any."""


def make(name: str, settings: Mapping[str, Any]) -> Env:
    """The named environment."""
    return ENVS[name](**settings)


def make_shapes(name: str, settings: Mapping[str, Any]) -> Env:
    """The named environment without its data: enough for its spec, and to build an agent."""
    return make(name, {**settings, **({DATA[name]: None} if name in DATA else {})})
