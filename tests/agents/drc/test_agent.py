"""DRC against jax's own convolutions, layer by layer as its authors describe it."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import build

from wmg.agents.drc.agent import ConvLSTMCell, convolution
from wmg.agents.drc.settings import DRCSettings
from wmg.learn import window
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation, ObservationSpec, count_parameters

WIDTH, HEIGHT, CHANNELS, INPUTS = 4, 5, 3, 2
TINY = EnvSpec(ObservationSpec(2, image=(WIDTH, HEIGHT, INPUTS)), 4, 9, "success")
SETTINGS = DRCSettings(layers=2, ticks=3, channels=CHANNELS, actor_critic=6)
draw = np.random.default_rng(0)


@pytest.fixture(scope="module")
def agent():
    return plain.shaken(build(SETTINGS, TINY), by=0.2)


def board(channels=CHANNELS):
    return jnp.asarray(draw.normal(size=(WIDTH, HEIGHT, channels)), jnp.float32)


def observe():
    return Observation(jnp.asarray(draw.normal(size=2), jnp.float32), image=board(INPUTS))


def convolved(x, kernel, padding="SAME"):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x[None], kernel, (1, 1), padding, dimension_numbers=numbers
    )[0]


def kernel(layer, side, inputs):
    """A layer's weights as jax's convolution takes them."""
    return layer.weight.T.reshape(side, side, inputs, -1)


def plain_cell(layer, encoded, below, hidden, cell):
    """Three convolutions, of the input, of the state and of the fence, as in the replication."""
    whole = kernel(layer.gates, 3, 4 * CHANNELS + 1)
    of_seen, of_hidden, of_fence = jnp.split(whole, [3 * CHANNELS, 4 * CHANNELS], axis=2)
    pooled = layer.pooled[0] * hidden.max((0, 1)) + layer.pooled[1] * hidden.mean((0, 1))
    seen = jnp.concatenate([encoded, below, jnp.zeros_like(hidden) + pooled], axis=-1)
    fence = np.ones((WIDTH + 2, HEIGHT + 2, 1), np.float32)
    fence[1:-1, 1:-1] = 0
    gates = convolved(seen, of_seen) + convolved(hidden, of_hidden)
    gates = gates + convolved(jnp.asarray(fence), of_fence, "VALID") + layer.gates.bias
    i, j, f, o = np.split(np.asarray(gates), 4, axis=-1)
    cell = plain.sigmoid(f) * cell + np.tanh(i) * plain.sigmoid(j)
    return np.tanh(o) * np.tanh(cell), cell


def plain_step(agent, image, hidden, cell):
    encoded = image
    for layer, inputs in zip(agent.encoder, (INPUTS, CHANNELS), strict=True):
        encoded = convolved(encoded, kernel(layer, 4, inputs)) + layer.bias
    hidden, cell = list(hidden), list(cell)
    for _ in range(3):
        for d, layer in enumerate(agent.layers):
            below = hidden[d - 1]  # of the lowest layer: the top one, a tick before
            hidden[d], cell[d] = plain_cell(layer, encoded, below, hidden[d], cell[d])
    return np.asarray(hidden[-1] + encoded).reshape(-1), np.stack(hidden), np.stack(cell)


def test_a_layer_equals_its_three_convolutions():
    layer = plain.shaken(ConvLSTMCell.create(CHANNELS, key=jax.random.key(0)), by=0.2)
    seen = [board() for _ in range(4)]
    for got, wanted in zip(jax.jit(layer.__call__)(*seen), plain_cell(layer, *seen), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_step_runs_all_layers_three_times_and_the_memory_goes_on(agent):
    memory = agent.initial_memory()
    assert memory.hidden.shape == memory.cell.shape == (2, WIDTH, HEIGHT, CHANNELS)
    assert not memory.hidden.any() and not memory.cell.any()
    hidden, cell = np.asarray(memory.hidden), np.asarray(memory.cell)
    step = jax.jit(lambda agent, seen, memory: (agent.summarise(seen, memory), agent(seen, memory)))
    for _ in range(2):
        seen = observe()
        summary, output = step(agent, seen, memory)
        vector, hidden, cell = plain_step(agent, seen.image, hidden, cell)
        logits, value = plain.actor_critic(agent.actor_critic, vector)
        memory = summary.memory
        np.testing.assert_allclose(summary.vector, vector, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(memory.hidden, hidden, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(memory.cell, cell, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(output.logits, logits, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(output.value, value, rtol=1e-3, atol=1e-3)


def test_the_core_is_not_looked_at(agent):
    memory, seen = agent.initial_memory(), observe()
    other = Observation(seen.core + 1, image=seen.image)
    np.testing.assert_array_equal(agent(seen, memory).value, agent(other, memory).value)


def test_every_tick_of_every_layer_has_its_weight_gradient_deferred(agent):
    step = lambda agent, memory, seen: (memory, agent(seen, memory).value)  # noqa: E731
    many = jax.tree.map(lambda x: x[None], observe())
    uses = window.find_uses(step, agent, agent.initial_memory(), many)
    encoder, actor_critic = [0, 1], [4, 5, 4, 6]
    assert [use.layer for use in uses][:8] == [*encoder, *[2, 3] * 3]
    assert {use.layer for use in uses[8:]} == set(actor_critic)


def test_weights_of_each_image_start_with_the_variance_of_their_own_convolution():
    weight = np.asarray(convolution(3, 200, 20, 10, 1, key=jax.random.key(0)).weight)
    of_cells = weight.reshape(200, 9, 31)
    for part, inputs in ((slice(0, 20), 20), (slice(20, 30), 10), (slice(30, 31), 1)):
        assert of_cells[..., part].std() == pytest.approx((9 * inputs) ** -0.5, rel=0.05)


def test_the_first_policy_is_uniform():
    agent = build(SETTINGS, TINY)
    assert (agent(observe(), agent.initial_memory()).logits == 0).all()


def parameters(image, actions):
    spec = EnvSpec(ObservationSpec(6, image=image), actions, 120, "success")
    return count_parameters(jax.eval_shape(lambda: build(DRCSettings(), spec)))


def test_with_the_replications_observation_and_actions_it_has_as_many_parameters():
    encoder = (4 * 4 * 3 * 32 + 32) + (4 * 4 * 32 * 32 + 32)
    layer = 9 * (3 * 32) * 128 + 9 * 32 * 128 + 9 * 128 + 128 + 2 * 32
    heads = (10 * 10 * 32 * 256 + 256) + (256 * 4 + 4) + (256 + 1)
    assert encoder + 3 * layer + heads == 1_285_125  # published
    assert parameters((10, 10, 3), actions=4) == 1_285_125


def test_here_it_has_a_plane_and_an_action_more():
    plane, action = 4 * 4 * 32, 256 + 1
    assert parameters((10, 10, 4), actions=5) == 1_285_125 + plane + action


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (ObservationSpec(6), "the DRC agent needs an image, but the observation has none"),
        (
            ObservationSpec(6, (("cells", 3, 2),), (4, 4, 1)),
            "the DRC agent takes no Factors, but the observation has cells; "
            "some environments can show them flattened in the Core",
        ),
    ],
)
def test_an_observation_without_an_image_or_with_factors_is_refused(observation, message):
    with pytest.raises(BadInput) as refusal:
        build(SETTINGS, EnvSpec(observation, 5, 120, "success"))
    assert str(refusal.value) == message
