"""The Transformer against loops over nodes and heads."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from plain import shaken

from wmg.agents.transformer import Transformer, TransformerLayer, attend

NODES, HEADS, SIZE = 5, 2, 8
PRESENT = np.array([True, True, False, True, False])


@pytest.fixture(scope="module")
def model():
    return shaken(Transformer.create(3, HEADS, SIZE // HEADS, 6, key=jax.random.key(0)))


@pytest.fixture(scope="module")
def run():
    return eqx.filter_jit(lambda model, x, present: model(x, present))


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(NODES, SIZE)).astype(np.float32)


def test_the_core_equals_the_restatement_in_which_all_nodes_pass_all_layers(model, run, x):
    out, attention = run(model, x, np.ones(NODES, bool))
    want, want_attention = plain.transformer(model, list(x))
    np.testing.assert_allclose(out, want, atol=3e-5)
    np.testing.assert_allclose(attention, want_attention, atol=1e-5)


def test_absent_nodes_are_as_if_they_were_left_out(model, run, x):
    out, attention = run(model, x, PRESENT)
    want, want_attention = plain.transformer(model, list(x[PRESENT]))
    np.testing.assert_allclose(out, want, atol=3e-5)
    np.testing.assert_allclose(attention[:, :, PRESENT], want_attention, atol=1e-5)


def test_the_content_of_absent_nodes_changes_nothing(model, run, x):
    other = np.where(PRESENT[:, None], x, 1e3 * x + 5)
    np.testing.assert_array_equal(run(model, x, PRESENT)[0], run(model, other, PRESENT)[0])


def test_attention_sums_to_one_and_absent_nodes_get_none(model, run, x):
    attention = np.asarray(run(model, x, PRESENT)[1])
    assert attention.shape == (3, HEADS, NODES)
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-6)
    assert (attention[:, :, ~PRESENT] == 0).all()


def test_the_order_of_the_other_nodes_does_not_change_the_core(model, run, x):
    order = [0, 3, 1, 4, 2]
    out, attention = run(model, x, PRESENT)
    moved, moved_attention = run(model, x[order], PRESENT[order])
    np.testing.assert_allclose(moved, out, atol=1e-5)
    np.testing.assert_allclose(moved_attention, attention[:, :, np.array(order)], atol=1e-5)


@pytest.mark.parametrize("queries", [1, NODES])
def test_a_layer_gives_the_first_queries_of_the_full_result(queries, x):
    layer = shaken(TransformerLayer.create(HEADS, SIZE // HEADS, 6, key=jax.random.key(1)))
    out, weights = eqx.filter_jit(lambda layer, x, p: layer(x, p, queries=queries))(
        layer, x, np.ones(NODES, bool)
    )
    want, want_weights = plain.transformer_layer(layer, list(x))
    np.testing.assert_allclose(out, want[:queries], atol=2e-5)
    np.testing.assert_allclose(weights, want_weights[:, :queries], atol=1e-5)


def attention_restated(qkv, present, heads, queries):
    """One head at a time, and softmax as its quotient."""
    size = qkv.shape[1] // 3
    width, mixed = size // heads, []
    for head in range(heads):
        q, k, v = (
            qkv[:, part * size + head * width : part * size + (head + 1) * width]
            for part in range(3)
        )
        powers = jnp.where(present[None], jnp.exp(q[:queries] @ k.T / jnp.sqrt(width)), 0.0)
        mixed.append(powers / powers.sum(1, keepdims=True) @ v)
    return jnp.concatenate(mixed, axis=1)


@pytest.mark.parametrize("queries", [1, NODES])
def test_attentions_gradient_is_that_of_automatic_differentiation(queries):
    draw = np.random.default_rng(4)
    qkv = jnp.asarray(draw.normal(size=(NODES, 3 * SIZE)), jnp.float32)
    dy = jnp.asarray(draw.normal(size=(queries, SIZE)), jnp.float32)

    @jax.jit
    def pulled_back(qkv):
        got = jax.vjp(lambda x: attend(x, jnp.asarray(PRESENT), HEADS, queries)[0], qkv)[1](dy)[0]
        want = jax.vjp(lambda x: attention_restated(x, PRESENT, HEADS, queries), qkv)[1](dy)[0]
        return got, want

    got, want = pulled_back(qkv)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert np.abs(got[PRESENT]).min() > 0 or queries == 1
