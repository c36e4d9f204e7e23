"""The settings of the gated Transformer-XL."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class GTrXLSettings(AgentSettings):
    """The gated Transformer-XL (Parisotto et al., 2020), which is not in the paper."""

    name: ClassVar[str] = "gtrxl"

    slots: int = 16
    """How many past steps each layer attends to."""
    layers: int = 3
    heads: int = 4
    head_size: int = 32
    hidden: int = 256
    """Width of each layer's feed-forward block."""
    actor_critic: int = 360
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, largest=256, layers=1)
        require_counts(self, slots=1, heads=1, head_size=1, hidden=1, actor_critic=1)
