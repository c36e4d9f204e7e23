"""The session loop: compiled chunks of training, and between them what Python does.

Between two chunks Python writes logs, tests what has a goal, shows progress, saves and stops. One
loop drives every task, whatever its learning rule and wherever its environment runs.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from wmg.config import Config
from wmg.learn.optimizer import learning_rate
from wmg.learn.rule import Run
from wmg.play import goal_test
from wmg.play.goal_test import GoalTest, GoalTester
from wmg.play.streams import goal_keys
from wmg.runs import checkpoint, hardware, runfolder
from wmg.runs.active_runs import ActiveRuns
from wmg.runs.hardware import Advance
from wmg.runs.result import Progress, Result, record
from wmg.runs.task import Task, stack_hypers

SAVE_SECONDS = 60.0
"""Least time between two checkpoints of a running batch."""
SAVE_SHARE = 20
"""Saving takes at most 1/SAVE_SHARE of the time."""
WORTH_COMPILING = 10_000
"""Updates with fewer runs that save about as much time as compiling for them takes."""


class Session:
    """One process's share of training a batch: the loop between compiled chunks."""

    def __init__(
        self,
        settings: Config,
        task: Task,
        runs: Run,
        store: runfolder.Store | None = None,
    ):
        self.settings, self.task, self.store = settings, task, store
        self.batch = ActiveRuns(task.begin(runs), stack_hypers(settings))
        self.reports, self.earlier, self.began = 0, 0.0, time.monotonic()
        self.testing = 0.0
        self.steps: list[float] = []
        self.scores: list[list[float]] = []
        self.diverged, self.taken = np.array(runs.diverged), np.array(runs.steps)
        self.tests: list[list[GoalTest]] = []
        self.unmet: list[set[int]] = []
        self.starts = (store and runfolder.parent_steps(store.path)) or [0] * settings.runs
        if settings.goal is not None:
            logs = [[]] * settings.runs
            if store is not None:
                logs = runfolder.read_logs(store.path, settings.runs)
            self.recall([goal_test.read_tests(log) for log in logs])

    def recall(self, tests: list[list[GoalTest]]) -> None:
        """Go on from these tests of each run."""
        goal, every = self.settings.goal, self.settings.report_every
        assert goal is not None
        self.tests = tests
        self.unmet = [goal_test.unmet(each, goal, every) for each in tests]

    @property
    def seconds(self) -> float:
        """Time spent on training so far, over all sessions."""
        return self.earlier + time.monotonic() - self.began

    def run(self, show: Callable, mirrors: tuple, save_seconds: float) -> Result:
        """Train to the end, or until a signal asks to stop after the current chunk."""
        advance, tester = self.task.advance(), self.task.tester()
        due = time.monotonic() + save_seconds
        with stop_on_signals() as stop:
            while not self.finished() and not stop:
                self.shrink()
                show(self.report(advance, tester, mirrors))
                if time.monotonic() >= due and not self.finished():
                    due = self.save(save_seconds)
            self.save(save_seconds)
            return self.result(stopped=bool(stop))

    def solved(self) -> np.ndarray:
        """Whether each run has met its goal, on every grid that the goal has."""
        if self.settings.goal is None:
            return np.zeros(self.settings.runs, bool)
        return np.array([not grids for grids in self.unmet])

    def active(self) -> np.ndarray:
        """The rows of the batch that are still learning."""
        return ~(self.diverged | self.solved())[self.batch.names]

    def finished(self) -> bool:
        """Whether every run has taken all its steps, met its goal or diverged."""
        done = self.reports * self.settings.report_every >= self.settings.steps
        return done or not self.active().any()

    def shrink(self) -> None:
        """Drop finished runs from a batch that is one program, once few others are left.

        The remaining runs are recompiled at the smaller batch size, which takes as long as many
        updates. It is done after that many updates with few active runs. Batch sizes are a quarter
        of the runs, a quarter of that, and so on: the same ones after an interruption.
        """
        if not self.task.one_program or not self.tests:
            return
        runs = size = self.settings.runs
        ended = np.sort(self.taken[self.diverged | self.solved()])
        now = self.reports * self.settings.report_every
        long_ago = now - WORTH_COMPILING * self.settings.t_max
        while 0 < runs - len(ended) <= size // 4 and ended[runs - size // 4 - 1] <= long_ago:
            size //= 4
        idle = np.flatnonzero(~self.active())
        # Those that ended first: so the rest is in the same rows after an interruption.
        idle = idle[np.argsort(self.taken[self.batch.names[idle]], kind="stable")]
        if len(self.batch.names) > size:
            self.batch.drop(idle[: len(self.batch.names) - size])

    def report(self, advance: Advance, tester: GoalTester | None, mirrors: tuple) -> Progress:
        """Train one chunk, test what has a goal, and write what came of it."""
        began, active, batch = time.monotonic(), self.active(), self.batch
        self.reports += 1
        until = min(self.reports * self.settings.report_every, self.settings.steps)
        batch.runs, totals = advance(batch.hyper, batch.runs, np.where(active, until, 0))
        rates = jax.vmap(learning_rate)(batch.hyper, batch.runs.steps)
        totals, steps, diverged, rates = jax.device_get(
            (totals, batch.runs.steps, batch.runs.diverged, rates)
        )
        rate = float(totals.steps.sum()) / (time.monotonic() - began)
        self.diverged[batch.names], self.taken[batch.names] = diverged, steps
        tested = active & ~diverged & self.due()
        if tester is not None:
            self.test(tester, np.flatnonzero(tested), steps)
        scores = [float("nan")] * self.settings.runs
        for row in map(int, np.flatnonzero(active)):
            name = int(batch.names[row])
            here = int(steps[row]), float(rates[row]), bool(diverged[row])
            one = record(self.task.spec, hardware.take(totals, row), *here)
            if tester is not None:
                one |= goal_test.log_entry(self.tests[name][-1] if tested[row] else None)
            scores[name] = one["score"]
            timed = {**one, "seconds": self.seconds, "rate": rate / active.sum()}
            if self.store:
                self.store.logs.write(name, timed)
            for mirror in mirrors:
                mirror.write(name, timed)
        if self.store is None:  # a folder has them in its logs
            self.steps.append(float(np.mean(steps[active])))
            self.scores.append(scores)
        return self.progress(until, rate, scores)

    def due(self) -> np.ndarray:
        """The rows whose runs are tested at this report: on some grid no test was passed yet."""
        now, names = self.reports * self.settings.report_every, self.batch.names
        if not self.unmet:
            return np.zeros(len(names), bool)
        return np.array([any(now % grid == 0 for grid in self.unmet[name]) for name in names])

    def test(self, tester: GoalTester, rows: np.ndarray, steps: np.ndarray) -> None:
        """Test the agents in some rows, all together."""
        goal, every = self.settings.goal, self.settings.report_every
        if not len(rows) or goal is None:
            return
        began, names = time.monotonic(), self.batch.names[rows]
        seeds = self.settings.seed + np.arange(self.settings.runs)
        keys = goal_keys(seeds, self.reports, len(tester.blocks))[names]
        counts = tester(self.batch.runs.agent, rows, keys)
        for name, row, count in zip(names, rows, counts, strict=True):
            test = GoalTest(int(steps[row]), *count)
            self.tests[name].append(test)
            self.unmet[name] &= goal_test.unmet([test], goal, every)
        self.testing += time.monotonic() - began

    def progress(self, until: int, rate: float, scores: list[float]) -> Progress:
        """What to show. A run that has met its goal keeps its last score."""
        shown = scores
        if self.tests:
            last = [100 * t[-1].rate if t else float("nan") for t in self.tests]
            shown = np.where(self.diverged, float("nan"), last).tolist()
        solved = int(self.solved().sum()) if self.tests else None
        finite = [score for score in shown if np.isfinite(score)]
        return Progress(
            steps=until,
            total=self.settings.steps,
            rate=rate,
            scores=finite,
            solved=solved,
            diverged=int(self.diverged.sum()),
            seconds=self.seconds,
            finished=self.finished(),
            engine=self.task.engine,
        )

    def save(self, save_seconds: float) -> float:
        """Write a checkpoint and say when the next is due."""
        began = time.monotonic()
        if self.store:
            self.store.save(self.batch.all(), self.reports, self.seconds, self.testing)
        return time.monotonic() + max(save_seconds, SAVE_SHARE * (time.monotonic() - began))

    def result(self, stopped: bool) -> Result:
        """What training has come to, read back from the logs where there are any."""
        steps, scores = np.array(self.steps), np.array(self.scores).T
        folder, runs = self.store.path if self.store else None, self.batch.all()
        if folder:
            steps, scores = runfolder.read_scores(folder, self.settings.runs)
        for run in np.flatnonzero(self.solved()):  # it keeps its last score
            ended = np.flatnonzero(np.isfinite(scores[run]))[-1]
            scores[run, ended:] = scores[run, ended]
        result = Result(
            config=self.settings,
            runs=runs,
            steps=steps,
            scores=scores,
            seconds=self.seconds,
            finished=self.finished(),
            folder=folder,
            tests=self.tests,
            testing=self.testing,
            stopped=stopped,
            starts=self.starts,
            engine=self.task.engine,
        )
        if folder and result.finished:
            about = {"run": result.best, "steps": int(runs.steps[result.best])}
            checkpoint.save_model(folder / runfolder.BEST, result.agent, self.settings, **about)
        return result


@contextlib.contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """A list that is no longer empty once SIGINT or SIGTERM arrived; a second one ends at once.

    Outside the main thread, where Python allows no handlers, signals are left alone.
    """
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)
        for each, handler in previous.items():
            signal.signal(each, handler)

    previous: dict[int, Any] = {}
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
