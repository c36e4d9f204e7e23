"""What a table or figure of the paper consists of."""

import dataclasses
from typing import Literal

from wmg.config import Config


@dataclasses.dataclass(frozen=True)
class Cell:
    """One curve of a figure or one row of a table."""

    label: str
    config: Config
    paper: int | float | None = None
    """The paper's number for it, in the target's unit."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something the paper says that our numbers can confirm or not."""

    text: str
    cell: str
    kind: Literal["equals", "above", "below"]
    """Whether `cell` must be within `margin` of `other`, or above it, or below another cell, by
    more than that and than two standard errors; or not above a number."""
    other: str | int | float
    """A number, or the name of another cell."""
    margin: float = 0.0
    times: float = 1.0
    """`other` is multiplied by this first: 1.25 leaves a quarter more."""
    after: int | None = None
    """The steps after which `cell` is looked at; by default at its end."""
    full_scale: bool = False
    """Whether it can only be judged at the paper's number of steps."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A table or figure: what to run, what to measure, what the paper reports."""

    title: str
    source: str
    """Where in the paper."""
    measure: Literal["parameters", "speed", "episodes", "curve", "transfer", "efficiency", "levels"]
    unit: str
    cells: dict[str, Cell]
    claims: tuple[Claim, ...] = ()
    runs: int = 1
    """Independent runs of each cell in the paper."""
    lines: dict[str, float] = dataclasses.field(default_factory=dict)
    """Reference lines of the figure."""
    published: dict[str, dict[int, float]] = dataclasses.field(default_factory=dict)
    """What others are known to reach: for each, numbers by steps."""
    note: str = ""
