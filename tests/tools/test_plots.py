"""Learning curves: the numbers behind them, and the pixels."""

import sys
import unittest.mock

import numpy as np
import pytest

from wmg.tools import plots
from wmg.tools.errors import BadInput

nan = np.nan


def some_curve(runs, points=20, seed=0):
    noise = np.random.default_rng(seed).normal(size=(runs, points))
    return plots.Curve(np.arange(1, points + 1) * 10_000, np.linspace(30, 90, points) + noise)


def draw(path, curves, **settings):
    plots.learning_curves(curves, path, title="Pathfinding", ylabel="Score", **settings)
    image = pytest.importorskip("matplotlib.image").imread(path)
    return np.round(255 * image[..., :3]).astype(int)


def holds(image, colour, least=50):
    """Whether at least `least` pixels have exactly this colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return (image == wanted).all(axis=-1).sum() >= least


def test_each_agent_has_its_colour_in_a_picture_of_the_promised_size(tmp_path):
    curves = {"WMG": some_curve(3), "GRU": some_curve(3, seed=1)}
    image = draw(tmp_path / "new" / "a.png", curves, lines={"Depth-1": 61.6})
    assert image.shape == (630, 1080, 3)
    assert holds(image, plots.COLOURS[0]) and holds(image, plots.COLOURS[1])
    assert not holds(image, plots.COLOURS[2], least=1)


def test_several_runs_have_a_band_and_one_has_none(tmp_path):
    def pale_blue(image):
        """Pixels of the first colour at 18% on white."""
        return (abs(image - [209, 229, 241]).max(axis=-1) <= 2).sum()

    wide = plots.Curve(np.arange(3) * 1000, np.array([[0.0, 0, 0], [9, 9, 9]]))
    one = plots.Curve(np.arange(3) * 1000, np.array([[0.0, 4, 9]]))
    assert pale_blue(draw(tmp_path / "a.png", {"WMG": wide})) > 50_000
    assert pale_blue(draw(tmp_path / "b.png", {"WMG": one})) < 200


def test_a_band_ends_where_no_run_is():
    scores = np.array([[0.0, 100, nan]] * 9 + [[90.0, 40, nan]])
    axes = unittest.mock.Mock()
    plots._draw_curves(axes, {"WMG": plots.Curve(np.arange(3) * 1000, scores)})
    _, low, high = axes.fill_between.call_args.args
    assert np.allclose(low, [0, 94 - 18.9737, nan], equal_nan=True)
    assert np.allclose(high, [9 + 28.4605, 100, nan], equal_nan=True)


def test_reference_lines_add_grey_dashes(tmp_path):
    curves = {"WMG": some_curve(1)}
    without = draw(tmp_path / "a.png", curves)
    grey = draw(tmp_path / "b.png", curves, lines={"Depth-1": 61.6, "Depth-2": 84.6})
    assert holds(grey, plots.QUIET, least=500) and not holds(without, plots.QUIET, least=500)


def test_the_same_curves_give_the_same_file_whatever_the_users_style(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    curves, settings = {"WMG": some_curve(4)}, {"lines": {"Depth-1": 50.0}}
    draw(tmp_path / "a.png", curves, **settings)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        draw(tmp_path / "b.png", curves, **settings)
    written = (tmp_path / "a.png").read_bytes()
    assert written == (tmp_path / "b.png").read_bytes()
    assert b"Software" not in written


def test_drawing_leaves_no_global_state(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")

    def state():
        # Looking at the backend would choose one, and import pyplot.
        keys = set(matplotlib.rcParams) - {"backend"}
        return {key: matplotlib.rcParams[key] for key in keys}, "matplotlib.pyplot" in sys.modules

    before = state()
    draw(tmp_path / "a.png", {"WMG": some_curve(2)})
    assert state() == before


def test_diverged_runs_and_agents_are_drawn_without_warning(tmp_path):
    some, all_of_them, never = some_curve(3), some_curve(2), some_curve(2)
    some.scores[0, 5:] = nan
    all_of_them.scores[:, 7:] = nan
    never.scores[:] = nan
    curves = {"some": some, "all": all_of_them, "never": never}
    image = draw(tmp_path / "a.png", curves)
    assert holds(image, plots.COLOURS[0]) and holds(image, plots.COLOURS[1])


def test_more_agents_than_colours_can_be_drawn(tmp_path):
    draw(tmp_path / "a.png", {f"agent {i}": some_curve(1, seed=i) for i in range(9)})


def test_dollar_signs_are_written_as_they_are(tmp_path):
    plots.learning_curves(
        {"run_$x^$": some_curve(1)}, tmp_path / "a.svg", title=r"$\frac$", ylabel="Score"
    )
    written = (tmp_path / "a.svg").read_text()
    assert "<!-- run_$x^$ -->" in written and r"<!-- $\frac$ -->" in written


def test_spread_is_that_of_the_finite_runs():
    scores = np.array([[1, 2, 7, nan], [3, nan, nan, nan], [8, 5, nan, nan]])
    mean, deviation, alive = plots.spread(scores)
    np.testing.assert_allclose(mean, [4, 3.5, 7, nan])
    np.testing.assert_allclose(deviation[:3], [13**0.5, 4.5**0.5, 0])
    assert alive.tolist() == [3, 2, 1, 0]


def test_labels_move_apart_no_further_than_they_must():
    got = plots.apart(np.array([0.1, 0.5, 0.5, 0.52, 0.9]), 0.1)
    middle = (0.5 + 0.5 + 0.52) / 3
    np.testing.assert_allclose(got, [0.1, middle - 0.1, middle, middle + 0.1, 0.9])
    assert plots.apart(np.array([]), 0.1).size == 0


@pytest.mark.parametrize("scores", [(3,), (2, 4), (0, 3), (1, 2, 3)])
def test_curves_of_the_wrong_shape_are_refused(scores):
    with pytest.raises(ValueError, match="runs, points"):
        plots.Curve(np.arange(3), np.zeros(scores))


def test_bad_input_is_named(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="no learning curve"):
        draw(tmp_path / "a.png", {})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadInput, match=r"pip install 'wmg\[plot\]'"):
        plots.learning_curves({"W": some_curve(1)}, tmp_path / "a.png", title="", ylabel="")
