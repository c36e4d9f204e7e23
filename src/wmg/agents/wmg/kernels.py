"""The Transformer of many environments on a GPU, with kernels for what lies between products.

Operation by operation, a GPU spends most of a layer on reading and writing what lies between two
products. Here attention is one kernel, and so is all that follows the mixing of heads, up to the
layer's output; the backward pass has one for each as well. Large products, of all nodes of all
environments at once, are left to the compiler. The backward pass keeps a layer's input and the sum
that is normalised first, and recomputes the rest.

Present nodes lie in one list, environment after environment, so no time is spent on absent ones.
The list has a fixed length. Unused rows hold zeros or other finite numbers and have no gradient.

Gradients of small parameters are summed over some nodes in a kernel, and over all of them outside
of it. The order is fixed, so that the same run gives the same result.
"""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int

from wmg.agents.layers import EPSILON
from wmg.agents.wmg.transformer import Transformer, TransformerLayer

SMALLEST = 16
"""No side of a product on tensor cores may be shorter."""
MOST_NODES, LARGEST, LARGEST_HEAD = 128, 256, 64
"""Nodes, numbers in each, and in each head, up to which a program needs at most 74 kB of shared
memory: any GPU that computes in bfloat16 has 99."""
ROWS, ROWS_BACK = 32, 48
"""Nodes that one program takes through the feed-forward block, and back. With 32, the nodes
of 256 Sokoban levels need a few programs more than an H200 runs at once: a second wave."""
STRIP = 16
"""Nodes that it takes back at a time."""
VECTORS = (
    "mix_bias",
    "norm1_gain",
    "norm1_bias",
    "narrow_bias",
    "norm2_gain",
    "norm2_bias",
    "widen_bias",
)
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
        vectors = jnp.stack(
            [
                layer.mix.bias,
                norm1.gain,
                norm1.bias,
                layer.narrow.bias,
                norm2.gain,
                norm2.bias,
                jnp.pad(layer.widen.bias, (0, size - hidden)),
            ]
        )
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
    room: int = eqx.field(static=True)
    """So many nodes may be present in an environment, in the mean over all of them."""

    @staticmethod
    def of(transformer: Transformer, room: int) -> "FusedTransformer":
        heads = transformer.layers[0].heads
        return FusedTransformer(tuple(map(FusedLayer.of, transformer.layers)), heads, room)

    def of_all(
        self, x: Float[Array, "envs nodes size"], present: Bool[Array, "envs nodes"]
    ) -> tuple[Float[Array, "envs size"], None]:
        """The Core's output; attention to whom is not told."""
        places = Places.of(present, self.room)
        x = _pack(x.reshape(-1, x.shape[2]), places)
        for layer in self.layers:
            x = apply(layer, x, places.segments, self.heads, _power_of_two(present.shape[1]))
        return x.at[places.segments[:, 0]].get(unique_indices=True, indices_are_sorted=True), None


class Places(eqx.Module):
    """Where the nodes that are present lie in a list of them all."""

    segments: Int[Array, "envs 3"]
    """Per environment: index of its first node, number of its nodes, and the row after all nodes
    from which it writes zeros."""
    of_nodes: Int[Array, " all_nodes"]
    """Where each node is; absent ones beyond the list."""
    nodes: Int[Array, " rows"]
    """The node in each place; where none is needed, the first one."""

    @staticmethod
    def of(present: Bool[Array, "envs nodes"], room: int) -> "Places":
        envs, nodes = present.shape
        block = _power_of_two(nodes)
        # A program loads and stores a block, whatever there is of it: the last one's must fit.
        length = _multiple(envs * room + block, math.lcm(ROWS, ROWS_BACK))
        count = present.sum(1, dtype=jnp.int32)
        ends = jnp.cumsum(count)
        within = jnp.cumsum(present, 1, dtype=jnp.int32) - 1
        of_nodes = jnp.where(present, (ends - count)[:, None] + within, length).reshape(-1)
        unused = ends[-1] + block * _blocks(length, envs, block) * jnp.arange(envs)
        at = jnp.zeros(length, jnp.int32).at[of_nodes].set(jnp.arange(envs * nodes), mode="drop")
        return Places(jnp.stack([ends - count, count, unused], axis=1), of_nodes, at)


@jax.custom_vjp
def _pack(x: Float[Array, "all_nodes size"], places: Places) -> Float[Array, "rows size"]:
    return x[places.nodes]


def _pack_backward(places: Places, dx: Array) -> tuple[Array, None]:
    """As a gather, which is faster than to add up."""
    return dx.at[places.of_nodes].get(mode="fill", fill_value=0), None


