"""The window kernel on a GPU, beside XLA's program there: `pytest -m gpu tests/learn/kernels`."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg.config import Hyper
from wmg.paper import find_preset
from wmg.runs import hardware
from wmg.runs.task import stack_hypers
from wmg.runs.train import make_task

pytestmark = pytest.mark.gpu
PRESETS = ("pathfinding/wmg", "pathfinding/nr-wmg", "pathfinding-6-memos/nr-wmg")
MOST = {"float32": 2e-5, "tf32": 2e-2}
"""How far gradients may be apart, as a share of their norm."""


@pytest.fixture(autouse=True)
def keys_may_be_used_again():
    with jax.debug_key_reuse(False):  # each test trains from the same runs more than once
        yield


def make(preset, precision, kernel, runs=3):
    """A task with its function, numbers, and runs with jiggled weights."""
    settings = dataclasses.replace(
        find_preset(preset),
        runs=runs,
        precision=precision,
        kernel=kernel,
        hyper=Hyper(learning_rate=1e-4, adam_eps=1e-3),
    )
    task = make_task(settings, None)
    chance = np.random.default_rng(7)

    def jiggle(x):
        return x + 0.05 * chance.normal(size=x.shape).astype(np.float32)

    begun = task.start()
    begun = eqx.tree_at(lambda r: r.agent, begun, jax.tree.map(jiggle, begun.agent))
    return task.advance(), stack_hypers(settings), begun


def apart(one, other):
    """Norm of the difference as a share of the norm."""
    a, b = (jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(t)]) for t in (one, other))
    return float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b))


def same_bits(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(bool((a == b).all()) for a, b in leaves)


@pytest.mark.parametrize("precision", MOST)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_first_windows_are_those_of_xla(preset, precision):
    made = {}
    for kernel in ("on", "off"):
        advance, hyper, runs = make(preset, precision, kernel)
        made[kernel] = advance(hyper, runs, np.array([12, 1, 0]))
    (got, totals), (want, sums) = made["on"], made["off"]
    assert list(got.steps) == [12, 12, 0]
    print(preset, precision, "gradients apart", apart(got.optimizer.mu, want.optimizer.mu))
    assert apart(got.optimizer.mu, want.optimizer.mu) < MOST[precision]
    assert same_bits(got.scene, want.scene) and bool((got.key == want.key).all())
    np.testing.assert_array_equal(totals.reward, sums.reward)
    for name in ("policy_loss", "value_loss", "entropy", "gradient_norm"):
        a, b = (getattr(t, name) for t in (totals, sums))
        np.testing.assert_allclose(
            a, b, rtol=0, atol=10 * MOST[precision] * float(jnp.abs(b).max())
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_bits_twice_and_in_two_parts(preset):
    advance, hyper, runs = make(preset, "tf32", "on", 5)
    starts = [jax.tree.map(jnp.copy, runs) for _ in range(3)]  # each call takes its own
    whole, _ = advance(hyper, starts[0], 1200)
    again, _ = advance(hyper, starts[1], 1200)
    part, _ = advance(hyper, starts[2], np.array([600, 12, 0, 1188, 1200]))
    parts, _ = advance(hyper, part, 1200)
    for other in (again, parts):
        assert same_bits((whole.agent, whole.optimizer), (other.agent, other.optimizer))
        assert bool((whole.key == other.key).all()) and list(whole.steps) == list(other.steps)


def test_a_run_that_diverges_does_not_change_its_neighbours():
    advance, hyper, runs = make("pathfinding/wmg", "tf32", "on")
    bias = runs.agent.actor_critic.value.bias
    broken = eqx.tree_at(lambda r: r.agent.actor_critic.value.bias, runs, bias.at[1].set(jnp.nan))
    want, _ = advance(hyper, jax.tree.map(jnp.copy, runs), 120)
    got, _ = advance(hyper, broken, 120)
    assert list(got.diverged) == [False, True, False] and list(got.steps) == [120, 0, 120]
    others = [hardware.take(r.agent, np.array([0, 2])) for r in (got, want)]
    assert same_bits(*others)
