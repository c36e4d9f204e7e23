"""The settings of BabyAI."""

import dataclasses
import typing
from typing import Any, ClassVar, Literal

from wmg.settings import EnvSettings, require_choices

Format = Literal["factored", "flat", "image", "flattened", "words"]
Reward = Literal["binary", "minigrid"]
Level = Literal[
    "GoToObj",
    "GoToRedBallGreyBoxes",
    "GoToRedBallGrey",
    "GoToRedBall",
    "GoToLocal",
    "PickupLoc",
]
LEVELS: tuple[Level, ...] = typing.get_args(Level)


@dataclasses.dataclass(frozen=True)
class BabyAISettings(EnvSettings):
    """The five single-room BabyAI levels of the paper."""

    name: ClassVar[str] = "babyai"
    title: ClassVar[str] = "BabyAI"

    level: Level = "GoToObj"
    """GoToRedBallGreyBoxes is the paper's GoToRedBallGrey: today's has other grey things too."""
    observation: Format = "factored"
    """Core and Factors; one vector of the whole view; the 7x7x3 image and a vector; or the
    Factors padded and appended to the Core; or the image and the words of the mission."""
    reward: Reward = "binary"
    """1 for success, or less the longer it took, as minigrid pays."""

    def __post_init__(self):
        require_choices(self)

    @property
    def label(self) -> str:
        return f"{self.title} {self.level}"

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        return {f"{cls.title}-{level}": {"level": level} for level in LEVELS}
