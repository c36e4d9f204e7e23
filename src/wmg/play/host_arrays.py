"""Observations whose arrays stay on the host: made, taken apart, stacked and changed by numpy."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wmg.types import Factors, Observation, ObservationSpec


def observation(core: np.ndarray, factors: dict[str, tuple[np.ndarray, np.ndarray]]) -> Observation:
    """An observation whose arrays stay on the host: (values, present) for each Factor type."""
    names = tuple(sorted(factors))
    rows = [part for name in names for part in factors[name]]
    return from_parts(names, [core, *rows])


def from_parts(names: tuple[str, ...], parts: list[Any]) -> Observation:
    """The observation with these arrays, as `parts_of` lists them."""
    return jax.tree.unflatten(_structure(names, len(parts) == 2 * len(names) + 2), parts)


def parts_of(seen: Observation) -> list[Any]:
    """The arrays of an observation, in the order of its leaves."""
    factors = [seen.factors[name] for name in sorted(seen.factors)]
    rows = [part for each in factors for part in (each.values, each.present)]
    return [seen.core, *rows, *([] if seen.image is None else [seen.image])]


@functools.cache
def _structure(names: tuple[str, ...], image: bool) -> Any:
    rows = Factors(jnp.zeros((1, 1)), jnp.zeros(1, bool))
    seen = Observation(jnp.zeros(1), dict.fromkeys(names, rows))
    if image:
        seen = dataclasses.replace(seen, image=jnp.zeros((1, 1, 1)))
    return jax.tree.structure(seen)


def expected_parts(spec: ObservationSpec) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each array of an observation, in the order of `parts_of`."""
    rows = [
        part
        for name, count, size in sorted(spec.factors)
        for part in ((f"Factors {name!r}", (count, size)), (f"mask of {name!r}", (count,)))
    ]
    image = [] if spec.image is None else [("image", spec.image)]
    return [("Core", (spec.core,)), *rows, *image]


def put(seen: Observation, rows: Any, fresh: Observation) -> Observation:
    """Observations with other rows, in new arrays."""
    changed = []
    for part, new in zip(parts_of(seen), parts_of(fresh), strict=True):
        changed.append(np.array(part))
        changed[-1][rows] = new
    return from_parts(tuple(sorted(seen.factors)), changed)


def take(seen: Observation, rows: Any) -> Observation:
    """Some rows of observations."""
    return from_parts(tuple(sorted(seen.factors)), [part[rows] for part in parts_of(seen)])


def stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a first axis, on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
