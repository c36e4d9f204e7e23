"""The CNN+GRU baseline against jax's own convolution and against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import build

from wmg.agents.cnn_gru.agent import CNN
from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.learn import window
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation, ObservationSpec, count_parameters

BABYAI = EnvSpec(ObservationSpec(47, image=(7, 7, 3)), 7, 64, "success")
TINY = EnvSpec(ObservationSpec(5, image=(7, 7, 3)), 4, 64, "success")
SETTINGS = CNNGRUSettings(channels=(3, 4, 5), embedding=6, size=7, actor_critic=8)
draw = np.random.default_rng(0)


@pytest.fixture(scope="module")
def agent():
    return plain.shaken(build(SETTINGS, TINY), by=0.2)


def observe():
    """An observation like BabyAI's, its image of small integers."""
    image, core = draw.integers(0, 8, (7, 7, 3)), draw.integers(0, 2, 5)
    return Observation(jnp.asarray(core, jnp.float32), image=jnp.asarray(image, jnp.float32))


def kernel(layer):
    """A layer's weights as jax's convolution takes them: (2, 2, in, out)."""
    return layer.weight.T.reshape(2, 2, -1, layer.weight.shape[0])


def convolved(layer, x):
    """jax's convolution and a ReLU."""
    y = jax.lax.conv_general_dilated(
        x[None], kernel(layer), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(y[0] + layer.bias)


def by_convolution(cnn, image):
    x = convolved(cnn.first, image)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")
    return convolved(cnn.third, convolved(cnn.second, x)).reshape(-1)


def looped(layer, x):
    """A convolution and a ReLU, cell by cell."""
    weight = np.asarray(kernel(layer))
    width, height, _ = x.shape
    out = np.zeros((width - 1, height - 1, weight.shape[-1]))
    for i, j in np.ndindex(width - 1, height - 1):
        for di, dj in np.ndindex(2, 2):
            out[i, j] += x[i + di, j + dj] @ weight[di, dj]
    return np.maximum(out + np.asarray(layer.bias), 0)


def pooled(x):
    out = np.zeros((x.shape[0] // 2, x.shape[1] // 2, x.shape[2]))
    for i, j in np.ndindex(*out.shape[:2]):
        out[i, j] = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((0, 1))
    return out


def test_the_network_equals_plain_loops(agent):
    image = observe().image
    cnn = agent.cnn
    x = looped(cnn.third, looped(cnn.second, pooled(looped(cnn.first, np.asarray(image)))))
    assert x.shape == (1, 1, 5) and x.any()
    np.testing.assert_allclose(cnn(image), x[0, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(7, 7, 3), (9, 12, 2)])
def test_network_and_gradient_equal_those_of_jaxs_convolution(shape):
    cnn = plain.shaken(CNN.create(shape[2], (3, 4, 5), key=jax.random.key(0)), by=0.2)
    image = jnp.asarray(draw.integers(0, 8, shape), jnp.float32)
    out = jax.jit(CNN.__call__)(cnn, image)
    assert out.shape == (CNN.features(shape[0], shape[1], 5),)
    wanted = jax.jit(by_convolution)(cnn, image)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)

    mine, theirs = (
        jax.tree.leaves(jax.jit(jax.grad(lambda cnn, run=run: (run(cnn, image) ** 2).sum()))(cnn))
        for run in (CNN.__call__, by_convolution)
    )
    for got, wanted in zip(mine, theirs, strict=True):
        largest = np.abs(wanted).max()
        assert largest > 0.1
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * largest)


def test_the_agent_joins_image_and_vector_then_remembers_then_decides(agent):
    h = agent.initial_memory()
    assert h.shape == (7,) and (h == 0).all()
    step = jax.jit(lambda agent, observation, h: agent(observation, h))
    for _ in range(2):
        seen = observe()
        output = step(agent, seen, h)
        embedded = plain.linear(agent.embedding, np.asarray(seen.core))
        joined = np.concatenate([by_convolution(agent.cnn, seen.image), embedded])
        h = plain.gru_cell(agent.cell, joined, np.asarray(h))
        logits, value = plain.actor_critic(agent.actor_critic, h)
        np.testing.assert_allclose(output.memory, h, atol=1e-5)
        np.testing.assert_allclose(output.logits, logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(output.value, value, rtol=1e-4, atol=1e-5)
        h = output.memory


def test_every_layer_can_have_its_weight_gradient_deferred(agent):
    step = lambda agent, memory, seen: (memory, agent(seen, memory).value)  # noqa: E731
    many = jax.tree.map(lambda x: x[None], observe())
    uses = window.find_uses(step, agent, agent.initial_memory(), many)
    assert len({use.layer for use in uses}) == 10


def test_many_runs_make_no_convolution_when_differentiated(agent):
    runs, seen = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), (agent, observe()))

    def loss(agent, observation):
        output = agent(observation, agent.initial_memory())
        return output.value + output.logits.sum()

    program = jax.jit(jax.vmap(jax.grad(loss))).lower(runs, seen).as_text()
    assert "convolution" not in program and "dot_general" in program


def test_the_first_policy_is_uniform():
    agent = build(SETTINGS, TINY)
    assert (agent(observe(), agent.initial_memory()).logits == 0).all()


def test_weights_start_within_one_over_the_root_of_a_patch_and_biases_at_zero():
    cnn = CNN.create(3, (16, 40, 192), key=jax.random.key(0))
    for layer, inputs in ((cnn.first, 12), (cnn.second, 64), (cnn.third, 160)):
        assert layer.weight.shape[1] == inputs and (layer.bias == 0).all()
        assert 0.95 < np.abs(layer.weight).max() * inputs**0.5 <= 1


@pytest.mark.parametrize(
    ("channels", "embedding", "size", "actor_critic", "count"),
    [
        ((16, 40, 192), 512, 96, 512, 392_704),
        ((12, 24, 192), 256, 64, 64, 139_772),
        ((12, 40, 192), 256, 64, 4096, 709_260),
    ],
)
def test_the_papers_agents_have_as_many_parameters_as_it_prints(
    channels, embedding, size, actor_critic, count
):
    settings = CNNGRUSettings(channels, embedding, size, actor_critic)
    assert count_parameters(jax.eval_shape(lambda: build(settings, BABYAI))) == count


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (ObservationSpec(929), "the CNN+GRU agent needs an image, but the observation has none"),
        (
            ObservationSpec(47, image=(7, 6, 3)),
            "the CNN+GRU agent needs an image of at least 7x7, got 7x6",
        ),
    ],
)
def test_an_observation_without_a_large_enough_image_is_refused(observation, message):
    with pytest.raises(BadInput) as refusal:
        build(SETTINGS, EnvSpec(observation, 7, 64, "success"))
    assert str(refusal.value) == message
