"""The folder of a batch of runs.

config.json          what was asked for, and with which versions and hardware
logs/0000.jsonl      one line per report, one file per run
state.safetensors    everything needed to go on, exactly
best.safetensors     the best run in release form, when training ends
curve.png            the learning curve, when training ends
"""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import platform
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from wmg import __version__, checkpoint, config, runlog
from wmg.a3c import Run
from wmg.config import BadInput, Config

CONFIG, STATE, BEST, LOGS = "config.json", "state.safetensors", "best.safetensors", "logs"


def hardware() -> dict[str, Any]:
    """What a measured figure must be read with: device, versions, date."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else _cpu_name(),
        "devices": jax.device_count() if device.platform != "cpu" else None,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "wmg": __version__,
        "date": datetime.date.today().isoformat(),
    }


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def create(path: pathlib.Path, settings: Config, parent: dict[str, Any] | None) -> None:
    """Make a new run folder. One that exists is never touched."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise BadInput(
            f"{path} already exists; choose another folder or --resume it"
        ) from None
    about = {"config": config.to_dict(settings), "parent": parent, "made_with": hardware()}
    text = json.dumps(about, indent=2) + "\n"
    checkpoint.write_atomically(path / CONFIG, text.encode())


def read_config(path: pathlib.Path) -> Config:
    """The config of a run folder."""
    file = path / CONFIG
    if not file.is_file():
        raise BadInput(f"{path} is not a run folder: it has no {CONFIG}")
    try:
        data = json.loads(file.read_text())["config"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise BadInput(f"{file} is damaged: it does not hold a config") from None
    return config.from_dict(Config, data, str(file))


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Hold a run folder for one process."""
    with open(path / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{path} is in use by another process") from None
        yield


def save_state(
    path: pathlib.Path, runs: Run, reports: int, seconds: float, logs: runlog.Logs
):
    """Write the resume file, after the logs it refers to."""
    logs.flush()
    about = {"reports": reports, "seconds": seconds, "logs": logs.sizes()}
    checkpoint.save(path / STATE, runs, "resume", about)


def load_state(path: pathlib.Path, like: Run) -> tuple[Run, dict[str, Any]] | None:
    """The saved runs and their header, or None if nothing was saved yet."""
    if not (path / STATE).exists():
        return None
    runs, header = checkpoint.load(path / STATE, like, "resume")
    for name, kind in (("reports", int), ("seconds", float), ("logs", list)):
        if not isinstance(header.get(name), kind):
            raise BadInput(f"{path / STATE} is damaged: its header has no {name}")
    return runs, header


def read_scores(path: pathlib.Path, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps (mean over runs) and scores (run by report) from the logs; NaN where none."""
    logs = [runlog.read(path / LOGS / f"{index:04d}.jsonl") for index in range(runs)]
    length = max((len(log) for log in logs), default=0)
    steps, scores = (np.full((runs, length), np.nan) for _ in range(2))
    for row, log in enumerate(logs):
        for column, line in enumerate(log):
            steps[row, column] = line["steps"]
            scores[row, column] = np.nan if line["score"] is None else line["score"]
    return (np.nanmean(steps, axis=0) if length else np.zeros(0)), scores
