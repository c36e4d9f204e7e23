"""Batches runs (with `wmg.runs.devices`); nothing else does.

On an accelerator many runs are one program, split over the devices. On a CPU, where batched small
products are slow, each run is the single-run program; its result then does not depend on the other
runs of the batch. A run in many environments is a program of its own, whose environments are split
over the devices. Runs in environments of Python are trained one after the other. The environment is
always an argument of the program: the arrays it holds are not compiled into it.
"""

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from wmg.config import Hyper, Precision
from wmg.learn.rule import Rule
from wmg.runs import devices, xla_options
from wmg.tools.machine import cores
from wmg.types import Env, Run, Totals

Tree = TypeVar("Tree")
Advance = Callable[[Hyper, Run, Any], tuple[Run, Totals]]
"""Trains a batch of runs, given their numbers and states along a first axis and the step count to
advance to, one for all runs or one for each. A `Program` is also given the environment."""
Program = Callable[[Env, Hyper, Run, Any], tuple[Run, Totals]]


def take(tree: Tree, rows: Any) -> Tree:
    """One run of a batch, or several."""
    return jax.tree.map(lambda leaf: leaf[rows], tree)


@jax.jit
def take_rows(tree: Tree, rows: Any) -> Tree:
    """`take` as one program. Otherwise JAX compiles one for each row and leaf."""
    return take(tree, rows)


@jax.jit
def stack(trees: list[Tree]) -> Tree:
    """A batch of single runs."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def products(precision: Precision) -> contextlib.AbstractContextManager[None]:
    """A context in which matrix products of float32 are compiled for this precision.

    JAX's own default on a GPU is TF32. A CPU computes in float32 whatever is asked for.
    """
    if on_cpu():
        return contextlib.nullcontext()
    return jax.default_matmul_precision("highest" if precision == "float32" else "tensorfloat32")


def computed_precision(precision: Precision) -> Precision:
    """The precision in which this machine computes products if it is asked for `precision`."""
    return "float32" if on_cpu() and precision == "tf32" else precision


def over_runs(rule: Rule, env: Env, precision: Precision = "float32") -> Advance:
    """The function that trains a batch of runs by a rule."""
    return functools.partial(program(rule, precision), env)


def program(rule: Rule, precision: Precision) -> Program:
    """The function that trains a batch of runs by a rule, in the environment it is given."""

    def advance(
        env: Env, hyper: Hyper, run: Run, until: jax.Array, batch: str | None = None
    ) -> tuple[Run, Totals]:
        with products(precision):
            return rule.advance(env, hyper, run, until, batch)

    if on_cpu():
        one = jax.jit(advance, compiler_options=xla_options.for_cpu(), donate_argnums=2)
        return functools.partial(_map_over_cores, one)
    if rule.spread == "envs":
        one = jax.jit(advance, compiler_options=xla_options.for_gpu(), donate_argnums=2)
        return functools.partial(_in_turn, one)

    def mapped(env: Env, hyper: Hyper, runs: Run, until: jax.Array) -> tuple[Run, Totals]:
        one = functools.partial(advance, env, batch="batch")
        return jax.vmap(one, axis_name="batch")(hyper, runs, until)

    return devices.split_runs(mapped)


def on_cpu() -> bool:
    """Whether runs are spread over CPU cores."""
    return jax.default_backend() == "cpu"


def map_over_cores(work: Callable[[int], Tree], count: int) -> list[Tree]:
    """The results of `work(0)` to `work(count - 1)`, as many at a time as there are cores."""
    if count == 1:
        return [work(0)]
    pool = concurrent.futures.ThreadPoolExecutor(cores())
    try:
        return list(pool.map(work, range(count)))
    finally:  # an interrupt does not wait for computations that still run
        pool.shutdown(wait=False, cancel_futures=True)


def _map_over_cores(
    one: Callable, env: Env, hyper: Hyper, runs: Run, until: Any
) -> tuple[Run, Totals]:
    count = runs.steps.shape[0]
    until = np.broadcast_to(np.asarray(until, np.int32), count)

    def train(index: int) -> tuple[Run, Totals]:
        mine = take_rows((hyper, runs), index)
        return jax.block_until_ready(one(env, *mine, jnp.asarray(until[index])))

    return stack(map_over_cores(train, count))


def _in_turn(one: Callable, env: Env, hyper: Hyper, runs: Run, until: Any) -> tuple[Run, Totals]:
    """One run after the other, the environments of each split over the devices."""
    count = runs.steps.shape[0]
    until, trained = np.broadcast_to(np.asarray(until, np.int32), count), []
    for index in range(count):
        mine = devices.split_environments(*take_rows((hyper, runs), index))
        trained.append(one(env, *mine, until[index]))
    return stack(trained)
