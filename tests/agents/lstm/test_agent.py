"""The LSTM baseline against PyTorch's equations."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import Constant, build, core, tiny_lstm

from wmg.agents.lstm.agent import LSTMCell, LSTMState
from wmg.agents.lstm.settings import LSTMSettings
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec, count_parameters

SPEC = Constant(actions=3).spec


def test_the_cell_equals_pytorchs_equations():
    cell = plain.shaken(LSTMCell.create(3, 4, key=jax.random.key(0)))
    draw = np.random.default_rng(0)
    x, h, c = (jnp.asarray(draw.normal(size=n), jnp.float32) for n in (3, 4, 4))
    after = cell(x, LSTMState(h, c))
    hidden, kept = plain.lstm_cell(cell, x, h, c)
    np.testing.assert_allclose(after.hidden, hidden, atol=1e-5)
    np.testing.assert_allclose(after.cell, kept, atol=1e-5)
    assert np.abs(kept - hidden).max() > 0.05


def test_all_of_the_cells_parameters_start_within_one_over_root_size():
    cell = LSTMCell.create(5, 16, key=jax.random.key(0))
    parameters = [np.asarray(x) for x in jax.tree.leaves(cell)]
    assert [x.shape for x in parameters] == [(64, 5), (64,), (64, 16), (64,)]
    for parameter in parameters:
        assert 0.2 < np.abs(parameter).max() <= 0.25


def test_the_agent_embeds_then_remembers_then_decides():
    agent = plain.shaken(tiny_lstm(SPEC))
    memory = agent.initial_memory()
    assert not memory.hidden.any() and not memory.cell.any()
    h, c = np.zeros(6), np.zeros(6)
    step = jax.jit(lambda agent, observation, memory: agent(observation, memory))
    for numbers in ([1.0, -2.0], [0.5, 3.0]):
        output = step(agent, core(*numbers), memory)
        embedded = plain.linear(agent.embedding, np.array(numbers))
        h, c = plain.lstm_cell(agent.cell, embedded, h, c)
        logits, value = plain.actor_critic(agent.actor_critic, h)
        memory = output.memory
        np.testing.assert_allclose(memory.hidden, h, atol=1e-5)
        np.testing.assert_allclose(memory.cell, c, atol=1e-5)
        np.testing.assert_allclose(output.logits, logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(output.value, value, rtol=1e-4, atol=1e-5)


def test_the_first_policy_is_uniform():
    agent = tiny_lstm(SPEC)
    assert (agent(core(1, 2), agent.initial_memory()).logits == 0).all()


def test_factors_are_refused_by_name():
    spec = EnvSpec(ObservationSpec(2, (("things", 3, 3),)), 2, 1, "reward")
    with pytest.raises(BadInput, match=r"the LSTM agent takes no Factors.*things"):
        tiny_lstm(spec)


def test_parameters_are_those_of_the_formulas():
    spec = EnvSpec(ObservationSpec(15), 2, 12, "reward")
    made = jax.eval_shape(lambda: build(LSTMSettings(128, 384, 512), spec))
    embedding, cell = 15 * 128 + 128, 4 * (128 * 384 + 384 * 384 + 2 * 384)
    heads = 2 * (384 * 512 + 512) + (512 * 2 + 2) + (512 + 1)
    assert count_parameters(made) == embedding + cell + heads == 1_187_331
