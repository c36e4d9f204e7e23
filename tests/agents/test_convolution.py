"""Patches and pooling against plain loops, and convolutions against jax's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.agents.convolution import largest, patches, patches_around, pool

draw = np.random.default_rng(0)


def test_patches_are_those_of_neighbouring_cells():
    x = jnp.arange(3 * 4 * 2.0).reshape(3, 4, 2)
    got = patches(x)
    assert got.shape == (2, 3, 8)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(got[i, j], x[i : i + 2, j : j + 2].reshape(-1))


@pytest.mark.parametrize("side", [1, 2, 3, 4])
def test_patches_around_cells_make_a_convolution_that_keeps_the_size(side):
    x = jnp.asarray(draw.normal(size=(5, 7, 2)), jnp.float32)
    kernel = jnp.asarray(draw.normal(size=(side, side, 2, 3)), jnp.float32)
    numbers = ("NHWC", "HWIO", "NHWC")
    wanted = jax.lax.conv_general_dilated(
        x[None], kernel, (1, 1), "SAME", dimension_numbers=numbers
    )
    got = patches_around(x, side) @ kernel.reshape(-1, 3)
    np.testing.assert_allclose(got, wanted[0], rtol=1e-4, atol=1e-5)


def test_zeros_come_before_and_after():
    x = jnp.ones((2, 2, 1))
    got = patches(x, 2, before=1, after=0)
    np.testing.assert_array_equal(got.sum(-1), [[1, 2], [2, 4]])


def pooled(x):
    out = np.zeros((x.shape[0] // 2, x.shape[1] // 2, x.shape[2]))
    for i, j in np.ndindex(*out.shape[:2]):
        out[i, j] = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((0, 1))
    return out


def test_pooling_leaves_out_an_odd_row_and_column():
    x = draw.normal(size=(5, 7, 2)).astype(np.float32)
    np.testing.assert_array_equal(pool(jnp.asarray(x)), pooled(x).astype(np.float32))


def test_the_largest_of_all_cells_is_taken_channel_by_channel():
    x = draw.normal(size=(3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(largest(jnp.asarray(x)), x.max((0, 1)))


@pytest.mark.parametrize("reduce", [pool, largest])
def test_one_of_the_cells_that_are_largest_has_the_whole_gradient(reduce):
    x = jnp.asarray([[0.0, 3.0], [3.0, 3.0]])[..., None]
    gradient = jax.grad(lambda x: reduce(x).sum())(x)[..., 0]
    np.testing.assert_array_equal(gradient, [[0, 1], [0, 0]])
