"""How fast training is, or an environment alone, how long it compiles, how much memory it takes."""

import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from wmg import config, registry
from wmg.config import Config
from wmg.envs.batch import Batch
from wmg.play.check import spec_of
from wmg.runs import hardware, xla_options
from wmg.runs.task import stack_hypers
from wmg.runs.train import make_task
from wmg.settings import EnvSettings
from wmg.tools import machine
from wmg.tools.errors import BadInput
from wmg.types import Observation

LONGEST_CHUNK = 1_000
"""Steps of the first chunk, at most: the limit of an episode may be far or unknown."""


def measure(settings: Config, seconds: float = 20.0) -> dict[str, Any]:
    """Training speed of `settings.runs` runs together, with what is needed to read it."""
    task = make_task(settings, None)
    chunk = min(task.spec.max_steps, LONGEST_CHUNK)
    runs, hyper, advance = task.begin(task.start()), stack_hypers(settings), task.advance()

    def go_on(steps: int) -> int:
        nonlocal runs
        runs, totals = jax.block_until_ready(advance(hyper, runs, int(np.max(runs.steps)) + steps))
        if np.asarray(runs.diverged).all():
            raise BadInput("every run has diverged, so there is no speed to measure")
        return int(np.sum(totals.steps))

    return {
        **time_chunks(go_on, chunk * settings.batched.envs, seconds),
        "runs": settings.runs,
        "batched": config.to_dict(settings.batched),
        "agent": settings.agent.name,
        "precision": hardware.computed_precision(settings.precision),
        "engine": task.engine,
        "hardware": machine.describe(),
    }


def measure_env(
    settings: EnvSettings | None, seconds: float = 20.0, at_once: int | None = None
) -> dict[str, Any]:
    """Speed of an environment alone: random actions, new episodes as needed, and every
    observation written to memory."""
    env = registry.make_env(settings)
    spec = spec_of(env)
    cores = machine.cores() if hardware.on_cpu() else 1
    if at_once is None:
        at_once = cores * (2048 if hardware.on_cpu() else 524_288)
    if not cores <= at_once <= 2**24 or at_once % cores:
        raise BadInput(f"at_once must be a multiple of {cores} up to 2^24, got {at_once}")
    batch = Batch(env, at_once // cores)
    options = xla_options.for_cpu() if hardware.on_cpu() else None
    play = jax.jit(play_randomly, donate_argnums=1, compiler_options=options)
    start = jax.jit(start_playing)
    playing = [start(batch, jax.random.key(core)) for core in range(cores)]

    def go_on(steps: int) -> int:
        def on_core(core: int) -> Playing:
            return jax.block_until_ready(play(batch, playing[core], jnp.int32(steps)))

        playing[:] = hardware.map_over_cores(on_core, cores)
        return steps * at_once

    return {
        **time_chunks(go_on, min(spec.max_steps, LONGEST_CHUNK), seconds),
        "episodes": sum(int(one.episodes) for one in playing),
        "at_once": at_once,
        "env": config.to_dict(settings),
        "hardware": machine.describe(),
    }


class Playing(eqx.Module):
    """A batch of environments in the midst of random play."""

    state: Any
    observation: Observation
    key: PRNGKeyArray
    episodes: Int[Array, ""]
    """Ended so far; it wraps where a number of 32 bits does."""


def start_playing(batch: Batch, key: PRNGKeyArray) -> Playing:
    """A batch at its start."""
    rkey, key = jax.random.split(key)
    return Playing(*batch.reset(rkey), key, jnp.int32(0))


def play_randomly(batch: Batch, playing: Playing, steps: Int[Array, ""]) -> Playing:
    """The batch after `steps` more steps of each environment."""

    def step(_: Array, now: Playing) -> Playing:
        key, akey, skey = jax.random.split(now.key, 3)
        actions = jax.random.randint(akey, (batch.size,), 0, batch.env.spec.actions)
        state, observation, made = batch.step(now.state, actions, skey)
        ended = (made.terminated | made.truncated).sum()
        return Playing(state, observation, key, now.episodes + ended)

    return jax.lax.fori_loop(0, steps, step, playing)


def time_chunks(go_on: Callable[[int], int], chunk: int, seconds: float) -> dict[str, Any]:
    """The speed of `go_on(steps)`, which says how many steps it took in all.

    Chunks of half a second or more are timed until `seconds` have passed. The median is the
    figure; all are kept, and so is the memory in use after each, which must not grow.
    """
    began = time.perf_counter()
    go_on(1)
    compile_seconds = time.perf_counter() - began
    go_on(2 * chunk)  # warm
    rates, memory, ends = [], [], time.perf_counter() + seconds
    while time.perf_counter() < ends or not rates:
        began = time.perf_counter()
        taken = go_on(chunk)
        elapsed = time.perf_counter() - began
        if elapsed < 0.5:
            chunk *= 2  # too short to time: not counted
            continue
        rates.append(taken / elapsed)
        memory.append(memory_in_use())
    return {
        "steps_per_second": float(np.median(rates)),
        "steps_per_second_each_chunk": [round(rate, 1) for rate in rates],
        "compile_seconds": round(compile_seconds, 2),
        "memory_bytes_each_chunk": memory,
        "peak_memory_bytes": max(peak_memory(), *memory),
    }


STATM = pathlib.Path("/proc/self/statm")


def memory_in_use() -> int:
    """Bytes held now: on the accelerator, or by this process on a CPU."""
    stats = jax.devices()[0].memory_stats()
    if stats:
        return int(stats["bytes_in_use"])
    if not STATM.exists():  # not on every system; the peak is the next best
        return peak_memory()
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def peak_memory() -> int:
    """The most bytes ever held: on the accelerator, or by this process on a CPU."""
    stats = jax.devices()[0].memory_stats()
    if stats:
        return int(stats["peak_bytes_in_use"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
