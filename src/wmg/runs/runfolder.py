"""The folder of a batch of runs.

config.json          what was asked for, and with which versions and hardware
logs/0000.jsonl      one line per report, one file per run
state.safetensors    everything needed to go on, exactly
best.safetensors     the best run in release form, when training ends; if training then goes on for
                     more steps, the file stays until the next end replaces it
curve.png            the learning curve, when training ends
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from wmg import config
from wmg.config import Config
from wmg.runs import checkpoint, runlog
from wmg.runs.result import Result
from wmg.tools import files, machine
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON
from wmg.types import Run

CONFIG, STATE, BEST, LOGS = "config.json", "state.safetensors", "best.safetensors", "logs"


def create(path: pathlib.Path, settings: Config, parent: dict[str, Any] | None) -> None:
    """Make a new run folder, whole or not at all. One that exists is never touched."""
    taken = BadInput(f"{path} already exists; choose another folder or --resume it")
    if os.path.lexists(path):
        raise taken
    about = {"config": config.to_dict(settings), "parent": parent}
    about |= {"made_with": machine.describe(), "started": machine.now()}
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    new.mkdir()
    try:
        _write_about(new, about)
        new.rename(path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise taken from None
        raise


def _write_about(path: pathlib.Path, about: dict[str, Any]) -> None:
    text = json.dumps(about, indent=2) + "\n"
    files.write_atomically(path / CONFIG, text.encode())


def update_config(path: pathlib.Path, settings: Config) -> None:
    """Record that a folder goes on for more steps than it was made for."""
    about = _read_about(path)
    if about["config"]["steps"] != settings.steps:
        about["config"]["steps"] = settings.steps
        _write_about(path, about)


def final_model(path: pathlib.Path) -> pathlib.Path | None:
    """The file of the best run; None if training has not ended, or went on after an earlier end."""
    file = path / BEST
    if not file.exists():
        return None
    trained = checkpoint.read_header(file, "release").get("config")
    earlier = isinstance(trained, dict) and trained.get("steps") != read_config(path).steps
    return None if earlier else file


def parent_steps(path: pathlib.Path) -> list[int] | None:
    """The steps that each run of a branch had taken in its parent; None if it is no branch."""
    about = _read_about(path)
    if (parent := about.get("parent")) is None:
        return None
    steps = parent.get("steps") if isinstance(parent, dict) else None
    runs = config.from_dict(Config, about["config"], str(path / CONFIG)).runs
    if not isinstance(steps, list) or [type(each) for each in steps] != [int] * runs:
        raise BadInput(f"{path / CONFIG} is damaged: it does not say where a parent was left")
    return steps


def started(path: pathlib.Path) -> str | None:
    """When a run folder was made, if it says so."""
    return _read_about(path).get("started")


def read_config(path: pathlib.Path) -> Config:
    """The config of a run folder."""
    data = _read_about(path)["config"]
    settings = config.from_dict(Config, data, str(path / CONFIG))
    if "steps" not in data:  # every version has written them
        raise BadInput(f"{path / CONFIG} is damaged: its config has no steps")
    return settings


def _read_about(path: pathlib.Path) -> dict[str, Any]:
    file = path / CONFIG
    if not file.is_file():
        raise BadInput(f"{path} is not a run folder: it has no {CONFIG}")
    try:
        about = files.read_json(file)
    except NOT_JSON:
        about = None
    if not isinstance(about, dict) or "config" not in about:
        raise BadInput(f"{file} is damaged: it does not hold a config")
    return about


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Lock a run folder for one process, and remove unfinished files of killed processes."""
    if path.is_dir() and not os.access(path, os.W_OK):
        raise BadInput(f"{path} is read-only: training could not save anything there")
    with open(path / ".lock", "w", opener=_open_at_once) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{path} is in use by another process") from None
        for name in (CONFIG, STATE, BEST):
            files.remove_unfinished(path / name)
        yield


def _open_at_once(path: str, flags: int) -> int:
    """Opens a file, or fails, even if it is a pipe that nobody reads."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


@dataclasses.dataclass(frozen=True)
class Store:
    """A run folder that is being written to."""

    path: pathlib.Path
    logs: runlog.Logs

    def write(self, run: int, record: runlog.Record) -> None:
        """Append a record to the log of a run."""
        self.logs.write(run, record)

    def read_logs(self) -> list[list[runlog.Record]]:
        """The records of each run."""
        return self.logs.read()

    def save(self, runs: Run, reports: int, seconds: float, testing: float) -> None:
        """Write the resume file, after the logs it refers to."""
        self.logs.flush()
        times = {"seconds": seconds, "testing": testing}
        about = {"reports": reports, **times, "logs": self.logs.sizes()}
        checkpoint.save(self.path / STATE, runs, "resume", about)

    def save_best(self, result: Result) -> None:
        """Write the agent of the best run in release form."""
        best = result.best
        about = {"run": best, "steps": int(result.runs.steps[best])}
        checkpoint.save_model(self.path / BEST, result.agent, result.config, result.spec, **about)


class NoFolder:
    """Stands in for a run folder: it keeps steps and scores in memory, and saves nothing."""

    path = None

    def __init__(self, runs: int):
        self.logs: list[list[runlog.Record]] = [[] for _ in range(runs)]

    def write(self, run: int, record: runlog.Record) -> None:
        self.logs[run].append({name: record[name] for name in ("steps", "score")})

    def read_logs(self) -> list[list[runlog.Record]]:
        return self.logs

    def save(self, *state: Any) -> None:
        pass

    def save_best(self, result: Result) -> None:
        pass


def load_state(path: pathlib.Path, like: Run) -> tuple[Run, dict[str, Any]] | None:
    """The saved runs and their header, or None if training has not begun.

    Training writes its state before its first report. A folder with results and without a state
    has lost it, and starting again would overwrite the results.
    """
    if not (path / STATE).exists():
        if os.path.lexists(path / STATE) or _has_results(path):
            raise BadInput(
                f"{path} has been trained, but its {STATE} is missing: put that file back, or "
                "train in a new folder"
            )
        return None
    runs, header = checkpoint.load(path / STATE, like, "resume")
    for name, kind in (("reports", int), ("seconds", float), ("testing", float), ("logs", list)):
        if not isinstance(header.get(name), kind):
            raise BadInput(f"{path / STATE} is damaged: its header has no {name}")
    return runs, header


def _has_results(path: pathlib.Path) -> bool:
    logs = (path / LOGS).glob("*.jsonl")
    return os.path.lexists(path / BEST) or any(log.stat().st_size for log in logs)


def tabulate(
    logs: list[list[runlog.Record]], path: pathlib.Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (mean over runs) and scores (run by report) from the logs; NaN where none."""
    length = max((len(log) for log in logs), default=0)
    steps, scores = (np.full((len(logs), length), np.nan) for _ in range(2))
    for row, log in enumerate(logs):
        for column, line in enumerate(log):
            taken, score = line.get("steps"), line.get("score", "missing")
            if not isinstance(taken, int | float) or not isinstance(score, int | float | None):
                raise BadInput(f"{path}/{LOGS} is damaged: run {row}, line {column + 1}")
            steps[row, column] = taken
            scores[row, column] = np.nan if score is None else score
    return (np.nanmean(steps, axis=0) if length else np.zeros(0)), scores
