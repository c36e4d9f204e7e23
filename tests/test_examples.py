"""The examples run as they stand, and print what they promise."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def output_of(name, folder):
    """What an example prints when it is run in an empty folder, as fast as for a user: examples
    run long enough to make up for what that takes to compile."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=folder, capture_output=True, text=True,
        timeout=300, env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_in_five_lines_ends_with_a_score(tmp_path):
    summary = ast.literal_eval(output_of("library.py", tmp_path))
    assert summary["episodes"] == 1000
    assert summary["mean_length"] == 6
    assert 40 < summary["score"] <= 100
    assert list(tmp_path.iterdir()) == []


def test_an_agent_learns_an_environment_that_the_package_does_not_know(tmp_path):
    last = output_of("own_environment.py", tmp_path).splitlines()[-1]
    found = re.fullmatch(r"1,000 new episodes: ([\d.]+)% right \(guessing: 50%\)", last)
    assert found, last
    assert float(found[1]) > 85


def test_random_play_through_gymnasium_solves_what_it_solves_in_minigrid(tmp_path):
    pytest.importorskip("gymnasium")
    *_, shapes, last = output_of("gymnasium_env.py", tmp_path).splitlines()
    assert ast.literal_eval(shapes)["objects"] == (1, 29)
    found = re.fullmatch(r"([\d,]+) episodes of random play: (\d+)% solved", last)
    assert found, last
    assert abs(int(found[2]) - 23) <= 6  # 23% in minigrid; about 570 episodes


def test_random_play_scores_alike_in_the_real_minigrid(tmp_path):
    shares = re.findall(r"^\w+: ([\d.]+)%", output_of("minigrid_eval.py", tmp_path), re.MULTILINE)
    assert len(shares) == 2 and all(15 < float(share) < 40 for share in shares)
