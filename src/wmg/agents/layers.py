"""Linear layers and layer normalisation, as the paper's authors set them up.

A linear layer's parameter gradient is one product of its inputs and its output's cotangents;
`wmg.learn.window` uses `pull_back` and `gradient` to take it for a whole window at once, for a
layer as it is and for one taken apart into `Blocks`.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

EPSILON = 1e-12
"""Inside the square root of layer normalisation, as in the authors' code."""


class Linear(eqx.Module):
    """`x @ weight.T + bias`, for a vector or for every row of a matrix, in the precision of the
    weights."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    @staticmethod
    def create(inputs: int, outputs: int, *, key: PRNGKeyArray) -> "Linear":
        """Weights uniform within 1/sqrt(inputs) (PyTorch's default), bias zero."""
        bound = max(inputs, 1) ** -0.5
        weight = jax.random.uniform(key, (outputs, inputs), minval=-bound, maxval=bound)
        return Linear(weight, jnp.zeros(outputs))

    @staticmethod
    def zeros(inputs: int, outputs: int) -> "Linear":
        """A layer that starts by mapping everything to zero."""
        return Linear(jnp.zeros((outputs, inputs)), jnp.zeros(outputs))

    def __call__(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        return self.product(x.astype(self.weight.dtype)) + self.bias

    def product(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        """Without the bias."""
        # Not `x @ weight.T`, for which a large matrix may be transposed in memory.
        return jax.lax.dot_general(x, self.weight, (((x.ndim - 1,), (1,)), ((), ())))

    def pull_back(self, dy: Float[Array, "*rows out"]) -> Float[Array, "*rows in"]:
        """The input's cotangent, given the output's."""
        return dy @ self.weight

    @staticmethod
    def gradient(x: Float[Array, "rows in"], dy: Float[Array, "rows out"]) -> "Linear":
        """The parameters' gradient, given inputs and output cotangents."""
        return Linear(dy.T @ x, dy.sum(0))

    def split(self, *blocks: int) -> "tuple[Blocks, ...]":
        """Equal parts of the layer, by its outputs; part i has `blocks[i]` blocks."""
        weights, biases = (jnp.split(array, len(blocks)) for array in (self.weight, self.bias))
        inputs = self.weight.shape[1]
        return tuple(
            Blocks(weight.reshape(count, -1, inputs), bias.reshape(count, -1))
            for count, weight, bias in zip(blocks, weights, biases, strict=True)
        )


def with_he_weights(layers: PyTree) -> PyTree:
    """Newly made layers with the initial weights of He et al.: uniform within sqrt(6/inputs)."""

    def larger(x: Any) -> Any:
        return Linear(math.sqrt(6) * x.weight, x.bias) if isinstance(x, Linear) else x

    return jax.tree.map(larger, layers, is_leaf=lambda x: isinstance(x, Linear))


class Blocks(eqx.Module):
    """Linear layers side by side, each with an input of its own: one row a layer."""

    weight: Float[Array, "blocks out in"]
    bias: Float[Array, "blocks out"]

    def __call__(self, x: Float[Array, "blocks in"]) -> Float[Array, "blocks out"]:
        return self.product(x.astype(self.weight.dtype)) + self.bias

    def product(self, x: Float[Array, "blocks in"]) -> Float[Array, "blocks out"]:
        """Without the bias."""
        return jax.lax.dot_general(x, self.weight, (((1,), (2,)), ((0,), (0,))))

    def pull_back(self, dy: Float[Array, "blocks out"]) -> Float[Array, "blocks in"]:
        """The inputs' cotangents, given the outputs'."""
        return jax.lax.dot_general(dy, self.weight, (((1,), (1,)), ((0,), (0,))))

    @staticmethod
    def gradient(
        x: Float[Array, "rows blocks in"], dy: Float[Array, "rows blocks out"]
    ) -> "Blocks":
        """The parameters' gradient, given inputs and output cotangents."""
        return Blocks(jnp.einsum("rbo,rbi->boi", dy, x), dy.sum(0))


@jax.custom_vjp
def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max(x, 0). Its gradient uses the result, which the next layer keeps anyway."""
    return jnp.maximum(x, 0.0)


def _relu_forward(x: Array) -> tuple[Array, Array]:
    y = relu(x)
    return y, y


def _relu_backward(y: Array, dy: Array) -> tuple[Array]:
    return (jnp.where(y > 0, dy, 0.0),)


relu.defvjp(_relu_forward, _relu_backward)


class LayerNorm(eqx.Module):
    """Each row shifted and scaled to mean 0 and (biased) variance 1, then `* gain + bias`.

    Computed in float32; the result has the precision of the input.
    """

    gain: Float[Array, " size"]
    bias: Float[Array, " size"]

    @staticmethod
    def create(size: int) -> "LayerNorm":
        return LayerNorm(jnp.ones(size), jnp.zeros(size))

    def __call__(self, x: Float[Array, "*rows size"]) -> Float[Array, "*rows size"]:
        return _normalise(self.gain, self.bias, x)


def _once(x: Array, always: Bool[Array, ""]) -> Array:
    """`x`, computed only once. `always` must be true, but not so that XLA could prove it.

    On a CPU, XLA computes an elementwise result again in each of its uses. In a backward pass that
    includes the sums of all layers above. XLA does not do that across a conditional.
    """
    return jax.lax.cond(always, lambda x: x, jnp.zeros_like, x)


def _row_means(x: Float[Array, "*rows size"], times: Float[Array, " size"]) -> Array:
    """The mean of each row of `x * times`. On a CPU it is a matrix product, since XLA makes two
    loops of a sum there; elsewhere a sum is fused with its neighbours."""
    share = times / times.size
    if jax.default_backend() == "cpu":
        return (x @ share)[..., None]
    return (x * share).sum(-1, keepdims=True)


@jax.custom_vjp
def _normalise(gain: Array, bias: Array, x: Array) -> Array:
    return _normalise_forward(gain, bias, x)[0]


def _normalise_forward(gain: Array, bias: Array, x: Array) -> tuple[Array, tuple]:
    wide = x.astype(jnp.float32)
    ones = jnp.ones(x.shape[-1])
    centred = wide - _row_means(wide, ones)
    scale = jax.lax.rsqrt(_row_means(jnp.square(centred), ones) + EPSILON)
    normal = (centred * scale).astype(x.dtype)
    return normal * gain + bias, (gain, normal, scale)


def _normalise_backward(residuals: tuple, dy: Array) -> tuple[Array, Array, Array]:
    # The usual closed form: it keeps the result and one number a row, where automatic
    # differentiation keeps four arrays, and a step of training is bound by such traffic.
    gain, normal, scale = (part.astype(jnp.float32) for part in residuals)
    dtype, dy = dy.dtype, dy.astype(jnp.float32)
    rows = tuple(range(dy.ndim - 1))
    product = dy * normal
    mean, along = (_row_means(x, gain) for x in (dy, product))
    dx = scale * (dy * gain - mean - normal * along)
    if scale.size:
        dx = _once(dx, ~(scale.reshape(-1)[0] < 0))
    narrow = residuals[0].dtype
    return product.sum(rows).astype(narrow), dy.sum(rows).astype(narrow), dx.astype(dtype)


_normalise.defvjp(_normalise_forward, _normalise_backward)


def wide(products: str, *operands: Array) -> Array:
    """`jnp.einsum` with sums in float32, also where the operands are bfloat16."""
    return jnp.einsum(products, *operands, preferred_element_type=jnp.float32)
