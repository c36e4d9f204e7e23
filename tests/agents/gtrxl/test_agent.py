"""The gated Transformer-XL against plain loops over the equations of its paper."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import Constant, build, core, tiny_gtrxl

from wmg.agents.gtrxl.agent import Gate, age_table
from wmg.agents.gtrxl.settings import GTrXLSettings
from wmg.learn import window
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec, count_parameters

SPEC = Constant(actions=3).spec
HEADS, WIDTH, SLOTS = 2, 3, 3
SIZE = HEADS * WIDTH
STEPS = ([1.0, -2.0], [0.5, 3.0], [-1.0, 0.2], [0.3, 0.4], [2.0, 1.0])
"""More than there are slots."""


@pytest.fixture(scope="module")
def agent():
    return plain.shaken(tiny_gtrxl(SPEC), by=0.3)


def plain_gate(gate, x, y):
    """g(x, y) of the paper: r, z, h."""
    r, z = np.split(plain.sigmoid(plain.linear(gate.gates, np.concatenate([y, x]))), 2)
    new = np.tanh(plain.linear(gate.new, np.concatenate([y, r * x])))
    return (1 - z) * x + z * new


def position(age):
    """The sines, then the cosines, of an age."""
    angles = [age / 10_000 ** (i / (SIZE // 2)) for i in range(SIZE // 2)]
    return np.array([*map(math.sin, angles), *map(math.cos, angles)])


def plain_attention(attention, nodes):
    """Transformer-XL's four terms, node by node; node i is i steps old."""
    keys = [plain.linear(attention.qkv, x)[SIZE : 2 * SIZE] for x in nodes]
    values = [plain.linear(attention.qkv, x)[2 * SIZE :] for x in nodes]
    ages = [plain.linear(attention.ages, position(age)) for age in range(len(nodes))]
    query = plain.linear(attention.qkv, nodes[0])[:SIZE]
    mixed, weights = np.zeros(SIZE), []
    for head in range(HEADS):
        own = slice(head * WIDTH, (head + 1) * WIDTH)
        u, v = (np.asarray(b)[head] for b in (attention.content_bias, attention.age_bias))
        scores = [
            ((query[own] + u) @ key[own] + (query[own] + v) @ age[own]) / math.sqrt(WIDTH)
            for key, age in zip(keys, ages, strict=True)
        ]
        weights.append(plain.softmax(scores))
        mixed[own] = sum(w * value[own] for w, value in zip(weights[-1], values, strict=True))
    return plain.linear(attention.mix, mixed), np.array(weights)


def plain_layer(layer, x, past):
    """The layer's result for x, given its inputs of past steps, newest first."""
    nodes = [plain.layer_norm(layer.attention_norm, node) for node in (x, *past)]
    attended, weights = plain_attention(layer.attention, nodes)
    x = plain_gate(layer.attention_gate, x, np.maximum(attended, 0))
    hidden = np.maximum(plain.linear(layer.widen, plain.layer_norm(layer.feedforward_norm, x)), 0)
    return plain_gate(
        layer.feedforward_gate, x, np.maximum(plain.linear(layer.narrow, hidden), 0)
    ), weights


def plain_steps(agent, steps):
    """(summary, weights) of each step; every layer keeps its own past."""
    pasts = [[] for _ in agent.layers]
    for numbers in steps:
        x, weights = plain.linear(agent.embedding, np.array(numbers)), []
        for layer, past in zip(agent.layers, pasts, strict=True):
            came_in = x
            x, seen = plain_layer(layer, x, past)
            past.insert(0, came_in)
            del past[SLOTS:]
            weights.append(seen)
        yield x, np.array(weights)


