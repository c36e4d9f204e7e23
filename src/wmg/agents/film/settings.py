"""The settings of BabyAI's baseline."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require_counts


@dataclasses.dataclass(frozen=True)
class FiLMSettings(AgentSettings):
    """The baseline of BabyAI (Chevalier-Boisvert et al., 2018)."""

    name: ClassVar[str] = "film"

    size: int = 128
    """Channels of the image, size of a word, of the instruction and of the memory."""
    vocabulary: int = 100
    """How many numbers of words there is room for; 0 stands for no word."""
    actor_critic: int = 64
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, size=1, vocabulary=2, actor_critic=1)
