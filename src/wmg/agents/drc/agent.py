"""DRC(D, N): Deep Repeated ConvLSTM, after Guez et al. (2019), arXiv:1901.03559.

The board is encoded by two convolutions. D ConvLSTM layers, one above the other, run N times in
every step (ticks). A layer sees the encoded board, the layer below (the lowest sees the top layer
of the tick before), its own state, and its own state pooled over the whole board, so that news need
not travel cell by cell. Policy and value see the top layer plus the encoded board.

Where Guez et al. leave details open, they are those of the replication by Taufeeque et al. (2024),
arXiv:2407.15421, whose network has 1,285,125 parameters. Its facts, from which the count follows:
kernels of 4x4 in the encoder, which has no ReLU, and of 3x3 in the layers; a pooled channel is
weighted for its maximum and its mean by one number each; the padding around the board has a channel
of ones, the fence; the output gate is a tanh; the top layer and the encoding are added.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.convolution import largest, patches, patches_around
from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear
from wmg.types import Observation, ObservationSpec, Summary

ENCODER_SIDE, CELL_SIDE = 4, 3
"""Cells along a side of the kernels."""

Board = Float[Array, "width height channels"]


def convolution(side: int, outputs: int, *inputs: int, key: PRNGKeyArray) -> Linear:
    """A convolution of several images side by side, with these numbers of channels. The weights of
    each are drawn as for a convolution of its own: truncated normal, variance 1 / fan-in."""
    draw, cells = jax.nn.initializers.lecun_normal(), side * side
    parts = [
        draw(k, (cells * channels, outputs)).T.reshape(outputs, cells, channels)
        for k, channels in zip(jax.random.split(key, len(inputs)), inputs, strict=True)
    ]
    weight = jnp.concatenate(parts, axis=2).reshape(outputs, -1)
    return Linear(weight, jnp.zeros(outputs))


class DRCState(eqx.Module):
    """What all layers remember."""

    hidden: Float[Array, "layers width height channels"]
    cell: Float[Array, "layers width height channels"]


class ConvLSTMCell(eqx.Module):
    """One layer. Its gates are a convolution of all that it sees, in the order new, write, keep,
    show."""

    gates: Linear
    pooled: Float[Array, "2 channels"]
    """The weights of each channel's maximum and mean over the board."""

    @staticmethod
    def create(channels: int, *, key: PRNGKeyArray) -> "ConvLSTMCell":
        gkey, pkey = jax.random.split(key)
        seen, hidden, fence = 3 * channels, channels, 1
        gates = convolution(CELL_SIDE, 4 * channels, seen, hidden, fence, key=gkey)
        return ConvLSTMCell(gates, jax.nn.initializers.lecun_normal()(pkey, (2, channels)))

    def __call__(self, encoded: Board, below: Board, hidden: Board, cell: Board) -> tuple:
        """The next hidden and cell state."""
        most, mean = largest(hidden), hidden.mean((0, 1))
        pooled = jnp.broadcast_to(self.pooled[0] * most + self.pooled[1] * mean, hidden.shape)
        seen = jnp.concatenate([encoded, below, pooled, hidden], axis=-1)
        ring = ((1, 1), (1, 1))
        padded = jnp.pad(seen, (*ring, (0, 0)))
        fence = jnp.pad(jnp.zeros(hidden.shape[:2], seen.dtype), ring, constant_values=1)
        fenced = jnp.concatenate([padded, fence[..., None]], axis=-1)
        gates = self.gates(patches(fenced, CELL_SIDE))
        new, write, keep, show = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        return jnp.tanh(show) * jnp.tanh(cell), cell


class DRC(ActorCriticAgent[DRCState]):
    """The DRC agent. Its observation must have an image. It does not look at the Core."""

    encoder: tuple[Linear, Linear]
    layers: tuple[ConvLSTMCell, ...]
    actor_critic: ActorCritic
    ticks: int = eqx.field(static=True)
    board: tuple[int, int, int] = eqx.field(static=True)
    """Width, height and channels of a layer's state."""

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        layers: int,
        ticks: int,
        channels: int,
        actor_critic: int,
        key: PRNGKeyArray,
    ):
        require_parts("DRC", observation, image=True)
        assert observation.image is not None
        width, height, inputs = observation.image
        fkey, skey, lkey, akey = jax.random.split(key, 4)
        self.encoder = (
            convolution(ENCODER_SIDE, channels, inputs, key=fkey),
            convolution(ENCODER_SIDE, channels, channels, key=skey),
        )
        keys = jax.random.split(lkey, layers)
        self.layers = tuple(ConvLSTMCell.create(channels, key=k) for k in keys)
        self.board = (width, height, channels)
        size = width * height * channels
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, True, key=akey)
        self.ticks = ticks

    def initial_memory(self) -> DRCState:
        zeros = jnp.zeros((len(self.layers), *self.board))
        return DRCState(zeros, zeros)

    def summarise(self, observation: Observation, memory: DRCState) -> Summary[DRCState]:
        assert observation.image is not None
        encoded = observation.image
        for layer in self.encoder:
            encoded = layer(patches_around(encoded, ENCODER_SIDE))
        hidden, cell = list(memory.hidden), list(memory.cell)
        for _ in range(self.ticks):
            below = hidden[-1]
            for index, layer in enumerate(self.layers):
                below, cell[index] = layer(encoded, below, hidden[index], cell[index])
                hidden[index] = below
        after = DRCState(jnp.stack(hidden), jnp.stack(cell))
        return Summary((hidden[-1] + encoded).reshape(-1), after)
