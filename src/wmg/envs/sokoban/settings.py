"""The settings of Sokoban."""

import dataclasses
from typing import ClassVar, Literal

from wmg.settings import EnvSettings, is_finite, require, require_choices, require_counts
from wmg.tools.errors import BadInput

Format = Literal["factored", "planes", "rgb"]
SIZE = 10
"""Height and width of Boxoban's boards."""
CELLS = 57
"""The most cells that are not walls on a board of Boxoban."""


@dataclasses.dataclass(frozen=True)
class SokobanSettings(EnvSettings):
    """Sokoban, on Boxoban's levels, the package's own, or yours."""

    name: ClassVar[str] = "sokoban"
    title: ClassVar[str] = "Sokoban"
    data: ClassVar[str | None] = "levels"

    levels: str = "train"
    """train, valid or test (Boxoban's if imported, else the package's), the name of a bank
    (wmg data list shows them), or a text file."""
    observation: Format = "factored"
    """Core and Factors; or an image of the board, 4 planes or 3 colours, and a vector."""
    bound: int = SIZE
    """Largest height and width of a board; a model fits the bound it was trained with."""
    cells: int | None = None
    """Largest number of cells that are not walls (default: all inside the border). Fewer are
    faster: Boxoban's levels have up to 57."""
    max_steps: int = 120
    rewards: tuple[float, float, float, float] = (0.0, 1.0, -1.0, 2.0)
    """In every step, for a box onto a target, for a box off a target, and when solved."""

    def __post_init__(self):
        require_choices(self)
        require(isinstance(self.levels, str), "levels", self.levels, "the name of a bank or a file")
        require_counts(self, largest=64, bound=4)
        require_counts(self, max_steps=1)
        if self.cells is not None:
            require_counts(self, largest=(self.bound - 2) ** 2, cells=1)
        finite = [type(x) in (int, float) and is_finite(x) for x in self.rewards]
        require(finite == [True] * 4, "rewards", self.rewards, "four finite numbers")

    @property
    def label(self) -> str:
        return f"{self.title}, levels {self.levels}"

    def held_out(self) -> "SokobanSettings":
        """Levels that nothing is trained on; the same levels where those do not fit."""
        fits = self.bound >= SIZE and (self.cells is None or self.cells >= CELLS)
        return dataclasses.replace(self, levels="test") if fits else self

    def pinned(self) -> "SokobanSettings":
        """The very levels: a split means others once Boxoban has been imported."""
        from wmg.envs.sokoban import levels

        try:
            return dataclasses.replace(self, levels=levels.resolve(self.levels))
        except ValueError as error:
            raise BadInput(str(error)) from None

    def remark(self) -> str | None:
        levels = self.pinned().levels
        if not levels.startswith("embedded-"):
            return None
        return (
            f"playing the levels {levels}, which come with wmg: figures comparable with the paper "
            "need Boxoban, which `wmg data boxoban` gets"
        )
