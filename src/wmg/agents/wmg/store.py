"""Memory vectors: an external store, written and read by similarity, beside the Memos.

Every step writes one entry, a key and a value, and reads by weighted similarity of keys. What it
reads are further nodes of the Transformer. The store lasts for the whole episode.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.layers import Linear
from wmg.agents.wmg.lifetimes import FlexibleMemory
from wmg.agents.wmg.memory import Memory

EPSILON = 1e-6
"""Added to the squared length of a key before it is scaled to length 1."""
SHARPNESS = 10.0
"""By what the similarities are multiplied before training."""
NOTHING = -1e9
"""The score of an entry that is not there."""


class MemoryStore(eqx.Module):
    """Entries of the episode so far, and what is needed to write and read them."""

    keys: Float[Array, "capacity size"]
    """Of length 1 where an entry is present."""
    values: Float[Array, "capacity size"]
    written: Int[Array, " capacity"]
    """The step that wrote each entry."""
    count: Int[Array, ""]
    """How many entries there are."""
    time: Int[Array, ""]
    """Steps taken in the episode."""
    last: Float[Array, " core"]
    """The Core's output in the step before."""

    @staticmethod
    def empty(capacity: int, size: int, core: int) -> "MemoryStore":
        """The store before the first step."""
        zero, rows = jnp.zeros((), jnp.int32), jnp.zeros((capacity, size))
        return MemoryStore(rows, rows, jnp.zeros(capacity, jnp.int32), zero, zero, jnp.zeros(core))

    @property
    def present(self) -> Bool[Array, " capacity"]:
        return jnp.arange(len(self.keys)) < self.count

    def write(
        self,
        key: Float[Array, " size"],
        value: Float[Array, " size"],
        core: Float[Array, " core"],
    ) -> "MemoryStore":
        """The store after a step. While there is room, the entry is added. In a full store it
        replaces the entry whose key is most similar, so that rare things stay."""
        capacity = len(self.keys)
        full = self.count >= capacity
        at = jnp.where(full, jnp.argmax(self.keys @ key), self.count)
        here = jnp.arange(capacity) == at
        return MemoryStore(
            keys=jnp.where(here[:, None], key, self.keys),
            values=jnp.where(here[:, None], value, self.values),
            written=jnp.where(here, self.time, self.written),
            count=jnp.minimum(self.count + 1, capacity),
            time=self.time + 1,
            last=core,
        )

    def similarities(self, asked: Float[Array, "reads size"]) -> Float[Array, "reads capacity"]:
        """The cosine of each asked vector with each key."""
        return unit(asked) @ self.keys.T


class MemoryAndStore(eqx.Module):
    """The memory of an agent that has a store: Memos, or what it keeps instead, and the store."""

    memos: Memory | FlexibleMemory
    store: MemoryStore


class MemoryVectors(eqx.Module):
    """What an agent writes into its store and reads from it."""

    asked: Linear
    """From the Core's embedding and its last output to a vector for each read."""
    sharpness: Float[Array, " reads"]
    """Logarithm of what similarities are multiplied by."""
    embedding: Linear
    written: Linear
    """From the Core's output to key and value."""
    capacity: int = eqx.field(static=True)

    @staticmethod
    def create(
        capacity: int, vector: int, reads: int, size: int, *, key: PRNGKeyArray
    ) -> "MemoryVectors":
        akey, ekey, wkey = jax.random.split(key, 3)
        return MemoryVectors(
            asked=Linear.create(2 * size, reads * vector, key=akey),
            sharpness=jnp.full(reads, jnp.log(SHARPNESS)),
            embedding=Linear.create(vector, size, key=ekey),
            written=Linear.create(size, 2 * vector, key=wkey),
            capacity=capacity,
        )

    @property
    def reads(self) -> int:
        """How many memory vectors a step reads."""
        return len(self.sharpness)

    def start(self, memos: Memory | FlexibleMemory) -> MemoryAndStore:
        """The memory before the first step."""
        size, vector = self.embedding.weight.shape
        return MemoryAndStore(memos, MemoryStore.empty(self.capacity, vector, size))

    def weights(
        self, core: Float[Array, " size"], store: MemoryStore
    ) -> Float[Array, "reads capacity"]:
        """The share that each entry has in each memory vector, given the Core's embedding."""
        asked = self.asked(jnp.concatenate([core, store.last])).reshape(self.reads, -1)
        scores = jnp.exp(self.sharpness)[:, None] * store.similarities(asked)
        return jax.nn.softmax(jnp.where(store.present, scores, NOTHING))

    def __call__(
        self, core: Float[Array, " size"], store: MemoryStore
    ) -> tuple[Float[Array, "reads size"], Bool[Array, " reads"]]:
        """The memory vectors as nodes, and which are there: none before the first entry."""
        nodes = self.embedding(self.weights(core, store) @ store.values)
        return nodes, jnp.full(self.reads, store.count > 0)

    def write(self, core: Float[Array, " size"], store: MemoryStore) -> MemoryStore:
        """The store with an entry made from the Core's output."""
        key, value = jnp.split(self.written(core), 2)
        return store.write(unit(key), jnp.tanh(value), core)


def unit(vectors: Float[Array, "*rows size"]) -> Float[Array, "*rows size"]:
    """The vectors, scaled to length 1."""
    return vectors * jax.lax.rsqrt(jnp.sum(jnp.square(vectors), -1, keepdims=True) + EPSILON)
