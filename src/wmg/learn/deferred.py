"""Weight gradients of a whole window at once.

Differentiating a scan over time adds each step's weight gradients to a running sum: many small
products. Here the backward scan carries activations only. Each layer that a step uses once, as it
is or in parts, is *tapped*: its inputs and its output cotangents leave the scan, stacked over time,
and its gradient is one product over all steps and nodes. Layers that are used more often or read
directly, and all other arrays, are differentiated in the ordinary manner, so an agent need know
only that the layers of its two parts are not shared: `value_and_grad` equals
`jax.value_and_grad` up to rounding (tested). Only a layer called inside a `vmap` or `scan` of
the agent's own is refused (by JAX, as a leaked tracer): call it on all rows at once instead.

See docs/design/0002-deferred-weight-gradients.md for the measurements behind it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from wmg.agents.layers import Blocks, Linear
from wmg.tools.errors import BadInput

Model = TypeVar("Model")
Aux = TypeVar("Aux")
Taps = dict[int, list[Array]]
"""Of the layers that have some, by their place in the model: one for each part."""


class Use(NamedTuple):
    """How a step uses a layer, or a part of one."""

    back: bool
    """Whether by `pull_back`, from outputs to inputs."""
    result: jax.ShapeDtypeStruct


class Plan(NamedTuple):
    """How a step uses a layer, all of it once."""

    blocks: tuple[int, ...]
    """Of each part it is split into; empty if it is not."""
    uses: list[Use]
    """Of each part, or of the layer."""

    def parts(self, layer: Linear) -> Sequence[Linear | Blocks]:
        return layer.split(*self.blocks) if self.blocks else [layer]

    def taps(self, time: int) -> list[Array]:
        return [jnp.zeros((time, *use.result.shape), use.result.dtype) for use in self.uses]

    def stand_in(self, parts: "list[TappedPart]") -> "TappedPart | SplitLayer":
        return SplitLayer(parts) if self.blocks else parts[0]

    def gradient(
        self, parts: Sequence[Linear | Blocks], given: list[Array], cotangents: list[Array]
    ) -> Linear:
        """Of the layer, from what each use was given and its result's cotangent."""
        each = zip(parts, self.uses, given, cotangents, strict=True)
        found = [_gradient(*one) for one in each]
        return Linear.join(found) if self.blocks else found[0]


def _gradient(part: Linear | Blocks, use: Use, x: Array, dy: Array) -> Any:
    x, dy = (a.reshape(-1, *a.shape[a.ndim - part.bias.ndim :]) for a in (x, dy))
    if not use.back:
        return part.gradient(x, dy)
    gradient = part.gradient(dy, x)  # inputs are what came out
    return eqx.tree_at(lambda part: part.bias, gradient, jnp.zeros_like(part.bias))


