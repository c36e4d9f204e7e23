"""`wmg bench`."""

import json

import tiny
from tiny import keys_may_be_split_up  # noqa: F401


def test_the_speed_of_a_preset_is_measured_and_written(tmp_path, capsys):
    out = tmp_path / "new" / "bench.json"
    args = ["bench", "pathfinding/wmg", *tiny.FLAGS, "--runs=2", "--seconds=0.01"]
    code, text, _ = tiny.command(capsys, *args, "--json", "--out", out)
    assert code == 0 and json.loads(text) == json.loads(out.read_text())
    assert json.loads(text)["preset"] == "pathfinding/wmg" and json.loads(text)["runs"] == 2
