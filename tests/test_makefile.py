"""`make` on machines that lack something: one sentence, before anything is made."""

import pathlib
import shutil
import subprocess
import sys

import pytest

MAKEFILE = pathlib.Path(__file__).parents[1] / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make_demo(tmp_path, lacking):
    """`make demo` with a Python whose `-c` fails for code that mentions `lacking`."""
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *{lacking}*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    shutil.copy(MAKEFILE, tmp_path / "Makefile")
    (tmp_path / "pyproject.toml").write_text("")
    return subprocess.run(
        ["make", "-s", "demo", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("lacking", "advice"),
    [("ensurepip", "install python3-venv"), ("version_info", "3.11 or newer")],
)
def test_what_is_missing_is_said_in_one_sentence(tmp_path, lacking, advice):
    done = make_demo(tmp_path, lacking)
    assert done.returncode != 0 and advice in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()
