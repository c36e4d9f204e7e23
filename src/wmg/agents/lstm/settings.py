"""The settings of the LSTM baseline."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class LSTMSettings(AgentSettings):
    """A baseline with a long short-term memory, which is not in the paper."""

    name: ClassVar[str] = "lstm"

    embedding: int = 128
    """Size of the linear embedding of the observation."""
    size: int = 384
    """Size of the hidden state, and of the cell state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, embedding=1, size=1, actor_critic=1)
