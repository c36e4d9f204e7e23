"""Flexible Memo lifetimes: a Memo stays for as long as the Core attends to it.

The paper's memory overwrites the oldest Memo. This one overwrites the Memo that has received the
least attention lately. While all Memos receive the same attention, the two are the same.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.layers import Linear


class FlexibleMemory(eqx.Module):
    """Memos that are kept while they are attended to, newest first. Slots between them may be
    empty."""

    vectors: Float[Array, "slots size"]
    ages: Int[Array, " slots"]
    """Steps since each Memo was written: 1 for one of the step before."""
    recent: Float[Array, " slots"]
    """The attention that each has received lately, from 0 to 1."""
    present: Bool[Array, " slots"]
    first: int = eqx.field(static=True)
    """Which node of the Transformer the first slot is."""
    decay: float = eqx.field(static=True)
    """The part of `recent` that remains after a step."""
    drop_below: float = eqx.field(static=True)
    """A Memo whose `recent` is less is dropped."""

    def push(
        self,
        vector: Float[Array, " size"],
        attention: Float[Array, "layers heads nodes"] | None,
    ) -> "FlexibleMemory":
        """This memory after a step that wrote `vector` and paid `attention` to the nodes.

        The new Memo takes the place of an empty slot or else of the Memo with the least recent
        attention, of equals the oldest. It starts as if it had received all attention.
        """
        assert attention is not None, "specialised Transformers do not tell what they attend to"
        recent = self.decay * self.recent + (1 - self.decay) * self._received(attention)
        present = self.present & (recent >= self.drop_below)
        slots = len(self.ages)
        rank = jnp.where(present, recent, -1.0)
        gone = slots - 1 - jnp.argmin(rank[::-1])
        moves = jnp.arange(slots) <= gone  # newer Memos move up into the slot that is free now

        def insert(new: Array, old: Array) -> Array:
            moved = jnp.concatenate([new[None], old[:-1]])
            return jnp.where(moves.reshape(-1, *[1] * (old.ndim - 1)), moved, old)

        return FlexibleMemory(
            vectors=insert(vector, self.vectors),
            ages=insert(jnp.int32(0), self.ages) + 1,
            recent=insert(jnp.ones_like(recent[0]), recent),
            present=insert(jnp.ones((), bool), present),
            first=self.first,
            decay=self.decay,
            drop_below=self.drop_below,
        )

    def _received(self, attention: Float[Array, "layers heads nodes"]) -> Float[Array, " slots"]:
        """The largest share that a head of any layer gives to each slot. A mean over heads would
        hide the one head that reads a Memo."""
        paid = attention[..., self.first : self.first + len(self.ages)]
        return jax.lax.stop_gradient(paid.max((0, 1)))


class FlexibleEmbedding(eqx.Module):
    """Memos of any age as Transformer nodes.

    As in `MemoryEmbedding`, a one-hot age is "concatenated", or "added" by a linear map of its own.
    Memos that are older than there are slots share the one-hot age of the oldest, and another
    number says how often their age has doubled since.
    """

    vectors: Linear
    ages: Linear | None
    oldest: int = eqx.field(static=True)
    """The highest age with a one-hot encoding of its own: the number of slots."""
    floor: int = eqx.field(static=True)
    """Number of slots that are attended to from the start, as zeros."""
    first: int = eqx.field(static=True)
    decay: float = eqx.field(static=True)
    drop_below: float = eqx.field(static=True)

    @staticmethod
    def create(
        slots: int,
        vector: int,
        size: int,
        *,
        added: bool,
        floor: int,
        first: int,
        decay: float,
        drop_below: float,
        key: PRNGKeyArray,
    ) -> "FlexibleEmbedding":
        vkey, akey = jax.random.split(key)
        return FlexibleEmbedding(
            vectors=Linear.create(vector if added else vector + slots + 1, size, key=vkey),
            ages=Linear.create(slots + 2, size, key=akey) if added else None,
            oldest=slots,
            floor=floor,
            first=first,
            decay=decay,
            drop_below=drop_below,
        )

    @property
    def slots(self) -> int:
        """How many Memos there can be."""
        return self.oldest

    def start(self, size: int) -> FlexibleMemory:
        """The memory before the first step. Its zeros have received no attention."""
        return FlexibleMemory(
            vectors=jnp.zeros((self.slots, size)),
            ages=jnp.arange(1, self.slots + 1, dtype=jnp.int32),
            recent=jnp.zeros(self.slots),
            present=jnp.arange(self.slots) < self.floor,
            first=self.first,
            decay=self.decay,
            drop_below=self.drop_below,
        )

    def age_vectors(self, ages: Int[Array, " slots"]) -> Float[Array, "slots columns"]:
        """What the embedding is told about each age."""
        if self.ages is None:
            onehot = jax.nn.one_hot(jnp.minimum(ages, self.oldest) % self.oldest, self.oldest)
            return jnp.concatenate([onehot, _doublings(ages / self.oldest)[:, None]], axis=1)
        index = ages - 1
        onehot = jax.nn.one_hot(jnp.minimum(index, self.oldest), self.oldest + 1)
        share = index / self.oldest
        scalar = jnp.minimum(share, 1.0) + _doublings(share)
        return jnp.concatenate([onehot, scalar[:, None]], axis=1)

    def __call__(self, memory: FlexibleMemory) -> Float[Array, "slots size"]:
        ages = self.age_vectors(memory.ages)
        if self.ages is None:
            return self.vectors(jnp.concatenate([memory.vectors, ages], axis=1))
        return self.vectors(memory.vectors) + self.ages(ages)


def _doublings(times: Float[Array, " slots"]) -> Float[Array, " slots"]:
    """How often 1 must be doubled to reach each number; 0 up to 1."""
    return jnp.log2(jnp.maximum(times, 1.0))