_pack.defvjp(lambda x, places: (_pack(x, places), places), _pack_backward)


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


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _blocks(length: int, envs: int, block: int) -> int:
    """How many blocks of a list an environment has to clear, if it were all unused."""
    return -(-length // (envs * block))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def apply(
    layer: FusedLayer,
    x: Float[Array, "rows size"],
    segments: Int[Array, "envs 3"],
    heads: int,
    block: int,
) -> Float[Array, "rows size"]:
    """A layer's new vectors of all nodes, at most `block` of them in one environment."""
    return _apply_forward(layer, x, segments, heads, block)[0]


def _apply_forward(layer: FusedLayer, x: Array, segments: Array, heads: int, block: int) -> tuple:
    inputs, grid = [_by_env(segments), _by_head(_qkv(layer, x), heads)], (len(segments), heads)
    blocks = _blocks(len(x), len(segments), block)
    outputs = [_by_head(x[:, None], heads)]
    (mixed,) = _call(functools.partial(_attend, block, blocks), grid, inputs, outputs)
    bias = layer.small[2 * SMALLEST + VECTORS.index("mix_bias")]
    total = x + _product(mixed[:, 0], layer.mix, 1) + bias
    rows = _by_env(_in_parts(total, ROWS))
    (y,) = _call(_feedforward, rows[0].shape[:1], [rows, _whole(layer.small)], [rows])
    return y.reshape(x.shape), (layer, x, segments, total)


def _apply_backward(heads: int, block: int, residuals: tuple, dy: Array) -> tuple:
    layer, x, segments, total = residuals

    def one_of(like: Array, count: int) -> jax.ShapeDtypeStruct:
        """What every program adds to a parameter's gradient."""
        return jax.ShapeDtypeStruct((count, *like.shape), jnp.float32)

    parts = _by_env(_in_parts(total, ROWS_BACK))
    inputs = [parts, _by_env(_in_parts(dy, ROWS_BACK)), _whole(layer.small)]
    count = len(parts[0])
    outputs = [parts, _by_env(one_of(layer.small, count))]
    dtotal, dsmall = _call(_feedforward_backward, (count,), inputs, outputs)
    dtotal, qkv = dtotal.reshape(x.shape), _qkv(layer, x)
    dmixed = _product(dtotal, layer.mix, 0)[:, None]
    inputs = [_by_env(segments), _by_head(qkv, heads), _by_head(dmixed, heads)]
    dbias = one_of(layer.qkv_bias, len(segments))
    outputs = [_by_head(dmixed, heads), _by_head(qkv, heads), _by_env_and_head(dbias, heads)]
    kernel = functools.partial(_attend_backward, block, _blocks(len(x), len(segments), block))
    mixed, dqkv, dbias = _call(kernel, (len(segments), heads), inputs, outputs)
    dqkv = dqkv.reshape(len(x), -1)
    gradient = FusedLayer(
        _over_rows(dqkv, x), dbias.sum(0), _over_rows(dtotal, mixed[:, 0]), dsmall.sum(0)
    )
    gradient = jax.tree.map(lambda new, old: new.astype(old.dtype), gradient, layer)
    return gradient, dtotal + _product(dqkv, layer.qkv, 0), None


apply.defvjp(_apply_forward, _apply_backward)


def _in_parts(x: Float[Array, "rows size"], rows: int) -> Float[Array, "parts some size"]:
    return x.reshape(-1, rows, x.shape[1])


def _qkv(layer: FusedLayer, x: Array) -> Float[Array, "rows 3 size"]:
    """Queries, keys and values of all nodes."""
    qkv = _product(x, layer.qkv, 1) + layer.qkv_bias.reshape(-1)
    return qkv.reshape(len(x), 3, -1)


def _product(x: Float[Array, "rows in"], weight: Array, side: int) -> Array:
    """Of every node and a weight matrix, whose `side` is as long as a node."""
    return jax.lax.dot_general(x, weight, (((1,), (side,)), ((), ())))


def _over_rows(dy: Float[Array, "rows out"], x: Float[Array, "rows in"]) -> Array:
    """A weight gradient: the sum over all nodes of all environments."""
    return jax.lax.dot_general(dy, x, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)


Part = tuple[Any, pl.BlockSpec]
"""An array, or the shape of one, and what of it a program sees."""


def _by_env(x: Any) -> Part:
    return x, pl.BlockSpec((None, *x.shape[1:]), lambda *at: (at[0], *[0] * (x.ndim - 1)))


