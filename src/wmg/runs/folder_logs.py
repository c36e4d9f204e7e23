"""What the logs of a run folder say: scores, the best run, and episodes played."""

import pathlib
from collections.abc import Sequence

import numpy as np

from wmg.runs import runlog
from wmg.runs.result import best_run
from wmg.runs.runfolder import LOGS, tabulate


def read_logs(path: pathlib.Path, runs: int) -> list[list[runlog.Record]]:
    """The records of each run."""
    return [runlog.read(runlog.path_of(path / LOGS, run)) for run in range(runs)]


def read_scores(path: pathlib.Path, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and scores, as `tabulate` returns them."""
    return tabulate(read_logs(path, runs), path)


def best_so_far(path: pathlib.Path, runs: int) -> int:
    """The run with the highest final score, of a folder in which training has not ended."""
    if runs == 1:
        return 0
    logs = read_logs(path, runs)
    diverged = np.array([bool(log and log[-1].get("diverged")) for log in logs])
    return best_run(tabulate(logs, path)[1], diverged)


def read_metric(path: pathlib.Path) -> str:
    """What a score of the folder is: "return", or "reward" for any score in percent."""
    for log in sorted((path / LOGS).glob("*.jsonl"))[:1]:
        for line in runlog.read(log)[:1]:
            return "return" if line.get("metric") == "return" else "reward"
    return "reward"


def episodes_until(path: pathlib.Path, steps: Sequence[float | None]) -> list[float | None]:
    """How many training episodes each run had ended after these steps, interpolated between two
    reports."""
    counts: list[float | None] = []
    for log, taken in zip(read_logs(path, len(steps)), steps, strict=True):
        reports = [0.0, *(line["steps"] for line in log)]
        ended = np.cumsum([0.0, *(line["episodes"] for line in log)])
        counts.append(None if taken is None else float(np.interp(taken, reports, ended)))
    return counts
