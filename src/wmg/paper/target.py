"""What a table or figure of the paper consists of."""

import dataclasses
from typing import Literal

from wmg.config import Config


@dataclasses.dataclass(frozen=True)
class Band:
    """How far from the paper's number a match may be, and why so far."""

    size: float
    reason: str
    relative: bool = True
    """Whether `size` is a share of the paper's number, or in the target's unit."""

    def around(self, paper: int | float) -> tuple[float, float]:
        """The ends of the band."""
        half = self.size * abs(paper) if self.relative else self.size
        return paper - half, paper + half


QUARTER = Band(
    0.25,
    "medians of 100 runs vary by about a tenth, and the paper does not give its interval between "
    "tests, which moves them further",
)
EXACT = Band(0.0, "the number does not depend on chance")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One curve of a figure or one row of a table."""

    label: str
    config: Config
    paper: int | float | None = None
    """The paper's number for it, in the target's unit."""
    band: Band | None = None
    """If not the target's."""
    trained: str = ""
    """Of a transfer: the cell whose trained models are scored."""
    enlarged: bool = False
    """Of a transfer or checkpoint: whether memory is given room for a whole longer episode."""
    file: str = ""
    """Of a checkpoint: the name of the authors' file."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something the paper says that our numbers can confirm or not."""

    text: str
    cell: str
    kind: Literal["above", "below", "alike", "unsolved"]
    """Whether `cell` must be above or below `other`, or within `margin` of it; or fewer than the
    share `other` of its runs may meet their goal."""
    other: str | int | float
    """A number, or the name of another cell."""
    times: float = 1.0
    """`other` is multiplied by this first."""
    margin: float = 0.0
    """Of "alike": the largest difference, in the target's unit."""
    after: int | None = None
    """The steps after which `cell` is looked at; by default at its end."""
    full_scale: bool = False
    """Whether it can only be judged at the paper's number of steps."""

    def __post_init__(self):
        if self.after is not None and isinstance(self.other, str):
            raise ValueError("two cells are compared at their common end: `after` needs a number")


Measure = Literal[
    "parameters", "speed", "episodes", "curve", "transfer", "efficiency", "levels", "checkpoint"
]


@dataclasses.dataclass(frozen=True)
class Target:
    """A table or figure: what to run, what to measure, what the paper reports."""

    title: str
    source: str
    """Where in the paper."""
    measure: Measure
    unit: str
    cells: dict[str, Cell]
    claims: tuple[Claim, ...] = ()
    runs: int = 1
    """Independent runs of each cell in the paper."""
    band: Band = QUARTER
    """How far from the paper's number a match may be."""
    lines: dict[str, float] = dataclasses.field(default_factory=dict)
    """Reference lines of the figure."""
    published: dict[str, dict[int, float]] = dataclasses.field(default_factory=dict)
    """What others are known to reach: for each, numbers by steps."""
    models: str = ""
    """Of a transfer: the target whose trained models are scored, in the same job."""
    note: str = ""

    @property
    def better(self) -> Literal["lower", "higher", "neither"]:
        """Which numbers are better: fewer interactions, higher scores and speeds; a number of
        parameters is right or wrong."""
        if self.measure == "parameters":
            return "neither"
        return "lower" if self.measure == "efficiency" else "higher"

    def band_of(self, cell: str) -> Band:
        """How far from the paper's number a match of this cell may be."""
        return self.cells[cell].band or self.band
