"""A scan that may stop early, and its gradient.

`jax.lax.scan` takes all of its steps, and `jax.lax.while_loop` has no gradient. A window of
training often ends before its last step, with the episode; what follows would be computed for
nothing, forwards and backwards.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.extend as jex
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

Outcome = tuple[tuple[PyTree, PyTree], tuple[PyTree, Bool[Array, ""], PyTree]]
"""((memory, output), (state, whether that was the last step, further output))."""


def scan_until(
    step: Callable[[PyTree, PyTree, PyTree, PyTree], Outcome],
    memory: PyTree,
    state: PyTree,
    taps: PyTree,
    inputs: PyTree,
) -> Outcome:
    """`step(memory, state, tap, input)` over the first axis of taps and inputs, until one says that
    it was the last: memory and state after it, and all outputs, zeros for steps not taken.

    Gradients go through memory and output, and reach memory, taps and what `step` closes over;
    those of state, inputs and further output are zero. So memory, taps and output have floating
    numbers only.
    """
    example = jax.eval_shape(lambda: (memory, state, _at(taps, 0), _at(inputs, 0)))
    step, params = jax.closure_convert(step, *example)

    def one(params: list, memory: PyTree, state: PyTree, tap: PyTree, given: PyTree) -> tuple:
        """A step, and its gradient: a pytree of what it needs to know."""
        moving = lambda params, memory, tap: step(memory, state, tap, given, *params)  # noqa: E731
        out, pull_back, more = jax.vjp(moving, params, memory, tap, has_aux=True)
        return out, more, pull_back

    jaxpr, shape = jax.make_jaxpr(one, return_shape=True)(params, *example)
    alike = _find_alike(jaxpr, len(params), len(jax.tree.leaves(shape[2])))
    (length,) = {len(leaf) for leaf in jax.tree.leaves((taps, inputs))}
    traced = _Traced(jaxpr.jaxpr, shape, alike, length)
    run = jax.custom_vjp(lambda *given: _forward(traced, *given)[0])
    run.defvjp(functools.partial(_forward, traced), functools.partial(_backward, traced))
    return run(params, memory, taps, state, inputs, jaxpr.consts)


class _Traced(NamedTuple):
    """A step as a program, with its gradient among its results."""

    jaxpr: jex.core.Jaxpr
    shape: tuple
    """Of its results: ((memory, output), (state, over, further output), gradient)."""
    alike: list[int | None]
    """For each array of the gradient: which constant or parameter it is, if it is one."""
    length: int
    """How many steps there are at most."""


def _forward(
    traced: _Traced,
    params: list,
    memory: PyTree,
    taps: PyTree,
    state: PyTree,
    inputs: PyTree,
    consts: list,
) -> tuple[Outcome, tuple]:
    run = jex.core.jaxpr_as_fun(jex.core.ClosedJaxpr(traced.jaxpr, consts))

    def advance(now: tuple) -> tuple:
        time, memory, state, _, stacks = now
        leaves = run(*jax.tree.leaves((params, memory, state, _at(taps, time), _at(inputs, time))))
        out, more, pull_back = jax.tree.unflatten(jax.tree.structure(traced.shape), leaves)
        (memory, output), (state, over, further) = out, more
        new = (output, further, _varying(pull_back, traced.alike))
        return time + 1, memory, state, over, _put(stacks, new, time)

    (_, output), (_, _, further), pull_back = traced.shape
    stacks = jax.tree.map(
        lambda leaf: jnp.zeros((traced.length, *leaf.shape), leaf.dtype),
        (output, further, _varying(pull_back, traced.alike)),
    )
    start = (jnp.int32(0), memory, state, jnp.zeros((), bool), stacks)
    taken, memory, state, over, (outputs, more, kept) = jax.lax.while_loop(
        lambda now: (now[0] < traced.length) & ~now[3], advance, start
    )
    return ((memory, outputs), (state, over, more)), (taken, kept, params, taps, consts)


def _backward(traced: _Traced, kept: tuple, cotangents: tuple) -> tuple:
    taken, stacks, params, taps, consts = kept
    of_memory, of_outputs = cotangents[0]
    known = [*consts, *params]

    def retreat(now: tuple) -> tuple:
        time, of_params, of_memory, of_taps = now
        varying = iter(_at(stacks, time))
        leaves = [next(varying) if place is None else known[place] for place in traced.alike]
        pull_back = jax.tree.unflatten(jax.tree.structure(traced.shape[2]), leaves)
        more, of_memory, of_tap = pull_back((of_memory, _at(of_outputs, time)))
        of_params = jax.tree.map(jnp.add, of_params, more)
        return time - 1, of_params, of_memory, _put(of_taps, of_tap, time)

    zeros = jax.tree.map(jnp.zeros_like, (params, taps))
    start = (taken - 1, zeros[0], of_memory, zeros[1])
    moved = jax.lax.while_loop(lambda now: now[0] >= 0, retreat, start)[1:]
    return *moved, None, None, None


def _find_alike(traced: jex.core.ClosedJaxpr, params: int, kept: int) -> list[int | None]:
    """For each of the last `kept` results: which constant or parameter it is, if it is one. Those
    are the same in every step, weights above all, and need not be stored for each."""
    jaxpr = traced.jaxpr
    known = [*jaxpr.constvars, *jaxpr.invars[:params]]
    places = {id(var): place for place, var in enumerate(known)}
    return [places.get(id(var)) for var in jaxpr.outvars[len(jaxpr.outvars) - kept :]]


def _varying(pull_back: PyTree, alike: list[int | None]) -> list:
    leaves = zip(jax.tree.leaves(pull_back), alike, strict=True)
    return [leaf for leaf, place in leaves if place is None]


def _at(tree: PyTree, time: Int[Array, ""] | int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[time], tree)


def _put(stacks: PyTree, new: PyTree, time: Int[Array, ""]) -> PyTree:
    put = lambda stack, leaf: stack.at[time].set(leaf)  # noqa: E731
    return jax.tree.map(put, stacks, new)
