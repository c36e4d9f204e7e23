"""The optimizer: Adam over few large arrays, with PyTorch's rule for clipping.

Also makes `Hyper` a PyTree, so that each run of a batch may have its own numbers.
"""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from wmg.config import HYPER_NAMES, Hyper
from wmg.types import Learner, Run, keep_if

ADAM_DECAY = 0.9, 0.999
LARGE = 65_536
"""Size from which an array is updated by itself; smaller ones are packed into one vector."""


def _hyper_of_arrays(_: None, numbers: Iterable[Any]) -> Hyper:
    """Skips validation: here the fields may be tracers."""
    hyper = object.__new__(Hyper)
    hyper.__dict__.update(zip(HYPER_NAMES, numbers, strict=True))
    return hyper


jax.tree_util.register_pytree_node(
    Hyper, lambda hyper: ([getattr(hyper, n) for n in HYPER_NAMES], None), _hyper_of_arrays
)


def start(agent: Learner) -> PyTree:
    """The optimizer's state before the first update."""
    return optax.scale_by_adam().init(pack(eqx.filter(agent, eqx.is_inexact_array))[0])


def update(
    run: Run,
    gradient: Learner,
    loss: Float[Array, ""],
    hyper: Hyper,
    active: Bool[Array, ""] | bool = True,
) -> tuple[Learner, PyTree, Float[Array, ""], Bool[Array, ""]]:
    """Clip by global norm, then Adam: agent, optimizer state, norm, and whether all is finite.

    Adam updates every parameter, also those without gradient in this window. If anything is not
    finite, or the run is not `active`, nothing changes.
    """
    packed, unpack = pack(gradient)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(part)) for part in packed))
    finite = jnp.isfinite(norm) & jnp.isfinite(loss)
    clip = jnp.minimum(1.0, hyper.grad_clip / (norm + 1e-6))  # PyTorch's rule
    moments = optax.scale_by_adam().update([part * clip for part in packed], run.optimizer)[1]
    # Uses the updated moments, so each old moment is read only once and overwritten in place. The
    # update of a large network is bound by memory traffic.
    moves = finite & active
    adam = jax.lax.optimization_barrier(keep_if(moves, moments, run.optimizer))
    # The bias corrections are two scalars here. Dividing every weight by them takes longer than
    # reading the weight.
    first, second = bias_corrections(adam.count)
    rate, root = learning_rate(hyper, run.steps), jnp.sqrt(second)
    change = [
        jnp.where(moves, -rate * (first * m / (root * jnp.sqrt(s) + hyper.adam_eps)), 0.0)
        for m, s in zip(adam.mu, adam.nu, strict=True)
    ]
    return eqx.apply_updates(run.agent, unpack(change)), adam, norm, finite


def bias_corrections(count: Int[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """Factors of Adam's two moments after `count` updates."""
    first, second = (1 / (1 - decay**count) for decay in ADAM_DECAY)
    return first, second


def pack(tree: PyTree) -> tuple[list[Array], Callable[[list[Array]], PyTree]]:
    """The leaves of a tree as few arrays, and the way back.

    The small leaves become one vector, since dozens of small arrays would cost more than the
    arithmetic; large ones stay as they are, since copying them would.
    """
    leaves, structure = jax.tree.flatten(tree)
    small = [leaf.size < LARGE for leaf in leaves]
    vector, separate = ravel_pytree(
        [x for x, is_small in zip(leaves, small, strict=True) if is_small]
    )

    def unpack(packed: list[Array]) -> PyTree:
        parts, whole = iter(separate(packed[0])), iter(packed[1:])
        return jax.tree.unflatten(structure, [next(parts if s else whole) for s in small])

    return [vector, *(x for x, is_small in zip(leaves, small, strict=True) if not is_small)], unpack


def learning_rate(hyper: Hyper, steps: Int[Array, ""]) -> Float[Array, ""]:
    """The rate after `steps`: constant, then times `anneal` at every `anneal_every` steps."""
    times = jnp.floor((steps - hyper.anneal_after) / hyper.anneal_every)
    return hyper.learning_rate * hyper.anneal ** jnp.maximum(times, 0.0)
