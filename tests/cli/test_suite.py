"""`wmg reproduce suite`: which cells it runs, and what it prints."""

import json

import pytest
import tiny
from api.suite.made_up import write

from wmg.api.suite import run


@pytest.fixture
def ran(monkeypatch):
    """The cells and seeds that are run; each leaves a result."""
    done = []

    def run_cell(cell, seed, scale, out, display):
        done.append((cell, seed))
        write(out, cell, seed, interactions=scale.steps_of(run.CELLS[cell][0]))
        return True

    monkeypatch.setattr(run, "run_cell", run_cell)
    monkeypatch.setattr(run, "check", lambda cells, scale: None)
    return done


def test_chosen_cells_are_run_seed_by_seed_and_reported(ran, tmp_path, capsys):
    args = ["--cells", "cartpole-gru", "highway-wmg", "--runs", 2, "--out", tmp_path]
    code, out, err = tiny.command(capsys, "reproduce", "suite", *args)
    assert ran == [(cell, seed) for seed in (0, 1) for cell in ("cartpole-gru", "highway-wmg")]
    assert code == 0 and out == (tmp_path / "suite" / "report.md").read_text() + "\n"
    assert err.splitlines()[0] == "suite: cartpole-gru, seed 0"
    assert err.splitlines()[-1] == f"wrote {tmp_path / 'suite' / 'report.md'}"
    code, out, _ = tiny.command(capsys, "reproduce", "suite", *args, "--report-only", "--json")
    assert code == 0 and len(ran) == 4
    assert list(json.loads(out)["cells"]) == ["cartpole-gru", "highway-wmg"]


def test_without_another_python_our_agents_run_alone(ran, tmp_path, capsys):
    code, _, err = tiny.command(capsys, "reproduce", "suite", "--runs=1", "--out", tmp_path)
    assert code == 0 and err.startswith("without recurrent-ppo, which needs --other\n")
    assert len(ran) == 22 and {cell.split("-")[-1] for cell, _ in ran} == {"wmg", "gru"}


def test_what_was_stopped_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "run_cell", lambda *_: False)
    args = ["--cells", "cartpole-wmg", "--out", tmp_path]
    code, out, err = tiny.command(capsys, "reproduce", "suite", *args)
    assert (code, out) == (0, "") and err.endswith("the same command goes on from here\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--cells", "chess-wmg"], "the suite has no cell 'chess-wmg'; it has cartpole-wmg,"),
        (["--runs=0"], "runs must be from 1 to 1,000, got 0"),
        (["--steps=300001"], "steps must be from 1 to 300,000, got 300001"),
        (["--report-only", "--out=none"], "there are no results of suite in none"),
        (["--groups=1"], "there is no option --groups"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(args, says, capsys):
    code, out, err = tiny.command(capsys, "reproduce", "suite", *args)
    assert (code, out) == (2, "") and err.startswith(f"wmg: {says}") and err.count("\n") == 1
