"""BabyAI's baseline against jax's own convolutions, and its statistics against a whole batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import build

from wmg.agents.film.agent import BatchNorm, convolution, unit_rows
from wmg.agents.film.settings import FiLMSettings
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation, ObservationSpec, Statistics, count_parameters

WORDS, SIZE = 4, 5
TINY = EnvSpec(ObservationSpec(WORDS, image=(7, 7, 3)), 4, 64, "success")
SETTINGS = FiLMSettings(size=SIZE, vocabulary=6, actor_critic=7)
draw = np.random.default_rng(0)


def observe(*words):
    """An observation like BabyAI's, its image of small integers."""
    image = jnp.asarray(draw.integers(0, 8, (7, 7, 3)), jnp.float32)
    return Observation(jnp.asarray(words or draw.integers(0, 6, WORDS), jnp.float32), image=image)


def stacked(many: list[Observation]) -> Observation:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *many)


def measured(agent):
    """The agent with variances that are not 1, and positive."""
    seen = tuple(
        Statistics(each.mean, jnp.abs(each.variance) + 0.1) for each in agent.vision.statistics()
    )
    where = lambda agent: agent.vision.statistics()  # noqa: E731
    return eqx.tree_at(where, agent, seen)


@pytest.fixture(scope="module")
def agent():
    return measured(plain.shaken(build(SETTINGS, TINY), by=0.2))


def convolved(x, layer, side, padding):
    """jax's convolution of a batch."""
    kernel = layer.weight.T.reshape(side, side, -1, layer.weight.shape[0])
    numbers = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=numbers)
    return np.asarray(y + layer.bias)


def pooled(x):
    return np.asarray(
        jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    )


def as_seen(norm, x):
    """Normalised by the statistics that the agent has."""
    mean, variance = np.asarray(norm.seen.mean), np.asarray(norm.seen.variance)
    return (x - mean) / np.sqrt(variance + 1e-5) * np.asarray(norm.gain) + np.asarray(norm.bias)


def as_trained(norm, x):
    """PyTorch's batch norm in training: by the mean and the variance of the batch itself."""
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) / np.sqrt(variance + 1e-5) * np.asarray(norm.gain) + np.asarray(norm.bias)


def plain_instruction(reader, words):
    state = np.zeros(SIZE)
    for number in [int(word) for word in words if word > 0]:
        state = plain.gru_cell(reader.cell, np.asarray(reader.words)[number], state)
    return state


def plain_vision(vision, images, instructions, normalise):
    """The result for a batch, with the padding that BabyAI's code has."""
    x = np.maximum(
        normalise(vision.first_norm, convolved(images, vision.first, 2, [(1, 1)] * 2)), 0
    )
    x = pooled(x)
    assert x.shape[1:3] == (4, 4)
    x = np.maximum(normalise(vision.second_norm, convolved(x, vision.second, 3, [(1, 1)] * 2)), 0)
    x = pooled(x)
    for block in vision.blocks:
        x = np.maximum(normalise(block.first_norm, convolved(x, block.first, 3, [(1, 1)] * 2)), 0)
        x = convolved(x, block.second, 3, [(1, 1)] * 2)
        scale, shift = (
            np.stack([plain.linear(layer, y) for y in instructions])[:, None, None]
            for layer in (block.scale, block.shift)
        )
        x = np.maximum(normalise(block.second_norm, x * scale + shift), 0)
    return pooled(x).reshape(len(images), -1)


