"""Training: any number of runs at once, new, resumed or branched off.

`train` makes a task of the settings, and a session that drives it. The state of all runs is one
PyTree with a leading axis, `Run`, whatever the hardware.
"""

import contextlib
import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wmg import config, registry
from wmg.config import Config
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.play.check import check_shapes
from wmg.play.host import Host, HostEnvs
from wmg.play.source import HostSource
from wmg.runs import runfolder
from wmg.runs.host_task import HostTask, OnHost
from wmg.runs.result import Progress, Result
from wmg.runs.runlog import Logs
from wmg.runs.session import Session
from wmg.runs.task import CompiledTask, Task
from wmg.settings import EnvSettings
from wmg.tools import signals
from wmg.tools.errors import BadInput
from wmg.types import Env, Run, count_parameters

SAVE_SECONDS = 60.0
"""Least time between two checkpoints of a running batch."""


def train(
    settings: Config,
    folder: pathlib.Path | str | None = None,
    *,
    env: Env | HostSource | OnHost | None = None,
    resume: bool = False,
    branch_from: pathlib.Path | str | None = None,
    start: Callable[[], None] = lambda: None,
    show: Callable[[Progress], None] = lambda progress: None,
    mirrors: tuple[Any, ...] = (),
    save_seconds: float = SAVE_SECONDS,
) -> Result:
    """Train `settings.runs` runs, in memory alone or in a run folder.

    With `resume`, an existing folder goes on exactly where its last checkpoint left it. With
    `branch_from`, a new folder starts from the state of another one, with changed numbers. An
    environment of your own that is not registered is given as `env`, with settings whose `env` is
    None: a compiled one, or one on the host (several for several runs or environments).
    `start` is called once all checks have passed, `show` after each report.
    """
    settings = pinned(settings)
    task = make_task(settings, env)
    like = task.shape()
    check_size(settings, task, like)
    if folder is None:
        if resume or branch_from:
            raise BadInput("resuming and branching need a run folder")
        session = Session(settings, task, task.start())
        start()
        with stop_on_signals() as stop:
            return session.run(show, mirrors, save_seconds, stop)
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
        session = open_session(settings, task, folder, like, parent)
        if resume:
            runfolder.update_config(folder, settings)
        start()
        with stop_on_signals() as stop:
            return session.run(show, mirrors, save_seconds, stop)


def from_outside(settings: EnvSettings | None) -> bool:
    """Whether the environment of these settings is not the package's own."""
    if settings is None or isinstance(settings, OutsideEnvSettings):
        return True
    return registry.import_path(settings) is not None


def make_task(settings: Config, env: Env | HostSource | OnHost | None) -> Task:
    """The task of the settings, in the environment they describe or in the user's own."""
    if isinstance(env, Host | HostEnvs | Sequence):
        return HostTask(settings, registry.make_env(settings.env, env))
    made = registry.make_env(settings.env, env)
    if isinstance(made, HostSource):
        each = [made.copies(settings.batched.envs) for _ in range(settings.runs)]
        task = HostTask(settings, each)
    else:
        if from_outside(settings.env):
            check_shapes(made)
        task = CompiledTask(settings, made)
    task.own_env = env
    return task


def pinned(settings: Config) -> Config:
    """The settings with each data set under a name that never changes, as a run folder has them."""
    return dataclasses.replace(settings, env=settings.env and settings.env.pinned())


def check_size(settings: Config, task: Task, like: Run) -> None:
    """Refuse sizes that cannot fit the machine: runs, gradients, memories of a window."""
    scene = sum(leaf.size for leaf in jax.tree.leaves(like.scene))
    window = min(settings.t_max, task.spec.max_steps)
    needed = 16 * count_parameters(like.agent) + 4 * window * scene
    stats = jax.devices()[0].memory_stats() or {}
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = stats.get("bytes_limit", installed) * (jax.device_count() if stats else 1)
    if needed > there:
        raise BadInput(
            f"{settings.runs} run(s) of an agent this size need about {needed / 2**30:,.0f} GiB, "
            f"and there are {there / 2**30:,.0f}"
        )


def check_same(given: Config, saved: Config, folder: pathlib.Path) -> None:
    """Refuse to resume a folder with other settings than it has (more steps are allowed, and
    another kernel)."""
    longer = dataclasses.replace(saved, steps=given.steps, kernel=given.kernel)
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
    # Diverged runs have their last finite weights: with other numbers they may go on.
    runs = eqx.tree_at(lambda run: run.diverged, state[0], jnp.zeros(settings.runs, bool))
    return runs, {"folder": str(path), "steps": steps}


def open_session(
    settings: Config, task: Task, folder: pathlib.Path, like: Run, parent: tuple | None
) -> Session:
    """A session that goes on from a folder's checkpoint, its parent's, or the beginning."""
    state = runfolder.load_state(folder, like)
    if state is None:
        if parent is None and runfolder.parent_steps(folder):
            raise BadInput(f"{folder} stopped before it held its parent's state: branch anew")
        logs = Logs(folder / runfolder.LOGS, settings.runs, [0] * settings.runs)
        runs = task.start() if parent is None else parent[0]
        session = Session(settings, task, runs, runfolder.Store(folder, logs))
        if parent is not None:
            session.reports = max(parent[1]["steps"]) // settings.report_every
        session.save(0.0)  # a folder whose logs have lines always has a state, too
        return session
    runs, header = state
    logs = Logs(folder / runfolder.LOGS, settings.runs, header["logs"])
    session = Session(settings, task, runs, runfolder.Store(folder, logs))
    session.reports, session.earlier = header["reports"], header["seconds"]
    session.testing = header["testing"]
    taken = int(np.max(runs.steps))
    if taken < min(settings.steps, session.reports * settings.report_every):
        session.reports -= 1  # the last report was cut short by an end that is no longer one
    return session


@contextlib.contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """A list that is no longer empty once SIGINT or SIGTERM arrived; a second one ends at once.

    Signals within `ONE_SIGNAL` seconds count as one, since schedulers may send a signal twice. The
    handlers stay for that time, also if training ends sooner. Outside the main thread, where Python
    allows no handlers, signals are left alone.
    """
    received: list[int] = []
    first = 0.0

    def note(number: int, frame: Any) -> None:
        nonlocal first
        if not received:
            first = time.monotonic()
        elif time.monotonic() - first > signals.ONE_SIGNAL:
            for each, handler in previous.items():
                signal.signal(each, handler)
            signal.raise_signal(number)
        received.append(number)

    previous: dict[int, Any] = {}
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            # None: a library in C had set the handler, and Python cannot set it again.
            previous[number] = signal.signal(number, note) or signal.SIG_DFL
    try:
        yield received
    finally:
        if received:
            time.sleep(max(0.0, first + signals.ONE_SIGNAL - time.monotonic()))
        for number, handler in previous.items():
            signal.signal(number, handler)
