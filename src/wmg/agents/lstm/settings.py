"""The settings of the LSTM baseline."""

import dataclasses
from typing import ClassVar

from wmg.agents.recurrent.settings import RecurrentSettings


@dataclasses.dataclass(frozen=True)
class LSTMSettings(RecurrentSettings):
    """A baseline with a long short-term memory, which is not in the paper."""

    name: ClassVar[str] = "lstm"

    embedding: int = 128
