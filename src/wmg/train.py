"""Training: any number of runs at once, in chunks that Python owns.

A chunk is compiled; between chunks Python writes logs, shows progress, saves and stops. The
state of all runs is one PyTree with a leading axis, `Run`, whatever the hardware.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import pathlib
import platform
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from wmg import a3c, checkpoint, config, runfolder
from wmg.a3c import Run, Totals
from wmg.config import BadInput, Config, Hyper
from wmg.runlog import Logs
from wmg.types import Agent, Env, EnvSpec, count_parameters

Tree = TypeVar("Tree")
Advance = Callable[[Hyper, Run, int], tuple[Run, Totals]]

SAVE_SECONDS = 60.0
"""Least time between two checkpoints of a running batch."""


@dataclasses.dataclass
class Progress:
    """What a display is shown after each report."""

    steps: int
    """Steps that every unfinished run has reached."""
    total: int
    rate: float
    """Steps per second of all runs together, in the last chunk."""
    scores: list[float]
    """The last score of each run that has not diverged."""
    diverged: int
    seconds: float
    """Since training began, over all sessions."""


@dataclasses.dataclass
class Result:
    """A batch of runs as it stands when training returns."""

    config: Config
    runs: Run
    steps: np.ndarray
    """Mean step count at each report."""
    scores: np.ndarray
    """One row per run, one column per report; NaN where a run had diverged."""
    seconds: float
    finished: bool
    folder: pathlib.Path | None = None

    @property
    def best(self) -> int:
        """The run with the highest mean score over the last tenth of its reports."""
        tail = self.scores[:, -max(1, self.scores.shape[1] // 10) :]
        alive = np.isfinite(tail).all(axis=1)
        return int(np.argmax(np.where(alive, np.nan_to_num(tail).mean(axis=1), -np.inf)))

    @property
    def agent(self) -> Agent:
        """The agent of the best run."""
        return take(self.runs.agent, self.best)


def take(tree: Tree, index: int) -> Tree:
    """One run out of a batch."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: list[Tree]) -> Tree:
    """A batch of single runs."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def start_runs(settings: Config, env: Env) -> Run:
    """New runs. Each depends on its own seed alone, never on the batch it is in."""

    def start(seed: jax.Array) -> Run:
        akey, rkey = jax.random.split(jax.random.key(seed))
        return a3c.start_run(env, checkpoint.make_agent(settings.agent, env, akey), rkey)

    seeds = settings.seed + jnp.arange(settings.runs)
    # Not vmapped: it is done once, and one run's program compiles in half the time.
    return jax.jit(lambda seeds: jax.lax.map(start, seeds))(seeds)


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


def over_runs(env: Env, t_max: int, backend: str | None = None) -> Advance:
    """The function that trains a batch of runs up to a step: the only place that batches.

    On an accelerator all runs are one program, split over the devices. On a CPU, where
    batched small products are slow, each run is the single-run program on one core; its
    result is then the same, bit for bit, in any company. The environment is an argument of
    the program: whatever arrays it holds are not compiled into it.
    """
    backend = backend or jax.default_backend()
    if backend == "cpu":
        one = jax.jit(
            lambda env, hyper, run, until: a3c.train_until(env, hyper, run, until, t_max),
            compiler_options=cpu_options(),
        )
        return functools.partial(_map_over_cores, one, env)
    # Unrolled, a window is one sequence of kernels without the loop's bookkeeping.
    unroll = min(t_max, env.spec.max_steps, 12)

    def batch(env: Env, hyper: Hyper, runs: Run, until: jax.Array) -> tuple[Run, Totals]:
        one = lambda h, r: a3c.train_until(env, h, r, until, t_max, unroll)  # noqa: E731
        return jax.vmap(one)(hyper, runs)

    return functools.partial(_split_over_devices, batch, {}, env)


def cpu_options() -> dict[str, bool | str]:
    """One thread per run, and no 512-bit code: it is slower for products this small."""
    options: dict[str, bool | str] = {"xla_cpu_multi_thread_eigen": False}
    if platform.machine() in ("x86_64", "AMD64"):
        options["xla_cpu_max_isa"] = "AVX2"
    return options


def _map_over_cores(
    one: Callable, env: Env, hyper: Hyper, runs: Run, until: int
) -> tuple[Run, Totals]:
    count = runs.steps.shape[0]

    def train(index: int) -> tuple[Run, Totals]:
        mine = _take_compiled((hyper, runs), index)
        return jax.block_until_ready(one(env, *mine, jnp.int32(until)))

    if count == 1:
        return _stack_compiled([train(0)])
    with concurrent.futures.ThreadPoolExecutor(runfolder.cores()) as pool:
        return _stack_compiled(list(pool.map(train, range(count))))


# Leaf by leaf, each index of each leaf would be a program of its own to compile.
_take_compiled = jax.jit(lambda tree, index: jax.tree.map(lambda x: x[index], tree))
_stack_compiled = jax.jit(lambda trees: stack(trees))


def _split_over_devices(
    batch: Callable, compiled: dict, env: Env, hyper: Hyper, runs: Run, until: int
) -> tuple[Run, Totals]:
    count = runs.steps.shape[0]
    devices = max(n for n in range(1, jax.device_count() + 1) if count % n == 0)
    mesh = jax.sharding.Mesh(jax.devices()[:devices], ("runs",))
    split, whole = jax.P("runs"), jax.P()
    if count not in compiled:
        sharded = jax.shard_map(
            batch,
            mesh=mesh,
            in_specs=(whole, split, split, whole),
            out_specs=split,
            check_vma=False,
        )
        compiled[count] = jax.jit(sharded, donate_argnums=2)
    # Placed beforehand, so that the first call compiles for what later calls are given.
    hyper, runs = jax.device_put((hyper, runs), jax.sharding.NamedSharding(mesh, split))
    return compiled[count](env, hyper, runs, jnp.int32(until))


def score(spec: EnvSpec, totals: Totals) -> float:
    """The score of one run's report interval in percent, NaN if there is nothing to score."""
    if spec.metric == "success":
        got, possible = int(totals.successes), int(totals.episodes)
    else:
        got, possible = float(totals.reward), int(totals.steps) * spec.reward_per_step
    return 100.0 * got / possible if possible else float("nan")


