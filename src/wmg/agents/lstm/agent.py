"""The LSTM baseline: the GRU agent with an LSTM cell in place of the GRU cell.

The paper does not have it. Users of memory agents know it as a reference.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wmg.agents.recurrent.agent import CoreAgent, RecurrentCell


class LSTMState(eqx.Module):
    """What an LSTM cell remembers."""

    hidden: Float[Array, " size"]
    """What it shows."""
    cell: Float[Array, " size"]
    """What it keeps to itself."""


class LSTMCell(RecurrentCell[LSTMState]):
    """PyTorch's LSTM cell: gates in the order input, forget, new, output."""

    gates: ClassVar[int] = 4

    def initial_memory(self) -> LSTMState:
        zeros = jnp.zeros(self.size)
        return LSTMState(zeros, zeros)

    def __call__(self, x: Float[Array, " in"], memory: LSTMState) -> LSTMState:
        gates = self.inputs(x) + self.hidden(memory.hidden)
        write, keep, new, show = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(keep) * memory.cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        return LSTMState(jax.nn.sigmoid(show) * jnp.tanh(cell), cell)

    def visible(self, memory: LSTMState) -> Float[Array, " size"]:
        return memory.hidden


class LSTM(CoreAgent[LSTMState]):
    """The LSTM agent. Its observation must be a Core without Factors."""

    @property
    def cell_class(self) -> type[LSTMCell]:
        return LSTMCell
