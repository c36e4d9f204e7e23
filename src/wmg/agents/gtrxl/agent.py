"""The gated Transformer-XL of Parisotto et al. (2020), arXiv:1910.06764.

Each layer attends from the current step to its own inputs of past steps, which are its memory. What
comes in is normalised before attention and before the feed-forward block (identity-map reordering),
and a gate like a GRU's decides how much of each block's result is let through. A gate begins almost
closed, so a new agent reacts to what it sees, and learns later to remember.

Positions are relative, as in Transformer-XL: an activation keeps its place in the memory while it
grows older, so its age belongs to the score, not to the vector.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import LayerNorm, Linear, relu, wide
from wmg.agents.wmg.memory import Memory
from wmg.types import Observation, ObservationSpec, Output, Summary

GATE_BIAS = 2.0
"""How nearly closed gates begin: b_g in the paper of GTrXL."""
LONGEST_WAVE = 10_000
"""Of the sines and cosines that encode an age."""


class Gate(eqx.Module):
    """A GRU's gating in place of a residual sum: x where it is closed, something new where open."""

    gates: Linear
    new: Linear

    @staticmethod
    def create(size: int, *, key: PRNGKeyArray) -> "Gate":
        gkey, nkey = jax.random.split(key)
        gates = Linear.create(2 * size, 2 * size, key=gkey)
        bias = gates.bias.at[size:].set(-GATE_BIAS)
        return Gate(Linear(gates.weight, bias), Linear.create(2 * size, size, key=nkey))

    def __call__(self, x: Float[Array, " size"], y: Float[Array, " size"]) -> Float[Array, " size"]:
        reset, update = jnp.split(jax.nn.sigmoid(self.gates(jnp.concatenate([y, x]))), 2)
        new = jnp.tanh(self.new(jnp.concatenate([y, reset * x])))
        return x + update * (new - x)


class Attention(eqx.Module):
    """Attention of the current step to itself and to the past, with relative positions.

    Head h scores a node x of age a by (q + u) . K x + (q + v) . P r(a), where r is a table of sines
    and cosines. Only one node asks. So (q + u) K is computed, not K x for all nodes, and the values
    of the weighted mean of the nodes, as in `wmg.agents.wmg.transformer`.
    """

    qkv: Linear
    ages: Linear
    """P: its bias is the same for all ages, so the softmax removes it."""
    content_bias: Float[Array, "heads width"]
    """u"""
    age_bias: Float[Array, "heads width"]
    """v"""
    mix: Linear

    @staticmethod
    def create(heads: int, head_size: int, *, key: PRNGKeyArray) -> "Attention":
        size = heads * head_size
        qkey, akey, mkey = jax.random.split(key, 3)
        return Attention(
            qkv=Linear.create(size, 3 * size, key=qkey),
            ages=Linear.create(size, size, key=akey),
            content_bias=jnp.zeros((heads, head_size)),
            age_bias=jnp.zeros((heads, head_size)),
            mix=Linear.create(size, size, key=mkey),
        )

    def __call__(
        self, nodes: Float[Array, "nodes size"], present: Bool[Array, " nodes"]
    ) -> tuple[Float[Array, " size"], Float[Array, "heads nodes"]]:
        """The result for the first node, and the weights, which have no gradient. Node i is i steps
        old."""
        heads, width = self.content_bias.shape
        query, key, value = self.qkv.split(1, heads, heads)
        (ages,) = self.ages.split(heads)
        asked = query(nodes[:1]).reshape(heads, width)
        table = jnp.asarray(age_table(*nodes.shape), nodes.dtype)
        scores = wide("hs,ns->hn", key.pull_back(asked + self.content_bias), nodes)
        scores += wide("hs,ns->hn", ages.pull_back(asked + self.age_bias), table)
        scores = jnp.where(present, scores * width**-0.5, -jnp.inf)
        weights = jax.nn.softmax(scores).astype(nodes.dtype)
        mixed = self.mix(value(weights @ nodes).reshape(-1))
        return mixed, jax.lax.stop_gradient(weights)


