"""How fast an agent that has learned goes on training, when windows often end with an episode.

`wmg bench` measures the start of training, whose episodes are long. Here shipped models are trained
on, with a learning rate that leaves them as they are.

    python benchmarks/solved_agents.py
"""

import dataclasses
import json
import statistics
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from wmg.cli.start import prepare_jax
from wmg.runs import models
from wmg.runs.task import stack_hypers
from wmg.runs.train import make_task
from wmg.tools import machine

CHUNK, CHUNKS = 1500, 3


def measure(name: str) -> dict[str, Any]:
    """Steps per second, and how many steps of a window are taken."""
    agent, settings = models.find(name)
    still = dataclasses.replace(settings.hyper, learning_rate=1e-9)
    settings = dataclasses.replace(settings, hyper=still, goal=None, runs=1)
    task = make_task(settings, None)
    runs, hyper, advance = task.start(), stack_hypers(settings), task.advance()
    stacked = jax.tree.map(lambda x: jnp.asarray(x)[None] if eqx.is_array(x) else x, agent)
    runs = eqx.tree_at(lambda runs: runs.agent, runs, stacked)
    runs, _ = jax.block_until_ready(advance(hyper, runs, 200))
    rates, taken = [], []
    for _ in range(CHUNKS):
        began, before = time.perf_counter(), int(runs.steps[0])
        runs, totals = jax.block_until_ready(advance(hyper, runs, before + CHUNK))
        rates.append((int(runs.steps[0]) - before) / (time.perf_counter() - began))
        taken.append(float(totals.steps[0] / totals.windows[0]))
    return {
        "steps_per_second": round(statistics.median(rates), 1),
        "steps_per_second_each_chunk": [round(rate, 1) for rate in rates],
        "window": settings.t_max,
        "steps_of_a_window_taken": round(statistics.mean(taken), 2),
    }


if __name__ == "__main__":
    prepare_jax()
    found = {name: measure(name) for name in (f"babyai-level{n}-wmg" for n in (2, 4, 5))}
    print(json.dumps({"models": found, "hardware": machine.describe()}, indent=1))
