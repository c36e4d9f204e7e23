"""The examples print what they promise: shorter runs of them here, and as they stand (slow)."""

import ast
import dataclasses
import importlib.util
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from tiny import AGENT, keys_may_be_split_up  # noqa: F401

import wmg
from wmg import registry

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def output_of(name, folder):
    """What an example prints as it stands, in a process and an empty folder of its own."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=folder, capture_output=True, text=True,
        timeout=300, env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """What an example prints in this process, in an empty folder."""

    def printed(name):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return printed


def check_library(printed, folder):
    played, episode = printed.splitlines()
    found = re.fullmatch(r"([\d.]+)% .* over 1,000 episodes of \d+ steps", played)
    assert found, played
    assert re.fullmatch(r"actions of one episode: \[[\d, ]+\]", episode)
    assert [path.name for path in folder.iterdir()] == ["mine.safetensors"]
    return float(found[1])


def test_the_library_in_five_lines_ends_with_a_score(run, monkeypatch, tmp_path):
    real = wmg.train
    short = lambda preset, steps: real(preset, agent=AGENT, steps=48, goal=None)  # noqa: E731
    monkeypatch.setattr(wmg, "train", short)
    check_library(run("library.py"), tmp_path)


@pytest.mark.slow
def test_the_library_in_five_lines_ends_with_a_score_as_it_stands(tmp_path):
    assert check_library(output_of("library.py", tmp_path), tmp_path) > 90


def check_own_environment(printed):
    last = printed.splitlines()[-1]
    found = re.fullmatch(r"1,000 new episodes: ([\d.]+)% right \(guessing: 50%\)", last)
    assert found, last
    assert float(found[1]) > 85


def test_an_agent_learns_an_environment_that_the_package_does_not_know(monkeypatch, capsys):
    monkeypatch.setattr(registry, "ENVS", dict(registry.ENVS))
    found = importlib.util.spec_from_file_location("shelf", EXAMPLES / "own_environment.py")
    shelf = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "shelf", shelf)
    found.loader.exec_module(shelf)
    easier = dataclasses.replace(
        shelf.CONFIG, env=shelf.ShelfSettings(colours=2), steps=5000, report_every=2500,
        hyper=dataclasses.replace(shelf.CONFIG.hyper, learning_rate=1e-3),
    )  # fmt: skip
    monkeypatch.setattr(shelf, "CONFIG", easier)
    shelf.main()
    check_own_environment(capsys.readouterr().out)


@pytest.mark.slow
def test_an_agent_learns_an_environment_that_the_package_does_not_know_as_it_stands(tmp_path):
    check_own_environment(output_of("own_environment.py", tmp_path))


def test_random_play_through_gymnasium_solves_what_it_solves_in_minigrid(run):
    pytest.importorskip("gymnasium")
    *_, shapes, last = run("gymnasium_env.py").splitlines()
    assert ast.literal_eval(shapes)["objects"] == (1, 29)
    found = re.fullmatch(r"([\d,]+) episodes of random play: (\d+)% solved", last)
    assert found, last
    assert abs(int(found[2]) - 23) <= 6  # 23% in minigrid; about 570 episodes


def check_minigrid(printed):
    shares = re.findall(r"^\w+: ([\d.]+)%", printed, re.MULTILINE)
    assert len(shares) == 2 and all(15 < float(share) < 40 for share in shares)


def test_random_play_scores_alike_in_the_real_minigrid(run, monkeypatch):
    pytest.importorskip("minigrid")
    from wmg.interop import minigrid

    real = minigrid.evaluate
    fewer = lambda *args, **given: real(*args, **given | {"episodes": 60})  # noqa: E731
    monkeypatch.setattr(minigrid, "evaluate", fewer)
    check_minigrid(run("minigrid_eval.py"))


@pytest.mark.slow
def test_random_play_scores_alike_in_the_real_minigrid_as_it_stands(tmp_path):
    check_minigrid(output_of("minigrid_eval.py", tmp_path))
