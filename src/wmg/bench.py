"""How fast training is, how long it compiles, how much memory it takes."""

import pathlib
import resource
import time
from typing import Any

import jax
import numpy as np

from wmg import checkpoint, runfolder, train
from wmg.config import Config


def measure(settings: Config, seconds: float = 20.0) -> dict[str, Any]:
    """Training speed of `settings.runs` runs together, with what is needed to read it.

    Chunks of half a second or more are timed until `seconds` have passed. The median is the
    figure; all are kept, and so is the memory in use after each, which must not grow.
    """
    env = checkpoint.make_env(settings.env)
    runs, hyper = train.start_runs(settings, env), train.stack_hypers(settings)
    advance = train.over_runs(env, settings.t_max)
    began = time.perf_counter()
    runs, _ = jax.block_until_ready(advance(hyper, runs, 1))
    compile_seconds = time.perf_counter() - began
    runs, _ = jax.block_until_ready(advance(hyper, runs, 2 * env.spec.max_steps))  # warm
    chunk = env.spec.max_steps
    rates, memory, ends = [], [], time.perf_counter() + seconds
    while time.perf_counter() < ends or not rates:
        until = int(np.max(runs.steps)) + chunk
        began = time.perf_counter()
        runs, totals = jax.block_until_ready(advance(hyper, runs, until))
        taken, elapsed = int(np.sum(totals.steps)), time.perf_counter() - began
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
        "runs": settings.runs,
        "agent": settings.agent.name,
        "hardware": runfolder.hardware(),
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
