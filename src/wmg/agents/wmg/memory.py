"""The rolling set of vectors an agent keeps from earlier steps."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Memory(eqx.Module):
    """The most recent vectors. Slot 0 is the newest; slot i was written i + 1 steps ago."""

    vectors: Float[Array, "slots size"]
    count: Int[Array, ""]
    floor: int = eqx.field(static=True)
    """Number of slots that are attended to from the first step, as zeros until written."""

    @staticmethod
    def zeros(slots: int, size: int, floor: int) -> "Memory":
        return Memory(jnp.zeros((slots, size)), jnp.zeros((), jnp.int32), floor)

    @property
    def present(self) -> Bool[Array, " slots"]:
        slots = self.vectors.shape[0]
        if self.floor >= slots:  # known when compiling: the mask then costs nothing
            return jnp.ones(slots, bool)
        return jnp.arange(slots) < jnp.maximum(self.count, self.floor)

    @property
    def ages(self) -> Int[np.ndarray, " slots"]:
        """Steps since each vector was written: 1 for one of the step before."""
        return np.arange(1, len(self.vectors) + 1)

    def push(self, vector: Float[Array, " size"], attention: Any = None) -> "Memory":
        """This memory with `vector` as the newest and, if it was full, the oldest forgotten,
        whatever `attention` it gets."""
        del attention
        slots = self.vectors.shape[0]
        vectors = jnp.concatenate([vector[None], self.vectors])[:slots]
        return Memory(vectors, jnp.minimum(self.count + 1, slots), self.floor)
