"""The settings of the GRU baseline."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class GRUSettings(AgentSettings):
    """The gated recurrent baseline."""

    name: ClassVar[str] = "gru"

    embedding: int = 256
    """Size of the linear embedding of the observation."""
    size: int = 384
    """Size of the recurrent state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, embedding=1, size=1, actor_critic=1)
