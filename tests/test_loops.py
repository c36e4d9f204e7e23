"""A scan that stops: against `jax.lax.scan` with all steps taken and the last ones masked."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Errand

from wmg import a3c, checkpoint, loops
from wmg.config import WMG, Hyper

LENGTH, WIDTH = 5, 3
WEIGHTS = {
    "tied": jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)),
    "gain": jnp.arange(1.0, 1 + WIDTH),
}
FIXED = jax.random.normal(jax.random.key(1), (WIDTH, 7))
MEMORY = jnp.array([0.3, -0.2, 0.5])
TAPS = jax.random.normal(jax.random.key(2), (LENGTH, WIDTH))
NOISE = jax.random.normal(jax.random.key(3), (LENGTH, 7))


def make_step(weights, last):
    """A step that counts, reads its weights and a constant, and remembers."""

    def step(memory, count, tap, noise):
        memory = jnp.tanh(memory @ weights["tied"] * weights["gain"] + tap)
        output = jnp.sin(memory @ FIXED + noise)
        return (memory, output), (count + 1, count == last, output > 0)

    return step


def stopping(last, weights, memory, taps):
    (memory, output), (count, over, more) = loops.scan_until(
        make_step(weights, last), memory, jnp.int32(0), taps, NOISE
    )
    return (memory @ memory + jnp.sum(output**3)), (output, count, over, more)


def masked(last, weights, memory, taps):
    step = make_step(weights, last)

    def one(carry, x):
        memory, count, over = carry
        (after, output), (_, now_over, more) = step(memory, count, *x)
        after = jnp.where(over, memory, after)
        kept = jnp.where(over, 0.0, output), more & ~over
        return (after, count + ~over, over | now_over), kept

    start = (memory, jnp.int32(0), jnp.zeros((), bool))
    (memory, count, over), (output, more) = jax.lax.scan(one, start, (taps, NOISE))
    return (memory @ memory + jnp.sum(output**3)), (output, count, over, more)


@functools.partial(jax.jit, static_argnums=0)
def differentiated(f, last):
    return jax.value_and_grad(f, argnums=(1, 2, 3), has_aux=True)(last, WEIGHTS, MEMORY, TAPS)


@pytest.mark.parametrize("last", [0, 2, 4, 9])
def test_values_and_gradients_are_those_of_a_scan_with_the_end_masked(last):
    (value, found), gradients = differentiated(stopping, jnp.int32(last))
    (other, expected), slopes = differentiated(masked, jnp.int32(last))
    assert found[1] == min(last + 1, LENGTH) and found[2] == (last < LENGTH)
    np.testing.assert_allclose(value, other, rtol=1e-6)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6),
                 (found, gradients), (expected, slopes))  # fmt: skip


def test_steps_that_are_not_taken_are_not_computed():
    """One that were would divide by zero, and so make the gradient not a number."""

    def loss(memory):
        def step(memory, count, tap, given):
            memory = memory * tap / (2 - count)
            return (memory, memory), (count + 1, count == 1, None)

        zeros = jnp.zeros(4)
        return loops.scan_until(step, memory, jnp.int32(0), zeros + 1, zeros)[0][1].sum()

    assert jax.grad(loss)(2.0) == 0.5 + 0.5  # memory / 2, then that divided by 1
    assert loss(2.0) == 2.0


def test_what_all_steps_read_alike_is_not_stored_for_each():
    trace = jax.make_jaxpr(lambda: differentiated(stopping, jnp.int32(2)))()
    stored = {
        var.aval.shape
        for eqn in jax.tree.leaves(trace.eqns[0].params["jaxpr"].eqns)
        for var in eqn.outvars
    }
    assert (LENGTH, 7) in stored
    assert not stored & {(LENGTH, WIDTH, 7), (LENGTH, WIDTH, WIDTH)}


def test_a_window_that_stops_with_its_episode_is_that_of_a_scan():
    env, tiny = Errand(), WMG(slots=3, memo_size=4, layers=1, heads=2, head_size=4, hidden=4)
    agent = checkpoint.make_agent(tiny, env, jax.random.key(0))
    t_max = env.spec.max_steps - 1
    window = jax.jit(
        lambda run, unroll: a3c.window(env, Hyper(), run, t_max, unroll), static_argnums=1
    )
    lengths = set()
    runs = [a3c.start_run(env, agent, jax.random.key(5)) for _ in range(2)]
    for _ in range(12):
        (run, totals), (other, expected) = window(runs[0], 1), window(runs[1], 2)
        lengths.add(int(totals.steps))
        assert totals.steps == expected.steps and totals.episodes == expected.episodes
        weights = [eqx.filter(each.agent, eqx.is_inexact_array) for each in (run, other)]
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), *weights)
        runs = [run, other]
    assert len(lengths) > 1
