"""What the settings of all environments and agents have in common, and how they are checked.

Each kind of environment or agent has a frozen dataclass of plain values in the file `settings.py`
of its folder. Such a file imports neither jax nor equinox, so that commands start quickly.
"""

import dataclasses
import sys
import typing
from typing import Any, ClassVar, Literal

from wmg.tools.errors import BadInput, quote


@dataclasses.dataclass(frozen=True)
class EnvSettings:
    """The base of the settings of an environment. Subclasses may override what is below."""

    name: ClassVar[str]
    """What the environment is called in a config."""
    title: ClassVar[str]
    """Its name for people, also in the names of the Gymnasium environments."""
    data: ClassVar[str | None] = None
    """The field that names a data set, if there is one. With None in that field, an environment has
    its shapes but no episodes."""

    @property
    def bank(self) -> str:
        """The name of the data set, of settings that have one."""
        return getattr(self, self.data or "")

    @property
    def label(self) -> str:
        """The environment with these settings, in a few words."""
        return self.title

    def held_out(self) -> "EnvSettings":
        """The settings with which a trained agent is tested."""
        return self

    def pinned(self) -> "EnvSettings":
        """The settings with the name of a data set that never changes."""
        return self

    def remark(self) -> str | None:
        """What a user should know before such an environment is played; None if nothing."""
        return None

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Names for Gymnasium, without prefix and version, and the settings each stands for."""
        return {cls.title: {}}


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """The base of the settings of an agent. Subclasses may override what is below."""

    name: ClassVar[str]
    """What the agent is called in a config."""
    learns: ClassVar[bool] = True
    """Whether it can be trained. An agent that cannot is made anew for each environment."""

    def for_env(self, env: EnvSettings) -> "AgentSettings":
        """The settings of the same agent for another environment."""
        del env
        return self


def require(condition: bool, setting: str, value: object, wanted: str) -> None:
    """Refuse a value, in a sentence that names the setting and what it must be."""
    if not condition:
        raise BadInput(f"{setting} must be {wanted}, got {quote(value)}")


def require_counts(settings: object, largest: int = 65_536, **least: int) -> None:
    """Refuse fields that are not whole numbers from their least value to `largest`."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        fits = type(value) is int and smallest <= value <= largest
        require(fits, name, value, f"a whole number from {smallest} to {largest:,}")


def require_choices(settings: object) -> None:
    """Refuse values that are not among the options of their field's `Literal` type."""
    for name, kind in typing.get_type_hints(type(settings)).items():
        if typing.get_origin(kind) is Literal:
            options, value = typing.get_args(kind), getattr(settings, name)
            require(value in options, name, value, f"one of {', '.join(map(repr, options))}")


def is_finite(value: object) -> bool:
    """Whether it is a number that a float can hold; integers may be too large for one."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
