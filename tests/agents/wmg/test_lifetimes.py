"""Flexible lifetimes against a Python list of Memos."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain import shaken
from probes import TINY, tiny_wmg

from wmg.agents.wmg.agent import with_slots
from wmg.agents.wmg.lifetimes import FlexibleEmbedding, FlexibleMemory
from wmg.agents.wmg.memory import Memory
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec

SLOTS, FIRST, STEPS = 4, 2, 30
SPEC = EnvSpec(ObservationSpec(3), actions=3, max_steps=4, metric="reward")
FACTORED = EnvSpec(ObservationSpec(3, (("things", 2, 5),)), 3, 4, "reward")


def embedding(floor=0, decay=0.5, drop_below=0.0, added=False, slots=SLOTS):
    made = FlexibleEmbedding.create(
        slots, 1, 6, added=added, floor=floor, first=FIRST, decay=decay, drop_below=drop_below,
        key=jax.random.key(0),
    )  # fmt: skip
    return shaken(made)


@dataclasses.dataclass
class Memo:
    number: float
    written: int
    recent: float


@dataclasses.dataclass
class ListOfMemos:
    """The rule restated: a list, oldest first, and nothing but its Memos."""

    slots: int
    decay: float
    drop_below: float
    memos: list
    time: int = 0

    def push(self, number, received):
        """`received` holds the attention of each Memo, in the order of the list."""
        for memo, share in zip(self.memos, received, strict=True):
            memo.recent = self.decay * memo.recent + (1 - self.decay) * share
        self.memos = [memo for memo in self.memos if memo.recent >= self.drop_below]
        if len(self.memos) == self.slots:
            self.memos.remove(min(self.memos, key=lambda memo: memo.recent))
        self.memos.append(Memo(number, self.time, 1.0))
        self.time += 1


push = jax.jit(lambda memory, number, attention: memory.push(number[None], attention))


def attention_to(memory, draw):
    """Attention of 2 layers with 3 heads to a Core, a Factor, the slots and one node more."""
    present = np.concatenate([[1, 0], np.asarray(memory.present), [1]])
    powers = np.exp(2 * draw.normal(size=(2, 3, len(present)))) * present
    return jnp.asarray(powers / powers.sum(-1, keepdims=True), jnp.float32)


@pytest.mark.parametrize("floor", [0, SLOTS])
@pytest.mark.parametrize(
    ("decay", "drop_below"),
    [(0.0, 0.0), (0.5, 0.0), (0.9, 0.0), (0.0, 0.25), (0.5, 0.5), (0.9, 0.8)],
)
def test_the_memos_of_every_step_are_those_of_the_list(decay, drop_below, floor):
    draw = np.random.default_rng(0)
    memory = embedding(floor, decay, drop_below).start(1)
    zeros = [Memo(0.0, -age, 0.0) for age in range(floor, 0, -1)]
    restated = ListOfMemos(SLOTS, decay, drop_below, zeros)
    kept, counts = set(), set()
    for time in range(STEPS):
        attention = attention_to(memory, draw)
        shares = np.asarray(attention).max((0, 1))[FIRST : FIRST + SLOTS]
        received = list(shares[np.asarray(memory.present)][::-1])
        restated.push(float(time), received)
        memory = push(memory, jnp.float32(time), attention)
        there = np.asarray(memory.present)
        newest_first = restated.memos[::-1]
        np.testing.assert_array_equal(
            np.asarray(memory.vectors)[there, 0], [memo.number for memo in newest_first]
        )
        ages = [restated.time - memo.written for memo in newest_first]
        np.testing.assert_array_equal(np.asarray(memory.ages)[there], ages)
        np.testing.assert_allclose(
            np.asarray(memory.recent)[there], [memo.recent for memo in newest_first], rtol=1e-5
        )
        kept.add(max(ages))
        counts.add(len(ages) if time > 2 * SLOTS else SLOTS)
    assert max(kept) > SLOTS or drop_below > 0, "no Memo was ever kept for long"
    assert (len(counts) > 1) == (drop_below > 0), "their number varies where Memos are dropped"


def test_a_memo_that_alone_is_attended_to_is_kept_for_good():
    memory = embedding(decay=0.5).start(1)
    for time in range(50):
        to_first = np.zeros((1, 1, FIRST + SLOTS))
        oldest = np.flatnonzero(np.asarray(memory.present))[-1:]
        to_first[..., FIRST + oldest] = 1
        memory = push(memory, jnp.float32(1 + time), jnp.asarray(to_first, jnp.float32))
    np.testing.assert_array_equal(memory.vectors[:, 0], [50, 49, 48, 1])
    np.testing.assert_array_equal(memory.ages, [1, 2, 3, 50])


def test_one_head_that_looks_is_enough():
    memory = embedding(decay=0.5).start(1)
    for time in range(20):
        heads = np.full((2, 4, FIRST + SLOTS), 1 / (FIRST + SLOTS))
        oldest = np.flatnonzero(np.asarray(memory.present))[-1:]
        heads[1, 2] = 0
        heads[1, 2, FIRST + oldest] = 1
        memory = push(memory, jnp.float32(1 + time), jnp.asarray(heads, jnp.float32))
    assert memory.vectors[-1, 0] == 1


@pytest.mark.parametrize("floor", [0, SLOTS])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_with_equal_attention_it_is_the_papers_memory(decay, floor):
    memory = embedding(floor, decay).start(1)
    rolling = Memory.zeros(SLOTS, 1, floor)
    for time in range(STEPS):
        memory = push(memory, jnp.float32(1 + time), jnp.full((1, 2, FIRST + SLOTS), 0.1))
        rolling = rolling.push(jnp.full(1, 1.0 + time))
        np.testing.assert_array_equal(memory.vectors, rolling.vectors)
        np.testing.assert_array_equal(memory.present, rolling.present)
        np.testing.assert_array_equal(memory.ages, np.arange(1, SLOTS + 1))


def age_vector(age, slots, added):
    """The authors' encoding up to the number of slots; then the oldest one and the doublings."""
    if not added:
        place = min(age, slots) % slots
        return [float(i == place) for i in range(slots)] + [math.log2(max(age / slots, 1))]
    index = age - 1
    scalar = index / slots if index <= slots else 1 + math.log2(index / slots)
    return [float(i == min(index, slots)) for i in range(slots + 1)] + [scalar]


