"""The LSTM baseline: the GRU agent with an LSTM cell in place of the GRU cell.

The paper does not have it. Users of memory agents know it as a reference.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear, gate_layers
from wmg.types import Observation, ObservationSpec, Summary


class LSTMState(eqx.Module):
    """What an LSTM cell remembers."""

    hidden: Float[Array, " size"]
    """What it shows."""
    cell: Float[Array, " size"]
    """What it keeps to itself."""


class LSTMCell(eqx.Module):
    """PyTorch's LSTM cell: gates in the order input, forget, new, output, and two bias vectors."""

    inputs: Linear
    hidden: Linear

    @staticmethod
    def create(inputs: int, size: int, *, key: PRNGKeyArray) -> "LSTMCell":
        return LSTMCell(*gate_layers(4, inputs, size, key=key))

    def initial_memory(self) -> LSTMState:
        """Zeros, as an episode begins."""
        zeros = jnp.zeros(self.hidden.weight.shape[1])
        return LSTMState(zeros, zeros)

    def __call__(self, x: Float[Array, " in"], memory: LSTMState) -> LSTMState:
        gates = self.inputs(x) + self.hidden(memory.hidden)
        write, keep, new, show = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(keep) * memory.cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        return LSTMState(jax.nn.sigmoid(show) * jnp.tanh(cell), cell)


class LSTM(ActorCriticAgent[LSTMState]):
    """The LSTM agent. Its observation must be a Core without Factors."""

    embedding: Linear
    cell: LSTMCell
    actor_critic: ActorCritic

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        embedding: int,
        size: int,
        actor_critic: int,
        key: PRNGKeyArray,
    ):
        require_parts("LSTM", observation)
        ekey, ckey, akey = jax.random.split(key, 3)
        self.embedding = Linear.create(observation.core, embedding, key=ekey)
        self.cell = LSTMCell.create(embedding, size, key=ckey)
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, False, key=akey)

    def initial_memory(self) -> LSTMState:
        return self.cell.initial_memory()

    def summarise(self, observation: Observation, memory: LSTMState) -> Summary[LSTMState]:
        memory = self.cell(self.embedding(observation.core), memory)
        return Summary(memory.hidden, memory)
