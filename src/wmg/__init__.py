"""Working Memory Graphs in JAX."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmg.agents.cnn_gru.settings import CNNGRUSettings as CNNGRUSettings
    from wmg.agents.gru.settings import GRUSettings as GRUSettings
    from wmg.agents.wmg.settings import WMGSettings as WMGSettings
    from wmg.api.checking import check_env as check_env
    from wmg.api.models import evaluate as evaluate
    from wmg.api.models import load as load
    from wmg.api.training import train as train
    from wmg.config import Batched as Batched
    from wmg.config import Config as Config
    from wmg.config import Goal as Goal
    from wmg.config import Hyper as Hyper
    from wmg.paper import presets as presets
    from wmg.registry import register_agent as register_agent
    from wmg.registry import register_env as register_env
    from wmg.tools.errors import BadInput as BadInput
    from wmg.types import Agent as Agent
    from wmg.types import Env as Env
    from wmg.types import EnvSpec as EnvSpec
    from wmg.types import Factors as Factors
    from wmg.types import Learner as Learner
    from wmg.types import Observation as Observation
    from wmg.types import ObservationSpec as ObservationSpec
    from wmg.types import Step as Step
    from wmg.types import Summary as Summary

__version__ = "0.1.0"

PLACES = {
    "train": "wmg.api.training",
    "load": "wmg.api.models",
    "evaluate": "wmg.api.models",
    "check_env": "wmg.api.checking",
    "presets": "wmg.paper",
    **dict.fromkeys(("Config", "Hyper", "Batched", "Goal"), "wmg.config"),
    "WMGSettings": "wmg.agents.wmg.settings",
    "GRUSettings": "wmg.agents.gru.settings",
    "CNNGRUSettings": "wmg.agents.cnn_gru.settings",
    **dict.fromkeys(("Env", "EnvSpec", "ObservationSpec", "Observation"), "wmg.types"),
    **dict.fromkeys(("Factors", "Step", "Agent", "Learner", "Summary"), "wmg.types"),
    **dict.fromkeys(("register_env", "register_agent"), "wmg.registry"),
    "BadInput": "wmg.tools.errors",
}
"""The public names and the modules they are loaded from when they are first used, so that
`import wmg` and `wmg --help` take no time."""


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module 'wmg' has no attribute {name!r}")
    found = getattr(importlib.import_module(PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *PLACES])
