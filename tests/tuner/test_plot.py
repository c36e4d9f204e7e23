"""The picture of a search."""

import numpy as np
import pytest

pytest.importorskip("optuna")

from wmg.tools import plots
from wmg.tools.errors import BadInput
from wmg.tuner import plot, study, worker


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("plot") / "tune.db")
    grid = {"x": [1, 2, 3], "y": ["a", "b"]}
    for name in ("drawn", "fresh"):
        study.create(path, name, study.Plan({}, runs=7, seed=0), grid, True)
    worker.work(path, "drawn", lambda task: lambda values, seed: [float(values[0]["x"] + seed % 3)])
    return path


def test_runs_way_and_beliefs_are_drawn(storage, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    path = tmp_path / "new" / "search.png"
    with study.opened(storage, "drawn") as shared:
        plot.draw(shared, path)
    pixels = np.round(255 * image.imread(path)[..., :3]).astype(int)
    assert pixels.shape[1] == 1260
    for colour in plots.COLOURS[:2]:
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        assert (pixels == wanted).all(axis=-1).sum() > 50


def test_a_picture_of_nothing_is_refused(storage, tmp_path):
    with study.opened(storage, "fresh") as shared, pytest.raises(BadInput, match="no finished run"):
        plot.draw(shared, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
