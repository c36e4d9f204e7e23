"""An environment that runs on the host, before there are copies of it to play in."""

import dataclasses
from collections.abc import Callable

from wmg.play.host import HostEnvs, Mapping
from wmg.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class HostSource:
    """An environment of the host that can be made as often as it is needed."""

    label: str
    """What people call it."""
    spec: EnvSpec
    copies: Callable[[int], HostEnvs]
    """That many environments, which take their steps together."""
    mapping: Mapping
    """From what one of them shows to what an agent sees."""