def test_the_agent_reads_looks_remembers_and_decides(agent):
    memory, h, c = agent.initial_memory(), np.zeros(SIZE), np.zeros(SIZE)
    step = jax.jit(lambda agent, seen, memory: agent(seen, memory))
    for words in ([3, 0, 5, 1], [2, 4, 0, 0]):
        seen = observe(*words)
        output = step(agent, seen, memory)
        instruction = plain_instruction(agent.reader, words)
        x = plain_vision(agent.vision, seen.image[None], [instruction], as_seen)[0]
        assert (x > 0.1).any()
        h, c = plain.lstm_cell(agent.cell, x, h, c)
        logits = plain.linear(agent.policy, np.tanh(plain.linear(agent.actor_hidden, h)))
        value = plain.linear(agent.value, np.tanh(plain.linear(agent.critic_hidden, h)))[0]
        memory = output.memory
        np.testing.assert_allclose(memory.hidden, h, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(memory.cell, c, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(output.logits, logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(output.value, value, rtol=1e-3, atol=1e-4)


def test_after_a_round_it_is_what_pytorch_makes_of_the_whole_batch_in_training(agent):
    many = [observe() for _ in range(20)]
    batch = stacked(many)
    after = jax.jit(lambda agent, batch: agent.after_round(batch))(agent, batch)
    images = np.stack([np.asarray(seen.image) for seen in many])
    instructions = [plain_instruction(agent.reader, np.asarray(seen.core)) for seen in many]
    wanted = plain_vision(agent.vision, images, instructions, as_trained)
    found = plain_vision(after.vision, images, instructions, as_seen)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    before = plain_vision(agent.vision, images, instructions, as_seen)
    assert np.abs(before - wanted).max() > 0.1


def test_statistics_are_measured_and_not_trained(agent):
    def loss(agent):
        output = agent(observe(1, 2, 3, 4), agent.initial_memory())
        return output.value + output.logits[0]

    gradient = jax.grad(loss)(agent)
    assert not any(x.any() for x in jax.tree.leaves(gradient.vision.statistics()))
    norms = [gradient.vision.first_norm, gradient.vision.blocks[1].second_norm]
    assert all(norm.gain.any() and norm.bias.any() for norm in norms)


def test_a_new_agent_does_not_normalise():
    norm = BatchNorm.create(3)
    x = jnp.asarray(draw.normal(size=(2, 2, 3)), jnp.float32)
    np.testing.assert_allclose(norm(x), x, rtol=1e-4)


def test_weights_start_as_babyais():
    layer = unit_rows(30, 10, key=jax.random.key(0))
    np.testing.assert_allclose(jnp.linalg.norm(layer.weight, axis=1), 1, rtol=1e-5)
    assert not layer.bias.any()
    layer = convolution(3, 10, 40, key=jax.random.key(0))
    for part in (layer.weight, layer.bias):
        assert 0.9 < np.abs(part).max() * 90**0.5 <= 1


def test_parameters_are_those_of_babyais_network():
    spec = EnvSpec(ObservationSpec(9, image=(7, 7, 3)), 7, 64, "success")
    made = jax.eval_shape(lambda: build(FiLMSettings(), spec))
    n = 128
    norm, conv, linear = 2 * n, 9 * n * n + n, n * n + n
    words, gru, lstm = 100 * n, 3 * (2 * n * n + 2 * n), 4 * (2 * n * n + 2 * n)
    image = (4 * 3 * n + n) + norm + conv + norm
    film = 2 * (conv + norm) + 2 * linear
    heads = (n * 64 + 64) + (64 * 7 + 7) + (n * 64 + 64) + (64 + 1)
    assert count_parameters(made) == words + gru + lstm + image + 2 * film + heads == 1_068_168


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (ObservationSpec(9), "the FiLM agent needs an image, but the observation has none"),
        (
            ObservationSpec(9, image=(7, 6, 3)),
            "the FiLM agent needs an image of at least 7x7, got 7x6",
        ),
    ],
)
def test_an_observation_without_a_large_enough_image_is_refused(observation, message):
    with pytest.raises(BadInput) as refusal:
        build(SETTINGS, EnvSpec(observation, 7, 64, "success"))
    assert str(refusal.value) == message


def test_what_was_not_acted_on_is_not_measured(agent):
    many = [observe() for _ in range(9)]
    batch = stacked(many)
    valid = np.arange(9) % 3 > 0
    acted_on = jax.tree.map(lambda leaf: leaf[valid], batch)
    measure = jax.jit(lambda agent, *seen: agent.after_round(*seen).vision.statistics())
    found = measure(agent, batch, jnp.asarray(valid))
    for one, other in zip(*map(jax.tree.leaves, (found, measure(agent, acted_on))), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    everything = measure(agent, batch)
    assert np.abs(everything[0].mean - found[0].mean).max() > 1e-3
