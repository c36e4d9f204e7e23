"""`wmg reproduce`: what it prints, and what it leaves alone."""

import json

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.cli import reproduce as command
from wmg.paper import reproduce


def test_a_report_is_written_and_printed_and_can_be_had_again(tmp_path, capsys):
    args = ["reproduce", "parameter-counts", "--cells", "wmg", "gru", "--out", tmp_path]
    code, out, err = tiny.command(capsys, *args)
    written = f"wrote {tmp_path / 'parameter-counts' / 'report.md'}"
    assert code == 0
    assert err.splitlines() == ["parameter-counts: WMG", "parameter-counts: GRU", written]
    assert out == (tmp_path / "parameter-counts" / "report.md").read_text() + "\n"
    code, out, err = tiny.command(capsys, *args, "--report-only", "--json")
    cells = json.loads(out)["cells"]
    assert (code, err) == (0, written + "\n") and [cell["value"] for cell in cells.values()] == [
        132_507,
        1_139_459,
    ]


def test_what_was_stopped_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "run_cell", lambda *_: False)
    code, out, err = tiny.command(capsys, "reproduce", "pathfinding", "--json", "--out", tmp_path)
    assert (code, out) == (0, "")
    assert err.endswith("stopped and saved; the same command goes on from here\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("cell", "runs", "threads"),
    [("level1-wmg-factored", 1, 1), ("level4-wmg-factored", 1, 2), ("level4-wmg-factored", 9, 9)],
)
def test_a_single_run_of_a_large_network_has_a_second_thread(
    tmp_path, capsys, monkeypatch, cell, runs, threads
):
    given = []
    monkeypatch.setattr(command, "prepare_jax", given.append)
    monkeypatch.setattr(reproduce, "run_cell", lambda *_: False)
    args = ["--cells", cell, "--runs", runs, "--out", tmp_path]
    tiny.command(capsys, "reproduce", "babyai-table", *args)
    assert given == [threads]
