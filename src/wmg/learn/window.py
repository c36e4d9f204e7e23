"""A scan over time that takes the weight gradients of all steps at once.

Differentiating `jax.lax.scan` adds each step's weight gradients to a running sum: many small
products. In `scan` the backward loop carries activations only. The inputs and the output
cotangents of every `Linear` layer leave the loops, stacked over time, and the gradient of the
layer is one product over all steps. Whatever else a step reads is differentiated as usual, so the
gradients equal those of `jax.lax.scan` up to rounding.

A step must not call a layer inside a `jit`, `vmap` or `scan` of its own: JAX would report a leaked
tracer. Call the layer on all rows at once instead.

See docs/design/0002-deferred-weight-gradients.md.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from wmg.agents.layers import Blocks, Linear

Carry = TypeVar("Carry")
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def scan(
    step: Step,
    agent: PyTree,
    carry: Carry,
    inputs: PyTree,
    *,
    until: Callable[[Carry], Bool[Array, ""]] | None = None,
    unroll: int = 1,
) -> tuple[Carry, PyTree]:
    """The last carry and the stacked outputs of `step(agent, carry, input)` for each input.

    Gradients reach the agent and the floating-point arrays of `carry`; inputs are constants. A
    scan that is not unrolled stops when `until(carry)` is true; the remaining outputs are zeros.
    """
    params, static = eqx.partition(agent, eqx.is_inexact_array)
    uses = find_uses(step, agent, carry, inputs)
    parts_of = functools.partial(_parts, uses)

    def forward(params: PyTree, carry: Carry, inputs: PyTree) -> tuple[tuple, tuple]:
        taps = [jnp.zeros(use.result.shape, use.result.dtype) for use in uses]
        one = functools.partial(_tapped_step, step, static, params, parts_of(params), taps)
        taken, carry, (outputs, *kept) = _loop(one, carry, inputs, until, unroll)
        return (carry, outputs), (params, taken, *kept)

    def backward(kept: tuple, cotangents: tuple) -> tuple:
        params, taken, pull_backs, seen = kept
        parts = parts_of(params)

        def one(carry: tuple, now: tuple) -> tuple[tuple, list]:
            (of_carry, total), (pull_back, of_output) = carry, now
            pull_back.args_res[:2] = jax.tree.leaves(params), jax.tree.leaves(parts)
            of_params, _, of_taps, of_carry = pull_back((of_carry, of_output))
            return (of_carry, jax.tree.map(jnp.add, total, of_params)), of_taps

        of_carry, of_outputs = eqx.filter(cotangents, eqx.is_inexact_array)
        # XLA leaves out the sums of weights that are used by calls of their layer alone: all zeros.
        start = (of_carry, jax.tree.map(jnp.zeros_like, params))
        (of_carry, total), of_taps = _loop_back(one, start, (pull_backs, of_outputs), taken, unroll)
        each = zip(uses, parts, seen, of_taps, strict=True)
        of_parts = [use.gradient(part, x, dy) for use, part, x, dy in each]
        (gradient,) = jax.linear_transpose(parts_of, params)(of_parts)
        return jax.tree.map(jnp.add, total, gradient), of_carry, None

    run = jax.custom_vjp(lambda *given: forward(*given)[0])
    run.defvjp(forward, backward)
    return run(params, carry, inputs)


def _tapped_step(
    step: Step, static: PyTree, params: PyTree, parts: list, taps: list, carry: Any, given: PyTree
) -> tuple[Any, tuple]:
    """The next carry; the output, the step's gradient function, and the inputs of all layers."""
    moving, fixed = eqx.partition(carry, eqx.is_inexact_array)

    def tapped(params: PyTree, parts: list, taps: list[Array], moving: PyTree) -> tuple:
        seen: list[Array] = []

        def call(_: StandIn, back: bool, x: Array) -> Array:
            seen.append(x)
            return _tapped(back, parts[len(seen) - 1], x, taps[len(seen) - 1])

        agent = _stand_in(eqx.combine(params, static), call)
        done = step(agent, eqx.combine(moving, fixed), given)
        moving, rest = eqx.partition(done, eqx.is_inexact_array)
        return moving, (rest, seen)

    result: Any = jax.vjp(tapped, params, parts, taps, moving, has_aux=True)
    done, pull_back, (rest, seen) = result
    pull_back.args_res[:2] = None, None  # weights are not stored for each step
    carry, output = eqx.combine(done, rest)
    return carry, (output, pull_back, seen)


class Use(NamedTuple):
    """One call of a layer, or of a part of one, in a step."""

    layer: int
    """Index among the agent's layers."""
    blocks: tuple[int, ...]
    """Arguments of `split`; empty if the whole layer is called."""
    piece: int
    """Which part of a split layer is called."""
    back: bool
    """Whether it is called by `pull_back`, from outputs to inputs."""
    result: jax.ShapeDtypeStruct

    def gradient(self, part: Linear | Blocks, x: Array, dy: Array) -> Any:
        """Gradient of the part, given the stacked inputs and cotangents of the results."""
        rows = dy.ndim - part.bias.ndim
        many = math.prod(dy.shape[:rows])  # not -1: the Core may have no numbers
        x, dy = (a.reshape(many, *a.shape[a.ndim - part.bias.ndim :]) for a in (x, dy))
        if not self.back:
            return part.gradient(x, dy)
        gradient = part.gradient(dy, x)  # the inputs of the part are the results
        return eqx.tree_at(lambda part: part.bias, gradient, jnp.zeros_like(part.bias))


