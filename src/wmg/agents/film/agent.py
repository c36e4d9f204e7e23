"""BabyAI's baseline agent (Chevalier-Boisvert et al., 2018): `expert_filmcnn` with a memory.

A GRU reads the words of the mission. Two convolutions and two FiLM blocks look at the image: in a
block, each channel is scaled and shifted by linear maps of the instruction. An LSTM remembers.

Batch normalisation follows every convolution. The original normalises by the statistics of the 64
observations at hand, so what an agent does depends on other environments, and probabilities differ
between acting and learning though the weights are the same. Here the statistics are fixed numbers
while a round is played and learned from: those of the observations of the round before, with the
weights at its end. They begin as 0 and 1. A3C does not measure: there they stay so.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.convolution import patches, patches_around, pool
from wmg.agents.gru.agent import GRUCell
from wmg.agents.heads import require_parts
from wmg.agents.layers import Linear, relu
from wmg.agents.lstm.agent import LSTMCell, LSTMState
from wmg.types import Learner, Observation, ObservationSpec, Statistics, Summary

EPSILON = 1e-5
"""Added to variances, as in PyTorch."""
LEAST = 7
"""Cells along the side of the smallest image that three pools leave a cell of."""
BATCH = "batch"
"""The name of the axis that statistics are taken over."""

Image = Float[Array, "width height channels"]


def convolution(side: int, inputs: int, outputs: int, *, key: PRNGKeyArray) -> Linear:
    """A convolution as PyTorch starts it: weights and biases uniform within 1/sqrt(fan-in)."""
    wkey, bkey = jax.random.split(key)
    fan_in = side * side * inputs
    bias = jax.random.uniform(bkey, (outputs,), minval=-(fan_in**-0.5), maxval=fan_in**-0.5)
    return Linear(Linear.create(fan_in, outputs, key=wkey).weight, bias)


def unit_rows(inputs: int, outputs: int, *, key: PRNGKeyArray) -> Linear:
    """A linear layer as BabyAI starts it: normal weights, rows scaled to norm 1, biases 0."""
    weight = jax.random.normal(key, (outputs, inputs))
    norm = jnp.linalg.norm(weight, axis=1, keepdims=True)
    return Linear(weight / norm, jnp.zeros(outputs))


class BatchNorm(eqx.Module):
    """Each channel shifted and scaled by what was measured, then `* gain + bias`."""

    gain: Float[Array, " channels"]
    bias: Float[Array, " channels"]
    seen: Statistics

    @staticmethod
    def create(channels: int) -> "BatchNorm":
        seen = Statistics(jnp.zeros(channels), jnp.ones(channels))
        return BatchNorm(jnp.ones(channels), jnp.zeros(channels), seen)

    def __call__(self, x: Image) -> Image:
        seen = jax.lax.stop_gradient(self.seen)
        normal = (x - seen.mean) * jax.lax.rsqrt(seen.variance + EPSILON)
        return normal * self.gain + self.bias

    def measured(self, x: Image, share: Float[Array, ""]) -> "BatchNorm":
        """With the mean and the variance of all images of the batch that `x` is this share of."""
        mean = jax.lax.psum(share * x.mean((0, 1)), BATCH)
        variance = jax.lax.psum(share * jnp.square(x - mean).mean((0, 1)), BATCH)
        return BatchNorm(self.gain, self.bias, Statistics(mean, variance))


Normalise = Callable[[BatchNorm, Image], Image]


class FiLMBlock(eqx.Module):
    """Two convolutions; the result of the second is scaled and shifted by the instruction."""

    first: Linear
    first_norm: BatchNorm
    second: Linear
    second_norm: BatchNorm
    scale: Linear
    shift: Linear

    @staticmethod
    def create(size: int, *, key: PRNGKeyArray) -> "FiLMBlock":
        fkey, skey, mkey, akey = jax.random.split(key, 4)
        return FiLMBlock(
            first=convolution(3, size, size, key=fkey),
            first_norm=BatchNorm.create(size),
            second=convolution(3, size, size, key=skey),
            second_norm=BatchNorm.create(size),
            scale=unit_rows(size, size, key=mkey),
            shift=unit_rows(size, size, key=akey),
        )

    def __call__(self, x: Image, instruction: Float[Array, " size"], normalise: Normalise) -> Image:
        x = relu(normalise(self.first_norm, self.first(patches_around(x, 3))))
        x = self.second(patches_around(x, 3))
        x = x * self.scale(instruction) + self.shift(instruction)
        return relu(normalise(self.second_norm, x))


class Vision(eqx.Module):
    """The convolutional network: 7x7 becomes 8x8, 4x4, 2x2 and at last a single cell."""

    first: Linear
    first_norm: BatchNorm
    second: Linear
    second_norm: BatchNorm
    blocks: tuple[FiLMBlock, FiLMBlock]

    @staticmethod
    def create(inputs: int, size: int, *, key: PRNGKeyArray) -> "Vision":
        fkey, skey, *bkeys = jax.random.split(key, 4)
        one, two = (FiLMBlock.create(size, key=k) for k in bkeys)
        return Vision(
            first=convolution(2, inputs, size, key=fkey),
            first_norm=BatchNorm.create(size),
            second=convolution(3, size, size, key=skey),
            second_norm=BatchNorm.create(size),
            blocks=(one, two),
        )

    def __call__(
        self, image: Image, instruction: Float[Array, " size"], normalise: Normalise
    ) -> Float[Array, " features"]:
        x = normalise(self.first_norm, self.first(patches(image, 2, before=1, after=1)))
        x = pool(relu(x))
        x = normalise(self.second_norm, self.second(patches_around(x, 3)))
        x = pool(relu(x))
        for block in self.blocks:
            x = block(x, instruction, normalise)
        return pool(x).reshape(-1)

    def statistics(self) -> tuple[Statistics, ...]:
        """What was measured, in the order in which the network uses it."""
        of_blocks = [(block.first_norm, block.second_norm) for block in self.blocks]
        norms = (self.first_norm, self.second_norm, *of_blocks[0], *of_blocks[1])
        return tuple(norm.seen for norm in norms)


class Reader(eqx.Module):
    """Reads a mission, word by word."""

    words: Float[Array, "vocabulary size"]
    cell: GRUCell

    @staticmethod
    def create(vocabulary: int, size: int, *, key: PRNGKeyArray) -> "Reader":
        wkey, ckey = jax.random.split(key)
        words = jax.random.normal(wkey, (vocabulary, size))
        return Reader(words, GRUCell.create(size, size, key=ckey))

    def __call__(self, mission: Float[Array, " words"]) -> Float[Array, " size"]:
        """The instruction: the state after the last word. A 0 is skipped."""
        state = jnp.zeros(self.words.shape[1], self.words.dtype)
        for place in range(len(mission)):
            number = mission[place].astype(jnp.int32)
            state = jnp.where(number > 0, self.cell(self.words[number], state), state)
        return state


class FiLM(Learner[LSTMState]):
    """The baseline. Its observation must be an image and, as Core, the numbers of words."""

    reader: Reader
    vision: Vision
    cell: LSTMCell
    actor_hidden: Linear
    policy: Linear
    critic_hidden: Linear
    value: Linear

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        size: int,
        vocabulary: int,
        actor_critic: int,
        key: PRNGKeyArray,
    ):
        require_parts("FiLM", observation, image=True)
        assert observation.image is not None
        width, height, inputs = observation.image
        if min(width, height) < LEAST:
            raise ValueError(
                f"the FiLM agent needs an image of at least {LEAST}x{LEAST}, got {width}x{height}"
            )
        rkey, vkey, ckey, akey, pkey, hkey, lkey = jax.random.split(key, 7)
        self.reader = Reader.create(vocabulary, size, key=rkey)
        self.vision = Vision.create(inputs, size, key=vkey)
        features = (width + 1) // 8 * ((height + 1) // 8) * size
        self.cell = LSTMCell.create(features, size, key=ckey)
        self.actor_hidden = unit_rows(size, actor_critic, key=akey)
        self.policy = unit_rows(actor_critic, actions, key=pkey)
        self.critic_hidden = unit_rows(size, actor_critic, key=hkey)
        self.value = unit_rows(actor_critic, 1, key=lkey)

    def initial_memory(self) -> LSTMState:
        return self.cell.initial_memory()

    def summarise(self, observation: Observation, memory: LSTMState) -> Summary[LSTMState]:
        memory = self.cell(self._see(observation, lambda norm, x: norm(x)), memory)
        return Summary(memory.hidden, memory)

    def _see(self, observation: Observation, normalise: Normalise) -> Float[Array, " features"]:
        assert observation.image is not None
        return self.vision(observation.image, self.reader(observation.core), normalise)

    def decide(
        self, summary: Float[Array, "*rows size"]
    ) -> tuple[Float[Array, "*rows actions"], Float[Array, "*rows"]]:
        logits = self.policy(jnp.tanh(self.actor_hidden(summary)))
        return logits, self.value(jnp.tanh(self.critic_hidden(summary)))[..., 0]

    def after_round(
        self, observation: Observation, valid: Bool[Array, " steps"] | None = None
    ) -> "FiLM":
        """With the statistics of the valid ones of these observations, layer by layer."""
        counted = jnp.ones(len(observation.core)) if valid is None else valid.astype(jnp.float32)

        def measure(observation: Observation, share: Float[Array, ""]) -> tuple[Statistics, ...]:
            found: list[BatchNorm] = []

            def normalise(norm: BatchNorm, x: Image) -> Image:
                found.append(norm.measured(x, share))
                return found[-1](x)

            self._see(observation, normalise)
            return tuple(norm.seen for norm in found)

        shares = counted / counted.sum()
        seen = jax.vmap(measure, out_axes=None, axis_name=BATCH)(observation, shares)
        return eqx.tree_at(lambda agent: agent.vision.statistics(), self, seen)