def test_the_agent_equals_plain_loops_also_after_its_memory_is_full(agent):
    memory = agent.initial_memory()
    step = jax.jit(lambda agent, observation, memory: agent.summarise(observation, memory))
    for numbers, (vector, weights) in zip(STEPS, plain_steps(agent, STEPS), strict=True):
        summary = step(agent, core(*numbers), memory)
        memory, seen = summary.memory, weights.shape[-1]
        np.testing.assert_allclose(summary.vector, vector, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(summary.attention[..., :seen], weights, rtol=1e-4, atol=1e-5)
        assert not summary.attention[..., seen:].any()
    assert seen == 1 + SLOTS


def test_what_is_switched_off_gets_no_attention(agent):
    memory = agent.initial_memory()
    for numbers in STEPS[:2]:
        memory = agent(core(*numbers), memory).memory
    on = jnp.array([True, False, True, True])
    output, there = agent.attend_to(core(*STEPS[2]), memory, on)
    np.testing.assert_array_equal(there, [True, False, True, False])
    np.testing.assert_array_equal(output.attention[:, :, 1] == 0, True)
    np.testing.assert_allclose(output.attention.sum(-1), 1, rtol=1e-5)
    whole, _ = agent.attend_to(core(*STEPS[2]), memory, jnp.ones(4, bool))
    usual = agent(core(*STEPS[2]), memory)
    np.testing.assert_allclose(whole.logits, usual.logits, atol=1e-6)
    assert np.abs(output.logits - usual.logits).max() > 1e-4


def test_gates_begin_nearly_closed():
    gate = Gate.create(50, key=jax.random.key(0))
    x, y = (jax.random.normal(jax.random.key(seed), (50,)) for seed in (1, 2))
    share = 1 / (1 + math.exp(2))  # sigmoid(-2): the mean share of what is new
    new = jnp.tanh(gate.new(jnp.concatenate([y, x])))
    moved = jnp.vdot(gate(x, y) - x, new - x) / jnp.vdot(new - x, new - x)
    assert 0.7 * share < moved < 1.5 * share


def test_each_age_has_a_row_of_its_own():
    table = age_table(17, 12)
    assert table.shape == (17, 12) and table.dtype == np.float32
    apart = np.abs(table[:, None] - table[None]).max(-1)
    assert apart[~np.eye(17, dtype=bool)].min() > 0.1
    assert age_table(3, 5).shape == (3, 5)


def test_gradients_reach_what_was_written_within_the_window_and_stop_at_its_start(agent):
    def last(embedded, stop):
        now = eqx.tree_at(lambda agent: agent.embedding, agent, embedded)
        memory = agent.initial_memory()
        memory = now.summarise(core(*STEPS[0]), memory).memory
        memory = jax.lax.stop_gradient(memory) if stop else memory
        return agent.summarise(core(*STEPS[1]), memory).vector.sum()

    for stop, flows in ((False, True), (True, False)):
        gradient = jax.grad(lambda e, stop=stop: last(e, stop))(agent.embedding)
        assert bool(np.abs(gradient.weight).max() > 1e-3) == flows


def test_every_layer_that_summarises_has_its_weight_gradient_deferred(agent):
    step = lambda agent, memory, seen: (memory, agent(seen, memory).value)  # noqa: E731
    many = jax.tree.map(lambda x: x[None], core(*STEPS[0]))
    uses = window.find_uses(step, agent, agent.initial_memory(), many)
    in_layers = 3 + 2 + 2 + 2  # attention, widen and narrow, two gates
    assert len({use.layer for use in uses}) == 1 + 2 * in_layers + 4


def test_the_first_policy_is_uniform():
    agent = tiny_gtrxl(SPEC)
    assert (agent(core(1, 2), agent.initial_memory()).logits == 0).all()


def test_factors_are_refused_by_name():
    spec = EnvSpec(ObservationSpec(2, (("things", 3, 3),)), 2, 1, "reward")
    with pytest.raises(BadInput, match=r"the GTrXL agent takes no Factors.*things"):
        tiny_gtrxl(spec)


def test_parameters_are_those_of_the_formulas():
    spec = EnvSpec(ObservationSpec(15), 2, 12, "reward")
    made = jax.eval_shape(lambda: build(GTrXLSettings(16, 3, 4, 32, 256, 360), spec))
    d, hidden, wide = 4 * 32, 256, 360
    attention = 5 * (d * d + d) + 2 * d  # query, key, value, ages, mix; u and v
    gate = 6 * d * d + 3 * d  # six matrices, a bias for r, z and h
    feedforward = (d * hidden + hidden) + (hidden * d + d)
    layer = attention + feedforward + 2 * gate + 2 * 2 * d  # and two layer norms
    heads = 2 * (d * wide + wide) + (wide * 2 + 2) + (wide + 1)
    assert count_parameters(made) == (15 * d + d) + 3 * layer + heads == 1_135_883
