import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import pytest
import tiny
from small_boxoban import files, small_boxoban, zipped  # noqa: F401

from wmg.envs.sokoban import boxoban

ARCHIVE = pathlib.Path(__file__).resolve().parents[3] / "shared/data/boxoban-levels-master.zip"


def test_importing_prints_the_splits_and_listing_shows_them(capsys, tmp_path, small_boxoban):  # noqa: F811
    path = tmp_path / "boxoban.zip"
    path.write_bytes(zipped(files()))
    code, out, err = tiny.command(capsys, "data", "boxoban", "--from", path)
    assert code == 0 and out.splitlines()[0].split() == ["unfiltered-train", "4", "levels"]
    assert "hard: 3 of 3" in err.splitlines()
    code, out, err = tiny.command(capsys, "data", "list")
    assert code == 0 and f"{small_boxoban}/boxoban/hard.npy" in out and err == ""
    assert out.splitlines()[-1].startswith("as levels, train is unfiltered-train, ")
    code, out, err = tiny.command(capsys, "data", "list", "--json")
    assert json.loads(out) == boxoban.banks()


def test_listing_names_a_damaged_bank_and_its_repair(capsys, tmp_path, small_boxoban):  # noqa: F811
    path = tmp_path / "boxoban.zip"
    path.write_bytes(zipped(files()))
    tiny.command(capsys, "data", "boxoban", "--from", path)
    (small_boxoban / "boxoban" / "hard.npy").write_bytes(b"PK\x03\x04 and no more")
    code, out, err = tiny.command(capsys, "data", "list")
    assert code == 0 and f"{small_boxoban}/boxoban/unfiltered-test.npy" in out
    assert err == "damaged banks: hard; `wmg data boxoban` repairs them\n"
    assert tiny.command(capsys, "data", "boxoban", "--from", path)[0] == 0
    code, out, err = tiny.command(capsys, "data", "list")
    assert code == 0 and f"{small_boxoban}/boxoban/hard.npy" in out and err == ""


def test_a_bad_source_is_one_sentence_and_exit_code_2(capsys, small_boxoban):  # noqa: F811
    for args, complaint in {
        ("data", "boxoban", "--from", "nowhere.zip"): "there is no nowhere.zip",
        ("data", "boxoban", "--from", "http://[bad/x.zip"): "cannot download http://[bad/x.zip: ",
        ("data", "frob"): "wmg data has boxoban and list, got 'frob'",
        ("data",): "wmg data has boxoban and list, got None",
        ("data", "list", "--frob"): "there is no option --frob",
    }.items():
        code, out, err = tiny.command(capsys, *args)
        assert (code, out, err.count("\n")) == (2, "", 1) and complaint in err
    assert not small_boxoban.exists()


def test_an_interruption_says_that_it_can_go_on(capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(boxoban, "import_boxoban", interrupt)
    code, _, err = tiny.command(capsys, "data", "boxoban")
    assert (code, err) == (1, "stopped; the same command goes on from here\n")


@pytest.mark.slow
def test_all_of_boxoban_is_imported_quickly_and_small(tmp_path):
    if not ARCHIVE.exists():
        pytest.skip("no shared folder beside the repository")
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wmg", "data", "boxoban", "--from", str(ARCHIVE), "--json"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
    )
    assert time.perf_counter() - began < 180
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2_000_000
    assert list(json.loads(done.stdout).values()) == [900_000, 100_000, 1000, 450_000, 50_000, 3332]
    assert (tmp_path / "wmg" / "boxoban" / "unfiltered-train.npy").stat().st_size < 14_000_000
