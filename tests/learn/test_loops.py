"""A scan that stops: against `jax.lax.scan` with all steps taken and the last ones masked."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Errand

from wmg import registry
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Hyper
from wmg.learn import a3c, loops
from wmg.types import Learner

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


def stopping(last, weights, memory, taps, noise=NOISE):
    (memory, output), (count, over, more) = loops.scan_until(
        make_step(weights, last), memory, jnp.int32(0), taps, noise
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


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
def test_it_may_be_transformed_before_it_is_differentiated(wrap):
    loss = wrap(lambda memory, noise: stopping(2, WEIGHTS, memory, TAPS, noise)[0])
    slopes = jax.grad(loss, argnums=(0, 1))(MEMORY, NOISE)
    np.testing.assert_allclose(slopes[0], differentiated(stopping, jnp.int32(2))[1][1], rtol=1e-5)
    assert not slopes[1].any()  # inputs are constants


def test_it_may_be_part_of_a_scan_and_of_a_batch():
    def loss(memories):
        one = lambda total, memory: (total + stopping(2, WEIGHTS, memory, TAPS)[0], None)  # noqa: E731
        return jax.lax.scan(one, 0.0, memories)[0]

    memories = jnp.stack([MEMORY, 2 * MEMORY])
    alone = jax.grad(lambda memory: stopping(2, WEIGHTS, memory, TAPS)[0])
    np.testing.assert_allclose(jax.grad(loss)(memories), jax.vmap(alone)(memories), rtol=1e-5)


class Normed(Learner):
    """Decides on the direction of a summary, which zeros do not have."""

    inner: Learner

    def initial_memory(self):
        return self.inner.initial_memory()

    def summarise(self, observation, memory):
        return self.inner.summarise(observation, memory)

    def decide(self, summary):
        return self.inner.decide(summary / jnp.linalg.norm(summary, axis=-1, keepdims=True))


@pytest.mark.parametrize("kind", [lambda agent: agent, Normed], ids=["plain", "normed"])
def test_a_window_that_stops_with_its_episode_is_that_of_a_scan(kind):
    env, tiny = (
        Errand(),
        WMGSettings(slots=3, memo_size=4, layers=2, heads=2, head_size=4, hidden=4),
    )
    agent = kind(registry.make_agent(tiny, env.spec, jax.random.key(0)))
    t_max, hyper = env.spec.max_steps - 1, Hyper(learning_rate=0.01, adam_eps=0.01)
    window = jax.jit(
        lambda run, unroll: a3c.window(env, hyper, run, t_max, unroll), static_argnums=1
    )
    lengths = set()
    runs = [a3c.start_run(env, agent, jax.random.key(5)) for _ in range(2)]
    for _ in range(12):
        (run, totals), (other, expected) = window(runs[0], 1), window(runs[1], 2)
        lengths.add(int(totals.steps))
        runs = [run, other]
        found = [eqx.filter(each, eqx.is_inexact_array) for each in runs]
        close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5)
        jax.tree.map(close, (found[0], totals), (found[1], expected))
    assert len(lengths) > 1 and not run.diverged
