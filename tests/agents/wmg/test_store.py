"""The store against a Python list of entries."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from plain import shaken
from probes import tiny_wmg

from wmg.agents.wmg.store import MemoryStore, MemoryVectors
from wmg.types import EnvSpec, Factors, Observation, ObservationSpec

SIZE, VECTOR, READS = 8, 4, 2
SPEC = EnvSpec(ObservationSpec(3, (("things", 2, 5),)), 3, 4, "reward")


def cosine(a, b):
    return np.dot(a, b) / np.sqrt((np.dot(a, a) + 1e-6) * (np.dot(b, b) + 1e-6))


class ListOfEntries:
    """The store restated: a list of entries (key, value, step)."""

    def __init__(self, capacity):
        self.capacity, self.entries, self.time = capacity, [], 0

    def write(self, key, value):
        entry = (np.asarray(key), np.asarray(value), self.time)
        if len(self.entries) < self.capacity:
            self.entries.append(entry)
        else:
            near = [cosine(key, other) for other, _, _ in self.entries]
            self.entries[near.index(max(near))] = entry
        self.time += 1

    def read(self, asked, sharpness):
        powers = [np.exp(sharpness * cosine(asked, key)) for key, _, _ in self.entries]
        pairs = zip(powers, self.entries, strict=True)
        return sum(power * value for power, (_, value, _) in pairs) / sum(powers)


def access(capacity):
    return shaken(
        MemoryVectors.create(capacity, VECTOR, READS, SIZE, key=jax.random.key(0)), by=0.3
    )


@pytest.mark.parametrize("capacity", [1, 3, 40])
def test_what_is_written_and_read_is_what_the_list_has(capacity):
    draw = np.random.default_rng(0)
    vectors = access(capacity)
    store = MemoryStore.empty(capacity, VECTOR, SIZE)
    restated, last = ListOfEntries(capacity), np.zeros(SIZE)
    write, read = jax.jit(lambda c, s: vectors.write(c, s)), jax.jit(lambda c, s: vectors(c, s))
    replaced = 0
    for time in range(20):
        core, out = draw.normal(size=(2, SIZE)).astype(np.float32)
        nodes, present = read(core, store)
        assert present.tolist() == [time > 0] * READS
        if time:
            asked = plain.linear(vectors.asked, np.concatenate([core, last])).reshape(READS, -1)
            for row, query, sharpness in zip(nodes, asked, vectors.sharpness, strict=True):
                value = restated.read(query, np.exp(sharpness))
                np.testing.assert_allclose(row, plain.linear(vectors.embedding, value), atol=2e-5)
        key, value = np.split(plain.linear(vectors.written, out), 2)
        restated.write(key, np.tanh(value))
        store = write(out, store)
        count = int(store.count)
        want = [step for _, _, step in restated.entries]
        assert store.written[:count].tolist() == want and store.time == time + 1
        replaced += want != list(range(count))
        last = out
    assert (replaced > 0) == (capacity < 20)


def test_a_full_store_keeps_what_is_unlike_all_that_comes():
    store = MemoryStore.empty(3, 2, 1)
    rare, common = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    for time in range(30):
        key = rare if time == 0 else common
        store = store.write(key, jnp.full(2, float(time)), jnp.zeros(1))
    assert store.written[0] == 0 and store.values[0, 0] == 0
    assert int(store.written.max()) == 29


def test_gradients_reach_what_was_written_and_how_it_is_read():
    vectors = access(5)
    core = jnp.asarray(np.random.default_rng(1).normal(size=(4, SIZE)), jnp.float32)

    def read(vectors, first):
        store = MemoryStore.empty(5, VECTOR, SIZE)
        for out in (first, core[1], core[2]):
            store = vectors.write(out, store)
        return vectors(core[3], store)[0].sum()

    slope, of_first = jax.grad(read, argnums=(0, 1))(vectors, core[0])
    assert min(float(jnp.abs(x).max()) for x in jax.tree.leaves((slope, of_first))) > 1e-4
    step = 1e-2 * of_first / jnp.linalg.norm(of_first)
    rise = (read(vectors, core[0] + step) - read(vectors, core[0] - step)) / 2e-2
    np.testing.assert_allclose(rise, jnp.linalg.norm(of_first), rtol=0.02)


def test_an_empty_store_gives_finite_numbers_and_gradients():
    def read(vectors):
        return vectors(jnp.ones(SIZE), MemoryStore.empty(3, VECTOR, SIZE))[0].sum()

    value, slope = jax.value_and_grad(read)(access(3))
    assert all(bool(jnp.isfinite(x).all()) for x in [value, *jax.tree.leaves(slope)])


def observation(seed):
    draw = np.random.default_rng(seed)
    things = jnp.asarray(draw.normal(size=(2, 5)), jnp.float32)
    present = jnp.array([True, False])
    return Observation(
        jnp.asarray(draw.normal(size=3), jnp.float32), {"things": Factors(things, present)}
    )


@pytest.mark.parametrize("kind", ["memos", "observations", "none"])
def test_the_agents_memory_vectors_are_its_last_nodes(kind):
    slots = {"memos": 3, "observations": 3, "none": 0}[kind]
    agent = shaken(
        tiny_wmg(SPEC, memory=kind, slots=slots, store=4, store_size=VECTOR, reads=READS)
    )
    memory = agent.initial_memory()
    store, last = ListOfEntries(4), np.zeros(SIZE)
    for time in range(6):
        seen = observation(time)
        output, there = agent.attend_to(seen, memory, jnp.ones(3 + slots + READS, bool))
        nodes, _ = agent._embed(seen, memory)[:2]
        assert there[-READS:].tolist() == [time > 0] * READS
        vectors, embedded = agent.memory_vectors, plain.linear(agent.core_embedding, seen.core)
        if time:
            asked = plain.linear(vectors.asked, np.concatenate([embedded, last]))
            rows = [
                plain.linear(vectors.embedding, store.read(query, np.exp(sharpness)))
                for query, sharpness in zip(
                    asked.reshape(READS, -1), vectors.sharpness, strict=True
                )
            ]
            np.testing.assert_allclose(nodes[-READS:], rows, atol=2e-4)
        present = [row for row, is_there in zip(nodes, there, strict=True) if is_there]
        last, _ = plain.transformer(agent.transformer, [np.asarray(row) for row in present])
        key, value = np.split(plain.linear(vectors.written, last), 2)
        store.write(key, np.tanh(value))
        logits, _ = plain.actor_critic(agent.actor_critic, last)
        np.testing.assert_allclose(output.logits, logits, atol=2e-3)
        memory = output.memory
        last = np.asarray(memory.store.last)
