"""The Transformer of many environments on a GPU, with kernels for what lies between products.

Operation by operation, a GPU spends most of a layer on reading and writing what lies between two
products. Here attention is one kernel, and so is all that follows the mixing of heads, up to the
layer's output; the backward pass has one for each as well. Large products, of all nodes of all
environments at once, are left to the compiler. Of a layer its input is kept for the backward pass,
and the sum that is normalised first; the rest is computed again.

What an environment adds to the gradient of small parameters is summed in a kernel, and over
environments outside of it: in a fixed order, so that the same run gives the same result.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float

from wmg.agents.layers import EPSILON
from wmg.agents.transformer import Transformer, TransformerLayer

SMALLEST = 16
"""No side of a product on tensor cores may be shorter."""
MOST_NODES, LARGEST, LARGEST_HEAD = 128, 256, 64
"""Nodes, numbers in each, and in each head, up to which a program needs at most 74 kB of shared
memory: any GPU that computes in bfloat16 has 99."""
ROWS = 32
"""Nodes that one program takes through the feed-forward block."""
ROWS_BACK = 16
"""Nodes that it takes back at a time."""
VECTORS = (
    "mix_bias", "norm1_gain", "norm1_bias", "narrow_bias", "norm2_gain", "norm2_bias", "widen_bias"
)  # fmt: skip
"""Parameters of a layer that are as long as a node, the last one with zeros after it."""


class FusedLayer(eqx.Module):
    """A layer's parameters as the kernels want them."""

    qkv: Float[Array, "three_sizes size"]
    qkv_bias: Float[Array, "3 size"]
    mix: Float[Array, "size size"]
    small: Float[Array, "rows size"]
    """From the top: `widen`, `narrow` turned, VECTORS; each with zeros after it."""

    @staticmethod
    def of(layer: TransformerLayer) -> "FusedLayer":
        size, hidden = layer.widen.weight.shape[1], layer.widen.bias.size
        norm1, norm2 = layer.attention_norm, layer.feedforward_norm
        vectors = jnp.stack([
            layer.mix.bias, norm1.gain, norm1.bias, layer.narrow.bias, norm2.gain, norm2.bias,
            jnp.pad(layer.widen.bias, (0, size - hidden)),
        ])  # fmt: skip
        small = (layer.widen.weight, layer.narrow.weight.T, vectors)
        small = [jnp.pad(part, ((0, SMALLEST - len(part)), (0, 0))) for part in small]
        return FusedLayer(
            layer.qkv.weight,
            layer.qkv.bias.reshape(3, size),
            layer.mix.weight,
            jnp.concatenate(small),
        )


class FusedTransformer(eqx.Module):
    """Does what a `Transformer` does, for many at once."""

    layers: tuple[FusedLayer, ...]
    heads: int = eqx.field(static=True)

    @staticmethod
    def of(transformer: Transformer) -> "FusedTransformer":
        heads = transformer.layers[0].heads
        return FusedTransformer(tuple(map(FusedLayer.of, transformer.layers)), heads)

    def of_all(
        self, x: Float[Array, "envs nodes size"], present: Bool[Array, "envs nodes"]
    ) -> tuple[Float[Array, "envs size"], None]:
        """The Core's output; attention to whom is not told."""
        more = _power_of_two(x.shape[1]) - x.shape[1]
        x = jnp.pad(x, ((0, 0), (0, more), (0, 0)))
        absent = jnp.where(jnp.pad(present, ((0, 0), (0, more))), 0.0, -jnp.inf)
        for layer in self.layers:
            x = apply(layer, x, absent, self.heads)
        return x[:, 0], None


def fits(transformer: Transformer, nodes: int) -> bool:
    """Whether there are kernels for layers of that kind."""
    layer = transformer.layers[0]
    hidden, size = layer.widen.weight.shape
    head = size // layer.heads
    whole = all(side == _power_of_two(side) for side in (size, head))
    small = size <= LARGEST and head <= LARGEST_HEAD and hidden <= SMALLEST
    return whole and small and nodes <= MOST_NODES


def _power_of_two(number: int) -> int:
    return max(SMALLEST, 1 << (number - 1).bit_length())


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def apply(
    layer: FusedLayer,
    x: Float[Array, "envs nodes size"],
    absent: Float[Array, "envs nodes"],
    heads: int,
) -> Float[Array, "envs nodes size"]:
    """A layer's new vectors of all nodes. Those that are `absent` have -inf there, others 0."""
    return _apply_forward(layer, x, absent, heads)[0]


def _apply_forward(layer: FusedLayer, x: Array, absent: Array, heads: int) -> tuple:
    qkv = _by_head(_qkv(layer, x), heads)
    (mixed,) = _call(_attend, (len(x), heads), [qkv, _by_env(absent)], [_by_head(x, heads)])
    bias = layer.small[2 * SMALLEST + VECTORS.index("mix_bias")]
    total = x + _product(mixed, layer.mix, 1) + bias
    rows = _by_env(total.reshape(-1, min(ROWS, x.shape[1]), x.shape[2]))
    (y,) = _call(_feedforward, rows[0].shape[:1], [rows, _whole(layer.small)], [rows])
    return y.reshape(x.shape), (layer, x, absent, total)


