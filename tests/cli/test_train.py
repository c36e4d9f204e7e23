"""`wmg train`: what it trains, prints and leaves."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config, paper
from wmg.agents.gru.settings import GRUSettings
from wmg.cli import train
from wmg.runs import runfolder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `wmg train ... --json` left and printed."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    args = ["train", "pathfinding/wmg", *tiny.FLAGS, "--runs=2", "--out", folder]
    script = (
        f"from wmg.cli import main; raise SystemExit(main.main({[*map(str, args), '--json']!r}))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": tiny.CACHE}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def test_training_prints_one_json_object_and_plain_progress_in_a_pipe(trained):
    folder, done = trained
    summary = json.loads(done.stdout)
    assert summary["folder"] == str(folder) and summary["finished"]
    assert summary["best_run"] in (0, 1) and summary["diverged"] == 0
    assert summary["curve"] == str(folder / "curve.png")
    others = ("compiling", "cpu_aot_loader")  # jaxlib 0.10.0 warns of its own cached programs
    lines = [line for line in done.stderr.splitlines() if not any(x in line for x in others)]
    assert lines[0].startswith("48 of 480 steps, ") and lines[-1].startswith("480 of 480")
    assert all("steps/s, score median " in line and "%, best " in line for line in lines)
    assert "\x1b" not in done.stderr and "\r" not in done.stderr


def test_scores_printed_are_those_of_the_median_and_best_run(trained):
    folder, done = trained
    summary = json.loads(done.stdout)
    last = [log[-1]["score"] for log in tiny.lines(folder)]
    assert summary["score_best"] == round(max(last), 2)
    assert summary["score_median"] == round(sum(last) / 2, 2)


def test_a_command_line_trains_what_the_library_trains(trained):
    folder, _ = trained
    assert runfolder.read_config(folder) == tiny.settings(runs=2)
    assert tiny.differing(tiny.arrays(folder), tiny.arrays(tiny.trained())) == []


def test_a_curve_is_drawn(trained):
    assert (trained[0] / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_folder_can_be_resumed_and_stays_as_it_is(trained, capsys):
    folder, _ = trained
    before = tiny.contents(folder)
    code, out, _ = tiny.command(capsys, "train", "--resume", folder)
    assert code == 0 and "last scores: median " in out and "%, best " in out
    after = tiny.contents(folder)
    for name in before.keys() - {"curve.png", "state.safetensors"}:
        assert after[name] == before[name], name


def test_a_branch_from_the_command_line(trained, tmp_path, capsys):
    folder, _ = trained
    before = tiny.contents(folder)
    args = ["train", "--from", folder, "--steps=528", "--hyper.entropy=0.05"]
    code, out, _ = tiny.command(capsys, *args, "--out", tmp_path / "branch", "--json")
    assert code == 0 and json.loads(out)["finished"]
    assert tiny.contents(folder) == before
    about = json.loads((tmp_path / "branch" / "config.json").read_text())
    assert about["parent"] == {"folder": str(folder), "steps": [480, 480]}
    assert about["config"]["hyper"]["entropy"] == 0.05
    refused = tiny.command(capsys, *args, "--agent.slots=4", "--out", tmp_path / "other")
    assert refused[0] == 2 and "must keep agent.slots = 3, not 4" in refused[2]
    assert not (tmp_path / "other").exists()


def test_a_folder_is_named_after_the_preset_if_no_other_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["train", "pathfinding/wmg", *tiny.FLAGS[:-2], "--steps=12", "--report-every=12"]
    assert tiny.command(capsys, *args)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("pathfinding-wmg-2")


def test_runs_that_all_diverge_are_a_failure(tmp_path, capsys):
    args = ["train", "pathfinding/wmg", *tiny.FLAGS, "--runs=2"]
    vary = ["--vary", "learning_rate=1e30,1e30", "--out", tmp_path / "run"]
    code, out, _ = tiny.command(capsys, *args, *vary)
    assert code == 1 and "2 of 2 runs diverged and were stopped" in out
    code, out, _ = tiny.command(capsys, "train", "--resume", tmp_path / "run", "--json")
    summary = json.loads(out, parse_constant=pytest.fail)
    assert code == 1 and summary["diverged"] == 2 and summary["finished"]


def test_one_run_that_diverges_is_reported(tmp_path, capsys):
    args = ["train", "pathfinding/wmg", *tiny.FLAGS, "--runs=2"]
    vary = ["--vary", "learning_rate=1e-4,1e30", "--out", tmp_path / "run"]
    code, out, err = tiny.command(capsys, *args, *vary)
    assert code == 0 and "1 of 2 runs diverged and were stopped" in out
    assert err.splitlines()[-1].endswith("1 diverged, 0:00:00 left")


def test_a_preset_is_changed_by_options(tmp_path, capsys):
    args = ["train", "pathfinding/gru", "--agent.size=2", "--agent.embedding=2", "--steps=12"]
    more = ["--agent.actor-critic=2", "--hyper.entropy=0.5", "--report-every=12"]
    assert tiny.command(capsys, *args, *more, "--out", tmp_path / "run")[0] == 0
    settings = runfolder.read_config(tmp_path / "run")
    assert settings.agent == GRUSettings(embedding=2, size=2, actor_critic=2)
    assert settings.hyper.entropy == 0.5 and settings.hyper.grad_clip == 4.0


AIM = [*tiny.FLAGS[:-2], "--env.nodes=2", "--steps=96", "--report-every=24", "--goal.episodes=20"]


def test_options_of_a_goal_give_a_preset_one_and_the_steps_it_took_are_said(tmp_path, capsys):
    # With two nodes there is one question, which chance answers every second time.
    args = ["train", "pathfinding/wmg", *AIM, "--goal.success=0.1", "--out", tmp_path / "run"]
    code, out, err = tiny.command(capsys, *args)
    assert code == 0 and "1 solved" in err
    assert runfolder.read_config(tmp_path / "run").goal == config.Goal(0.1, 20)
    (line,) = tiny.lines(tmp_path / "run")[0]
    rate = line["test_solved"] / 20
    said = f"solved 10% of 20 episodes after {24 * 0.1 / rate:,.0f} steps, tested every 24"
    assert said in out.splitlines()
    code, out, _ = tiny.command(capsys, "train", "--resume", tmp_path / "run", "--json")
    summary = json.loads(out, parse_constant=pytest.fail)
    steps = round(24 * 0.1 / rate, 1)
    assert code == 0 and summary["goal"] == {
        "success": 0.1, "episodes": 20, "grids": [], "test_every": 24, "solved": 1,
        "median_steps": steps,
        "steps": [steps],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (1, "did not solve 100% of 20 episodes in 96 steps, tested every 24"),
        (2, "0 of 2 runs solved 100% of 20 episodes: median not reached, tested every 24"),
    ],
)
def test_a_goal_that_was_not_met_is_said_too(tmp_path, capsys, runs, said):
    args = ["train", "pathfinding/wmg", *AIM, "--goal.success=1", f"--runs={runs}"]
    code, out, _ = tiny.command(capsys, *args, "--out", tmp_path / "run")
    assert code == 0 and said in out.splitlines()


def test_of_several_runs_the_median_is_said():
    found = {
        "success": 0.99, "episodes": 10_000, "test_every": 25, "solved": 3,
        "median_steps": 1987.4, "steps": [],
    }  # fmt: skip
    assert train.describe_goal(found, config.Config(runs=4)) == (
        "3 of 4 runs solved 99% of 10,000 episodes: median 1,987 steps, tested every 25"
    )


@pytest.mark.parametrize(
    ("preset", "args", "goal"),
    [
        ("babyai/level1/wmg-factored", [], config.Goal()),
        ("babyai/level1/wmg-factored", ["--no-goal"], None),
        ("babyai/level1/wmg-factored", ["--goal.episodes", "50"], config.Goal(0.99, 50)),
        ("pathfinding/wmg", [], None),
        ("pathfinding/wmg", ["--goal"], config.Goal()),
        ("pathfinding/wmg", ["--goal.success=0.9"], config.Goal(0.9)),
    ],
)
def test_a_goal_is_switched_on_and_off(preset, args, goal):
    _, settings = train.read_training(preset, args)
    expected = dataclasses.replace(paper.PRESETS[preset], goal=goal)
    assert settings == expected


def test_a_goal_that_is_none_is_refused(capsys):
    code, _, err = tiny.command(capsys, "train", "pathfinding/wmg", "--goal.success=1.5")
    assert code == 2 and err.count("\n") == 1 and "success must be a number above 0" in err


def test_going_on_without_the_goal_of_a_folder_is_refused(tmp_path, capsys):
    runfolder.create(tmp_path / "run", tiny.settings(goal=config.Goal()), None)
    code, _, err = tiny.command(capsys, "train", "--resume", tmp_path / "run", "--no-goal")
    assert code == 2 and "was made with goal.success = 0.99, not None" in err


def test_a_mirror_is_told_what_is_trained_and_in_which_folder(tmp_path, monkeypatch, capsys):
    opened = []

    def open_mirror(kind, folder, about):
        opened.append((kind, folder, about))
        return mock.Mock()

    monkeypatch.setattr("wmg.runs.mirrors.open_mirror", open_mirror)
    out = tmp_path / "lr1e-3"
    tiny.command(capsys, "train", "pathfinding/wmg", *tiny.FLAGS, "--mirror=wandb", "--out", out)
    ((kind, folder, about),) = opened
    assert (kind, folder) == ("wandb", out)
    assert about == config.to_dict(runfolder.read_config(out))
    assert about["env"]["name"] == "pathfinding" and about["agent"]["name"] == "wmg"


def test_a_mirror_is_closed_when_training_is_interrupted(tmp_path, monkeypatch, capsys):
    mirror = mock.Mock()
    monkeypatch.setattr("wmg.runs.mirrors.open_mirror", lambda *_: mirror)
    monkeypatch.setattr("wmg.runs.train.train", mock.Mock(side_effect=KeyboardInterrupt))
    args = ["--mirror=wandb", "--out", tmp_path / "run"]
    code, _, err = tiny.command(capsys, "train", "pathfinding/wmg", *tiny.FLAGS, *args)
    assert (code, err) == (130, "wmg: interrupted\n")
    mirror.close.assert_called_once_with()


def test_a_ctrl_c_that_arrives_twice_at_once_saves(tmp_path):
    long = ["--steps=90000000", "--report-every=50", "--out", tmp_path / "run"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        process = tiny.start("train", "pathfinding/wmg", *tiny.FLAGS[:-2], *long)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        with tiny.time_limit(120):
            while "steps/s" not in process.stderr.readline():
                assert process.poll() is None
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        said, complaints = process.communicate(timeout=30)
        assert process.returncode == 0 and "stopped and saved" in said, complaints
    finally:
        process.kill()


@pytest.mark.parametrize("times", [1, 2])  # signals that arrive at once count as one
def test_a_second_ctrl_c_does_not_wait_for_what_is_being_computed(tmp_path, monkeypatch, times):
    monkeypatch.setenv("JAX_LOG_COMPILES", "1")
    long = ["--steps=90000000", "--report-every=90000000", "--out", tmp_path / "run"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        process = tiny.start("train", "pathfinding/wmg", *tiny.FLAGS[:-2], *long)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        with tiny.time_limit(120):
            while "Finished XLA compilation of jit(advance)" not in process.stderr.readline():
                assert process.poll() is None
        time.sleep(1)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        with tiny.time_limit(5):
            acknowledged = "wmg: stopping after this report; Ctrl-C again ends at once\n"
            while process.stderr.readline() != acknowledged:
                assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=20)
        assert process.returncode == 130 and complaint.endswith("wmg: interrupted\n")
    finally:
        process.kill()
