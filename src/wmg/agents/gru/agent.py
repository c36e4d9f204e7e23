"""The gated recurrent baseline: embed the observation, one GRU cell, actor and critic."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear, gate_layers
from wmg.types import Observation, ObservationSpec, Summary


class GRUCell(eqx.Module):
    """PyTorch's GRU cell: gates in the order reset, update, new, and two bias vectors."""

    inputs: Linear
    hidden: Linear

    @staticmethod
    def create(inputs: int, size: int, *, key: PRNGKeyArray) -> "GRUCell":
        return GRUCell(*gate_layers(3, inputs, size, key=key))

    def initial_memory(self) -> Float[Array, " size"]:
        """Zeros, as an episode begins."""
        return jnp.zeros(self.hidden.weight.shape[1])

    def __call__(
        self, x: Float[Array, " in"], memory: Float[Array, " size"]
    ) -> Float[Array, " size"]:
        reset_x, update_x, new_x = jnp.split(self.inputs(x), 3)
        reset_h, update_h, new_h = jnp.split(self.hidden(memory), 3)
        reset = jax.nn.sigmoid(reset_x + reset_h)
        update = jax.nn.sigmoid(update_x + update_h)
        new = jnp.tanh(new_x + reset * new_h)
        return new + update * (memory - new)


class Recurrent(ActorCriticAgent[Array]):
    """An agent whose memory is the state of a GRU cell."""

    cell: eqx.AbstractVar[GRUCell]

    @abc.abstractmethod
    def see(self, observation: Observation) -> Float[Array, " in"]:
        """The input of the cell."""

    def initial_memory(self) -> Float[Array, " size"]:
        return self.cell.initial_memory()

    def summarise(
        self, observation: Observation, memory: Float[Array, " size"]
    ) -> Summary[Float[Array, " size"]]:
        memory = self.cell(self.see(observation), memory)
        return Summary(memory, memory)


class GRU(Recurrent):
    """The paper's GRU agent. Its observation must be a Core without Factors."""

    embedding: Linear
    cell: GRUCell
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
        require_parts("GRU", observation)
        ekey, ckey, akey = jax.random.split(key, 3)
        self.embedding = Linear.create(observation.core, embedding, key=ekey)
        self.cell = GRUCell.create(embedding, size, key=ckey)
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, False, key=akey)

    def see(self, observation: Observation) -> Float[Array, " in"]:
        return self.embedding(observation.core)
