"""The settings of Pathfinding."""

import dataclasses
from typing import ClassVar

from wmg.settings import EnvSettings, require_counts


@dataclasses.dataclass(frozen=True)
class PathfindingSettings(EnvSettings):
    """The Pathfinding environment."""

    name: ClassVar[str] = "pathfinding"
    title: ClassVar[str] = "Pathfinding"

    nodes: int = 7
    """Size of the finished graph; an episode has 2 * (nodes - 1) steps."""
    pattern: int = 7
    """How many numbers make a node's pattern."""

    def __post_init__(self):
        require_counts(self, largest=256, nodes=2, pattern=1)

    @property
    def label(self) -> str:
        return f"{self.title}, {self.nodes} nodes"
