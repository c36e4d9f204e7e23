"""Run folders and models of earlier code, in `v0.1` and `v0.2-lstm`, go on as they would have.

`make.sh` there made them, and `expected.json` is what that code made of them.
"""

import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tiny

from wmg import registry
from wmg.play import evaluate
from wmg.runs import models, runfolder, train

HERE = pathlib.Path(__file__).parent
OLD = {"lstm": HERE / "v0.2-lstm", **dict.fromkeys(("wmg", "gru", "goal"), HERE / "v0.1")}
keys_may_be_split_up = tiny.keys_may_be_split_up
EXPECTED = {
    name: json.loads((place / "expected.json").read_text())[name] for name, place in OLD.items()
}
FOLDERS = pytest.mark.parametrize("name", ["wmg", "gru", "lstm"])
CLOSE = 1e-5
"""Largest error relative to the largest number of its kind: rounding depends on the compiler."""


@pytest.mark.parametrize("name, run", [("wmg", 0), ("gru", 0), ("lstm", 0), ("goal", None)])
def test_it_plays_as_well_as_it_did(name, run):
    path = OLD[name] / (name if run == 0 else f"{name}.safetensors")
    agent, settings = models.find(str(path), run)
    env = registry.make_env(settings.env)
    played = evaluate.evaluate(env, agent, 1, 200)
    assert evaluate.summary(env.spec, played) == pytest.approx(EXPECTED[name]["score"], rel=1e-9)


@FOLDERS
def test_it_goes_on_to_the_end_that_it_would_have_had(name, tmp_path):
    folder = shutil.copytree(OLD[name] / name, tmp_path / name)
    before = tiny.lines(folder)
    result = train.train(runfolder.read_config(folder), folder, resume=True)
    assert result.finished and [len(log) for log in before] == [5] * len(before)
    compare_logs(tiny.lines(folder), EXPECTED[name]["end"])
    found = tiny.arrays(folder)
    end = safetensors.numpy.load_file(OLD[name] / f"{name}-end.safetensors")
    for array, expected in end.items():
        error = np.abs(found[array] - expected).max() / np.abs(expected).max()
        assert error < CLOSE, array


def compare_logs(found, expected):
    """Counts, rewards and scores are the same; means of losses and norms differ by rounding."""
    assert [len(log) for log in found] == [len(log) for log in expected]
    for one, other in zip(*map(itertools.chain.from_iterable, (found, expected)), strict=True):
        assert one.keys() == other.keys()
        for key in ("steps", "episodes", "reward", "score", "success", "diverged"):
            assert one[key] == other[key], (key, one["steps"])
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5), one["steps"]
