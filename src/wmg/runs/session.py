"""The session loop: compiled chunks of training, and the work of Python between them.

Between two chunks Python writes logs, tests what has a goal, shows progress, saves and stops. One
loop drives every task, whatever its learning rule and wherever its environment runs.
"""

import time
from collections.abc import Callable

import jax
import numpy as np

from wmg.config import Config
from wmg.learn.optimizer import learning_rate
from wmg.play import goal_test
from wmg.play.goal_test import GoalTest
from wmg.runs import hardware, runfolder
from wmg.runs.active_runs import ActiveRuns
from wmg.runs.goals import Goals
from wmg.runs.hardware import Advance
from wmg.runs.result import Progress, Result, record
from wmg.runs.runfolder import NoFolder, Store
from wmg.runs.task import Task, stack_hypers
from wmg.types import Run

SAVE_SHARE = 20
"""Saving takes at most 1/SAVE_SHARE of the time."""
WORTH_COMPILING = 10_000
"""After this many updates, a smaller batch has saved about the time of its compilation."""


class Session:
    """One process's share of training a batch: the loop between compiled chunks."""

    def __init__(self, settings: Config, task: Task, runs: Run, store: Store | None = None):
        self.settings, self.task = settings, task
        self.store = store or NoFolder(settings.runs)
        self.batch = ActiveRuns(task.begin(runs), stack_hypers(settings))
        self.reports, self.earlier, self.began = 0, 0.0, time.monotonic()
        self.testing = 0.0
        self.diverged, self.taken = np.array(runs.diverged), np.array(runs.steps)
        self.starts = (store and runfolder.parent_steps(store.path)) or [0] * settings.runs
        self.goals: Goals | None = None
        if (tester := task.tester()) is not None:
            self.goals = Goals(settings, tester, self.store.read_logs())

    @property
    def seconds(self) -> float:
        """Time spent on training so far, over all sessions."""
        return self.earlier + time.monotonic() - self.began

    def run(self, show: Callable, mirrors: tuple, save_seconds: float, stop: list) -> Result:
        """Train to the end, or to the end of the chunk in which `stop` is no longer empty."""
        advance = self.task.advance()
        due = time.monotonic() + save_seconds
        while not self.finished() and not stop:
            self.shrink()
            show(self.report(advance, mirrors))
            if time.monotonic() >= due and not self.finished():
                due = self.save(save_seconds)
        self.save(save_seconds)
        return self.result(stopped=bool(stop))

    def ended(self) -> np.ndarray:
        """Whether each run has met its goal or diverged."""
        return self.diverged if self.goals is None else self.diverged | self.goals.met()

    def finished(self) -> bool:
        """Whether every run has taken all its steps, met its goal or diverged."""
        done = self.reports * self.settings.report_every >= self.settings.steps
        return done or bool(self.ended().all())

    def shrink(self) -> None:
        """Drop finished runs from a batch that is one program, once few others are left.

        Compiling for the smaller batch size takes as long as many updates. So runs are dropped
        after that many updates with few active runs.
        """
        if self.task.one_program and self.goals is not None:
            now = self.reports * self.settings.report_every
            long_ago = now - WORTH_COMPILING * self.settings.t_max
            self.batch.shrink(self.ended(), self.taken, long_ago)

    def report(self, advance: Advance, mirrors: tuple) -> Progress:
        """Train one chunk, test what has a goal, and write what came of it."""
        began, active, batch = time.monotonic(), ~self.ended()[self.batch.names], self.batch
        self.reports += 1
        until = min(self.reports * self.settings.report_every, self.settings.steps)
        batch.runs, totals = advance(batch.hyper, batch.runs, np.where(active, until, 0))
        rates = jax.vmap(learning_rate)(batch.hyper, batch.runs.steps)
        totals, steps, diverged, rates = jax.device_get(
            (totals, batch.runs.steps, batch.runs.diverged, rates)
        )
        rate = float(totals.steps.sum()) / (time.monotonic() - began)
        self.diverged[batch.names], self.taken[batch.names] = diverged, steps
        tests = self.test(active & ~diverged)
        scores = [float("nan")] * self.settings.runs
        for row in map(int, np.flatnonzero(active)):
            name = int(batch.names[row])
            here = int(steps[row]), float(rates[row]), bool(diverged[row])
            one = record(self.task.spec, hardware.take(totals, row), *here)
            if self.goals is not None:
                one |= goal_test.log_entry(tests.get(name))
            scores[name] = one["score"]
            timed = {**one, "seconds": self.seconds, "rate": rate / active.sum()}
            for place in (self.store, *mirrors):
                place.write(name, timed)
        return self.progress(until, rate, scores)

    def test(self, active: np.ndarray) -> dict[int, GoalTest]:
        """The tests of the active rows that are due now, by run."""
        if self.goals is None:
            return {}
        began = time.monotonic()
        tests = self.goals.test(self.batch, active, self.reports)
        self.testing += time.monotonic() - began
        return tests

    def progress(self, until: int, rate: float, scores: list[float]) -> Progress:
        """What to show. A run that has met its goal keeps its last score."""
        solved = None
        if self.goals is not None:
            scores, solved = self.goals.scores(), int(self.goals.met().sum())
        known = np.isfinite(scores) & ~self.diverged
        return Progress(
            steps=until,
            total=self.settings.steps,
            rate=rate,
            scores=np.array(scores)[known].tolist(),
            solved=solved,
            diverged=int(self.diverged.sum()),
            seconds=self.seconds,
            finished=self.finished(),
            engine=self.task.engine,
            metric=self.task.spec.metric,
        )

    def save(self, save_seconds: float) -> float:
        """Write a checkpoint and say when the next is due."""
        began = time.monotonic()
        self.store.save(self.batch.all(), self.reports, self.seconds, self.testing)
        return time.monotonic() + max(save_seconds, SAVE_SHARE * (time.monotonic() - began))

    def result(self, stopped: bool) -> Result:
        """The result so far. Steps and scores are read back from the logs."""
        steps, scores = runfolder.tabulate(self.store.read_logs(), self.store.path)
        if self.goals is not None:
            self.goals.keep_last(scores)
        result = Result(
            config=self.settings,
            spec=self.task.spec,
            runs=self.batch.all(),
            steps=steps,
            scores=scores,
            seconds=self.seconds,
            finished=self.finished(),
            folder=self.store.path,
            tests=self.goals.tests if self.goals else [],
            testing=self.testing,
            stopped=stopped,
            starts=self.starts,
            engine=self.task.engine,
            env=self.task.own_env,
        )
        if result.finished:
            self.store.save_best(result)
        return result
