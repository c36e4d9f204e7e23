"""The rolling set of vectors an agent keeps from earlier steps, and how WMG sees them as nodes."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.layers import Linear

AgeEncoding = Literal["concatenated", "added"]


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


class MemoryEmbedding(eqx.Module):
    """Memory vectors and their ages as Transformer nodes.

    "concatenated": a one-hot age is appended to the vector (Pathfinding, BabyAI). "added":
    one-hot and scalar age have a linear map of their own, whose result is added (Sokoban).
    """

    vectors: Linear
    ages: Linear | None
    oldest: int = eqx.field(static=True)
    """The highest age that has an encoding."""
    shown_ages: tuple[int | None, ...] = eqx.field(static=True)
    """The age each slot is shown as, 1 for the newest; None shows no age at all."""
    floor: int = eqx.field(static=True)
    """Number of slots that are attended to from the start, as zeros."""

    @staticmethod
    def create(
        slots: int,
        vector: int,
        size: int,
        age: AgeEncoding,
        floor: int,
        *,
        key: PRNGKeyArray,
    ):
        vkey, akey = jax.random.split(key)
        added = age == "added"
        return MemoryEmbedding(
            vectors=Linear.create(vector if added else vector + slots, size, key=vkey),
            ages=Linear.create(slots + 2, size, key=akey) if added else None,
            oldest=slots,
            shown_ages=tuple(range(1, slots + 1)),
            floor=floor,
        )

    @property
    def slots(self) -> int:
        """How many vectors there can be."""
        return len(self.shown_ages)

    def start(self, size: int) -> Memory:
        """The memory before the first step."""
        return Memory.zeros(self.slots, size, self.floor)

    def age_table(self) -> np.ndarray:
        """The encoded age of each slot, one row per slot."""
        columns = np.array([0 if age is None else age for age in self.shown_ages])
        shown = np.array([age is not None for age in self.shown_ages])[:, None]
        if self.ages is None:  # The authors' order: age S first, then 1, 2, ...
            return (np.eye(self.oldest)[columns % self.oldest] * shown).astype(np.float32)
        onehot = np.eye(self.oldest + 1)[np.maximum(columns - 1, 0)]
        scalar = (columns[:, None] - 1) / self.oldest
        return (np.concatenate([onehot, scalar], axis=1) * shown).astype(np.float32)

    def __call__(self, memory: Memory) -> Float[Array, "slots size"]:
        ages = jnp.asarray(self.age_table())
        if self.ages is None:
            return self.vectors(jnp.concatenate([memory.vectors, ages], axis=1))
        return self.vectors(memory.vectors) + self.ages(ages)
