"""Workers of a search that are killed at random moments while others go on: no run is lost.

A case is one kill. Workers write down each score before they deliver it. When a search has ended,
its finished runs are compared with what the workers wrote.
"""

import collections
import contextlib
import datetime
import pathlib
import random
import signal
import subprocess
import sys
import time

import postgres
from optuna.trial import TrialState

from campaigns.tally import Tally
from wmg.tuner import study, worker
from wmg.tuner.study import Plan

WORKERS = 3
BEAT = 1
RUNS = 40
"""Runs of one search."""
SECONDS = 300.0
SCRIPT = """
import os, pathlib, sys, time
from wmg.tuner import worker

storage, name, folder = sys.argv[1:]

def make_objective(task):
    def run(values, seed):
        time.sleep(0.1 + seed % 5 / 10)
        with open(pathlib.Path(folder, f"{os.getpid()}.log"), "a") as log:
            log.write(f"{seed}\\n")
        return [float(seed)]
    return run

worker.work(storage, name, make_objective)
"""


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Kill seven workers of ten on SQLite and the others on PostgreSQL, where it is installed."""
    draw, tallies = random.Random(seed), {}
    with contextlib.ExitStack() as stack:
        places = {"SQLite": str(folder / "tune.db")}
        if postgres.programs() is not None:
            places["PostgreSQL"] = stack.enter_context(postgres.running()).url()
        on_postgres = round(0.3 * cases) if "PostgreSQL" in places else 0
        shares = {"SQLite": cases - on_postgres, "PostgreSQL": on_postgres}
        for kind, storage in places.items():
            tallies[kind] = tally = Tally()
            while left := shares[kind] - tally.tried:
                search(storage, f"s{tally.tried}", left, draw, folder / kind, tally)
    return tallies


def search(
    storage: str, name: str, most: int, draw: random.Random, folder: pathlib.Path, tally: Tally
) -> None:
    """One search, with a limit to the workers that are killed."""
    folder = folder / name
    folder.mkdir(parents=True)
    plan = Plan({}, runs=RUNS, until_settled=False, beat=BEAT, seed=0)
    study.create(storage, name, plan, {"x": [1, 2, 3, 4, 5], "y": [1, 2, 3]}, True)
    command = [sys.executable, "-c", SCRIPT, storage, name, str(folder)]
    workers = [subprocess.Popen(command) for _ in range(WORKERS)]
    kills, ends = 0, time.monotonic() + SECONDS
    while kills < most and any(process.poll() is None for process in workers):
        time.sleep(draw.uniform(0.0, 3.0))
        place = draw.randrange(WORKERS)
        if workers[place].poll() is None:
            workers[place].kill()
            kills += workers[place].wait() == -signal.SIGKILL
            workers[place] = subprocess.Popen(command)
    for process in workers:
        try:
            process.wait(max(1.0, ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            tally.add("hung", fault=f"{name}: a worker does not end")
    fault = what_is_wrong(storage, name, folder)
    for _ in range(kills):
        tally.add("wrong" if fault else "accepted", fault=f"{name}: {fault}" if fault else "")


def what_is_wrong(storage: str, name: str, folder: pathlib.Path) -> str | None:
    """How the finished search differs from what its workers wrote, if it does."""
    with study.opened(storage, name) as shared:
        trials = shared.study.get_trials(deepcopy=False)
    finished = collections.Counter(t.value for t in trials if t.state == TrialState.COMPLETE)
    written = [path.read_text().split() for path in folder.glob("*.log")]
    computed = {float(seed) for lines in written for seed in lines}
    delivered = {float(seed) for lines in written for seed in lines[:-1]}
    if not RUNS <= finished.total() < RUNS + WORKERS:
        return f"{finished.total()} runs have finished"
    if max(finished.values()) > 1:
        return "a run counts twice"
    if not delivered <= set(finished) <= computed:  # a kill may hit between writing and delivery
        return "a finished run is lost"
    # A run that is still RUNNING is one too many: two workers began the last run at the same
    # moment, one of them was killed, and nobody waits for it once enough runs have finished.
    retries = collections.Counter(t.user_attrs.get(worker.RETRY_OF) for t in trials)
    lost = [t for t in trials if t.state == TrialState.FAIL and t.params]
    # A run that was freed, by a worker that was killed then, is queued by one that lives for a few
    # beats. Kills go on to the end, so at the end there may be none.
    end = max(t.datetime_complete for t in trials if t.state == TrialState.COMPLETE)
    late = end - datetime.timedelta(seconds=10 * worker.MISSED_BEATS * BEAT)
    for trial in lost:
        few, times = int(trial.datetime_complete < late), retries[trial.number]
        if not few <= times <= 1:
            ago = (end - trial.datetime_complete).total_seconds()
            return f"a run lost {ago:.0f} s before the end was queued {times} times"
    return None
