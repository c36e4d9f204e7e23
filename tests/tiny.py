"""Runs so small that a test can afford to train them, and ways to look at what they left.

Importing this keeps compiled programs in a folder that all processes of a test session share, the
commands that a test starts among them: the same program is compiled once.
"""

import contextlib
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from wmg import registry
from wmg.agents.wmg.settings import WMGSettings
from wmg.cli import main as cli
from wmg.config import Config, Goal, Precision
from wmg.learn.rule import Rule
from wmg.play.goal_test import GoalTester
from wmg.runs import goals, hardware, task, train
from wmg.runs.result import Result
from wmg.types import Env, Run

CACHE = os.environ["WMG_TEST_CACHE"]
pathlib.Path(CACHE).mkdir(parents=True, exist_ok=True)
jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(CACHE, "wmg", "jax")))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

AGENT = WMGSettings(slots=3, memo_size=8, layers=2, heads=2, head_size=4, hidden=4, actor_critic=8)
FLAGS = [
    *("--agent.slots=3", "--agent.memo-size=8", "--agent.layers=2", "--agent.heads=2"),
    *("--agent.head-size=4", "--agent.hidden=4", "--agent.actor-critic=8"),
    *("--steps=480", "--report-every=48"),
]


@pytest.fixture(scope="module", autouse=True)
def keys_may_be_split_up():
    """The check of key reuse takes `keys[0]` and then `keys[1]` for reuse of `keys`."""
    strict = jax.config.jax_debug_key_reuse
    jax.config.update("jax_debug_key_reuse", False)
    yield
    jax.config.update("jax_debug_key_reuse", strict)


def settings(**changes) -> Config:
    """What `wmg train pathfinding/wmg` with FLAGS trains."""
    return Config(**{"agent": AGENT, "steps": 480, "report_every": 48, **changes})


@functools.cache
def trained() -> pathlib.Path:
    """A run folder with two finished runs, made once. Copy it before changing anything."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trained-", dir=CACHE), "run")
    assert train.train(settings(runs=2), folder).finished
    return folder


@contextlib.contextmanager
def made_for(backend: str) -> Iterator[None]:
    """Programs that are made here are those for a backend, "cpu" or "gpu", which may be missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "on_cpu", lambda: backend == "cpu")
        yield


def over_runs(
    rule: Rule, env: Env, precision: Precision = "float32", backend: str | None = None
) -> hardware.Advance:
    """`hardware.over_runs` for a backend, by default the one there is."""
    if backend is None:
        return hardware.over_runs(rule, env, precision)
    with made_for(backend):
        advance = hardware.over_runs(rule, env, precision)

    def advance_there(hyper: Any, runs: Run, until: Any) -> tuple:
        with made_for(backend):  # tracing asks again
            return advance(hyper, runs, until)

    return advance_there


def goal_tester(
    env: Env, goal: Goal, runs: int, precision: Precision = "float32", backend: str | None = None
) -> GoalTester:
    """What tests the runs of a batch."""
    with made_for(backend or jax.default_backend()):
        return goals.goal_tester(goals.player(precision), env, goal, runs)


def stop_after(some: Config, folder: pathlib.Path, reports: int, **options) -> None:
    """Train for some reports, save, stop."""
    left = iter(range(reports - 1))

    def show(progress):
        if next(left, None) is None:
            signal.raise_signal(signal.SIGTERM)

    assert not train.train(some, folder, show=show, **options).finished


def command(capsys, *args) -> tuple[int, str, str]:
    """Exit code, output and complaints of `wmg ARGS`, in this process."""
    capsys.readouterr()
    code = cli.main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return code, out, err


def start(*args, **options) -> subprocess.Popen:
    """`wmg ARGS` as a process of its own."""
    return start_python("-m", "wmg", *args, **options)


def start_python(*args, **options) -> subprocess.Popen:
    """`python ARGS` as a process of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": CACHE}
    return subprocess.Popen(
        [sys.executable, *(str(arg) for arg in args)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def output_on_two_devices(script: str) -> str:
    """What a script prints where the CPU is two devices. It may import what tests do."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Fails a test that hangs."""

    def fail(number, frame):
        raise AssertionError(f"it takes more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def arrays(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """All that `state.safetensors` holds."""
    return safetensors.numpy.load_file(folder / "state.safetensors")


def lines(folder: pathlib.Path) -> list[list[dict]]:
    """The records of each run, without those that depend on the clock."""
    logs = sorted((folder / "logs").glob("*.jsonl"))
    records = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    timed = ("seconds", "rate")
    return [[{k: v for k, v in one.items() if k not in timed} for one in log] for log in records]


def differing(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    """The names of arrays that are not the same, bit for bit."""
    names = sorted(one.keys() | other.keys())
    return [
        name
        for name in names
        if name not in one
        or name not in other
        or one[name].dtype != other[name].dtype
        or one[name].shape != other[name].shape
        or one[name].tobytes() != other[name].tobytes()
    ]


def result(scores, diverged=None, goal=None, tests=()):
    """What training would return of runs with these scores."""
    runs = len(scores)
    config = settings(runs=runs, goal=goal)
    env = registry.make_env(config.env)
    state, spec = task.start_runs(config, env), env.spec
    ended = jnp.array(diverged or [False] * runs)
    state = eqx.tree_at(lambda runs: runs.diverged, state, ended)
    reports = np.arange(len(scores[0]))
    return Result(config, spec, state, reports, np.array(scores), 0.0, True, tests=list(tests))
