"""Makes WMG as its settings say."""

from typing import Any

from jaxtyping import PRNGKeyArray

from wmg.agents.wmg.agent import WMG
from wmg.agents.wmg.extensions import extend
from wmg.agents.wmg.settings import EXTENSIONS, WMGSettings
from wmg.types import ObservationSpec


def make(observation: ObservationSpec, actions: int, *, key: PRNGKeyArray, **fields: Any) -> WMG:
    """WMG with these fields of its settings. Without extensions it is the paper's agent."""
    paper = {name: value for name, value in fields.items() if name not in EXTENSIONS}
    agent = WMG(observation, actions, **paper, key=key)
    settings = WMGSettings(**fields)
    return extend(agent, observation, settings, key) if settings.extended else agent
