"""The settings of WMG."""

import dataclasses
from typing import ClassVar, Literal

from wmg.settings import AgentSettings, require, require_choices, require_counts

EXTENSIONS = (
    "lifetimes",
    "attention_decay",
    "drop_below",
    "edges",
    "edge_size",
    "store",
    "store_size",
    "reads",
)
"""Settings of what is not in the paper; by default all of it is off."""


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

    lifetimes: Literal["fixed", "attention"] = "fixed"
    """Which Memo a full memory overwrites: the oldest, or the one that has received the least
    attention lately."""
    attention_decay: float = 0.5
    """The part of a Memo's recent attention that remains after each step."""
    drop_below: float = 0.0
    """Recent attention, from 0 to 1, below which a Memo is dropped; 0 drops none."""
    edges: Literal["none", "memos", "factors", "both"] = "none"
    """Which nodes have vectors on the edges between them: Memos and Core, Factors, or both."""
    edge_size: int = 8
    """How many numbers the edge between two Factors has; an even number."""
    store: int = 0
    """How many entries the store of memory vectors holds; 0 for an agent without a store."""
    store_size: int = 64
    """Size of the keys and of the values in the store."""
    reads: int = 1
    """How many memory vectors are read from the store in each step."""

    def __post_init__(self):
        require_choices(self)
        require_counts(self, largest=256, layers=1)
        require_counts(self, slots=0, memo_size=0, heads=1, head_size=1)
        require_counts(self, hidden=1, actor_critic=1)
        if self.memory != "none":
            require(self.slots > 0, "slots", self.slots, f"positive for memory={self.memory}")
        if self.memory == "memos":
            require(self.memo_size > 0, "memo_size", self.memo_size, "positive for Memos")
        self._check_extensions()

    def _check_extensions(self) -> None:
        require_counts(self, edge_size=2, store=0, store_size=1)
        require_counts(self, largest=64, reads=1)
        for name in ("attention_decay", "drop_below"):
            value = getattr(self, name)
            fits = type(value) in (int, float) and 0 <= value < 1
            require(fits, name, value, "a number from 0 to less than 1")
        require(self.edge_size % 2 == 0, "edge_size", self.edge_size, "an even number")
        if self.memory != "memos":
            without = f"for memory={self.memory}, which keeps no Memos"
            require(self.lifetimes == "fixed", "lifetimes", self.lifetimes, f"'fixed' {without}")
            fits = self.edges in ("none", "factors")
            require(fits, "edges", self.edges, f"'none' or 'factors' {without}")

    @property
    def extended(self) -> bool:
        """Whether an extension is on."""
        return self.lifetimes != "fixed" or self.edges != "none" or self.store > 0

    def unused(self) -> dict[str, str]:
        """Fields without effect, and why. A size of 0 says just that."""
        names = {"none": ("slots", "memo_size"), "observations": ("memo_size",)}
        useless = [name for name in names.get(self.memory, ()) if getattr(self, name)]
        unused = dict.fromkeys(useless, f"memory is {self.memory}")
        if self.lifetimes == "fixed":
            unused |= dict.fromkeys(("attention_decay", "drop_below"), "lifetimes is fixed")
        if self.edges in ("none", "memos"):
            unused["edge_size"] = f"edges is {self.edges}"
        if not self.store:
            unused |= dict.fromkeys(("store_size", "reads"), "store is 0")
        return unused
