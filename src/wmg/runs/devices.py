"""Splitting over the devices of an accelerator: a batch of runs, or the environments of one."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wmg.config import Hyper
from wmg.runs import xla_options
from wmg.types import Env, Run, Totals


def sharding_for(count: int, axis: str = "runs") -> jax.sharding.NamedSharding:
    """Sharding over the largest number of devices that divides `count`."""
    devices = max(n for n in range(1, jax.device_count() + 1) if count % n == 0)
    return jax.sharding.NamedSharding(
        jax.sharding.Mesh(jax.devices()[:devices], (axis,)), jax.P(axis)
    )


def split_runs(batch: Callable) -> Callable:
    """A program for a batch of runs, compiled so that each device trains its share of them."""
    compiled: dict[int, Any] = {}

    def advance(env: Env, hyper: Hyper, runs: Run, until: Any) -> tuple[Run, Totals]:
        count = runs.steps.shape[0]
        spread = sharding_for(count)
        if count not in compiled:
            sharded = jax.shard_map(
                batch,
                mesh=spread.mesh,
                in_specs=(jax.P(), spread.spec, spread.spec, spread.spec),
                out_specs=spread.spec,
                check_vma=False,
            )
            options = xla_options.for_gpu()
            compiled[count] = jax.jit(sharded, compiler_options=options, donate_argnums=2)
        # Placed beforehand, so that the first call compiles for what later calls are given.
        until = np.broadcast_to(np.asarray(until, np.int32), count)
        return compiled[count](env, *jax.device_put((hyper, runs, until), spread))

    return advance


def split_environments(hyper: Hyper, run: Run) -> tuple[Hyper, Run]:
    """One run whose environments are split over the devices; the agent is on each, and XLA sums
    gradients."""
    split = sharding_for(run.scene.observation.core.shape[0], "envs")
    whole = jax.sharding.NamedSharding(split.mesh, jax.P())
    places = dataclasses.replace(
        jax.tree.map(lambda leaf: whole, run), scene=jax.tree.map(lambda leaf: split, run.scene)
    )
    return jax.device_put((hyper, run), (whole, places))
