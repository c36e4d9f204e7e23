"""The settings of the agents that do not learn."""

import dataclasses
from typing import ClassVar

from wmg.settings import AgentSettings, EnvSettings, require_counts


@dataclasses.dataclass(frozen=True)
class DepthSettings(AgentSettings):
    """The hand-coded Pathfinding baseline: perfect memory, paths up to a given length."""

    name: ClassVar[str] = "depth"
    learns: ClassVar[bool] = False

    depth: int = 1
    """The longest path it can follow."""
    nodes: int = 7
    """How many nodes it can remember."""

    def __post_init__(self):
        require_counts(self, largest=256, depth=1, nodes=2)

    def for_env(self, env: EnvSettings) -> "DepthSettings":
        """With room for all nodes of the graph."""
        return dataclasses.replace(self, nodes=getattr(env, "nodes", self.nodes))


@dataclasses.dataclass(frozen=True)
class RandomSettings(AgentSettings):
    """An agent that acts uniformly at random."""

    name: ClassVar[str] = "random"
    learns: ClassVar[bool] = False