class TappedPart:
    """Stands in for a layer, or a part of one, in the model that a differentiated step calls. Its
    tap is zeros in the shape of its result, whose gradient is the result's cotangent."""

    def __init__(self, part: Linear | Blocks, tap: Array):
        self.part, self.tap = part, tap
        self.given: Array | None = None

    def __call__(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        self.given = x
        return _tapped(False, self.part, x, self.tap)

    def pull_back(self, y: Float[Array, "*rows out"]) -> Float[Array, "*rows in"]:
        self.given = y
        return _tapped(True, self.part, y, self.tap)


class SplitLayer(NamedTuple):
    """Stands in for a layer that a step splits."""

    parts: list[TappedPart]

    def split(self, *_: int) -> list[TappedPart]:
        return self.parts


def _given(parts: dict[int, list[TappedPart]]) -> dict[int, list[Array | None]]:
    """What each part was called with."""
    return {place: [part.given for part in some] for place, some in parts.items()}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tapped(back: bool, part: Any, x: Array, tap: Array) -> Array:
    """`part(x)`, whose parameters get no gradient here and whose tap gets the cotangent."""
    return part.pull_back(x) if back else part(x)


def _tapped_forward(back: bool, part: Any, x: Array, tap: Array) -> tuple[Array, Any]:
    return _tapped(back, part, x, tap), part


def _tapped_backward(back: bool, part: Any, dy: Array) -> tuple[None, Array, Array]:
    return None, part.product(dy) if back else part.pull_back(dy), dy


_tapped.defvjp(_tapped_forward, _tapped_backward)


class _Absent:
    """Stands, outside of the scan, where a layer is that steps call."""

    def __getattr__(self, name: str) -> Any:
        raise BadInput("a layer that an agent calls to summarise cannot serve to decide as well")

    def __call__(self, x: Array) -> Array:
        return self.weight


class _Witness:
    """Stands in for a layer or a part while a step is traced once, to note how it is used."""

    def __init__(self, layer: Linear | Blocks):
        self.layer = layer
        self.uses: list[Use] = []
        self.blocks: tuple[int, ...] = ()
        self.parts: list[_Witness] = []
        self.used_directly = False

    def __call__(self, x: Array) -> Array:
        return self._note(False, self.layer(x))

    def pull_back(self, y: Array) -> Array:
        return self._note(True, self.layer.pull_back(y))

    def split(self, *blocks: int) -> "list[_Witness]":
        self.used_directly |= bool(self.parts)
        self.blocks = blocks
        self.parts = [_Witness(part) for part in self.layer.split(*blocks)]  # type: ignore
        return self.parts

    def _note(self, back: bool, result: Array) -> Array:
        self.uses.append(Use(back, jax.ShapeDtypeStruct(result.shape, result.dtype)))
        return result

    def __getattr__(self, name: str) -> Any:
        self.used_directly = True
        return getattr(self.layer, name)

    def plan(self) -> Plan | None:
        """None unless all of the layer is used exactly once."""
        each = self.parts or [self]
        both = self.parts and self.uses
        once = all(len(one.uses) == 1 for one in each)
        if both or not once or any(one.used_directly for one in (self, *self.parts)):
            return None
        return Plan(self.blocks, [one.uses[0] for one in each])


def _is_layer(node: Any) -> bool:
    return isinstance(node, Linear)


def find_plans(model: PyTree, step: Callable[[PyTree], Any]) -> list[Plan | None]:
    """For each layer of the model, in order, how `step` uses it, if exactly once."""
    witnesses: list[_Witness] = []

    def run(model: PyTree) -> Any:
        nodes, tree = jax.tree.flatten(model, is_leaf=_is_layer)
        nodes = [_Witness(node) if _is_layer(node) else node for node in nodes]
        witnesses.extend(node for node in nodes if isinstance(node, _Witness))
        return step(jax.tree.unflatten(tree, nodes))

    eqx.filter_eval_shape(run, model)
    return [witness.plan() for witness in witnesses]


def value_and_grad(
    loss: Callable[..., tuple[Float[Array, ""], tuple[Aux, Any]]],
    model: Model,
    step: Callable[[Model], Any],
    time: int,
) -> tuple[tuple[Float[Array, ""], Aux], Model]:
    """`((loss, aux), gradient)` of a loss that scans `step` over `time` steps.

    `loss(rest, model_at, taps)` must scan over `taps`. In each step it calls the model that
    `model_at(tap)` gives, and returns that step's `inputs()` from the scan. Outside of the scan
    it may call `rest`: the model without the layers that steps call. It returns the loss and
    `(aux, stacked inputs)`.
    """
    nodes, tree = jax.tree.flatten(model, is_leaf=_is_layer)
    places = [i for i, node in enumerate(nodes) if _is_layer(node)]
    found = zip(places, find_plans(model, step), strict=True)
    plans = {place: plan for place, plan in found if plan is not None}
    parts = {place: plan.parts(nodes[place]) for place, plan in plans.items()}
    rest = [None if i in plans else node for i, node in enumerate(nodes)]
    moving, fixed = eqx.partition(rest, eqx.is_inexact_array)

    def outer(trained: tuple[PyTree, Taps]) -> tuple[Array, tuple[Aux, Any]]:
        moving, taps = trained
        plain = eqx.combine(moving, fixed)

        def model_at(tap: Taps) -> tuple[Model, Callable[[], dict]]:
            now, tapped = list(plain), {}
            for place, plan in plans.items():
                tapped[place] = list(map(TappedPart, parts[place], tap[place]))
                now[place] = plan.stand_in(tapped[place])
            return jax.tree.unflatten(tree, now), functools.partial(_given, tapped)

        rest = [_Absent() if i in plans else node for i, node in enumerate(plain)]
        return loss(jax.tree.unflatten(tree, rest), model_at, taps)

    taps = {place: plan.taps(time) for place, plan in plans.items()}
    (value, (aux, given)), (gradient, cotangents) = jax.value_and_grad(outer, has_aux=True)(
        (moving, taps)
    )
    for place, plan in plans.items():
        gradient[place] = plan.gradient(parts[place], given[place], cotangents[place])
    return (value, aux), jax.tree.unflatten(tree, gradient)
