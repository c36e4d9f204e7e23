"""The Transformer encoder of WMG: post-norm, no dropout, no positions.

Only the Core's output is ever used, so the last layer computes that alone.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.layers import LayerNorm, Linear, relu, wide


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
        self, x: Float[Array, "nodes size"], present: Bool[Array, " nodes"]
    ) -> tuple[Float[Array, "nodes size"], Float[Array, "heads nodes nodes"]]:
        """New vectors of all nodes, and what they attend to."""
        attended: Any = attend(self.qkv(x), present, self.heads)
        mixed, weights = attended
        return self.finish(x, mixed), weights

    def core_only(
        self, x: Float[Array, "nodes size"], present: Bool[Array, " nodes"]
    ) -> tuple[Float[Array, " size"], Float[Array, "heads nodes"]]:
        """The same for the first node, the Core, alone: without keys and values.

        A head's scores q . (K x + b) equal (q K) . x plus a constant that the softmax removes. The
        weighted mean of the values is the value of the weighted mean of the nodes. So the weights
        multiply one vector per head instead of all nodes.
        """
        query, key, value = self.qkv.split(1, self.heads, self.heads)
        asked = key.pull_back(query(x[:1]).reshape(self.heads, -1))
        means, weights = attend_pooled(asked, x, present, self.heads)
        return self.finish(x[0], value(means).reshape(-1)), weights

    def finish(
        self, x: Float[Array, "*nodes size"], mixed: Float[Array, "*nodes size"]
    ) -> Float[Array, "*nodes size"]:
        """New vectors of nodes, given the values that their heads have mixed."""
        x = self.attention_norm(x + self.mix(mixed))
        hidden = relu(self.widen(x))
        return self.feedforward_norm(x + self.narrow(hidden))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def attend(
    qkv: Float[Array, "nodes three_sizes"], present: Bool[Array, " nodes"], heads: int
) -> tuple[Float[Array, "nodes size"], Float[Array, "heads nodes nodes"]]:
    """Multi-head attention of all nodes to all that are `present`.

    Also returns the weights, through which no gradient flows. The rule for the gradient is
    written out because it then keeps two arrays where automatic differentiation keeps eight.
    """
    return _attend_forward(qkv, present, heads)[0]


def _heads_first(x: Float[Array, "nodes sizes"], parts: int, heads: int) -> Array:
    """As (parts, heads, nodes, width), the order in which products of heads are computed."""
    return x.reshape(len(x), parts, heads, -1).transpose(1, 2, 0, 3)


def _nodes_first(x: Float[Array, "parts heads nodes width"]) -> Float[Array, "nodes sizes"]:
    return x.transpose(2, 0, 1, 3).reshape(x.shape[2], -1)


def _weigh(products: Array, present: Array, width: int, like: Array) -> Array:
    """Weights of the nodes, from the products of queries and keys of that width."""
    scores = products * width**-0.5
    return jax.nn.softmax(jnp.where(present, scores, -jnp.inf), axis=-1).astype(like.dtype)


def _attend_forward(qkv: Array, present: Array, heads: int) -> tuple:
    qkv = _heads_first(qkv, 3, heads)
    q, k, v = qkv
    weights = _weigh(wide("hqd,hkd->hqk", q, k), present, q.shape[-1], qkv)
    return (_nodes_first((weights @ v)[None]), weights), (qkv, weights)


def _attend_backward(heads: int, residuals: tuple, cotangents: tuple) -> tuple:
    (q, k, v), weights = residuals
    dmixed = _heads_first(cotangents[0], 1, heads)[0]
    dweights = wide("hqd,hkd->hqk", dmixed, v)
    along = (dweights * weights).sum(-1, keepdims=True)
    dscores = (weights * (dweights - along) * q.shape[-1] ** -0.5).astype(weights.dtype)
    turned, weights = (x.transpose(0, 2, 1) for x in (dscores, weights))
    return _nodes_first(jnp.stack([dscores @ k, turned @ q, weights @ dmixed])), None


attend.defvjp(_attend_forward, _attend_backward)


def attend_pooled(
    asked: Float[Array, "heads size"],
    x: Float[Array, "nodes size"],
    present: Bool[Array, " nodes"],
    heads: int,
) -> tuple[Float[Array, "heads size"], Float[Array, "heads nodes"]]:
    """Attention of one query per head that averages the nodes themselves, not values of them.

    Returns each head's mean of the nodes that are `present`, and the weights, through which no
    gradient flows. `asked` holds the queries, taken back through the keys' weights."""
    weights = _weigh(wide("hs,ns->hn", asked, x), present, x.shape[1] // heads, x)
    return weights @ x, jax.lax.stop_gradient(weights)


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
            x, weights = layer(x, present)
            attention.append(weights[:, 0])
        core, weights = self.layers[-1].core_only(x, present)
        return core, jnp.stack([*attention, weights])

    def of_all(
        self, x: Float[Array, "envs nodes size"], present: Bool[Array, "envs nodes"]
    ) -> tuple[Float[Array, "envs size"], Float[Array, "envs layers heads nodes"] | None]:
        """`__call__` for many at once."""
        return jax.vmap(self)(x, present)
