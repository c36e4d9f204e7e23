"""Training: any number of runs at once, in chunks that Python owns.

A chunk is compiled; between chunks Python writes logs, shows progress, saves and stops. The
state of all runs is one PyTree with a leading axis, `Run`, whatever the hardware.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wmg import config, registry
from wmg.config import Config, Hyper
from wmg.learn import a3c, ppo
from wmg.learn.a3c import Run
from wmg.play import goal_test
from wmg.play.goal_test import Trial, Trials
from wmg.runs import checkpoint, hardware, runfolder
from wmg.runs.active_runs import Roster
from wmg.runs.hardware import Advance
from wmg.runs.result import Progress, Result, record
from wmg.runs.runlog import Logs
from wmg.tools.errors import BadInput
from wmg.types import Env, count_parameters

SAVE_SECONDS = 60.0
"""Least time between two checkpoints of a running batch."""
WORTH_COMPILING = 10_000
"""So many updates with fewer runs save about as much time as it takes to compile for them."""


def start_runs(settings: Config, env: Env) -> Run:
    """New runs. Each depends on its own seed alone, never on the batch it is in."""

    def start(env: Env, seed: jax.Array) -> Run:
        akey, rkey = jax.random.split(jax.random.key(seed))
        agent = registry.make_agent(settings.agent, env.spec, akey)
        if settings.batched.envs > 1:
            return ppo.start_run(env, agent, rkey, settings.batched.envs)
        return a3c.start_run(env, agent, rkey)

    seeds = settings.seed + jnp.arange(settings.runs)
    # Not vmapped: it is done once, and one run's program compiles in half the time.
    start_all = lambda env, seeds: jax.lax.map(functools.partial(start, env), seeds)  # noqa: E731
    return jax.jit(start_all)(env, seeds)


def check_size(settings: Config, env: Env, like: Run) -> None:
    """Refuse sizes that cannot fit the machine: runs, gradients, memories of a window."""
    scene = sum(leaf.size for leaf in jax.tree.leaves(like.scene))
    window = min(settings.t_max, env.spec.max_steps)
    needed = 16 * count_parameters(like.agent) + 4 * window * scene
    stats = jax.devices()[0].memory_stats() or {}
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = stats.get("bytes_limit", installed) * (jax.device_count() if stats else 1)
    if needed > there:
        raise BadInput(
            f"{settings.runs} run(s) of an agent this size need about {needed / 2**30:,.0f} GiB, "
            f"and there are {there / 2**30:,.0f}"
        )


def stack_hypers(settings: Config) -> Hyper:
    """The numbers of all runs as arrays."""
    return jax.tree.map(lambda *x: jnp.array(x, jnp.float32), *settings.hypers())


def train(
    settings: Config,
    folder: pathlib.Path | str | None = None,
    *,
    env: Env | None = None,
    resume: bool = False,
    branch_from: pathlib.Path | str | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    mirrors: tuple[Any, ...] = (),
    save_seconds: float = SAVE_SECONDS,
) -> Result:
    """Train `settings.runs` runs, in memory alone or in a run folder.

    With `resume`, an existing folder goes on exactly where its last checkpoint left it. With
    `branch_from`, a new folder starts from the state of another one, with changed numbers. An
    environment of your own is given as `env`, with settings whose `env` is None.
    """
    settings = settled(settings)
    env = registry.make_env(settings.env, env)
    like = jax.eval_shape(lambda: start_runs(settings, env))
    check_size(settings, env, like)
    if folder is None:
        if resume or branch_from:
            raise BadInput("resuming and branching need a run folder")
        session = Session(settings, env, start_runs(settings, env))
        return session.run(show, mirrors, save_seconds)
    if resume and branch_from:
        raise BadInput("a folder is resumed or branched from another, not both")
    folder = pathlib.Path(folder)
    parent = None
    if branch_from is not None:
        parent = load_parent(pathlib.Path(branch_from), settings, like)
    if resume:
        check_same(settings, runfolder.read_config(folder), folder)
    else:
        runfolder.create(folder, settings, None if parent is None else parent[1])
    with runfolder.locked(folder):
        session = open_session(settings, env, folder, like, parent)
        if resume:
            runfolder.update_config(folder, settings)
        return session.run(show, mirrors, save_seconds)


def settled(settings: Config) -> Config:
    """The settings as a run folder has them, which names the very levels."""
    return dataclasses.replace(settings, env=settings.env and settings.env.pinned())


def check_same(given: Config, saved: Config, folder: pathlib.Path) -> None:
    """Refuse to resume a folder with other settings than it has (more steps are allowed)."""
    longer = dataclasses.replace(saved, steps=given.steps)
    for name, old, new in config.differences(longer, given):
        raise BadInput(
            f"{folder} was made with {name} = {old!r}, not {new!r}; "
            "to change numbers, branch with --from"
        )
    if given.steps < saved.steps:
        raise BadInput(f"{folder} was made with steps = {saved.steps}, more than {given.steps}")


def load_parent(path: pathlib.Path, settings: Config, like: Run) -> tuple[Run, dict[str, Any]]:
    """The runs of another folder, if only numbers differ, and how to record them as parent."""
    saved = runfolder.read_config(path)
    for name, old, new in config.differences(saved, settings):
        if name.split(".")[0] in ("env", "agent", "t_max", "batched", "runs", "seed"):
            raise BadInput(
                f"a branch of {path} must keep {name} = {old!r}, not {new!r}: "
                "only numbers may change"
            )
    state = runfolder.load_state(path, like)
    if state is None:
        raise BadInput(f"{path} has no saved state to branch from")
    steps = [int(s) for s in np.asarray(state[0].steps)]
    if max(steps) >= settings.steps:
        raise BadInput(
            f"{path} has taken {max(steps):,} steps: a branch of it needs more than "
            f"steps = {settings.steps:,}"
        )
    # Those that diverged stand at their last finite weights: with other numbers they may go on.
    runs = eqx.tree_at(lambda run: run.diverged, state[0], jnp.zeros(settings.runs, bool))
    return runs, {"folder": str(path), "steps": steps}


def open_session(
    settings: Config, env: Env, folder: pathlib.Path, like: Run, parent: tuple | None
) -> "Session":
    """Training as it goes on from a folder's checkpoint, its parent's, or the beginning."""
    state = runfolder.load_state(folder, like)
    if state is None:
        if parent is None and runfolder.parent_steps(folder):
            raise BadInput(f"{folder} stopped before it held its parent's state: branch anew")
        logs = Logs(folder / runfolder.LOGS, settings.runs, [0] * settings.runs)
        runs = start_runs(settings, env) if parent is None else parent[0]
        session = Session(settings, env, runs, runfolder.Store(folder, logs))
        if parent is not None:
            session.reports = max(parent[1]["steps"]) // settings.report_every
        session.save(0.0)  # a folder whose logs have lines always has a state, too
        return session
    runs, header = state
    logs = Logs(folder / runfolder.LOGS, settings.runs, header["logs"])
    session = Session(settings, env, runs, runfolder.Store(folder, logs))
    session.reports, session.earlier = header["reports"], header["seconds"]
    session.testing = header["testing"]
    taken = int(np.max(runs.steps))
    if taken < min(settings.steps, session.reports * settings.report_every):
        session.reports -= 1  # the last report was cut short by an end that is no longer one
    return session


class Session:
    """One process's share of training a batch: the loop between compiled chunks."""

    def __init__(
        self,
        settings: Config,
        env: Env,
        runs: Run,
        store: runfolder.Store | None = None,
    ):
        self.settings, self.env, self.store = settings, env, store
        self.roster = Roster(runs, stack_hypers(settings))
        self.reports, self.earlier, self.began = 0, 0.0, time.monotonic()
        self.testing = 0.0
        self.steps: list[float] = []
        self.scores: list[list[float]] = []
        self.diverged, self.taken = np.array(runs.diverged), np.array(runs.steps)
        self.trials: list[list[Trial]] = []
        self.unmet: list[set[int]] = []
        self.starts = (store and runfolder.parent_steps(store.path)) or [0] * settings.runs
        if settings.goal is not None:
            logs = [[]] * settings.runs
            if store is not None:
                logs = runfolder.read_logs(store.path, settings.runs)
            self.recall([goal_test.read_trials(log) for log in logs])

    def recall(self, trials: list[list[Trial]]) -> None:
        """Go on from these tests of each run."""
        goal, every = self.settings.goal, self.settings.report_every
        assert goal is not None
        self.trials = trials
        self.unmet = [goal_test.unmet(tests, goal, every) for tests in trials]

    @property
    def seconds(self) -> float:
        """Time spent on training so far, over all sessions."""
        return self.earlier + time.monotonic() - self.began

    def run(self, show: Callable, mirrors: tuple, save_seconds: float) -> Result:
        """Train to the end, or until a signal asks to stop after the current chunk."""
        goal = self.settings.goal
        precision = self.settings.precision
        advance = hardware.over_runs(
            self.env, self.settings.t_max, self.settings.batched, precision
        )
        trials = None if goal is None else Trials(self.env, goal, self.settings.runs, precision)
        due = time.monotonic() + save_seconds
        with stop_on_signals() as stop:
            while not self.finished() and not stop:
                self.shrink()
                show(self.report(advance, trials, mirrors))
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
        return ~(self.diverged | self.solved())[self.roster.names]

    def finished(self) -> bool:
        """Whether every run has taken all its steps, met its goal or diverged."""
        done = self.reports * self.settings.report_every >= self.settings.steps
        return done or not self.active().any()

    def shrink(self) -> None:
        """Where a batch is one program: let finished runs leave it once few are left.

        A program for fewer runs has to be compiled, which takes as long as many updates. Nobody
        knows how many are ahead; so it is done after as many with so few runs. There are few sizes,
        the same ones after an interruption: a quarter of the runs, a quarter of that, and so on.
        """
        if hardware.on_cpu() or self.settings.batched.envs > 1 or not self.trials:
            return
        runs = size = self.settings.runs
        ended = np.sort(self.taken[self.diverged | self.solved()])
        now = self.reports * self.settings.report_every
        long_ago = now - WORTH_COMPILING * self.settings.t_max
        while 0 < runs - len(ended) <= size // 4 and ended[runs - size // 4 - 1] <= long_ago:
            size //= 4
        idle = np.flatnonzero(~self.active())
        # Those that ended first: so the rest is in the same rows after an interruption.
        idle = idle[np.argsort(self.taken[self.roster.names[idle]], kind="stable")]
        if len(self.roster.names) > size:
            self.roster.dismiss(idle[: len(self.roster.names) - size])

    def report(self, advance: Advance, trials: Trials | None, mirrors: tuple) -> Progress:
        """Train one chunk, test what has a goal, and write what came of it."""
        began, active, roster = time.monotonic(), self.active(), self.roster
        self.reports += 1
        until = min(self.reports * self.settings.report_every, self.settings.steps)
        roster.runs, totals = advance(roster.hyper, roster.runs, np.where(active, until, 0))
        rates = jax.vmap(a3c.learning_rate)(roster.hyper, roster.runs.steps)
        totals, steps, diverged, rates = jax.device_get(
            (totals, roster.runs.steps, roster.runs.diverged, rates)
        )
        rate = float(totals.steps.sum()) / (time.monotonic() - began)
        self.diverged[roster.names], self.taken[roster.names] = diverged, steps
        tested = active & ~diverged & self.due()
        if trials is not None:
            self.test(trials, np.flatnonzero(tested), steps)
        scores = [float("nan")] * self.settings.runs
        for row in map(int, np.flatnonzero(active)):
            name = int(roster.names[row])
            here = int(steps[row]), float(rates[row]), bool(diverged[row])
            one = record(self.env.spec, hardware.take(totals, row), *here)
            if trials is not None:
                one |= goal_test.log_entry(self.trials[name][-1] if tested[row] else None)
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
        now, names = self.reports * self.settings.report_every, self.roster.names
        if not self.unmet:
            return np.zeros(len(names), bool)
        return np.array([any(now % grid == 0 for grid in self.unmet[name]) for name in names])

    def test(self, trials: Trials, rows: np.ndarray, steps: np.ndarray) -> None:
        """Test the agents in some rows, all together."""
        goal, every = self.settings.goal, self.settings.report_every
        if not len(rows) or goal is None:
            return
        began, names = time.monotonic(), self.roster.names[rows]
        seeds = self.settings.seed + np.arange(self.settings.runs)
        keys = goal_test.trial_keys(seeds, self.reports, len(trials.stretches))[names]
        counts = trials(self.roster.runs.agent, rows, keys)
        for name, row, count in zip(names, rows, counts, strict=True):
            trial = Trial(int(steps[row]), *count)
            self.trials[name].append(trial)
            self.unmet[name] &= goal_test.unmet([trial], goal, every)
        self.testing += time.monotonic() - began

    def progress(self, until: int, rate: float, scores: list[float]) -> Progress:
        """What to show. A run that has met its goal keeps its last score."""
        shown = scores
        if self.trials:
            last = [100 * t[-1].rate if t else float("nan") for t in self.trials]
            shown = np.where(self.diverged, float("nan"), last).tolist()
        solved = int(self.solved().sum()) if self.trials else None
        finite = [score for score in shown if np.isfinite(score)]
        return Progress(
            until, self.settings.steps, rate, finite, solved, int(self.diverged.sum()),
            self.seconds, self.finished(),
        )  # fmt: skip

    def save(self, save_seconds: float) -> float:
        """Write a checkpoint and say when the next is due: saving takes at most 5% of time."""
        began = time.monotonic()
        if self.store:
            everyone = self.roster.everyone()
            self.store.save(everyone, self.reports, self.seconds, self.testing)
        return time.monotonic() + max(save_seconds, 20 * (time.monotonic() - began))

    def result(self, stopped: bool) -> Result:
        """What training has come to, read back from the logs where there are any."""
        steps, scores = np.array(self.steps), np.array(self.scores).T
        folder, runs = self.store.path if self.store else None, self.roster.everyone()
        if folder:
            steps, scores = runfolder.read_scores(folder, self.settings.runs)
        for run in np.flatnonzero(self.solved()):  # it keeps its last score
            ended = np.flatnonzero(np.isfinite(scores[run]))[-1]
            scores[run, ended:] = scores[run, ended]
        result = Result(
            self.settings, runs, steps, scores, self.seconds, self.finished(), folder,
            self.trials, self.testing, stopped, self.starts,
        )  # fmt: skip
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
