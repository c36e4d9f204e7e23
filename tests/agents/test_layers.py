"""Linear layers and layer normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from plain import shaken

from wmg.agents.layers import Blocks, LayerNorm, Linear, relu


def new(inputs, outputs):
    return Linear.create(inputs, outputs, key=jax.random.key(3))


def test_a_linear_layer_maps_every_row_alike():
    layer = shaken(new(3, 2))
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)
    want = [plain.linear(layer, row) for row in rows]
    np.testing.assert_allclose(layer(rows), want, atol=1e-6)
    np.testing.assert_allclose(layer(rows[0]), want[0], atol=1e-6)


def test_weights_fill_the_range_of_one_over_root_fan_in():
    weight = np.asarray(new(64, 200).weight)
    assert weight.shape == (200, 64)
    assert np.abs(weight).max() <= 1 / 8
    counts, _ = np.histogram(weight, bins=16, range=(-1 / 8, 1 / 8))
    limit = plain.chi_square_limit(15)
    assert plain.chi_square(counts, np.full(16, weight.size / 16)) < limit


def test_biases_start_at_zero():
    assert (new(4, 3).bias == 0).all()


def test_a_layer_of_zeros_maps_everything_to_zero():
    assert (Linear.zeros(3, 2)(jnp.ones(3)) == 0).all()


def test_a_linear_layers_own_gradients_are_those_of_automatic_differentiation():
    layer = shaken(new(3, 2))
    draw = np.random.default_rng(1)
    x, dy = (jnp.asarray(draw.normal(size=(5, n)), jnp.float32) for n in (3, 2))
    _, pull = jax.vjp(lambda layer, x: x @ layer.weight.T + layer.bias, layer, x)
    want_layer, want_x = pull(dy)
    got = Linear.gradient(x, dy)
    np.testing.assert_allclose(got.weight, want_layer.weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got.bias, want_layer.bias, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.pull_back(dy), want_x, rtol=1e-5, atol=1e-6)


def test_what_is_split_makes_parts_of_the_result():
    layer = shaken(new(3, 8))
    x = jnp.asarray(np.random.default_rng(2).normal(size=3), jnp.float32)
    first, last = layer.split(1, 2)
    both = [first(x[None]), last(jnp.stack([x, x]))]
    np.testing.assert_allclose(
        jnp.concatenate([part.reshape(-1) for part in both]), layer(x), atol=1e-6
    )


def test_the_gradients_of_blocks_are_those_of_automatic_differentiation():
    (blocks,) = shaken(new(3, 4)).split(2)
    draw = np.random.default_rng(1)
    x, dy = (jnp.asarray(draw.normal(size=(5, 2, n)), jnp.float32) for n in (3, 2))
    apply = lambda blocks, x: jnp.einsum("rbi,boi->rbo", x, blocks.weight) + blocks.bias  # noqa: E731
    want, want_x = jax.vjp(apply, blocks, x)[1](dy)
    got = Blocks.gradient(x, dy)
    np.testing.assert_allclose(got.weight, want.weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got.bias, want.bias, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(blocks.pull_back(dy[0]), want_x[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(blocks(x[0]), apply(blocks, x)[0], rtol=1e-5, atol=1e-6)


def test_layer_norm_starts_by_giving_mean_zero_and_variance_one():
    rows = LayerNorm.create(6)(jnp.arange(12.0).reshape(2, 6) ** 2)
    np.testing.assert_allclose(rows.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(rows.var(1), 1, rtol=1e-5)


def test_layer_norm_equals_its_definition():
    norm = shaken(LayerNorm.create(5))
    rows = jnp.asarray(np.random.default_rng(2).normal(size=(4, 5)), jnp.float32)
    want = [plain.layer_norm(norm, row) for row in rows]
    np.testing.assert_allclose(norm(rows), want, atol=1e-5)


def test_layer_norm_hardly_damps_tiny_rows():
    # PyTorch's default epsilon, 1e-5, would give about 0.03 here.
    out = LayerNorm.create(2)(jnp.array([1e-4, -1e-4]))
    np.testing.assert_allclose(out, [1, -1], rtol=1e-3)


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norms_gradient_is_that_of_automatic_differentiation(shape):
    norm = shaken(LayerNorm.create(5))
    draw = np.random.default_rng(3)
    x, dy = (jnp.asarray(draw.normal(size=shape), jnp.float32) for _ in range(2))

    def restated(norm, x):
        mean = x.mean(-1, keepdims=True)
        spread = jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
        return (x - mean) / spread * norm.gain + norm.bias

    want = jax.vjp(restated, norm, x)[1](dy)
    got = jax.vjp(lambda norm, x: norm(x), norm, x)[1](dy)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), got, want)


def test_layer_norm_hides_no_gradient_that_is_not_a_number():
    model = LayerNorm.create(3)
    x = jnp.array([[1.0, 2.0, 4.0], [jnp.nan, 0.0, 1.0]])[::-1]
    dx = jax.vjp(model, x)[1](jnp.ones_like(x))[0]
    assert np.isnan(dx[0]).all() and np.isfinite(dx[1]).all()


def test_layer_norm_takes_no_rows_at_all():
    x = jnp.zeros((0, 3))
    assert jax.vjp(LayerNorm.create(3), x)[1](x)[0].shape == (0, 3)


def test_relu_and_its_gradient_are_those_of_jax():
    x = jnp.array([-2.0, -0.0, 0.0, 1e-30, 3.0])
    (got, pull_back), (want, want_back) = (jax.vjp(f, x) for f in (relu, jax.nn.relu))
    np.testing.assert_array_equal(got, want)
    slope = jnp.arange(1.0, 6.0)
    np.testing.assert_array_equal(pull_back(slope)[0], want_back(slope)[0])
