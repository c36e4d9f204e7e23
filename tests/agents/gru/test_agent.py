"""The GRU baseline against PyTorch's equations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import Constant, build, core, tiny_gru

from wmg.agents.gru.agent import GRU, GRUCell
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.recurrent.agent import CoreAgent
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec, count_parameters

SPEC = Constant(actions=3).spec


def test_the_cell_equals_pytorchs_equations():
    cell = plain.shaken(GRUCell.create(3, 4, key=jax.random.key(0)))
    draw = np.random.default_rng(0)
    x, h = (jnp.asarray(draw.normal(size=n), jnp.float32) for n in (3, 4))
    np.testing.assert_allclose(cell(x, h), plain.gru_cell(cell, x, h), atol=1e-5)


def test_an_agent_must_say_which_cell_it_has():
    assert "cell_class" in CoreAgent.__abstractmethods__
    assert not GRU.__abstractmethods__


def test_all_of_the_cells_parameters_start_within_one_over_root_size():
    cell = GRUCell.create(5, 16, key=jax.random.key(0))
    parameters = [np.asarray(x) for x in jax.tree.leaves(cell)]
    assert [x.shape for x in parameters] == [(48, 5), (48,), (48, 16), (48,)]
    for parameter in parameters:
        assert 0.2 < np.abs(parameter).max() <= 0.25


def test_the_agent_embeds_then_remembers_then_decides():
    agent = plain.shaken(tiny_gru(SPEC))
    h = agent.initial_memory()
    assert (h == 0).all()
    step = jax.jit(lambda agent, observation, h: agent(observation, h))
    for numbers in ([1.0, -2.0], [0.5, 3.0]):
        output = step(agent, core(*numbers), h)
        embedded = plain.linear(agent.embedding, np.array(numbers))
        h = plain.gru_cell(agent.cell, embedded, np.asarray(h))
        logits, value = plain.actor_critic(agent.actor_critic, h)
        np.testing.assert_allclose(output.memory, h, atol=1e-5)
        np.testing.assert_allclose(output.logits, logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(output.value, value, rtol=1e-4, atol=1e-5)
        h = output.memory


def test_the_first_policy_is_uniform():
    agent = tiny_gru(SPEC)
    assert (agent(core(1, 2), agent.initial_memory()).logits == 0).all()


def test_factors_are_refused_by_name():
    spec = EnvSpec(ObservationSpec(2, (("things", 3, 3),)), 2, 1, "reward")
    with pytest.raises(BadInput, match="things"):
        tiny_gru(spec)


def test_the_papers_gru_has_1_139_459_parameters():
    spec = EnvSpec(ObservationSpec(15), 2, 12, "reward")
    settings = GRUSettings(embedding=256, size=384, actor_critic=512)
    shapes = eqx.filter_eval_shape(build, settings, spec)
    shapes = jax.tree.map(lambda x: np.broadcast_to(np.float32(0), x.shape), shapes)
    assert count_parameters(shapes) == 1_139_459