@pytest.mark.parametrize("added", [False, True])
def test_ages_are_told_as_of_the_papers_memos_and_beyond_the_slots_by_doublings(added):
    ages = jnp.array([1, 2, 3, 4, 5, 8, 9, 100])
    told = embedding(added=added).age_vectors(ages)
    np.testing.assert_allclose(
        told, [age_vector(int(a), SLOTS, added) for a in ages], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("added", [False, True])
def test_up_to_the_slots_ages_are_those_of_the_plain_embedding(added):
    name = "added" if added else "concatenated"
    plain = tiny_wmg(SPEC, slots=SLOTS, age=name).memory_embedding.age_table()
    told = np.asarray(embedding(added=added).age_vectors(jnp.arange(1, SLOTS + 1)))
    np.testing.assert_allclose(told[:, : plain.shape[1]], plain, rtol=1e-6)


def test_the_agent_counts_its_own_attention():
    agent = shaken(tiny_wmg(FACTORED, lifetimes="attention", attention_decay=0.25))
    memory = agent.initial_memory()
    for _ in range(3):
        output = agent(FACTORED.observation.zeros(), memory)
        shares = np.asarray(output.attention)[..., 1 + 2 :].max((0, 1))
        want = 0.25 * np.asarray(memory.recent) + 0.75 * shares
        np.testing.assert_allclose(output.memory.recent[1:], want[:-1], rtol=1e-5)
        memory = output.memory
    assert isinstance(memory, FlexibleMemory) and memory.recent[0] == 1


@pytest.mark.parametrize("kind", ["observations", "none"])
def test_without_memos_it_is_refused(kind):
    slots = {"slots": TINY["slots"] if kind == "observations" else 0}
    with pytest.raises(BadInput, match=r"lifetimes must be 'fixed' for memory=.*keeps no Memos"):
        tiny_wmg(SPEC, memory=kind, lifetimes="attention", **slots)


def test_it_is_given_no_more_slots():
    with pytest.raises(ValueError, match="lifetimes = 'attention', so it needs no more slots"):
        with_slots(tiny_wmg(SPEC, lifetimes="attention"), 9)
