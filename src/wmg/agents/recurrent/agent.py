"""Agents that remember by a recurrent cell: embed the observation, one cell, actor and critic."""

import abc
from typing import Any, ClassVar, Generic

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear
from wmg.types import Memory, Observation, ObservationSpec, Summary


class RecurrentCell(eqx.Module, Generic[Memory]):
    """A recurrent cell of PyTorch: linear layers of its input and its state, each with a bias."""

    inputs: Linear
    hidden: Linear

    gates: ClassVar[int]
    """How many parts of the state's size each layer has."""

    @classmethod
    def create(cls, inputs: int, size: int, *, key: PRNGKeyArray):
        """All parameters, biases too, are uniform within 1/sqrt(size), PyTorch's default."""
        bound, outputs = size**-0.5, cls.gates * size
        shapes = ((outputs, inputs), (outputs,), (outputs, size), (outputs,))
        draws = [
            jax.random.uniform(k, shape, minval=-bound, maxval=bound)
            for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)
        ]
        return cls(Linear(draws[0], draws[1]), Linear(draws[2], draws[3]))

    @property
    def size(self) -> int:
        """Length of the state vector."""
        return self.hidden.weight.shape[1]

    @abc.abstractmethod
    def initial_memory(self) -> Memory:
        """Zeros, as an episode begins."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " in"], memory: Memory) -> Memory:
        """The next memory."""

    @abc.abstractmethod
    def visible(self, memory: Memory) -> Float[Array, " size"]:
        """The part of the memory that the agent decides by."""


class RecurrentAgent(ActorCriticAgent[Memory]):
    """An agent whose memory is its recurrent cell's state."""

    cell: eqx.AbstractVar[RecurrentCell]

    @abc.abstractmethod
    def see(self, observation: Observation) -> Float[Array, " in"]:
        """The input of the cell."""

    def initial_memory(self) -> Memory:
        return self.cell.initial_memory()

    def summarise(self, observation: Observation, memory: Memory) -> Summary[Memory]:
        memory = self.cell(self.see(observation), memory)
        return Summary(self.cell.visible(memory), memory)


class CoreAgent(RecurrentAgent[Memory]):
    """An agent that sees the Core alone, by a linear embedding."""

    embedding: Linear
    cell: RecurrentCell
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
        require_parts(type(self).__name__, observation)
        ekey, ckey, akey = jax.random.split(key, 3)
        self.embedding = Linear.create(observation.core, embedding, key=ekey)
        self.cell = self.cell_class.create(embedding, size, key=ckey)
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, False, key=akey)

    @property
    @abc.abstractmethod
    def cell_class(self) -> type[RecurrentCell[Any]]:
        """The class of the agent's cell."""

    def see(self, observation: Observation) -> Float[Array, " in"]:
        return self.embedding(observation.core)
