"""Logs survive crashes."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from tiny import time_limit

from wmg.runs import runlog
from wmg.tools.errors import BadInput

RECORD = {
    "steps": 10008,
    "episodes": 834,
    "reward": 2530.0,
    "success": 0.01,
    "rate": 3011.0,
}


def test_what_is_written_is_read_back_in_order(tmp_path):
    log = runlog.RunLog(tmp_path / "a.jsonl")
    records = [{"steps": step, "score": step / 3, "diverged": False} for step in range(5)]
    for record in records:
        log.write(record)
    assert runlog.read(tmp_path / "a.jsonl") == records


def test_each_record_is_one_line_of_strict_json(tmp_path):
    log = runlog.RunLog(tmp_path / "a.jsonl")
    log.write({"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}, "e": "x\ny"})
    text = (tmp_path / "a.jsonl").read_text()
    assert text.count("\n") == 1 and text.endswith("\n")

    def refuse(token):
        raise AssertionError(token)

    got = json.loads(text, parse_constant=refuse)
    assert got == {"a": None, "b": [None, 1.0], "c": {"d": None}, "e": "x\ny"}


def test_numpy_values_are_plain_in_the_log():
    record = {"a": np.float32(0.5), "b": np.int32(3), "c": np.bool_(True)}
    record |= {"d": np.float32("nan"), "e": np.float64("inf"), "f": np.arange(2)}
    expected = {"a": 0.5, "b": 3, "c": True, "d": None, "e": None, "f": [0, 1]}
    assert json.loads(runlog.encode(record)) == expected


def test_size_counts_bytes_of_earlier_sessions_too(tmp_path):
    path = tmp_path / "a.jsonl"
    for word in ("eins", "zwölf"):
        log = runlog.RunLog(path)
        log.write({"word": word})
        assert log.size() == os.path.getsize(path)
    assert len(runlog.read(path)) == 2


def test_flush_forces_new_lines_to_disk_once(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log = runlog.RunLog(tmp_path / "a.jsonl")
    log.write(RECORD)
    log.flush()
    log.flush()
    assert len(synced) == 1
    log.write(RECORD)
    log.flush()
    assert len(synced) == 2


def test_an_empty_log_has_no_records(tmp_path):
    runlog.RunLog(tmp_path / "a.jsonl")
    assert runlog.read(tmp_path / "a.jsonl") == []


@pytest.mark.parametrize("torn", [b'{"steps": 2, "sc', b'{"steps": 2, "s": "\xc3', b"\0\0\0\n"])
def test_a_torn_last_line_is_ignored(tmp_path, torn):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"steps": 1}\n' + torn)
    assert runlog.read(path) == [{"steps": 1}]


@pytest.mark.parametrize("torn", [b'{"steps": 2, "sc', b"", b"17"])
def test_a_torn_line_in_the_middle_is_named(tmp_path, torn):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"steps": 1}\n' + torn + b'\n{"steps": 3}\n{"st')
    with pytest.raises(BadInput, match=r"a\.jsonl is damaged at line 2$"):
        runlog.read(path)


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read .*none\.jsonl"):
        runlog.read(tmp_path / "none.jsonl")


def test_truncation_forgets_what_came_after_the_checkpoint(tmp_path):
    path = tmp_path / "0000.jsonl"
    log = runlog.RunLog(path)
    log.write({"steps": 1})
    size = log.size()
    log.write({"steps": 2})
    path.write_bytes(path.read_bytes() + b'{"torn')
    again = runlog.Logs(tmp_path, 1, [size])
    again.write(0, {"steps": 3})
    assert runlog.read(path) == [{"steps": 1}, {"steps": 3}]


@pytest.mark.parametrize("size", [5, 14])
def test_truncation_refuses_a_damaged_log(tmp_path, size):
    path = tmp_path / "0000.jsonl"
    path.write_bytes(b'{"steps": 1}\n')  # 13 bytes
    with pytest.raises(BadInput, match="damaged"):
        runlog.Logs(tmp_path, 1, [size])
    assert path.stat().st_size == 13


def test_a_missing_log_is_damaged_unless_it_was_empty(tmp_path):
    runlog.Logs(tmp_path / "empty", 1, [0])
    with pytest.raises(BadInput, match="has 0 bytes but its checkpoint recorded 13"):
        runlog.Logs(tmp_path / "recorded", 1, [13])


def test_logs_resume_where_the_checkpoint_was(tmp_path):
    logs = runlog.Logs(tmp_path / "logs", 3, [0] * 3)
    for index in range(3):
        logs.write(index, {"steps": 10 + index})
    logs.flush()
    sizes = logs.sizes()
    logs.write(1, {"steps": 99})

    logs = runlog.Logs(tmp_path / "logs", 3, sizes)
    assert logs.sizes() == sizes
    logs.write(1, {"steps": 21})
    names = sorted(os.listdir(tmp_path / "logs"))
    assert names == ["0000.jsonl", "0001.jsonl", "0002.jsonl"]
    assert runlog.read(tmp_path / "logs" / "0001.jsonl") == [{"steps": 11}, {"steps": 21}]
    assert runlog.read(tmp_path / "logs" / "0002.jsonl") == [{"steps": 12}]


def test_no_log_is_cut_if_any_is_damaged(tmp_path):
    logs = runlog.Logs(tmp_path, 2, [0, 0])
    logs.write(0, {"steps": 1})
    (size, _) = logs.sizes()
    logs.write(0, {"steps": 2})
    with pytest.raises(BadInput, match=r"0001\.jsonl is damaged"):
        runlog.Logs(tmp_path, 2, [size, size])
    assert len(runlog.read(tmp_path / "0000.jsonl")) == 2
    with pytest.raises(BadInput, match="2 logs but there are 3 runs"):
        runlog.Logs(tmp_path, 3, [0, 0])


def test_more_runs_than_a_process_may_open_files(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    logs = runlog.Logs(tmp_path, 300, [0] * 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(128, limits[0]), limits[1]))
    try:
        for index in range(300):
            logs.write(index, RECORD)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(set(logs.sizes())) == 1 and logs.sizes()[0] > 0


def test_logs_need_no_package_at_all():
    code = (
        "import sys; import wmg.runs.runlog; "
        "sys.exit(bool({'jax', 'numpy', 'tensorboardX', 'wandb'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_a_pipe_is_not_a_log(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    with time_limit(5), pytest.raises(BadInput, match="is not a regular file"):
        runlog.read(tmp_path / "pipe.jsonl")