def _apply_backward(heads: int, residuals: tuple, dy: Array) -> tuple:
    layer, x, absent, total = residuals

    def one_of(like: Array) -> jax.ShapeDtypeStruct:
        """What every environment adds to a parameter's gradient."""
        return jax.ShapeDtypeStruct((len(x), *like.shape), jnp.float32)

    inputs = [_by_env(total), _by_env(dy), _whole(layer.small)]
    outputs = [_by_env(x), _by_env(one_of(layer.small))]
    dtotal, dsmall = _call(_feedforward_backward, x.shape[:1], inputs, outputs)
    qkv, dmixed = _qkv(layer, x), _product(dtotal, layer.mix, 0)
    inputs = [_by_head(qkv, heads), _by_env(absent), _by_head(dmixed, heads)]
    outputs = [_by_head(like, heads) for like in (x, qkv, one_of(layer.qkv_bias))]
    mixed, dqkv, dbias = _call(_attend_backward, (len(x), heads), inputs, outputs)
    dqkv = dqkv.reshape(*x.shape[:2], -1)
    gradient = FusedLayer(
        _over_nodes(dqkv, x), dbias.sum(0), _over_nodes(dtotal, mixed), dsmall.sum(0)
    )
    gradient = jax.tree.map(lambda new, old: new.astype(old.dtype), gradient, layer)
    return gradient, dtotal + _product(dqkv, layer.qkv, 0), None


apply.defvjp(_apply_forward, _apply_backward)


def _qkv(layer: FusedLayer, x: Array) -> Float[Array, "envs nodes 3 size"]:
    """Queries, keys and values of all nodes."""
    qkv = _product(x, layer.qkv, 1) + layer.qkv_bias.reshape(-1)
    return qkv.reshape(*x.shape[:2], 3, x.shape[2])


def _product(x: Float[Array, "envs nodes in"], weight: Array, side: int) -> Array:
    """Of every node and a weight matrix, whose `side` is as long as a node."""
    return jax.lax.dot_general(x, weight, (((2,), (side,)), ((), ())))


def _over_nodes(dy: Float[Array, "envs nodes out"], x: Float[Array, "envs nodes in"]) -> Array:
    """A weight gradient: the sum over all nodes of all environments."""
    both = ((0, 1), (0, 1))
    return jax.lax.dot_general(dy, x, (both, ((), ())), preferred_element_type=jnp.float32)


Part = tuple[Any, pl.BlockSpec]
"""An array, or the shape of one, and what of it a program sees."""


def _by_env(x: Any) -> Part:
    return x, pl.BlockSpec((None, *x.shape[1:]), lambda *at: (at[0], *[0] * (x.ndim - 1)))


def _by_head(x: Any, heads: int) -> Part:
    """What belongs to a head is side by side in the last axis."""
    block = (None, *x.shape[1:-1], x.shape[-1] // heads)
    return x, pl.BlockSpec(block, lambda env, head: (env, *[0] * (x.ndim - 2), head))


def _whole(x: Array) -> Part:
    return x, pl.BlockSpec(x.shape, lambda *at: (0,) * x.ndim)


def _call(kernel: Any, grid: tuple, inputs: list[Part], outputs: list[Part]) -> tuple[Array, ...]:
    """Run a kernel: as many programs as the grid has places."""
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[spec for _, spec in inputs],
        out_specs=[spec for _, spec in outputs],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x, _ in outputs],
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=jax.default_backend() == "cpu",
        name=kernel.__name__.strip("_"),
    )(*(x for x, _ in inputs))


WARPS = 4
"""Groups of 32 threads in a program: on an H200, every kernel is slower with 8."""


def _dot(a: Array, b: Array, sides: tuple[int, int] = (1, 0)) -> Array:
    """A product over one side of each, summed in float32."""
    over = (((sides[0],), (sides[1],)), ((), ()))
    return jax.lax.dot_general(a, b, over, preferred_element_type=jnp.float32)


def _attention(q: Array, k: Array, absent: Array) -> Array:
    """What each node attends to: the rows add up to 1."""
    scores = _dot(q, k, (1, 1)) * q.shape[1] ** -0.5 + absent[None]
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _attend(qkv_ref: Any, absent_ref: Any, mixed_ref: Any) -> None:
    """Attention of one head in one environment."""
    q, k, v = (qkv_ref[:, part, :] for part in range(3))
    attention = _attention(q, k, absent_ref[...]).astype(v.dtype)
    mixed_ref[...] = _dot(attention, v).astype(v.dtype)


def _attend_backward(
    qkv_ref: Any, absent_ref: Any, dmixed_ref: Any, mixed_ref: Any, dqkv_ref: Any, dbias_ref: Any
) -> None:
    """Its gradient. What is mixed is computed again: the gradient of `mix` needs it."""
    (q, k, v), dmixed = (qkv_ref[:, part, :] for part in range(3)), dmixed_ref[...]
    attention = _attention(q, k, absent_ref[...])
    short = attention.astype(v.dtype)
    mixed_ref[...] = _dot(short, v).astype(v.dtype)
    dattention = _dot(dmixed, v, (1, 1))
    along = (dattention * attention).sum(-1, keepdims=True)
    dscores = (attention * (dattention - along) * q.shape[1] ** -0.5).astype(v.dtype)
    dqkv = _dot(dscores, k), _dot(dscores, q, (0, 0)), _dot(short, dmixed, (0, 0))
    for part, d in enumerate(dqkv):
        dqkv_ref[:, part, :] = d.astype(v.dtype)
        dbias_ref[part, :] = d.sum(0)


