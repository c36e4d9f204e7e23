"""The Transformer against loops over nodes and heads."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from plain import shaken

from wmg.agents.wmg.transformer import Transformer, TransformerLayer, attend, attend_pooled

NODES, HEADS, SIZE = 5, 2, 8
PRESENT = np.array([True, True, False, True, False])


def transformer(layers, heads):
    return shaken(Transformer.create(layers, heads, SIZE // heads, 6, key=jax.random.key(0)))


@pytest.fixture(scope="module")
def model():
    return transformer(3, HEADS)


@pytest.fixture(scope="module")
def run():
    return eqx.filter_jit(lambda model, x, present: model(x, present))


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(NODES, SIZE)).astype(np.float32)


@pytest.mark.parametrize(("layers", "heads"), [(3, HEADS), (1, 1)])
def test_the_core_equals_the_restatement_in_which_all_nodes_pass_all_layers(layers, heads, run, x):
    model = transformer(layers, heads)
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


@pytest.fixture(scope="module")
def layer():
    return shaken(TransformerLayer.create(HEADS, SIZE // HEADS, 6, key=jax.random.key(1)))


def test_a_layer_equals_the_restatement(layer, x):
    out, weights = eqx.filter_jit(lambda layer, x, p: layer(x, p))(layer, x, np.ones(NODES, bool))
    want, want_weights = plain.transformer_layer(layer, list(x))
    np.testing.assert_allclose(out, want, atol=2e-5)
    np.testing.assert_allclose(weights, want_weights, atol=1e-5)


def test_a_layers_result_for_the_core_is_its_first_for_all_and_so_is_the_gradient(layer, x):
    dy = np.random.default_rng(5).normal(size=SIZE)
    dy, present = jnp.asarray(dy, jnp.float32), jnp.asarray(PRESENT)

    @eqx.filter_jit
    def pulled_back(layer, x):
        alone = lambda layer, x: layer.core_only(x, present)[0]  # noqa: E731
        first = lambda layer, x: layer(x, present)[0][0]  # noqa: E731
        return [
            (out, pull(dy)) for out, pull in (eqx.filter_vjp(f, layer, x) for f in (alone, first))
        ]

    got, want = map(jax.tree.leaves, pulled_back(layer, x))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    # The output, the gradient of the nodes and those of the 12 arrays of the layer.
    assert sum(np.abs(one).max() > 0.1 for one in got) >= 12


def attention_restated(qkv, present, heads):
    """One head at a time, and softmax as its quotient."""
    size = qkv.shape[1] // 3
    width, mixed = size // heads, []
    for head in range(heads):
        q, k, v = (
            qkv[:, part * size + head * width : part * size + (head + 1) * width]
            for part in range(3)
        )
        powers = jnp.where(present[None], jnp.exp(q @ k.T / jnp.sqrt(width)), 0.0)
        mixed.append(powers / powers.sum(1, keepdims=True) @ v)
    return jnp.concatenate(mixed, axis=1)


def look_restated(asked, x, present, heads):
    powers = jnp.where(present, jnp.exp(asked @ x.T / jnp.sqrt(x.shape[1] // heads)), 0.0)
    return powers / powers.sum(1, keepdims=True) @ x


def assert_same_gradient(function, restated, *inputs):
    dy = np.random.default_rng(6).normal(size=restated(*inputs).shape)
    dy = jnp.asarray(dy, jnp.float32)
    got, want = (
        jax.jit(lambda *x, f=f: jax.vjp(f, *x)[1](dy))(*inputs) for f in (function, restated)
    )
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert np.abs(one).max() > 0.1


def numbers(*shape):
    return jnp.asarray(np.random.default_rng(4).normal(size=shape), jnp.float32)


def test_attentions_gradient_is_that_of_automatic_differentiation():
    assert_same_gradient(
        lambda qkv: attend(qkv, jnp.asarray(PRESENT), HEADS)[0],
        lambda qkv: attention_restated(qkv, PRESENT, HEADS),
        numbers(NODES, 3 * SIZE),
    )


def test_the_gradient_of_the_cores_attention_is_that_of_automatic_differentiation():
    assert_same_gradient(
        lambda asked, x: attend_pooled(asked, x, jnp.asarray(PRESENT), HEADS)[0],
        lambda asked, x: look_restated(asked, x, PRESENT, HEADS),
        numbers(HEADS, SIZE),
        numbers(NODES, SIZE),
    )
