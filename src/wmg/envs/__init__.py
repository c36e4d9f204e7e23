"""The environments. A new one is a file here, its settings in `wmg.config`, and a line in ENVS."""

from collections.abc import Callable, Mapping
from typing import Any

from wmg.envs.babyai import BabyAI as BabyAI
from wmg.envs.pathfinding import Pathfinding as Pathfinding
from wmg.types import Env

ENVS: dict[str, Callable[..., Env]] = {
    "babyai": BabyAI,
    "pathfinding": Pathfinding,
}


def make(name: str, settings: Mapping[str, Any]) -> Env:
    """The named environment."""
    return ENVS[name](**settings)