def _by_head(x: Any, heads: int) -> Part:
    """What belongs to a head is side by side in the last axis."""
    block = (*x.shape[:-1], x.shape[-1] // heads)
    return x, pl.BlockSpec(block, lambda _, head: (*[0] * (x.ndim - 1), head))


def _by_env_and_head(x: Any, heads: int) -> Part:
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
        name=getattr(kernel, "func", kernel).__name__.strip("_"),
    )(*(x for x, _ in inputs))


WARPS = 4
"""Groups of 32 threads in a program: on an H200, every kernel is slower with 8."""


def _dot(a: Array, b: Array, sides: tuple[int, int] = (1, 0)) -> Array:
    """A product over one side of each, summed in float32."""
    over = (((sides[0],), (sides[1],)), ((), ()))
    return jax.lax.dot_general(a, b, over, preferred_element_type=jnp.float32)


class _Segment:
    """The nodes of one environment: the first rows of a block."""

    def __init__(self, segment: Any, block: int, blocks: int):
        self.rows, self.block = pl.ds(segment[0], block), block
        self.unused = [segment[2] + block * index for index in range(blocks)]
        self.own = jnp.arange(block) < segment[1]

    def load(self, ref: Any, part: int = 0) -> Array:
        """Its rows of one part of what a reference of shape (rows, parts, columns) holds."""
        own = self.own[:, None, None]
        rows = triton.load(ref.at[self.rows, pl.ds(part, 1), :], mask=own, other=0.0)
        return rows.reshape(self.block, ref.shape[2])

    def store(self, ref: Any, x: Array, part: int = 0) -> None:
        """Into its own rows; and zeros where no environment has any, so that there is nothing
        that is not a number."""
        new, parts = x.astype(ref.dtype).reshape(self.block, 1, -1), pl.ds(part, 1)
        triton.store(ref.at[self.rows, parts, :], new, mask=self.own[:, None, None])

        def clear(start: Array) -> None:
            ref[pl.ds(start, self.block), parts, :] = jnp.zeros_like(new)

        for start in self.unused:
            within = jnp.minimum(start, ref.shape[0] - self.block)
            pl.when(start < ref.shape[0])(functools.partial(clear, within))

    def attention(self, q: Array, k: Array) -> Array:
        """What each node attends to: the rows add up to 1."""
        absent = jnp.where(self.own, 0.0, -jnp.inf)
        scores = _dot(q, k, (1, 1)) * q.shape[1] ** -0.5 + absent[None]
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)


def _attend(block: int, blocks: int, segment_ref: Any, qkv_ref: Any, mixed_ref: Any) -> None:
    """Attention of one head in one environment."""
    segment = _Segment(segment_ref, block, blocks)
    q, k, v = (segment.load(qkv_ref, part) for part in range(3))
    segment.store(mixed_ref, _dot(segment.attention(q, k).astype(v.dtype), v))


def _attend_backward(
    block: int,
    blocks: int,
    segment_ref: Any,
    qkv_ref: Any,
    dmixed_ref: Any,
    mixed_ref: Any,
    dqkv_ref: Any,
    dbias_ref: Any,
) -> None:
    """Its gradient. Recomputes the mixed heads, which the gradient of `mix` needs."""
    segment = _Segment(segment_ref, block, blocks)
    q, k, v = (segment.load(qkv_ref, part) for part in range(3))
    dmixed = segment.load(dmixed_ref)
    attention = segment.attention(q, k)
    short = attention.astype(v.dtype)
    segment.store(mixed_ref, _dot(short, v))
    dattention = _dot(dmixed, v, (1, 1))
    along = (dattention * attention).sum(-1, keepdims=True)
    dscores = (attention * (dattention - along) * q.shape[1] ** -0.5).astype(v.dtype)
    dqkv = _dot(dscores, k), _dot(dscores, q, (0, 0)), _dot(short, dmixed, (0, 0))
    for part, d in enumerate(dqkv):
        segment.store(dqkv_ref, d, part)
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

        def load(row: int, columns: Any) -> Array:
            return small[row, columns].astype(jnp.float32)[None]

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
    which = jax.lax.broadcasted_iota(jnp.int32, (SMALLEST, STRIP), 0)

    def columns(name: str, x: Array) -> Array:
        """Sums of columns as one row of many: a product adds them faster than a reduction."""
        return _dot((which == VECTORS.index(name)).astype(short), x.astype(short))

    def back(index: Any, sums: tuple) -> tuple:
        dwiden, dnarrow, dvectors = sums
        rows = pl.ds(index * STRIP, STRIP)
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
    sums = jax.lax.fori_loop(0, nodes // STRIP, back, zeros)
    for index, part in enumerate(sums):
        dsmall_ref[pl.ds(index * SMALLEST, SMALLEST), :] = part
