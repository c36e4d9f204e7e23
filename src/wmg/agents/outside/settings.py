"""The settings of an agent from outside of the package."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings


@dataclasses.dataclass(frozen=True)
class OutsideAgentSettings(AgentSettings):
    """An agent that is not the package's own, by the import path of its class."""

    name: ClassVar[str] = "outside"

    path: str = ""
    """module:NAME, the import path of a class or function that is called with an ObservationSpec,
    the number of actions, and a key."""