def age_table(ages: int, size: int) -> Float[np.ndarray, "ages size"]:
    """Sines, then cosines, of each age from 0 on, with wavelengths that grow geometrically."""
    half = (size + 1) // 2
    angles = np.arange(ages)[:, None] / LONGEST_WAVE ** (np.arange(half) / half)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return table[:, :size].astype(np.float32)


class GTrXLLayer(eqx.Module):
    """Attention to the past and a feed-forward block, each normalised before and gated after."""

    attention_norm: LayerNorm
    attention: Attention
    attention_gate: Gate
    feedforward_norm: LayerNorm
    widen: Linear
    narrow: Linear
    feedforward_gate: Gate

    @staticmethod
    def create(heads: int, head_size: int, hidden: int, *, key: PRNGKeyArray) -> "GTrXLLayer":
        size = heads * head_size
        akey, gkey, wkey, nkey, fkey = jax.random.split(key, 5)
        return GTrXLLayer(
            attention_norm=LayerNorm.create(size),
            attention=Attention.create(heads, head_size, key=akey),
            attention_gate=Gate.create(size, key=gkey),
            feedforward_norm=LayerNorm.create(size),
            widen=Linear.create(size, hidden, key=wkey),
            narrow=Linear.create(hidden, size, key=nkey),
            feedforward_gate=Gate.create(size, key=fkey),
        )

    def __call__(
        self,
        x: Float[Array, " size"],
        past: Float[Array, "slots size"],
        present: Bool[Array, " nodes"],
    ) -> tuple[Float[Array, " size"], Float[Array, "heads nodes"]]:
        """The next layer's input, and what was attended to."""
        nodes = self.attention_norm(jnp.concatenate([x[None], past]))
        attended: Any = self.attention(nodes, present)
        mixed, weights = attended
        x = self.attention_gate(x, relu(mixed))
        hidden = relu(self.widen(self.feedforward_norm(x)))
        return self.feedforward_gate(x, relu(self.narrow(hidden))), weights


class GTrXL(ActorCriticAgent[Memory]):
    """The GTrXL agent. Its observation must be a Core without Factors."""

    embedding: Linear
    layers: tuple[GTrXLLayer, ...]
    actor_critic: ActorCritic
    slots: int = eqx.field(static=True)

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        slots: int,
        layers: int,
        heads: int,
        head_size: int,
        hidden: int,
        actor_critic: int,
        key: PRNGKeyArray,
    ):
        require_parts("GTrXL", observation)
        size = heads * head_size
        ekey, lkey, akey = jax.random.split(key, 3)
        self.embedding = Linear.create(observation.core, size, key=ekey)
        self.layers = tuple(
            GTrXLLayer.create(heads, head_size, hidden, key=k)
            for k in jax.random.split(lkey, layers)
        )
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, False, key=akey)
        self.slots = slots

    def initial_memory(self) -> Memory:
        """Empty: each of its vectors will be the inputs of all layers in a step."""
        size = self.embedding.weight.shape[0]
        return Memory.zeros(self.slots, len(self.layers) * size, 0)

    def summarise(self, observation: Observation, memory: Memory) -> Summary[Memory]:
        return self._attend(observation, memory, self._there(memory))

    def attend_to(
        self, observation: Observation, memory: Memory, on: Bool[Array, " nodes"]
    ) -> tuple[Output[Memory], Bool[Array, " nodes"]]:
        there = self._there(memory) & on
        return self.output(self._attend(observation, memory, there)), there

    def _there(self, memory: Memory) -> Bool[Array, " nodes"]:
        return jnp.concatenate([jnp.ones(1, bool), memory.present])

    def _attend(
        self, observation: Observation, memory: Memory, there: Bool[Array, " nodes"]
    ) -> Summary[Memory]:
        x = self.embedding(observation.core)
        inputs, attention = [], []
        for layer, past in zip(
            self.layers, jnp.split(memory.vectors, len(self.layers), axis=1), strict=True
        ):
            inputs.append(x)
            x, weights = layer(x, past, there)
            attention.append(weights)
        return Summary(x, memory.push(jnp.concatenate(inputs)), jnp.stack(attention))
