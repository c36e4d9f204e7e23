"""A picture of a search: its runs, the way of its centre, and what is believed at its end."""

import pathlib
from typing import Any

import numpy as np

from wmg.tools import plots
from wmg.tools.errors import BadInput
from wmg.tuner import dgd, posterior
from wmg.tuner.study import Shared

SHOWN = 10
"""How many of the best run sets are shown."""
CURVE_POINTS = 200
"""At how many places of a long search the best is worked out."""


def draw(shared: Shared, path: pathlib.Path) -> None:
    """Write the picture of a study to a PNG or SVG file."""
    history = shared.history()
    if not history:
        raise BadInput(f"{shared.study.study_name} has no finished run to draw")
    style, figures = plots.import_matplotlib()
    with style.context(["default", plots.STYLE]):
        height = 6.4 + 0.35 * len(shared.grid)
        figure = figures.Figure(figsize=(8.4, height), layout="constrained")
        shares = [2.6, 0.4 + 0.35 * len(shared.grid), 2.6]
        runs, way, beliefs = figure.subplots(3, 1, height_ratios=shares)
        title = f"{shared.study.study_name}: {len(history)} runs"
        runs.set_title(title, loc="left", fontweight="bold", fontsize=12)
        _draw_runs(runs, shared, history)
        _draw_way(way, shared, history)
        _draw_beliefs(beliefs, shared)
        plots.save(figure, path)


def _draw_runs(axes: Any, shared: Shared, history: list[tuple[dgd.Point, float]]) -> None:
    """Every run's score, and the posterior mean of the best run set as it was then."""
    numbers = np.arange(1, len(history) + 1)
    scores = [score for _, score in history]
    axes.plot(numbers, scores, "o", color=plots.PALE, markersize=3.5, label="a run")
    ends = np.unique(np.linspace(1, len(history), CURVE_POINTS).astype(int))
    means, lows, highs = [], [], []
    for end in ends:
        sets = posterior.pool({point: [score]} for point, score in history[:end])
        belief = posterior.rank(sets, shared.maximise)[0]
        deviation = belief.deviation if np.isfinite(belief.deviation) else 0.0
        means.append(belief.mean)
        lows.append(belief.mean - 1.96 * deviation)
        highs.append(belief.mean + 1.96 * deviation)
    axes.plot(ends, means, color=plots.COLOURS[0], linewidth=2, label="best run set, posterior")
    axes.fill_between(ends, lows, highs, color=plots.COLOURS[0], alpha=0.18, linewidth=0)
    axes.set_ylabel(shared.plan.task.get("metric", "score"))
    axes.set_xlim(0.5, len(history) + 0.5)
    axes.legend(frameon=False, fontsize=9)


def _draw_way(axes: Any, shared: Shared, history: list[tuple[dgd.Point, float]]) -> None:
    """A band for each hyperparameter, from its lowest value to its highest, and the centre."""
    sizes = tuple(map(len, shared.grid.values()))
    search = dgd.Search(sizes, shared.plan.average, shared.maximise)
    way = np.array(dgd.path(search, history))
    numbers = np.arange(1, len(history) + 1)
    last = way[-1]
    labels = []
    for row, (name, values) in enumerate(shared.grid.items()):
        base = len(sizes) - 1 - row
        axes.axhspan(base, base + 0.8, color=plots.GRID, linewidth=0)
        heights = base + 0.8 * (way[:, row] + 0.5) / sizes[row]
        colour = plots.COLOURS[row % len(plots.COLOURS)]
        axes.step(numbers, heights, where="post", color=colour, linewidth=1.8)
        labels.append(f"{name} {values[last[row]]}")
    axes.set_yticks([len(sizes) - 1 - row + 0.4 for row in range(len(sizes))], labels)
    axes.grid(False)
    axes.set_xlim(0.5, len(history) + 0.5)
    axes.set_xlabel("finished runs; bands: the centre, from lowest to highest value")


def _draw_beliefs(axes: Any, shared: Shared) -> None:
    """The posterior of the best run sets, best on top, named by what sets them apart from it."""
    ranked = posterior.rank(shared.scores(), shared.maximise)[:SHOWN]
    best = shared.values(ranked[0].key)
    labels = []
    for row, belief in enumerate(ranked):
        height, spread = len(ranked) - 1 - row, 1.96 * belief.deviation
        if np.isfinite(spread):
            ends = [belief.mean - spread, belief.mean + spread]
            axes.plot(ends, [height] * 2, color=plots.COLOURS[0], linewidth=3, alpha=0.35)
        axes.plot([belief.mean], [height], "o", color=plots.COLOURS[0], markersize=5)
        axes.plot([belief.raw], [height], "x", color=plots.COLOURS[1], markersize=5)
        values = shared.values(belief.key)
        apart = [f"{name} {value}" for name, value in values.items() if value != best[name]]
        text = "best" if row == 0 else ", ".join(apart[:2]) + (" ..." if len(apart) > 2 else "")
        labels.append(f"{text} ({belief.runs})")
    axes.set_yticks(range(len(ranked) - 1, -1, -1), labels)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(True, axis="x")
    axes.plot([], [], "o", color=plots.COLOURS[0], label="posterior with 95%")
    axes.plot([], [], "x", color=plots.COLOURS[1], label="plain mean")
    axes.legend(frameon=False, fontsize=9)
    axes.set_xlabel("best run sets (number of runs)")
