"""The Transformer encoder of WMG: post-norm, no dropout, no positions.

Only the Core's output is ever used, so the last layer computes that alone.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.layers import LayerNorm, Linear, relu


class TransformerLayer(eqx.Module):
    """Self-attention and a feed-forward block, each added to its input and normalised."""

    qkv: Linear
    mix: Linear
    attention_norm: LayerNorm
    widen: Linear
    narrow: Linear
    feedforward_norm: LayerNorm
    heads: int = eqx.field(static=True)

    @staticmethod
    def create(heads: int, head_size: int, hidden: int, *, key: PRNGKeyArray):
        size = heads * head_size
        akey, mkey, wkey, nkey = jax.random.split(key, 4)
        return TransformerLayer(
            qkv=Linear.create(size, 3 * size, key=akey),
            mix=Linear.create(size, size, key=mkey),
            attention_norm=LayerNorm.create(size),
            widen=Linear.create(size, hidden, key=wkey),
            narrow=Linear.create(hidden, size, key=nkey),
            feedforward_norm=LayerNorm.create(size),
            heads=heads,
        )

    def __call__(
        self, x: Float[Array, "nodes size"], present: Bool[Array, " nodes"], queries: int
    ) -> tuple[Float[Array, "queries size"], Float[Array, "heads queries nodes"]]:
        """New vectors of the first `queries` nodes, and what they attend to."""
        mixed, weights = attend(self.qkv(x), present, self.heads, queries)  # type: ignore
        return self._finish(x[:queries], mixed), weights

    def _finish(
        self, x: Float[Array, "*nodes size"], mixed: Float[Array, "*nodes size"]
    ) -> Float[Array, "*nodes size"]:
        x = self.attention_norm(x + self.mix(mixed))
        hidden = relu(self.widen(x))
        return self.feedforward_norm(x + self.narrow(hidden))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def attend(
    qkv: Float[Array, "nodes three_sizes"],
    present: Bool[Array, " nodes"],
    heads: int,
    queries: int,
) -> tuple[Float[Array, "queries size"], Float[Array, "heads queries nodes"]]:
    """Multi-head attention of the first `queries` nodes to all that are `present`.

    Also returns the weights, through which no gradient flows. The rule for the gradient is
    written out because it then keeps two arrays where automatic differentiation keeps eight.
    """
    return _attend_forward(qkv, present, heads, queries)[0]


def _split_heads(qkv: Float[Array, "nodes three_sizes"], heads: int) -> list[Array]:
    return [part.reshape(part.shape[0], heads, -1) for part in jnp.split(qkv, 3, axis=-1)]


def _wide(products: str, *operands: Array) -> Array:
    """Products in float32, for sums over them that shorter numbers would spoil."""
    return jnp.einsum(products, *operands, preferred_element_type=jnp.float32)


def _attend_forward(qkv: Array, present: Array, heads: int, queries: int) -> tuple:
    q, k, v = _split_heads(qkv, heads)
    scores = _wide("qhd,khd->hqk", q[:queries], k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(present, scores, -jnp.inf), axis=-1).astype(qkv.dtype)
    mixed = jnp.einsum("hqk,khd->qhd", weights, v).reshape(queries, -1)
    return (mixed, weights), (qkv, weights)


def _attend_backward(heads: int, queries: int, residuals: tuple, cotangents: tuple) -> tuple:
    qkv, weights = residuals
    q, k, v = _split_heads(qkv, heads)
    dmixed = cotangents[0].reshape(queries, heads, -1)
    dweights = _wide("qhd,khd->hqk", dmixed, v)
    along = (dweights * weights).sum(-1, keepdims=True)
    dscores = (weights * (dweights - along) * q.shape[-1] ** -0.5).astype(qkv.dtype)
    dq = jnp.einsum("hqk,khd->qhd", dscores, k)
    dk = jnp.einsum("hqk,qhd->khd", dscores, q[:queries])
    dv = jnp.einsum("hqk,qhd->khd", weights, dmixed)
    dq = jnp.pad(dq, ((0, qkv.shape[0] - queries), (0, 0), (0, 0)))
    return jnp.stack([dq, dk, dv], axis=1).reshape(qkv.shape), None


attend.defvjp(_attend_forward, _attend_backward)


class Transformer(eqx.Module):
    """A stack of layers that returns the Core's output, and its attention in each layer."""

    layers: tuple[TransformerLayer, ...]

    @staticmethod
    def create(layers: int, heads: int, head_size: int, hidden: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, layers)
        return Transformer(
            tuple(TransformerLayer.create(heads, head_size, hidden, key=k) for k in keys)
        )

    def __call__(
        self, x: Float[Array, "nodes size"], present: Bool[Array, " nodes"]
    ) -> tuple[Float[Array, " size"], Float[Array, "layers heads nodes"]]:
        attention = []
        for layer in self.layers[:-1]:
            x, weights = layer(x, present, queries=x.shape[0])
            attention.append(weights[:, 0])
        x, weights = self.layers[-1](x, present, queries=1)
        return x[0], jnp.stack([*attention, weights[:, 0]])

    def of_all(
        self, x: Float[Array, "envs nodes size"], present: Bool[Array, "envs nodes"]
    ) -> tuple[Float[Array, "envs size"], Float[Array, "envs layers heads nodes"] | None]:
        """`__call__` for many at once."""
        return jax.vmap(self)(x, present)
