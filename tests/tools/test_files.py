import os
import pathlib

import pytest
from tiny import time_limit

from wmg.tools import files


def test_a_file_is_read_whole_if_it_is_small_enough(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read_bounded(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="file is too large: it has more than 4 bytes"):
        files.read_bounded(tmp_path / "file", 4)


def test_a_file_with_holes_is_not_read_whole(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    with time_limit(5), pytest.raises(ValueError, match="more than 100 bytes"):
        files.read_bounded(tmp_path / "sparse", 100)


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", pathlib.Path("/dev/zero"), tmp_path):
        with time_limit(5), pytest.raises(ValueError, match="is not a regular file"):
            files.read_bounded(path, 100)


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.read_bounded(tmp_path / "nothing", 100)


def test_whole_numbers_of_64_bits_are_read_and_longer_ones_refused():
    assert files.parse_json(f"[{2**63 - 1}, {-(2**63)}]") == [2**63 - 1, -(2**63)]
    for number in (10**19, -(10**19), 10**400):
        with pytest.raises(ValueError, match="more than 19 digits"):
            files.parse_json(f'{{"steps": {number}}}')


def test_a_pipe_is_not_read_as_json(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with time_limit(5), pytest.raises(ValueError, match="is not a regular file"):
        files.read_json(tmp_path / "pipe.json")


def test_the_cache_is_the_users_choice_or_the_usual_one(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert files.cache_folder() == pathlib.Path("/somewhere/wmg")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert files.cache_folder() == pathlib.Path.home() / ".cache" / "wmg"