def record(
    spec: EnvSpec, totals: Totals, steps: int, learning_rate: float, diverged: bool
) -> dict[str, Any]:
    """One line of a run's log. Losses and norm are means over the interval's windows."""
    windows, taken = max(int(totals.windows), 1), max(int(totals.steps), 1)
    return {
        "steps": steps,
        "episodes": int(totals.episodes),
        "reward": float(totals.reward),
        "score": score(spec, totals),
        "success": int(totals.successes) / max(int(totals.episodes), 1),
        "policy_loss": float(totals.policy_loss) / windows,
        "value_loss": float(totals.value_loss) / windows,
        "entropy": float(totals.entropy) / taken,
        "gradient_norm": float(totals.gradient_norm) / windows,
        "learning_rate": learning_rate,
        "diverged": diverged,
    }


def train(
    settings: Config,
    folder: pathlib.Path | str | None = None,
    *,
    env: Env | None = None,
    resume: bool = False,
    branch_from: pathlib.Path | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    mirrors: tuple[Any, ...] = (),
    save_seconds: float = SAVE_SECONDS,
) -> Result:
    """Train `settings.runs` runs, in memory alone or in a run folder.

    With `resume`, an existing folder goes on exactly where its last checkpoint left it. With
    `branch_from`, a new folder starts from the state of another one, with changed numbers. An
    environment of your own is given as `env`, with settings whose `env` is None.
    """
    env = checkpoint.make_env(settings.env, env)
    like = jax.eval_shape(lambda: start_runs(settings, env))
    check_size(settings, env, like)
    if folder is None:
        if resume or branch_from:
            raise BadInput("resuming and branching need a run folder")
        session = Session(settings, env, start_runs(settings, env))
        return session.run(show, mirrors, save_seconds)
    folder = pathlib.Path(folder)
    parent = None if branch_from is None else load_parent(branch_from, settings, like)
    if resume:
        check_same(settings, runfolder.read_config(folder), folder)
    else:
        runfolder.create(folder, settings, None if parent is None else parent[1])
    with runfolder.locked(folder):
        session = open_session(settings, env, folder, like, parent)
        if resume:
            runfolder.update_config(folder, settings)
        return session.run(show, mirrors, save_seconds)


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
        if name.split(".")[0] in ("env", "agent", "t_max", "runs"):
            raise BadInput(
                f"a branch of {path} must keep {name} = {old!r}, not {new!r}: "
                "only numbers may change"
            )
    state = runfolder.load_state(path, like)
    if state is None:
        raise BadInput(f"{path} has no saved state to branch from")
    steps = [int(s) for s in np.asarray(state[0].steps)]
    return state[0], {"folder": str(path), "steps": steps}