@dataclasses.dataclass(frozen=True)
class StandIn:
    """Takes the place of a layer, or of a part of one, and passes on every call."""

    part: Any
    call: "Callable[[StandIn, bool, Array], Array]"
    layer: int
    blocks: tuple[int, ...] = ()
    piece: int = 0

    def __call__(self, x: Array) -> Array:
        return self.call(self, False, x)

    def pull_back(self, y: Array) -> Array:
        return self.call(self, True, y)

    def split(self, *blocks: int) -> "list[StandIn]":
        parts = enumerate(self.part.split(*blocks))
        return [StandIn(part, self.call, self.layer, blocks, i) for i, part in parts]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)


def _is_layer(node: Any) -> bool:
    return isinstance(node, Linear)


def _stand_in(agent: PyTree, call: Callable[[StandIn, bool, Array], Array]) -> PyTree:
    nodes, tree = jax.tree.flatten(agent, is_leaf=_is_layer)
    layers = itertools.count()
    now = [StandIn(node, call, next(layers)) if _is_layer(node) else node for node in nodes]
    return jax.tree.unflatten(tree, now)


def find_uses(step: Step, agent: PyTree, carry: Any, inputs: PyTree) -> list[Use]:
    """All calls of layers in a step, in order."""
    uses: list[Use] = []

    def call(of: StandIn, back: bool, x: Array) -> Array:
        result = of.part.pull_back(x) if back else of.part(x)
        shape = jax.ShapeDtypeStruct(result.shape, result.dtype)
        uses.append(Use(of.layer, of.blocks, of.piece, back, shape))
        return result

    def trace(agent: PyTree, carry: Any, inputs: PyTree) -> Any:
        return step(_stand_in(agent, call), carry, _at(inputs, 0))

    eqx.filter_eval_shape(trace, agent, carry, inputs)
    return uses


def _parts(uses: list[Use], agent: PyTree) -> list[Linear | Blocks]:
    """The layer, or the part of one, that each use calls."""
    layers = [node for node in jax.tree.leaves(agent, is_leaf=_is_layer) if _is_layer(node)]
    split = functools.cache(lambda layer, blocks: layers[layer].split(*blocks))
    return [split(u.layer, u.blocks)[u.piece] if u.blocks else layers[u.layer] for u in uses]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tapped(back: bool, part: Any, x: Array, tap: Array) -> Array:
    """`part(x)`. The part gets no gradient; the tap gets the cotangent of the result."""
    return part.pull_back(x) if back else part(x)


def _tapped_forward(back: bool, part: Any, x: Array, tap: Array) -> tuple[Array, Any]:
    return _tapped(back, part, x, tap), part


def _tapped_backward(back: bool, part: Any, dy: Array) -> tuple[None, Array, Array]:
    return None, part.product(dy) if back else part.pull_back(dy), dy


_tapped.defvjp(_tapped_forward, _tapped_backward)


def _loop(
    one: Callable, carry: Any, xs: PyTree, until: Callable | None, unroll: int
) -> tuple[Int[Array, ""] | None, Any, PyTree]:
    """The number of steps taken (None for all), the last carry and the stacked outputs."""
    length = len(jax.tree.leaves(xs)[0])
    if until is None or unroll > 1 or length == 1:
        return None, *jax.lax.scan(one, carry, xs, unroll=unroll)
    return _while(one, carry, xs, 0, 1, lambda time, carry: (time < length) & ~until(carry))


def _loop_back(
    one: Callable, carry: Any, xs: PyTree, taken: Int[Array, ""] | None, unroll: int
) -> tuple[Any, PyTree]:
    """The last carry and the stacked outputs of the steps taken, in reverse order."""
    if taken is None:
        return jax.lax.scan(one, carry, xs, unroll=unroll, reverse=True)
    return _while(one, carry, xs, taken - 1, -1, lambda time, carry: time >= 0)[1:]


def _while(
    one: Callable, carry: Any, xs: PyTree, time: Any, change: int, goes_on: Callable
) -> tuple[Int[Array, ""], Any, PyTree]:
    """A scan from `time` in steps of `change`, while `goes_on(time, carry)`."""
    like = jax.eval_shape(lambda carry, xs: one(carry, _at(xs, 0)), carry, xs)[1]
    length = len(jax.tree.leaves(xs)[0])
    stacks = [jnp.zeros((length, *x.shape), x.dtype) for x in jax.tree.leaves(like)]

    def advance(now: tuple) -> tuple:
        time, carry, stacks = now
        carry, output = one(carry, _at(xs, time))
        each = zip(stacks, jax.tree.leaves(output), strict=True)
        return time + change, carry, [stack.at[time].set(x) for stack, x in each]

    start = (jnp.int32(time), carry, stacks)
    time, carry, stacks = jax.lax.while_loop(lambda now: goes_on(*now[:2]), advance, start)
    return time, carry, jax.tree.unflatten(jax.tree.structure(like), stacks)


def _at(tree: PyTree, time: Int[Array, ""] | int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[time], tree)
