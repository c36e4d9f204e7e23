"""The settings of an agent that embeds the Core and remembers by a recurrent cell."""

import dataclasses

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class RecurrentSettings(AgentSettings):
    """The sizes of its parts."""

    embedding: int = 256
    """Size of the linear embedding of the observation."""
    size: int = 384
    """Size of the recurrent state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, embedding=1, size=1, actor_critic=1)
