"""The parameters of a run as the one vector that the window kernel reads and writes.

`window.cu` documents the order. Rows and columns are padded with zeros to sizes that its loads
need, so the vector is a permutation of the agent's parameters with zeros in between: both
directions are one gather.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from wmg.agents.wmg.agent import WMG

LINE = 32
"""Parameters in 128 bytes: the vector's length is a multiple of it."""


def up(number: int, multiple: int) -> int:
    """The number, rounded up to a multiple."""
    return -(-number // multiple) * multiple


def row(columns: int) -> int:
    """The length of a row of weights with that many columns. Rows of a multiple of 16 numbers would
    begin in the same banks of shared memory."""
    return columns + 8 if columns % 16 == 0 else columns


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes that `window.cu` is compiled for; `macros` are their names there."""

    size: int
    heads: int
    head: int
    hidden: int
    layers: int
    slots: int
    memory: int
    """Size of one memory vector."""
    memos: bool
    """Whether Memos are kept, rather than past observations."""
    core: int
    actor: int
    """Width of the hidden layer of actor and of critic."""
    shared: bool
    """Whether actor and critic share that layer."""
    full: bool
    """Whether memory starts full of zeros."""
    steps: int
    """Steps of a window, which are the steps of an episode."""

    def macros(self) -> dict[str, int]:
        """What the compiler is told."""
        return {f.name.upper(): int(getattr(self, f.name)) for f in dataclasses.fields(self)}


def sizes_of(agent: WMG, steps: int) -> Sizes:
    """The sizes of an agent whose memory ages are concatenated; shapes alone will do."""
    embedding, layers = agent.memory_embedding, agent.transformer.layers
    assert embedding is not None and embedding.ages is None
    size, core = agent.core_embedding.weight.shape
    slots, heads = embedding.oldest, layers[0].heads
    return Sizes(
        size=size,
        heads=heads,
        head=size // heads,
        hidden=layers[0].widen.weight.shape[0],
        layers=len(layers),
        slots=slots,
        memory=embedding.vectors.weight.shape[1] - slots,
        memos=agent.new_memo is not None,
        core=core,
        actor=agent.actor_critic.actor_hidden.weight.shape[0],
        shared=agent.actor_critic.critic_hidden is None,
        full=embedding.floor == slots,
        steps=steps,
    )


class VectorLayout:
    """Where each parameter of an agent lies in the kernel's vector."""

    def __init__(self, agent: WMG, sizes: Sizes):
        """`agent` gives the structure; its shapes alone will do."""
        leaves, self.structure = jax.tree.flatten(eqx.filter(agent, _is_parameter))
        ends = np.cumsum([leaf.size for leaf in leaves])
        self.nothing = int(ends[-1])
        """The place of a zero, behind all parameters."""
        places = [
            np.arange(end - leaf.size, end).reshape(leaf.shape)
            for leaf, end in zip(leaves, ends, strict=True)
        ]
        order = np.concatenate(self._parts(jax.tree.unflatten(self.structure, places), sizes))
        self.order = self._pad(order, up(len(order), LINE)).astype(np.int32)
        self.places = np.zeros(self.nothing, np.int32)
        self.places[self.order[self.order < self.nothing]] = np.flatnonzero(
            self.order < self.nothing
        )

    def pack(self, tree: PyTree) -> Float[Array, " params"]:
        """The kernel's vector of an agent, or of a tree with its structure."""
        flat = ravel_pytree(eqx.filter(tree, eqx.is_inexact_array))[0]
        return jnp.append(flat, 0.0)[self.order]

    def unpack(self, vector: Float[Array, " params"], like: PyTree) -> PyTree:
        """The tree again; whatever is no parameter is taken from `like`."""
        _, unravel = ravel_pytree(eqx.filter(like, eqx.is_inexact_array))
        return eqx.combine(unravel(vector[self.places]), like)

    def _parts(self, agent: Any, sizes: Sizes) -> list[np.ndarray]:
        """The padded parameters in the kernel's order: `agent` has their places."""
        s, heads, head = sizes.size, sizes.heads, sizes.head
        width, head4, hidden, actor = up(s, 8), up(head, 4), up(sizes.hidden, 4), up(sizes.actor, 8)
        pad = self._pad
        parts = []

        def add(linear: Any, rows: int, columns: int) -> None:
            parts.extend([pad(linear.weight, rows, columns), pad(linear.bias, rows)])

        for layer in agent.transformer.layers:
            mix = pad(layer.mix.weight.reshape(s, heads, head), width, heads, head4)
            parts += [
                pad(layer.qkv.weight.reshape(3 * heads, head, s), 3 * heads, head4, row(width)),
                pad(layer.qkv.bias.reshape(3 * heads, head), 3 * heads, head4),
                pad(mix.reshape(width, -1), width, row(heads * head4)),
                pad(layer.mix.bias, width),
                pad(layer.attention_norm.gain, width),
                pad(layer.attention_norm.bias, width),
            ]
            add(layer.widen, hidden, row(width))
            add(layer.narrow, width, row(hidden))
            norm = layer.feedforward_norm
            parts += [pad(norm.gain, width), pad(norm.bias, width)]
        add(agent.core_embedding, width, up(sizes.core, 4))
        memory, vector = agent.memory_embedding.vectors, up(sizes.memory, 4)
        columns = [
            pad(memory.weight[:, : sizes.memory], width, vector).reshape(width, -1),
            pad(memory.weight[:, sizes.memory :], width, up(sizes.slots, 4)).reshape(width, -1),
        ]
        parts += [np.concatenate(columns, axis=1), pad(memory.bias, width)]
        if agent.new_memo is not None:
            add(agent.new_memo, vector, row(width))
        heads_ = agent.actor_critic
        for hidden_layer in (heads_.actor_hidden, heads_.critic_hidden):
            if hidden_layer is not None:
                add(hidden_layer, actor, row(width))
        parts += [pad(heads_.policy.weight, 2, actor), pad(heads_.policy.bias, 4)]
        parts += [pad(heads_.value.weight, 1, actor), pad(heads_.value.bias, 4)]
        return [part.reshape(-1) for part in parts]

    def _pad(self, places: np.ndarray, *shape: int) -> np.ndarray:
        """Padded at the end of each axis, by places of zeros."""
        widths = [(0, to - of) for of, to in zip(places.shape, shape, strict=True)]
        return np.pad(places, widths, constant_values=self.nothing)


def _is_parameter(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
