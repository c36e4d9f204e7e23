"""`wmg bench`."""

import json
import pathlib

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.cli import bench

PUBLISHED = sorted((pathlib.Path(__file__).parents[2] / "results" / "bench").glob("*.json"))


def test_the_speed_of_a_preset_is_measured_and_written(tmp_path, capsys):
    out = tmp_path / "new" / "bench.json"
    args = ["bench", "pathfinding/wmg", *tiny.FLAGS, "--runs=2", "--seconds=0.01"]
    code, text, _ = tiny.command(capsys, *args, "--json", "--out", out)
    assert code == 0 and json.loads(text) == json.loads(out.read_text())
    assert json.loads(text)["preset"] == "pathfinding/wmg" and json.loads(text)["runs"] == 2
    assert json.loads(text)["command"] == " ".join(["wmg", *args])


@pytest.mark.parametrize("args, command", [
    ([], "wmg bench"),
    (["sokoban/wmg", "--json", "--runs", "2"], "wmg bench sokoban/wmg --runs 2"),
    (["--out", "a/b.json", "--env-only"], "wmg bench --env-only"),
    (["--seconds=5", "--out=b.json"], "wmg bench --seconds=5"),
    (["a preset"], "wmg bench 'a preset'"),
])  # fmt: skip
def test_the_command_is_kept_without_where_its_output_went(args, command):
    assert bench.command_line(args) == command


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_measurement_has_its_command_or_says_why_not(path):
    found = json.loads(path.read_text())
    assert found["command"] or found["command_note"]
    if "preset" in found:
        assert found["command"].startswith(f"wmg bench {found['preset']}")
        assert f"--runs {found.get('runs', 1)} " in found["command"] or found.get("runs", 1) == 1
