"""A queue of commands with a deadline: what ended is not run again, what did not goes on."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "job_queue.py"


@pytest.fixture
def job_queue():
    spec = importlib.util.spec_from_file_location("job_queue", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(monkeypatch, job_queue, code):
    """Let every job be a little Python program, that is given the job's words."""
    started, real = [], subprocess.Popen

    def popen(command, **options):
        started.append(command[3:])
        return real([sys.executable, "-c", code, *command[3:]], **options)

    monkeypatch.setattr(job_queue.subprocess, "Popen", popen)
    return started


def test_every_line_is_run_once_and_only_what_failed_again(
    monkeypatch, tmp_path, job_queue, capsys
):
    started = commands(monkeypatch, job_queue, "import sys; sys.exit(sys.argv[1] == 'bad')")
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("good one\n# a remark\n\nbad\ngood 'two words'\n")
    job_queue.main([str(jobs), "--minutes", "1", "--at-once", "2"])
    assert started == [["good", "one"], ["bad"], ["good", "two words"]]
    job_queue.main([str(jobs), "--minutes", "1"])
    assert started[3:] == [["bad"]]
    assert "003 ended with 1" in capsys.readouterr().out


def test_at_the_deadline_commands_are_asked_to_stop(monkeypatch, tmp_path, job_queue):
    code = (
        "import pathlib, signal, sys, time\n"
        "def stop(*_): pathlib.Path(sys.argv[1]).write_text('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop); print('ready', flush=True); time.sleep(60)\n"
    )
    commands(monkeypatch, job_queue, code)
    jobs, saved = tmp_path / "jobs.txt", tmp_path / "saved"
    jobs.write_text(f"{saved}\nsecond\n")
    assert job_queue.main([str(jobs), "--minutes", "0.05", "--at-once", "1"]) == 2
    assert saved.read_text() == "saved"
    assert not list((tmp_path / "jobs.txt.logs").glob("*.done"))
