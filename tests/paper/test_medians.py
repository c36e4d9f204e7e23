"""The figure of medians: its pixels."""

import dataclasses

import numpy as np
import pytest

from wmg.paper import medians
from wmg.tools import plots


def holds(image, colour, least=50):
    """Whether at least so many pixels have exactly this colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return (image == wanted).all(axis=-1).sum() >= least


inf = np.inf


def draw_medians(path, *rows):
    medians.draw(rows, path, title="Efficiency", xlabel="thousand steps")
    image = pytest.importorskip("matplotlib.image").imread(path)
    return np.round(255 * image[..., :3]).astype(int)


def test_medians_are_dots_with_the_papers_crosses(tmp_path):
    row = medians.Interval("WMG", 10.0, 5.0, 20.0, 12.0)
    image = draw_medians(tmp_path / "new" / "a.png", row)
    assert holds(image, plots.COLOURS[0], 30) and holds(image, plots.COLOURS[1], 10)
    alone = draw_medians(tmp_path / "b.png", dataclasses.replace(row, paper=None))
    crosses = [(x == [213, 94, 0]).all(axis=-1).sum() for x in (image, alone)]
    assert crosses[0] > crosses[1]  # one is left in the legend


def bar(image):
    """How many columns show the pale colour of a bar in the rows above the axis's labels."""
    pale = [int(255 - 0.35 * (255 - x)) for x in (0, 114, 178)]
    return (abs(image - pale).max(axis=-1) <= 2).any(axis=0).sum()


def test_a_bar_ends_at_the_quartiles_or_goes_beyond_the_picture(tmp_path):
    other = medians.Interval("other", 10.0, 1.0, 100.0)
    short = medians.Interval("one", 10.0, 8.0, 12.0)
    beyond = dataclasses.replace(short, median=inf, third=inf)
    widths = [
        bar(draw_medians(tmp_path / f"{i}.png", dataclasses.replace(other, first=100.0), row))
        for i, row in enumerate((short, beyond))
    ]
    assert 0 < widths[0] < widths[1]


@pytest.mark.parametrize("paper", [None, 12.0])
def test_cells_that_nobody_solved_are_drawn_without_warning(tmp_path, paper):
    row = medians.Interval("WMG", inf, inf, inf, paper)
    assert bar(draw_medians(tmp_path / "a.png", row)) == 0
