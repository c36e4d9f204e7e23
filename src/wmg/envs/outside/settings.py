"""The settings of an environment from outside of the package."""

import dataclasses
from typing import Any, ClassVar, Literal

from wmg.settings import EnvSettings, require_choices


@dataclasses.dataclass(frozen=True)
class OutsideEnvSettings(EnvSettings):
    """An environment that is not the package's own, by its name or import path."""

    name: ClassVar[str] = "outside"
    title: ClassVar[str] = "Outside"

    path: str = ""
    """gym:ID, an environment that Gymnasium knows by this ID; or module:NAME, the import path of an
    environment, of its class, or of a function that makes one."""
    roles: tuple[str, ...] = ()
    """What parts of a Gymnasium observation become, where the rules do not fit: KEY=ROLE."""
    flattened: bool = False
    """Whether a Gymnasium observation's Factors are shown in the Core, one after the other, for
    agents that take no Factors."""
    vector: Literal["none", "sync", "async", "vector_entry_point"] = "none"
    """How the copies of a Gymnasium environment step: one after the other (none), or as
    gymnasium.make_vec does in this mode."""

    def __post_init__(self):
        require_choices(self)

    def __str__(self) -> str:
        return " ".join([self.path, *self.roles, *(["flattened"] if self.flattened else [])])

    @property
    def label(self) -> str:
        """What the environment is called where it was found."""
        return self.path.removeprefix("gym:")

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """None: what Gymnasium should know, it knows."""
        return {}
