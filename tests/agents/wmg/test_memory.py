"""The rolling memory against a Python list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.agents.wmg.memory import Memory

SLOTS = 3


@pytest.fixture(scope="module")
def filled():
    """Memories that start empty, after 0 to 5 pushes of the numbers 1, 2, ..."""
    push = jax.jit(lambda memory, number: memory.push(jnp.full(2, number)))
    memories = [Memory.zeros(SLOTS, 2, floor=0)]
    for number in range(1, 6):
        memories.append(push(memories[-1], float(number)))
    return memories


@pytest.mark.parametrize("pushes", range(6))
def test_the_newest_vectors_are_kept_newest_first(filled, pushes):
    newest_first = list(range(pushes, 0, -1))[:SLOTS]
    want = newest_first + [0] * (SLOTS - len(newest_first))
    np.testing.assert_array_equal(filled[pushes].vectors, np.array([want, want]).T)


@pytest.mark.parametrize("pushes", range(6))
def test_a_memory_that_starts_empty_shows_only_what_was_pushed(filled, pushes):
    want = [slot < pushes for slot in range(SLOTS)]
    np.testing.assert_array_equal(filled[pushes].present, want)


def test_a_memory_that_starts_full_shows_zeros_from_the_first_step():
    memory = Memory.zeros(SLOTS, 2, floor=SLOTS)
    assert memory.present.all() and (memory.vectors == 0).all()


def test_a_floor_below_the_slots_shows_that_many_until_more_are_written():
    memory = Memory.zeros(SLOTS, 1, floor=2)
    shown = [memory.present.sum()]
    for _ in range(3):
        memory = memory.push(jnp.ones(1))
        shown.append(memory.present.sum())
    assert shown == [2, 2, 2, 3]


def test_a_memory_without_slots_forgets_at_once():
    memory = Memory.zeros(0, 2, floor=0).push(jnp.ones(2))
    assert memory.vectors.shape == (0, 2) and memory.present.shape == (0,)


def test_gradients_reach_what_was_pushed():
    def recalled(number):
        return Memory.zeros(2, 1, 0).push(number[None]).push(jnp.zeros(1)).vectors[1, 0]

    assert jax.grad(recalled)(jnp.float32(3.0)) == 1.0
