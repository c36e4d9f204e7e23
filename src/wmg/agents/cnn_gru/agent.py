"""The GRU baseline for images: a convolutional network, one GRU cell, actor and critic.

The paper names the network but does not draw it, and the authors' release lacks it; this is
the wiring whose parameter counts are those the paper prints. The network is BabyAI's own,
with the tuned numbers of channels: three 2x2 convolutions, each followed by a ReLU, and a 2x2
max-pool after the first, so that 7x7 becomes 6x6, 3x3, 2x2 and at last a single cell. It takes
the image's integers as they are, as BabyAI's does. The vector beside the image is embedded
linearly, as in the GRU agent, and joins the network's result at the GRU cell.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.convolution import patches, pool
from wmg.agents.gru.agent import GRUCell
from wmg.agents.heads import ActorCritic, require_parts
from wmg.agents.layers import Linear, relu
from wmg.agents.recurrent.agent import RecurrentAgent, RecurrentCell
from wmg.types import Observation, ObservationSpec

LEAST = 7
"""Cells along the side of the smallest image that three convolutions and a pool leave a cell of."""


class CNN(eqx.Module):
    """Three convolutions with a max-pool after the first."""

    first: Linear
    second: Linear
    third: Linear

    @staticmethod
    def create(inputs: int, channels: Sequence[int], *, key: PRNGKeyArray) -> "CNN":
        first, second, third = channels
        fkey, skey, tkey = jax.random.split(key, 3)
        return CNN(
            first=Linear.create(4 * inputs, first, key=fkey),
            second=Linear.create(4 * first, second, key=skey),
            third=Linear.create(4 * second, third, key=tkey),
        )

    def __call__(self, image: Float[Array, "width height channels"]) -> Float[Array, " features"]:
        x = pool(relu(self.first(patches(image))))
        x = relu(self.second(patches(x)))
        return relu(self.third(patches(x))).reshape(-1)

    @staticmethod
    def features(width: int, height: int, channels: int) -> int:
        """How many numbers come out, given the image's size and the last layer's channels."""
        across, down = ((side - 1) // 2 - 2 for side in (width, height))
        return across * down * channels


class CNNGRU(RecurrentAgent[Array]):
    """The paper's CNN+GRU agent. Its observation must be an image and a Core."""

    cnn: CNN
    embedding: Linear
    cell: RecurrentCell
    actor_critic: ActorCritic

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        channels: Sequence[int],
        embedding: int,
        size: int,
        actor_critic: int,
        key: PRNGKeyArray,
    ):
        require_parts("CNN+GRU", observation, image=True)
        assert observation.image is not None
        width, height, inputs = observation.image
        if min(width, height) < LEAST:
            raise ValueError(
                f"the CNN+GRU agent needs an image of at least {LEAST}x{LEAST}, "
                f"got {width}x{height}"
            )
        nkey, ekey, ckey, akey = jax.random.split(key, 4)
        self.cnn = CNN.create(inputs, channels, key=nkey)
        self.embedding = Linear.create(observation.core, embedding, key=ekey)
        joined = CNN.features(width, height, channels[-1]) + embedding
        self.cell = GRUCell.create(joined, size, key=ckey)
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, False, key=akey)

    def see(self, observation: Observation) -> Float[Array, " in"]:
        assert observation.image is not None
        return jnp.concatenate([self.cnn(observation.image), self.embedding(observation.core)])
