"""Edges against loops over pairs of nodes."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from plain import shaken
from probes import tiny_wmg

from wmg.agents.wmg.edges import EdgeContent, EdgeTransformer, edge_maps
from wmg.agents.wmg.memory import Memory
from wmg.agents.wmg.transformer import Transformer
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Factors, Observation, ObservationSpec

FACTORS = (("doors", 2, 4), ("things", 3, 5))
SPEC = EnvSpec(ObservationSpec(3, FACTORS), actions=3, max_steps=4, metric="reward")
CORE_ONLY = EnvSpec(ObservationSpec(3), actions=3, max_steps=4, metric="reward")
NODES, HEADS, SIZE, EDGE = 5, 2, 8, 3
PRESENT = np.array([True, True, False, True, True])


def array(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def transformer(layers):
    model = Transformer.create(layers, HEADS, SIZE // HEADS, 6, key=jax.random.key(0))
    return shaken(EdgeTransformer.of(model, edge_maps(model, EDGE, key=jax.random.key(1))))


def layer_restated(layer, vectors, edges):
    """One pair of nodes and one head at a time."""
    size, width = SIZE, SIZE // HEADS
    q, k, v = (
        [plain.linear(layer.nodes.qkv, x)[part * size : (part + 1) * size] for x in vectors]
        for part in range(3)
    )
    weights, out = np.zeros((HEADS, len(vectors), len(vectors))), []
    for i, x in enumerate(vectors):
        asked = plain.linear(layer.asked, x).reshape(HEADS, EDGE)
        mixed, seen = np.zeros(size), np.zeros(HEADS * EDGE)
        for head in range(HEADS):
            own = slice(head * width, (head + 1) * width)
            scores = [
                np.dot(q[i][own], k[j][own]) / math.sqrt(width) + np.dot(asked[head], edges[i][j])
                for j in range(len(vectors))
            ]
            weights[head, i] = plain.softmax(scores)
            for j, weight in enumerate(weights[head, i]):
                mixed[own] += weight * v[j][own]
                seen[head * EDGE : (head + 1) * EDGE] += weight * edges[i][j]
        x = x + plain.linear(layer.told, seen) + plain.linear(layer.nodes.mix, mixed)
        x = plain.layer_norm(layer.nodes.attention_norm, x)
        hidden = np.maximum(plain.linear(layer.nodes.widen, x), 0)
        out.append(
            plain.layer_norm(
                layer.nodes.feedforward_norm, x + plain.linear(layer.nodes.narrow, hidden)
            )
        )
    return out, weights


def restated(model, vectors, edges):
    attention = []
    for layer in model.layers:
        vectors, weights = layer_restated(layer, vectors, edges)
        attention.append(weights[:, 0])
    return vectors[0], np.array(attention)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_core_and_its_attention_equal_the_loops_over_pairs(layers):
    model, x, edges = transformer(layers), array(2, NODES, SIZE), array(3, NODES, NODES, EDGE)
    out, attention = eqx.filter_jit(model)(x, jnp.asarray(PRESENT), edges)
    there = np.flatnonzero(PRESENT)
    want, want_attention = restated(
        model, list(np.asarray(x)[there]), np.asarray(edges)[there][:, there]
    )
    np.testing.assert_allclose(out, want, atol=5e-5)
    np.testing.assert_allclose(attention[:, :, there], want_attention, atol=2e-5)
    assert (np.asarray(attention)[:, :, ~PRESENT] == 0).all()


def test_without_content_on_its_edges_it_is_the_papers_transformer():
    model, x = transformer(3), array(2, NODES, SIZE)
    without = eqx.tree_at(
        lambda m: [layer.told.bias for layer in m.layers], model, [jnp.zeros(SIZE)] * 3
    )
    paper = Transformer(tuple(layer.nodes for layer in model.layers))
    got = without(x, jnp.asarray(PRESENT), jnp.zeros((NODES, NODES, EDGE)))
    for one, other in zip(got, paper(x, jnp.asarray(PRESENT)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_many_at_once_are_as_one_by_one():
    model, x, edges = transformer(2), array(2, 3, NODES, SIZE), array(3, 3, NODES, NODES, EDGE)
    present = jnp.asarray(np.stack([PRESENT] * 3))
    cores, attention = model.of_all(x, present, edges)
    for i in range(3):
        one, weights = model(x[i], present[i], edges[i])
        np.testing.assert_allclose(cores[i], one, atol=1e-5)
        np.testing.assert_allclose(attention[i], weights, atol=1e-5)


def test_gradients_reach_the_edges_and_both_maps_of_every_layer():
    model, x, edges = transformer(2), array(2, NODES, SIZE), array(3, NODES, NODES, EDGE)
    dy = array(4, SIZE)

    def out(model, edges):
        return model(x, jnp.asarray(PRESENT), edges)[0] @ dy

    slope, of_edges = jax.grad(out, argnums=(0, 1))(model, edges)
    assert min(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(slope)) > 1e-4
    direction = of_edges / jnp.linalg.norm(of_edges)
    rise = (out(model, edges + 1e-2 * direction) - out(model, edges - 1e-2 * direction)) / 2e-2
    np.testing.assert_allclose(rise, jnp.linalg.norm(of_edges), rtol=0.02)


def observation(seed=0):
    return Observation(
        core=array(seed, 3),
        factors={
            "doors": Factors(array(seed + 1, 2, 4), jnp.array([True, False])),
            "things": Factors(array(seed + 2, 3, 5), jnp.ones(3, bool)),
        },
    )


def edges_restated(content, seen, ages, nodes, factors, memos):
    """The vector of each edge, pair by pair."""
    rows = [
        plain.linear(content.maps[name], np.asarray(row))
        for name, given in seen.factors.items()
        for row in given.values
    ] if factors else []  # fmt: skip
    first = 1 + 5
    aged = {0: 0, **{first + i: age for i, age in enumerate(ages)}} if memos else {}
    half = len(rows[0]) if rows else 0
    out = np.zeros((nodes, nodes, 4 * memos + 2 * half))
    for i in range(nodes):
        for j in range(nodes):
            if i in aged and j in aged:
                older = aged[j] - aged[i]
                scaled = math.copysign(math.log2(1 + abs(older)), older) / math.log2(1 + len(ages))
                out[i, j, :4] = [1, scaled, older == 1, older == -1]
            if 1 <= i < first and 1 <= j < first and rows:
                difference = rows[j - 1] - rows[i - 1]
                parts = [np.maximum(difference, 0), np.maximum(-difference, 0)]
                out[i, j, 4 * memos :] = np.concatenate(parts)
    return out


@pytest.mark.parametrize(("factors", "memos"), [(True, True), (True, False), (False, True)])
def test_the_content_of_each_edge_is_what_the_pair_says(factors, memos):
    key = jax.random.key(0)
    content = shaken(EdgeContent.create(FACTORS if factors else (), 6, 3 if memos else 0, key=key))
    seen, memory = observation(), Memory.zeros(3, 2, 3)
    got = eqx.filter_jit(lambda content, seen: content(seen, memory, 1 + 5 + 3 + 2))(content, seen)
    want = edges_restated(content, seen, [1, 2, 3], 1 + 5 + 3 + 2, factors, memos)
    assert got.shape[-1] == content.size
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_edge_of_equal_factors_is_zero_and_depends_on_their_difference_alone():
    content = shaken(EdgeContent.create((("things", 3, 5),), 6, 0, key=jax.random.key(0)))
    row, other = array(1, 5), array(2, 5)

    def edge(a, b):
        rows = jnp.stack([a, b, a])
        seen = Observation(jnp.zeros(3), {"things": Factors(rows, jnp.ones(3, bool))})
        edges = content(seen, Memory.zeros(0, 1, 0), 4)
        return edges[1, 2], edges[1, 3]

    apart, same = edge(row, other)
    moved, _ = edge(row + 3, other + 3)
    assert (same == 0).all() and np.abs(apart).max() > 0.1
    np.testing.assert_allclose(moved, apart, atol=1e-5)


@pytest.mark.parametrize("edges", ["memos", "factors", "both"])
def test_the_agents_step_is_that_of_its_edges(edges):
    agent = shaken(tiny_wmg(SPEC, edges=edges, edge_size=4, slots=2), by=0.3)
    seen, memory = observation(), agent.initial_memory()
    nodes, present, vectors = agent._embed(seen, memory)
    want = edges_restated(
        agent.edge_content,
        seen,
        [1, 2],
        8,
        edges in ("factors", "both"),
        edges in ("memos", "both"),
    )
    np.testing.assert_allclose(vectors, want, atol=1e-5)
    core, attention = agent.transformer(nodes, present, vectors)
    output = agent(seen, memory)
    logits, _ = plain.actor_critic(agent.actor_critic, np.asarray(core))
    np.testing.assert_allclose(output.logits, logits, atol=1e-4)
    np.testing.assert_allclose(output.attention, attention, atol=1e-5)


@pytest.mark.parametrize("edges", ["factors", "both"])
def test_edges_between_factors_need_factors(edges):
    with pytest.raises(BadInput, match="edges must be 'none' or 'memos' for an observation with"):
        tiny_wmg(CORE_ONLY, edges=edges)


@pytest.mark.parametrize("edges", ["memos", "both"])
def test_edges_between_memos_need_memos(edges):
    with pytest.raises(BadInput, match=r"edges must be 'none' or 'factors' for memory=none"):
        tiny_wmg(SPEC, memory="none", slots=0, edges=edges)
