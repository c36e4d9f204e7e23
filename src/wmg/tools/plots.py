"""Learning curves for papers and READMEs, and what all our figures have in common."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmg.tools.errors import BadInput, quote

Numbers = NDArray[np.float64]

# Okabe and Ito's colours, which colour-blind readers can tell apart, without the yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":")
INK, QUIET, PALE, GRID = "#222222", "#6B6B6B", "#B0B0B0", "#E6E6E6"
STYLE = {
    "svg.hashsalt": "wmg",
    "text.parse_math": False,  # a folder's name may have dollar signs
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
LABEL_GAP = 0.058
"""Least distance between two labels, as a share of the height of the axes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """Scores [runs, points] of one agent's runs at the same steps; NaN once diverged."""

    steps: NDArray[Any]
    scores: NDArray[Any]

    def __post_init__(self):
        runs_and_points = self.scores.shape
        fits = self.steps.ndim == 1 and runs_and_points[1:] == self.steps.shape
        if not fits or 0 in runs_and_points:
            raise ValueError(
                f"scores must be [runs, points] with points as in steps and neither of them"
                f" 0, got scores {runs_and_points} and steps {self.steps.shape}"
            )


@dataclasses.dataclass(frozen=True)
class Label:
    """A name to the right of the axes, at the height of its curve or line."""

    text: str
    height: float
    colour: str
    weight: str


def learning_curves(
    curves: Mapping[str, Curve],
    path: str | os.PathLike[str],
    *,
    title: str,
    ylabel: str,
    lines: Mapping[str, float] | None = None,
) -> None:
    """Write a PNG or SVG with each agent's mean score and a band of one standard deviation.

    `lines` are horizontal references. A run that diverged leaves the mean from then on, and the
    agent's label says how many are left. The legend says what line and band are.
    """
    if not curves:
        raise BadInput("there is no learning curve to draw")
    style, figures = import_matplotlib()
    with style.context(["default", STYLE]):
        figure = figures.Figure(figsize=(7.2, 4.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        axes = figure.add_subplot()
        labels = _draw_lines(axes, lines or {}) + _draw_curves(axes, curves)
        last = max(float(curve.steps.max()) for curve in curves.values())
        _label_axes(axes, title, ylabel, last)
        _draw_labels(axes, labels)
        if any(len(curve.scores) > 1 for curve in curves.values()):
            _explain_band(figure)
        save(figure, path)


def import_matplotlib() -> tuple[Any, Any]:
    """Its styles and figures."""
    try:
        from matplotlib import figure, style
    except ImportError as error:
        raise BadInput("plots need matplotlib: pip install 'wmg[plot]'") from error
    return style, figure


FORMATS = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
"""Suffixes of figures, each with the metadata that is left out: the same figure, the same file."""


def check_format(path: str | os.PathLike[str]) -> str:
    """The suffix of a figure's file, if it is one we write."""
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise BadInput(
            f"a figure's name must end in {' or '.join(FORMATS)}, got {quote(str(path))}"
        )
    return suffix


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG or SVG, by the suffix."""
    suffix = check_format(path)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format=suffix[1:], dpi=150, metadata=FORMATS[suffix])


def _explain_band(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    line = Line2D([], [], color=QUIET, linewidth=2, label="mean over runs")
    band = Patch(color=QUIET, alpha=0.25, linewidth=0, label="±1 standard deviation over runs")
    look = {"frameon": False, "fontsize": 9, "ncols": 2, "handlelength": 1.4}
    figure.legend(handles=[line, band], loc="outside lower left", **look)


def _draw_lines(axes: Any, lines: Mapping[str, float]) -> list[Label]:
    for height in lines.values():
        axes.axhline(height, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1.5)
    return [Label(name, float(height), QUIET, "normal") for name, height in lines.items()]


def _draw_curves(axes: Any, curves: Mapping[str, Curve]) -> list[Label]:
    labels = []
    for index, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        dash = DASHES[index // len(COLOURS) % len(DASHES)]
        scores = curve.scores.astype(np.float64)
        mean, deviation, alive = spread(scores)
        axes.plot(curve.steps, mean, dash, color=colour, linewidth=2, zorder=3)
        if len(scores) > 1:
            # Within the scores of the runs: a band below 0% would show what no run can have.
            low = np.maximum(mean - deviation, np.fmin.reduce(scores))
            high = np.minimum(mean + deviation, np.fmax.reduce(scores))
            axes.fill_between(
                curve.steps, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2
            )
        text = name if alive[-1] == len(scores) else f"{name} ({alive[-1]}/{len(scores)} runs)"
        if np.isfinite(mean).any():
            labels.append(Label(text, float(mean[np.isfinite(mean)][-1]), colour, "bold"))
    return labels


def spread(scores: Numbers) -> tuple[Numbers, Numbers, NDArray[np.int_]]:
    """Mean, standard deviation and number of the runs that are finite at each point.

    The mean of no run is NaN; the deviation of fewer than two runs is 0.
    """
    known = np.isfinite(scores)
    alive = known.sum(axis=0)
    total = np.sum(scores, axis=0, where=known)
    mean = np.where(alive > 0, total / np.maximum(alive, 1), np.nan)
    squares = np.sum(np.square(scores - mean), axis=0, where=known)
    return mean, np.sqrt(squares / np.maximum(alive - 1, 1)), alive


def _label_axes(axes: Any, title: str, ylabel: str, last: float) -> None:
    unit, word = next(
        (unit, word)
        for unit, word in ((1e6, " (millions)"), (1e3, " (thousands)"), (1, ""))
        if last >= unit or unit == 1
    )
    axes.locator_params(axis="x", steps=[1, 2, 5, 10])
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps / unit:g}")
    axes.set_xlim(0, last if last > 0 else 1)
    axes.set_xlabel(f"Environment steps{word}")
    axes.set_ylabel(ylabel)
    axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=12)
    axes.tick_params(length=3)


def _draw_labels(axes: Any, labels: list[Label]) -> None:
    """Labels in the right margin, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    labels = sorted(labels, key=lambda label: label.height)
    heights = np.array([(label.height - low) / (high - low) for label in labels])
    for label, end, place in zip(labels, heights, apart(heights, LABEL_GAP), strict=True):
        leader = {"color": label.colour, "linewidth": 1, "alpha": 0.6, "clip_on": False}
        axes.plot([1.006, 1.03], [end, place], transform=axes.transAxes, **leader)
        axes.text(
            1.038,
            place,
            label.text,
            color=label.colour,
            fontweight=label.weight,
            va="center_baseline",
            transform=axes.transAxes,
        )


def apart(heights: Numbers, gap: float) -> Numbers:
    """The nearest heights, by least squares, that keep ascending order and a least gap.

    Once `gap` times the index is subtracted, heights need only ascend. That is isotonic
    regression: groups that are out of order are replaced by their mean.
    """
    offsets = gap * np.arange(len(heights))
    groups: list[list[float]] = []
    for height in heights - offsets:
        groups.append([height])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    pooled = [np.mean(group) for group in groups for _ in group]
    return np.array(pooled, dtype=np.float64) + offsets
