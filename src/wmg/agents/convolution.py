"""Convolutions as linear layers on patches, and max-pooling.

A convolution is a `Linear` on all patches of an image at once. Many runs then make one batched
product, not a grouped convolution, and its weight gradient can be deferred.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def patches(
    x: Float[Array, "w h channels"], side: int = 2, before: int = 0, after: int = 0
) -> Float[Array, "w_out h_out patch"]:
    """Every patch of side x side cells as one row: its cells (0, 0), (0, 1), ... in turn.

    The image gets `before` rows and columns of zeros first, and `after` last.
    """
    if before or after:
        x = jnp.pad(x, ((before, after), (before, after), (0, 0)))
    width, height = (size - side + 1 for size in x.shape[:2])
    cells = [x[i : i + width, j : j + height] for i in range(side) for j in range(side)]
    return jnp.concatenate(cells, axis=-1)


def patches_around(x: Float[Array, "w h channels"], side: int) -> Float[Array, "w h patch"]:
    """A patch for every cell, which is in its middle; of an even side, just before the middle."""
    return patches(x, side, (side - 1) // 2, side // 2)


def pool(x: Float[Array, "w h channels"]) -> Float[Array, "w//2 h//2 channels"]:
    """The largest of every 2x2 block; an odd last row or column is left out.

    The first of equal ones has the gradient, as in PyTorch. JAX's `max` divides the gradient by
    the number of those that equal the maximum. XLA may compute them once more for that, and round
    otherwise: then none is equal, and the gradient is not finite.
    """
    width, height = (side // 2 for side in x.shape[:2])
    blocks = x[: 2 * width, : 2 * height].reshape(width, 2, height, 2, -1)
    rows = _larger(blocks[:, :, :, 0], blocks[:, :, :, 1])
    return _larger(rows[:, 0], rows[:, 1])


def largest(x: Float[Array, "w h channels"]) -> Float[Array, " channels"]:
    """The largest of all cells; the first of equal ones has the gradient, as in `pool`."""
    cells = x.reshape(-1, x.shape[-1])
    first = jnp.arange(len(cells))[:, None] == cells.argmax(0)
    return jnp.where(first, cells, 0).sum(0)


def _larger(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.where(b > a, b, a)
