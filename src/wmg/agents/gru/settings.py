"""The settings of the GRU baseline."""

import dataclasses
from typing import ClassVar

from wmg.agents.recurrent.settings import RecurrentSettings


@dataclasses.dataclass(frozen=True)
class GRUSettings(RecurrentSettings):
    """The gated recurrent baseline."""

    name: ClassVar[str] = "gru"
