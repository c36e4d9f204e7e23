"""Weight gradients of a whole window at once.

Differentiating a scan over time adds each step's weight gradients to a running sum: many small
products. Here the backward scan carries activations only. Each layer that a step calls once is
*tapped*: its inputs and its output cotangents leave the scan, stacked over time, and its
gradient is one product over all steps and nodes. Layers that are called more often or read
directly, and all other arrays, are differentiated in the ordinary manner, so an agent need know
only that the layers of its two parts are not shared: `value_and_grad` equals
`jax.value_and_grad` up to rounding (tested). Only a layer called inside a `vmap` or `scan` of
the agent's own is refused (by JAX, as a leaked tracer): call it on all rows at once instead.

See docs/design/0002-deferred-weight-gradients.md for the measurements behind it.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from wmg.agents.layers import Linear
from wmg.config import BadInput

Model = TypeVar("Model")
Aux = TypeVar("Aux")


class TappedLayer:
    """Stands in for a layer in the model that a differentiated step calls. Its tap is zeros in the
    shape of the layer's output, whose gradient is the output's cotangent."""

    def __init__(self, layer: Linear, tap: Array):
        self.layer, self.tap = layer, tap
        self.inputs: Array | None = None

    def __call__(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        self.inputs = x
        return _tapped(self.layer, x, self.tap)


def _inputs(layers: list[TappedLayer | None]) -> list[Array | None]:
    """What each layer was called with."""
    return [None if layer is None else layer.inputs for layer in layers]


@jax.custom_vjp
def _tapped(layer: Linear, x: Array, tap: Array) -> Array:
    """`layer(x)`, whose parameters get no gradient here and whose tap gets the cotangent."""
    return layer(x)


def _tapped_forward(layer: Linear, x: Array, tap: Array) -> tuple[Array, Linear]:
    return layer(x), layer


def _tapped_backward(layer: Linear, dy: Array) -> tuple[None, Array, Array]:
    return None, layer.pull_back(dy), dy


_tapped.defvjp(_tapped_forward, _tapped_backward)


class _Absent:
    """Stands, outside of the scan, where a layer is that steps call."""

    def __getattr__(self, name: str) -> Any:
        raise BadInput("a layer that an agent calls to summarise cannot serve to decide as well")

    def __call__(self, x: Array) -> Array:
        return self.weight


class _Witness:
    """Stands in for a layer while a step is traced once, to note how it is used."""

    def __init__(self, layer: Linear):
        self.layer = layer
        self.outputs: list[jax.ShapeDtypeStruct] = []
        self.used_directly = False

    def __call__(self, x: Array) -> Array:
        y = self.layer(x)
        self.outputs.append(jax.ShapeDtypeStruct(y.shape, y.dtype))
        return y

    @property
    def weight(self) -> Array:
        self.used_directly = True
        return self.layer.weight

    @property
    def bias(self) -> Array:
        self.used_directly = True
        return self.layer.bias


def _is_layer(node: Any) -> bool:
    return isinstance(node, Linear)


def _find_taps(model: PyTree, step: Callable[[PyTree], Any], time: int) -> list[Array | None]:
    """For each layer of the model, in order: zeros if `step` calls it exactly once."""
    witnesses: list[_Witness] = []

    def run(model: PyTree) -> Any:
        nodes, tree = jax.tree.flatten(model, is_leaf=_is_layer)
        nodes = [_Witness(node) if _is_layer(node) else node for node in nodes]
        witnesses.extend(node for node in nodes if isinstance(node, _Witness))
        return step(jax.tree.unflatten(tree, nodes))

    eqx.filter_eval_shape(run, model)
    return [
        jnp.zeros((time, *w.outputs[0].shape), w.outputs[0].dtype)
        if len(w.outputs) == 1 and not w.used_directly
        else None
        for w in witnesses
    ]


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
    taps = _find_taps(model, step, time)
    nodes, tree = jax.tree.flatten(model, is_leaf=_is_layer)
    places = [i for i, node in enumerate(nodes) if _is_layer(node)]
    tapped = {place for place, tap in zip(places, taps, strict=True) if tap is not None}
    rest = [None if i in tapped else node for i, node in enumerate(nodes)]
    moving, fixed = eqx.partition(rest, eqx.is_inexact_array)

    def outer(trained: tuple[PyTree, list[Array | None]]) -> tuple[Array, tuple[Aux, Any]]:
        moving, taps = trained
        plain = eqx.combine(moving, fixed)

        def model_at(slice_: list[Array | None]) -> tuple[Model, Callable[[], list]]:
            now = list(plain)
            layers = [
                None if tap is None else TappedLayer(nodes[place], tap)
                for place, tap in zip(places, slice_, strict=True)
            ]
            for place, layer in zip(places, layers, strict=True):
                now[place] = now[place] if layer is None else layer
            return jax.tree.unflatten(tree, now), functools.partial(_inputs, layers)

        rest = [_Absent() if i in tapped else node for i, node in enumerate(plain)]
        return loss(jax.tree.unflatten(tree, rest), model_at, taps)

    (value, (aux, inputs)), (gradient, cotangents) = jax.value_and_grad(outer, has_aux=True)(
        (moving, taps)
    )
    for place, x, dy in zip(places, inputs, cotangents, strict=True):
        if dy is not None:
            rows = [a.reshape(-1, a.shape[-1]) for a in (x, dy)]
            gradient[place] = nodes[place].gradient(*rows)
    return (value, aux), jax.tree.unflatten(tree, gradient)
