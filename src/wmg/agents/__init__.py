"""The agents. A new one is a file here, its settings in `wmg.config`, and a line in AGENTS."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import PRNGKeyArray

from wmg.agents.baselines import Depth as Depth
from wmg.agents.baselines import Random as Random
from wmg.agents.cnn_gru import CNNGRU as CNNGRU
from wmg.agents.gru import GRU as GRU
from wmg.agents.wmg import WMG as WMG
from wmg.types import Agent, EnvSpec

AGENTS: dict[str, Callable[..., Agent]] = {
    "wmg": WMG,
    "gru": GRU,
    "cnn-gru": CNNGRU,
    "depth": Depth,
    "random": Random,
}


def make(name: str, settings: Mapping[str, Any], spec: EnvSpec, key: PRNGKeyArray) -> Agent:
    """A new agent of the named kind for environments of that shape."""
    return AGENTS[name](spec.observation, spec.actions, **settings, key=key)
