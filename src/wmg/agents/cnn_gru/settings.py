"""The settings of the GRU baseline with a convolutional network."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, require, require_counts


@dataclasses.dataclass(frozen=True)
class CNNGRUSettings(AgentSettings):
    """The GRU baseline with a convolutional network for the image."""

    name: ClassVar[str] = "cnn-gru"

    channels: tuple[int, int, int] = (16, 40, 192)
    """Channels of the three convolutions."""
    embedding: int = 512
    """Size of the linear embedding of the vector beside the image."""
    size: int = 96
    """Size of the recurrent state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        require_counts(self, embedding=1, size=1, actor_critic=1)
        three = isinstance(self.channels, tuple) and len(self.channels) == 3
        fits = three and all(type(each) is int and 1 <= each <= 4096 for each in self.channels)
        require(fits, "channels", self.channels, "a tuple of three whole numbers from 1 to 4,096")