def open_session(
    settings: Config, env: Env, folder: pathlib.Path, like: Run, parent: tuple | None
) -> "Session":
    """Training as it goes on from a folder's checkpoint, its parent's, or the beginning."""
    state = runfolder.load_state(folder, like)
    if state is None:
        if parent is None and runfolder.is_branch(folder):
            raise BadInput(f"{folder} stopped before it held its parent's state: branch anew")
        logs = Logs(folder / runfolder.LOGS, settings.runs, [0] * settings.runs)
        runs = start_runs(settings, env) if parent is None else parent[0]
        session = Session(settings, env, runs, runfolder.Store(folder, logs))
        if parent is not None:
            session.reports = max(parent[1]["steps"]) // settings.report_every
            session.save(0.0)
        return session
    runs, header = state
    logs = Logs(folder / runfolder.LOGS, settings.runs, header["logs"])
    session = Session(settings, env, runs, runfolder.Store(folder, logs))
    session.reports, session.earlier = header["reports"], header["seconds"]
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
        self.settings, self.env, self.runs, self.store = settings, env, runs, store
        self.reports, self.earlier, self.began = 0, 0.0, time.monotonic()
        self.steps: list[float] = []
        self.scores: list[list[float]] = []

    @property
    def seconds(self) -> float:
        """Time spent on training so far, over all sessions."""
        return self.earlier + time.monotonic() - self.began

    def run(self, show: Callable, mirrors: tuple, save_seconds: float) -> Result:
        """Train to the end, or until a signal asks to stop after the current chunk."""
        hyper = stack_hypers(self.settings)
        advance = over_runs(self.env, self.settings.t_max)
        due = time.monotonic() + save_seconds
        with stop_on_signals() as stop:
            while not self.finished() and not stop:
                show(self.report(hyper, advance, mirrors))
                if time.monotonic() >= due and not self.finished():
                    due = self.save(save_seconds)
            self.save(save_seconds)
        return self.result()

    def finished(self) -> bool:
        """Whether every run has taken all its steps or diverged."""
        diverged = np.asarray(self.runs.diverged)
        done = self.reports * self.settings.report_every >= self.settings.steps
        return done or bool(diverged.all())

    def report(self, hyper: Hyper, advance: Advance, mirrors: tuple) -> Progress:
        """Train one chunk and write what came of it: one transfer from the device."""
        began, before = time.monotonic(), np.asarray(self.runs.diverged)
        self.reports += 1
        until = min(self.reports * self.settings.report_every, self.settings.steps)
        self.runs, totals = advance(hyper, self.runs, until)
        rates = jax.vmap(a3c.learning_rate)(hyper, self.runs.steps)
        totals, steps, diverged, rates = jax.device_get(
            (totals, self.runs.steps, self.runs.diverged, rates)
        )
        seconds = time.monotonic() - began
        rate = float(totals.steps.sum()) / seconds
        row = [float("nan")] * self.settings.runs
        for index in map(int, np.flatnonzero(~before)):
            here = int(steps[index]), float(rates[index]), bool(diverged[index])
            one = record(self.env.spec, take(totals, index), *here)
            row[index] = one["score"]
            timed = {**one, "seconds": self.seconds, "rate": rate / self.settings.runs}
            if self.store:
                self.store.logs.write(index, timed)
            for mirror in mirrors:
                mirror.write(index, timed)
        self.steps.append(float(np.mean(steps)))
        self.scores.append(row)
        alive = [row[i] for i in np.flatnonzero(~diverged) if np.isfinite(row[i])]
        return Progress(until, self.settings.steps, rate, alive, int(diverged.sum()), self.seconds)

    def save(self, save_seconds: float) -> float:
        """Write a checkpoint and say when the next is due: saving takes at most 5% of time."""
        began = time.monotonic()
        if self.store:
            self.store.save(self.runs, self.reports, self.seconds)
        return time.monotonic() + max(save_seconds, 20 * (time.monotonic() - began))

    def result(self) -> Result:
        """What training has come to, read back from the logs where there are any."""
        steps, scores = np.array(self.steps), np.array(self.scores).T
        folder = self.store.path if self.store else None
        if folder:
            steps, scores = runfolder.read_scores(folder, self.settings.runs)
        result = Result(
            self.settings, self.runs, steps, scores, self.seconds, self.finished(), folder
        )
        if folder and result.finished:
            about = {"run": result.best, "steps": int(self.runs.steps[result.best])}
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
        signal.signal(number, previous[number])

    previous: dict[int, Any] = {}
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
