"""Edge content: vectors on the edges of the graph, which enter scores and values.

The paper's WMG has vectors on its nodes alone. Here an edge between two Factors, or between two of
the Core and the Memos, has a vector e as well. With u = U x for a node x, a head's score of the
edge from node i to node j is

    q_i . k_j / sqrt(width) + u_i . e_ij

and beside the values v_j, node i receives V e_ij, both weighted by the softmax of its scores.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.layers import Linear, relu, wide
from wmg.agents.wmg.lifetimes import FlexibleMemory
from wmg.agents.wmg.memory import Memory
from wmg.agents.wmg.transformer import Transformer, TransformerLayer
from wmg.types import Observation

AGE_COLUMNS = 4
"""Numbers of an edge between two of the Core and the Memos."""


class EdgeContent(eqx.Module):
    """The vectors of all edges.

    Between two of the Core and the Memos: 1; the difference of their ages, logarithmic, with its
    sign; whether the other one is a step older; and whether it is a step newer. The Core's age is
    0. Between two Factors: the difference of what a linear map makes of them, its positive and
    negative parts apart. So the edge of equal Factors is zero, and where a position is mapped, the
    edge has the relative position. All other edges are zero.
    """

    maps: dict[str, Linear]
    """Of each type of Factors; empty where their edges are zero."""
    slots: int = eqx.field(static=True)
    """Largest number of Memos; 0 where their edges are zero."""

    @staticmethod
    def create(
        factors: tuple[tuple[str, int, int], ...], size: int, slots: int, *, key: PRNGKeyArray
    ) -> "EdgeContent":
        """Edges with `size` numbers between `factors`, which are as in an `ObservationSpec`."""
        keys = jax.random.split(key, max(len(factors), 1))
        maps = {
            name: Linear.create(width, size // 2, key=k)
            for (name, _, width), k in zip(factors, keys, strict=False)
        }
        return EdgeContent(maps, slots)

    @property
    def size(self) -> int:
        """How many numbers an edge has."""
        maps = list(self.maps.values())
        of_factors = 2 * maps[0].weight.shape[0] if maps else 0
        return of_factors + (AGE_COLUMNS if self.slots else 0)

    def __call__(
        self, observation: Observation, memos: Memory | FlexibleMemory, nodes: int
    ) -> Float[Array, "nodes nodes vector"]:
        """The vector of the edge from each node (first axis) to each other, of all `nodes`."""
        first = 1 + sum(len(x.present) for x in observation.factors.values())
        parts = []
        if self.slots:
            places = jnp.array([0, *range(first, first + len(memos.ages))])
            ages = jnp.concatenate([jnp.zeros(1), jnp.asarray(memos.ages, jnp.float32)])
            parts.append(_spread(self._of_ages(ages), places, nodes))
        if self.maps:
            parts.append(_spread(self._of_factors(observation), jnp.arange(1, first), nodes))
        return jnp.concatenate(parts, axis=-1)

    def _of_ages(self, ages: Float[Array, " some"]) -> Float[Array, "some some columns"]:
        older = ages[None, :] - ages[:, None]
        scale = jnp.log2(1.0 + self.slots)
        signed = jnp.sign(older) * jnp.log2(1.0 + jnp.abs(older)) / scale
        neighbours = [(older == step).astype(jnp.float32) for step in (1, -1)]
        return jnp.stack([jnp.ones_like(older), signed, *neighbours], axis=-1)

    def _of_factors(self, observation: Observation) -> Float[Array, "some some columns"]:
        mapped = [self.maps[name](x.values) for name, x in observation.factors.items()]
        rows = jnp.concatenate(mapped)
        difference = rows[None, :] - rows[:, None]
        return jnp.concatenate([relu(difference), relu(-difference)], axis=-1)


def _spread(
    edges: Float[Array, "some some columns"], places: Int[Array, " some"], nodes: int
) -> Float[Array, "nodes nodes columns"]:
    """All edges: zero, except the edges of some nodes, which are given."""
    zeros = jnp.zeros((nodes, nodes, edges.shape[-1]), edges.dtype)
    return zeros.at[places[:, None], places[None, :]].set(edges)


class EdgeLayer(eqx.Module):
    """A layer of the Transformer whose attention sees edges."""

    nodes: TransformerLayer
    asked: Linear
    """From a node to one vector for each head, which edges are multiplied by."""
    told: Linear
    """From the mixed edges of all heads to what they add to a node."""

    def __call__(
        self,
        x: Float[Array, "nodes size"],
        present: Bool[Array, " nodes"],
        edges: Float[Array, "from nodes vector"],
    ) -> tuple[Float[Array, "from size"], Float[Array, "heads from nodes"]]:
        """New vectors of the nodes that `edges` start from, the first ones, and what they attend
        to."""
        heads, start, count = self.nodes.heads, len(edges), len(x)
        width = x.shape[1] // heads
        q, k, v = self.nodes.qkv(x).reshape(count, 3, heads, width).transpose(1, 2, 0, 3)
        asked = self.asked(x[:start]).reshape(start, heads, -1)
        scores = wide("hqd,hkd->hqk", q[:, :start], k) * width**-0.5
        scores = scores + wide("qhe,qke->hqk", asked, edges)
        weights = jax.nn.softmax(jnp.where(present, scores, -jnp.inf)).astype(x.dtype)
        mixed = jnp.einsum("hqk,hkd->qhd", weights, v).reshape(start, -1)
        seen = jnp.einsum("hqk,qke->qhe", weights, edges).reshape(start, -1)
        return self.nodes.finish(x[:start] + self.told(seen), mixed), jax.lax.stop_gradient(weights)


def edge_maps(
    transformer: Transformer, vector: int, *, key: PRNGKeyArray
) -> list[tuple[Linear, Linear]]:
    """New maps for each layer, `asked` and `told`, for edges of that many numbers."""

    def both(layer: TransformerLayer, key: PRNGKeyArray) -> tuple[Linear, Linear]:
        akey, tkey = jax.random.split(key)
        size, every = layer.mix.weight.shape[0], layer.heads * vector
        return Linear.create(size, every, key=akey), Linear.create(every, size, key=tkey)

    keys = jax.random.split(key, len(transformer.layers))
    return [both(layer, k) for layer, k in zip(transformer.layers, keys, strict=True)]


class EdgeTransformer(eqx.Module):
    """A `Transformer` with edges. It, too, returns the Core's output and attention alone."""

    layers: tuple[EdgeLayer, ...]

    @staticmethod
    def of(transformer: Transformer, maps: "list[tuple[Linear, Linear]]") -> "EdgeTransformer":
        """The same layers with these maps, `asked` and `told` of each."""
        each = zip(transformer.layers, maps, strict=True)
        return EdgeTransformer(tuple(EdgeLayer(layer, *both) for layer, both in each))

    def __call__(
        self,
        x: Float[Array, "nodes size"],
        present: Bool[Array, " nodes"],
        edges: Float[Array, "nodes nodes vector"],
    ) -> tuple[Float[Array, " size"], Float[Array, "layers heads nodes"]]:
        attention = []
        for i, layer in enumerate(self.layers):
            last = i + 1 == len(self.layers)
            x, weights = layer(x, present, edges[:1] if last else edges)
            attention.append(weights[:, 0])
        return x[0], jnp.stack(attention)

    def of_all(
        self,
        x: Float[Array, "envs nodes size"],
        present: Bool[Array, "envs nodes"],
        edges: Float[Array, "envs nodes nodes vector"],
    ) -> tuple[Float[Array, "envs size"], Float[Array, "envs layers heads nodes"]]:
        """`__call__` for many at once."""
        return jax.vmap(self)(x, present, edges)