def _normal(x: Array) -> tuple[Array, Array]:
    """Rows shifted and scaled to mean 0 and variance 1, and what they were scaled by."""
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON)
    return centred * scale, scale


def _normal_back(dnormal: Array, normal: Array, scale: Array) -> Array:
    along = (dnormal * normal).mean(-1, keepdims=True)
    return scale * (dnormal - dnormal.mean(-1, keepdims=True) - normal * along)


class _Block:
    """The feed-forward block, its parameters loaded."""

    def __init__(self, small: Any):
        self.widen, self.narrow = (small[pl.ds(at, SMALLEST), :] for at in (0, SMALLEST))
        rows = {name: 2 * SMALLEST + row for row, name in enumerate(VECTORS)}
        load = lambda row, columns: small[row, columns].astype(jnp.float32)[None]  # noqa: E731
        self.gain1, self.bias1, self.narrow_bias, self.gain2, self.bias2 = (
            load(rows[name], slice(None))
            for name in ("norm1_gain", "norm1_bias", "narrow_bias", "norm2_gain", "norm2_bias")
        )
        self.widen_bias = load(rows["widen_bias"], pl.ds(0, SMALLEST))

    def __call__(self, total: Array) -> tuple[tuple, tuple, Array, Array]:
        """Of rows that have been added up: both normalised forms, with their scales, and what is
        between, first narrow and then wide."""
        normal1, scale1 = _normal(total.astype(jnp.float32))
        middle = normal1 * self.gain1 + self.bias1
        short = middle.astype(total.dtype)
        hidden = jnp.maximum(_dot(short, self.widen, (1, 1)) + self.widen_bias, 0.0)
        outer = middle + _dot(hidden.astype(total.dtype), self.narrow) + self.narrow_bias
        return (normal1, scale1), _normal(outer), short, hidden


def _feedforward(total_ref: Any, small_ref: Any, y_ref: Any) -> None:
    """From the sum of the layer's input and what was attended to, to its output."""
    block = _Block(small_ref)
    _, (normal, _), _, _ = block(total_ref[...])
    y_ref[...] = (normal * block.gain2 + block.bias2).astype(y_ref.dtype)


def _feedforward_backward(
    total_ref: Any, dy_ref: Any, small_ref: Any, dtotal_ref: Any, dsmall_ref: Any
) -> None:
    """From the output back to that sum."""
    block, short, (nodes, size) = _Block(small_ref), total_ref.dtype, total_ref.shape
    row, column = (jax.lax.broadcasted_iota(jnp.int32, (SMALLEST, size), axis) for axis in (0, 1))
    same = (row == column).astype(short)
    which = jax.lax.broadcasted_iota(jnp.int32, (SMALLEST, ROWS_BACK), 0)

    def columns(name: str, x: Array) -> Array:
        """Sums of columns as one row of many: a product adds them faster than a reduction."""
        return _dot((which == VECTORS.index(name)).astype(short), x.astype(short))

    def back(index: Any, sums: tuple) -> tuple:
        dwiden, dnarrow, dvectors = sums
        rows = pl.ds(index * ROWS_BACK, ROWS_BACK)
        (normal1, scale1), (normal2, scale2), middle, hidden = block(total_ref[rows, :])
        dy = dy_ref[rows, :].astype(jnp.float32)
        dvectors += columns("norm2_gain", dy * normal2) + columns("norm2_bias", dy)
        douter = _normal_back(dy * block.gain2, normal2, scale2)
        dvectors += columns("narrow_bias", douter)
        dnarrow += _dot(hidden.astype(short), douter.astype(short), (0, 0))
        dhidden = _dot(douter.astype(short), block.narrow, (1, 1))
        dhidden = jnp.where(hidden > 0, dhidden, 0.0).astype(short)
        dvectors += columns("widen_bias", _dot(dhidden, same))
        dwiden += _dot(dhidden, middle, (0, 0))
        dmiddle = douter + _dot(dhidden, block.widen)
        dvectors += columns("norm1_gain", dmiddle * normal1) + columns("norm1_bias", dmiddle)
        dtotal = _normal_back(dmiddle * block.gain1, normal1, scale1)
        dvectors += columns("mix_bias", dtotal)
        dtotal_ref[rows, :] = dtotal.astype(short)
        return dwiden, dnarrow, dvectors

    zeros = (jnp.zeros((SMALLEST, size)),) * 3
    sums = jax.lax.fori_loop(0, nodes // ROWS_BACK, back, zeros)
    for index, part in enumerate(sums):
        dsmall_ref[pl.ds(index * SMALLEST, SMALLEST), :] = part
