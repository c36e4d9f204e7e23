"""A figure of medians with their quartiles, beside the numbers of the paper."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from wmg.tools import plots


@dataclasses.dataclass(frozen=True)
class Interval:
    """A row of the figure: median and quartiles, infinite where they lie beyond what was run."""

    label: str
    median: float
    first: float
    third: float
    paper: float | None = None


def draw(
    rows: Sequence[Interval], path: str | os.PathLike[str], *, title: str, xlabel: str
) -> None:
    """Write a PNG with a dot for each median, a bar between its quartiles, and the paper's
    number as a cross, on a logarithmic axis. A bar without an upper end has an arrow."""
    style, figures = plots.import_matplotlib()
    with style.context(["default", plots.STYLE, {"axes.grid.axis": "x"}]):
        figure = figures.Figure(figsize=(7.2, 1.6 + 0.28 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        ends = [x for row in rows for x in (row.first, row.median, row.third) if np.isfinite(x)]
        beyond = 2 * max(ends, default=1.0)
        for height, row in enumerate(reversed(rows)):
            _draw_interval(axes, height, row, beyond)
        axes.set_yticks(range(len(rows)), [row.label for row in reversed(rows)])
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.set_xlabel(xlabel)
        axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=12)
        axes.plot([], [], "o", color=plots.COLOURS[0], label="ours: median and quartiles")
        axes.plot([], [], "x", color=plots.COLOURS[1], label="paper: median")
        axes.legend(loc="upper right", frameon=False, fontsize=9)
        plots.save(figure, path)


def _draw_interval(axes: Any, height: int, row: Interval, beyond: float) -> None:
    colour, papers = plots.COLOURS[:2]
    if np.isfinite(row.first):
        third = row.third if np.isfinite(row.third) else beyond
        axes.plot([row.first, third], [height] * 2, "-", color=colour, linewidth=3, alpha=0.35)
        if third == beyond:
            axes.plot([beyond], [height], ">", color=colour, alpha=0.35)
    if np.isfinite(row.median):
        axes.plot([row.median], [height], "o", color=colour, markersize=6)
    if row.paper is not None:
        axes.plot([row.paper], [height], "x", color=papers, markersize=7, markeredgewidth=2)
