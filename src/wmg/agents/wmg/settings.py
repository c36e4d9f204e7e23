"""The settings of WMG."""

import dataclasses
from typing import ClassVar, Literal

from wmg.settings import AgentSettings, require, require_choices, require_counts


@dataclasses.dataclass(frozen=True)
class WMGSettings(AgentSettings):
    """The Working Memory Graph agent, and its non-recurrent form (nr-WMG)."""

    name: ClassVar[str] = "wmg"

    memory: Literal["memos", "observations", "none"] = "memos"
    """The memory: Memos (WMG), past observations (nr-WMG), or none."""
    slots: int = 16
    """How many Memos or past observations are kept."""
    memo_size: int = 128
    layers: int = 4
    heads: int = 6
    head_size: int = 12
    hidden: int = 12
    """Width of each Transformer layer's feed-forward block."""
    actor_critic: int = 128
    """Width of the hidden layer of policy and value."""
    shared_heads: bool = False
    """Whether policy and value share that layer, as in the paper's equations (and Sokoban)."""
    start: Literal["full", "empty"] = "full"
    """Whether memory starts full of zeros or (Sokoban) empty."""
    age: Literal["concatenated", "added"] = "concatenated"
    """Whether a one-hot age is part of the memory vector or (Sokoban) embedded apart."""

    init: Literal["pytorch", "he"] = "pytorch"
    """Initial weights of the Transformer, its embeddings and new Memos: PyTorch's default, uniform
    within 1/sqrt(inputs), or the larger ones of He et al., within sqrt(6/inputs)."""

    def __post_init__(self):
        require_choices(self)
        require_counts(self, largest=256, layers=1)
        require_counts(self, slots=0, memo_size=0, heads=1, head_size=1)
        require_counts(self, hidden=1, actor_critic=1)
        if self.memory != "none":
            require(self.slots > 0, "slots", self.slots, f"positive for memory={self.memory}")
        if self.memory == "memos":
            require(self.memo_size > 0, "memo_size", self.memo_size, "positive for Memos")

    def unused(self) -> dict[str, str]:
        """Fields without effect, and why. A size of 0 says just that."""
        names = {"none": ("slots", "memo_size"), "observations": ("memo_size",)}
        useless = [name for name in names.get(self.memory, ()) if getattr(self, name)]
        return dict.fromkeys(useless, f"memory is {self.memory}")
