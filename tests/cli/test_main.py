"""The table of commands, and that nothing is imported before it is needed."""

import os
import signal
import subprocess
import sys
import time

import pytest
import tiny

from wmg import __version__
from wmg.cli import main as cli
from wmg.tools import signals


def run_python(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["frob"], ["train", "nothing"]])
def test_what_needs_no_jax_does_not_import_it(args):
    script = (
        f"import sys; from wmg.cli import main; main.main({args!r}); "
        "print(sorted({'jax', 'equinox', 'optax', 'matplotlib'} & sys.modules.keys()))"
    )
    assert run_python(script).stdout.splitlines()[-1] == "[]"


def test_help_is_instant():
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "wmg", "--help"], capture_output=True)
        times.append(time.perf_counter() - began)
        assert done.returncode == 0
    assert min(times) < 0.5


def test_the_summary_names_every_command(capsys):
    code, out, _ = tiny.command(capsys)
    assert code == 0 and out == tiny.command(capsys, "--help")[1]
    for name in cli.COMMANDS:
        assert f"\n  {name} " in out


def test_an_interruption_is_one_line(capsys, monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("wmg.cli.list.run", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "wmg: interrupted\n"


def test_a_second_interruption_ends_a_busy_process_without_stderr():
    script = """
import signal, sys, time
from wmg.cli import main
main.watch_interrupts("stopping")
signal.signal(signal.SIGINT, lambda *_: None)  # as if the main thread did not get to it
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        process.stderr.close()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(2 * signals.ONE_SIGNAL)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.stdout.close()


def test_there_is_a_version(capsys):
    assert tiny.command(capsys, "--version") == (0, f"wmg {__version__}\n", "")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_defaults(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    out = capsys.readouterr().out
    assert not end.value.code and f"wmg {command}" in out and "default" in out


def test_what_a_terminal_cannot_show_is_shown_in_another_way(tmp_path):
    (tmp_path / "é.txt").write_text("#####\n#@$.#\n#####\n")
    args = ["eval", "random", "--levels", str(tmp_path / "é.txt"), "--env.bound=5"]
    done = subprocess.run(
        [sys.executable, "-m", "wmg", *args], capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0 and rb"\xe9.txt@" in done.stdout, done.stderr
