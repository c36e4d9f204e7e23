"""The settings of DRC."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class DRCSettings(AgentSettings):
    """DRC(D, N) (Guez et al., 2019): D ConvLSTM layers that run N times in every step."""

    name: ClassVar[str] = "drc"

    layers: int = 3
    """D"""
    ticks: int = 3
    """N"""
    channels: int = 32
    actor_critic: int = 256
    """Width of the hidden layer of policy and value, which share it."""

    def __post_init__(self):
        require_counts(self, largest=64, layers=1, ticks=1)
        require_counts(self, channels=1, actor_critic=1)
