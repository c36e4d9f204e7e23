"""The scan with deferred weight gradients against `jax.lax.scan` and plain differentiation."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import build, tiny_gru, tiny_gtrxl, tiny_lstm, tiny_wmg

from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.drc.settings import DRCSettings
from wmg.agents.layers import Linear
from wmg.learn import window
from wmg.types import EnvSpec, Factors, Observation, ObservationSpec, Summary

TIME = 4
CORE = EnvSpec(ObservationSpec(3), 2, TIME, "reward")
FACTORED = EnvSpec(ObservationSpec(3, (("things", 2, 2),)), 2, TIME, "reward")
IMAGE = EnvSpec(ObservationSpec(3, image=(7, 7, 2)), 2, TIME, "reward")


def layer(inputs, outputs, seed):
    return Linear.create(inputs, outputs, key=jax.random.key(seed))


class Stub(eqx.Module):
    """A layer or two and what else a model may hold; each subclass uses them in its way."""

    first: Linear
    second: Linear
    double: Linear
    array: jax.Array
    counter: jax.Array

    def summarise(self, observation, memory):
        out = self.use(observation.core + memory)
        return Summary(out, jnp.tanh(out))

    def decide(self, summary):
        return summary[..., :2], summary[..., 2]


class EachOnce(Stub):
    def use(self, x):
        return self.second(jnp.tanh(self.first(x)))


class OneLayerTwice(Stub):
    def use(self, x):
        return self.first(jnp.tanh(self.first(x)))


class AnArrayOfItsOwn(Stub):
    def use(self, x):
        return self.second(self.first(x) * self.array) + self.array


class CalledAndReadDirectly(Stub):
    def use(self, x):
        return self.first(x) + self.first.weight @ x + self.second(x)


class OneLayerNeverUsed(Stub):
    def use(self, x):
        return self.second(x)


class RowsAtOnce(Stub):
    def use(self, x):
        return self.first(jnp.stack([x, 2 * x, -x])).sum(0) + self.second(x)


class Parts(Stub):
    """All of a layer, in parts: forwards, and backwards in blocks."""

    def use(self, x):
        first, last = self.double.split(1, 3)
        return last.pull_back(first(x[None]).reshape(3, 1)).sum(0) + self.second(x)


class OnePartOnly(Stub):
    def use(self, x):
        return self.double.split(1, 1)[1](x[None])[0] + self.second(x)


class OnePartTwice(Stub):
    def use(self, x):
        first, last = self.double.split(1, 1)
        return first(last(first(x[None])))[0]


class PartsAndTheWhole(Stub):
    def use(self, x):
        return sum(part(x[None])[0] for part in self.double.split(1, 1)) + self.double(x)[1:4]


class SplitTwice(Stub):
    def use(self, x):
        return sum(part(x[None])[0] for _ in range(2) for part in self.double.split(1, 1))


class OnePartRead(Stub):
    def use(self, x):
        first, last = self.double.split(1, 1)
        return first(x[None])[0] + last(x[None])[0] * last.bias[0]


class BlocksForwards(Stub):
    def use(self, x):
        first, last = self.double.split(3, 3)
        rows = jnp.stack([x, 2 * x, -x])
        return first(rows)[:, 0] * last(rows)[:, 0] + self.second(x)


class ReadInAnotherWay(Stub):
    def use(self, x):
        return self.first.product(x) + self.second(x)


class Backwards(Stub):
    def use(self, x):
        return self.second(self.first.pull_back(x))


class SharedWithDecide(EachOnce):
    def decide(self, summary):
        return self.first(summary)[..., :2], self.second(summary)[..., 0]


STUBS = [
    EachOnce,
    OneLayerTwice,
    AnArrayOfItsOwn,
    CalledAndReadDirectly,
    OneLayerNeverUsed,
    RowsAtOnce,
    Parts,
    OnePartOnly,
    OnePartTwice,
    PartsAndTheWhole,
    SplitTwice,
    OnePartRead,
    Backwards,
    BlocksForwards,
    ReadInAnotherWay,
    SharedWithDecide,
]


EXTENDED = {
    "lifetimes": {"lifetimes": "attention", "attention_decay": 0.3},
    "edges": {"edges": "both", "edge_size": 4},
    "store": {"store": 2, "store_size": 3, "reads": 2},
    "all extensions": {"lifetimes": "attention", "edges": "both", "store": 2, "age": "added"},
}
"""Settings of WMG beyond the paper."""
OF_A_CORE = {"gru": tiny_gru, "lstm": tiny_lstm, "gtrxl": tiny_gtrxl}


def model_of(kind):
    """A model with noisy parameters, and the memory it starts with."""
    if kind == "wmg":
        agent = plain.shaken(tiny_wmg(FACTORED, slots=2), by=0.3)
        return agent, agent.initial_memory()
    if kind in EXTENDED:
        agent = plain.shaken(tiny_wmg(FACTORED, slots=2, **EXTENDED[kind]), by=0.3)
        return agent, agent.initial_memory()
    if kind in OF_A_CORE:
        agent = plain.shaken(OF_A_CORE[kind](CORE), by=0.3)
        return agent, agent.initial_memory()
    if kind == "cnn-gru":
        agent = plain.shaken(build(CNNGRUSettings((3, 4, 5), 4, 6, 8), IMAGE), by=0.2)
        return agent, agent.initial_memory()
    if kind == "drc":
        settings = DRCSettings(layers=2, ticks=3, channels=2, actor_critic=4)
        agent = plain.shaken(build(settings, IMAGE), by=0.1)
        return agent, agent.initial_memory()
    stub = kind(layer(3, 3, 1), layer(3, 3, 2), layer(3, 6, 3), jnp.ones(3), jnp.arange(3))
    return plain.shaken(stub), jnp.zeros(3)


def observations(kind):
    """One for each step, stacked."""
    draw = np.random.default_rng(0)

    def numbers(*shape):
        return jnp.asarray(draw.normal(size=shape), jnp.float32)

    def one():
        factors = {"things": Factors(numbers(2, 2), jnp.asarray(draw.random(2) < 0.5))}
        image = numbers(7, 7, 2) if kind in ("cnn-gru", "drc") else None
        return Observation(numbers(3), factors if kind in ("wmg", *EXTENDED) else {}, image)

    return jax.tree.map(lambda *steps: jnp.stack(steps), *[one() for _ in range(TIME)])


def plain_scan(step, agent, carry, inputs):
    return jax.lax.scan(lambda carry, given: step(agent, carry, given), carry, inputs)


def one_step(model, memory, observation):
    summary = model.summarise(observation, memory)
    return summary.memory, summary.vector


def differentiated(scan, kind):
    """((loss, aux), gradient) of a sum of squares over a scan, in the model and its memory."""
    model, memory = model_of(kind)

    def loss(model_and_memory):
        model, memory = model_and_memory
        memory, summaries = scan(one_step, model, memory, observations(kind))
        logits, values = model.decide(summaries)
        floats = jax.tree.leaves(eqx.filter(memory, eqx.is_inexact_array))
        return (logits**2).sum() + 0.5 * (values**2).sum() + sum(
            (x**3).sum() for x in floats
        ), values

    slope = eqx.filter_value_and_grad(loss, has_aux=True)
    return eqx.filter_jit(slope)((model, memory))


@pytest.mark.parametrize("kind", ["wmg", *EXTENDED, *OF_A_CORE, "cnn-gru", "drc", *STUBS])
def test_loss_and_gradient_equal_those_of_plain_differentiation(kind):
    got, wanted = (differentiated(scan, kind) for scan in (window.scan, plain_scan))
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), got, wanted)
    assert any(np.abs(leaf).max() > 0.1 for leaf in jax.tree.leaves(got[1]))


@pytest.mark.parametrize("unroll", [2, TIME])
def test_an_unrolled_scan_has_the_same_gradient(unroll):
    unrolled = functools.partial(window.scan, unroll=unroll)
    got, wanted = (differentiated(scan, "wmg") for scan in (unrolled, plain_scan))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), got, wanted)


def test_without_differentiation_it_is_a_scan():
    model, memory = model_of("wmg")
    seen = observations("wmg")
    got, wanted = (scan(one_step, model, memory, seen) for scan in (window.scan, plain_scan))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, wanted)


FIRST, SECOND, DOUBLE = range(3)


@pytest.mark.parametrize(
    ("kind", "called"),
    [
        (EachOnce, [FIRST, SECOND]),
        (OneLayerTwice, [FIRST, FIRST]),
        (OneLayerNeverUsed, [SECOND]),
        (CalledAndReadDirectly, [FIRST, SECOND]),
        (Backwards, [FIRST, SECOND]),
        (Parts, [DOUBLE, DOUBLE, SECOND]),
        (OnePartRead, [DOUBLE, DOUBLE]),
        (ReadInAnotherWay, [SECOND]),
    ],
)
def test_each_call_of_a_layer_is_deferred(kind, called):
    model, memory = model_of(kind)
    uses = window.find_uses(one_step, model, memory, observations(kind))
    assert [use.layer for use in uses] == called


@pytest.mark.parametrize("kind", ["wmg", *EXTENDED, *OF_A_CORE, "cnn-gru", "drc"])
def test_every_layer_that_summarises_is_deferred(kind):
    model, memory = model_of(kind)
    uses = window.find_uses(one_step, model, memory, observations(kind))
    layers, decide = (
        len([x for x in jax.tree.leaves(tree, is_leaf=is_layer) if is_layer(x)])
        for tree in (model, model.actor_critic)
    )
    assert {use.layer for use in uses} == set(range(layers - decide))


def is_layer(node):
    return isinstance(node, Linear)


# A scan that stops

LENGTH, WIDTH = 5, 3
TIED = Linear(*(jax.random.normal(jax.random.key(s), (WIDTH,) * n) for s, n in ((0, 2), (4, 1))))
WEIGHTS = {"tied": TIED, "gain": jnp.arange(1.0, 1 + WIDTH)}
FIXED = jax.random.normal(jax.random.key(1), (WIDTH, 7))
MEMORY = jnp.array([0.3, -0.2, 0.5])
NOISE = jax.random.normal(jax.random.key(3), (LENGTH, 7))


def counting_step(last):
    """A step that counts, reads its weights and a constant, and remembers."""

    def step(weights, carry, noise):
        memory, count, _ = carry
        memory = jnp.tanh(weights["tied"](memory) * weights["gain"])
        output = jnp.sin(memory @ FIXED + noise)
        return (memory, count + 1, count == last), (output, output > 0)

    return step


def stopping(last, weights, memory, noise=NOISE):
    start = (memory, jnp.int32(0), jnp.zeros((), bool))
    carry, output = window.scan(
        counting_step(last), weights, start, noise, until=lambda carry: carry[2]
    )
    return carry[0] @ carry[0] + jnp.sum(output[0] ** 3), (carry[1:], output)


def masked(last, weights, memory):
    step = counting_step(last)

    def one(carry, noise):
        after, outputs = step(weights, carry, noise)
        keep = lambda old, new: jnp.where(carry[2], old, new)  # noqa: E731
        zeros = jax.tree.map(jnp.zeros_like, outputs)
        return jax.tree.map(keep, carry, after), jax.tree.map(keep, zeros, outputs)

    start = (memory, jnp.int32(0), jnp.zeros((), bool))
    carry, output = jax.lax.scan(one, start, NOISE)
    return carry[0] @ carry[0] + jnp.sum(output[0] ** 3), (carry[1:], output)


@functools.partial(jax.jit, static_argnums=0)
def slope(f, last):
    return jax.value_and_grad(f, argnums=(1, 2), has_aux=True)(last, WEIGHTS, MEMORY)


@pytest.mark.parametrize("last", [0, 2, 4, 9])
def test_a_scan_that_stops_is_one_with_the_end_masked(last):
    got, wanted = (slope(f, jnp.int32(last)) for f in (stopping, masked))
    assert got[0][1][0][0] == min(last + 1, LENGTH)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, wanted)


def test_steps_that_are_not_taken_are_not_computed():
    """A step too many would divide by zero, and the gradient would not be a number."""

    def loss(memory):
        def step(_, carry, given):
            memory, count = carry
            memory = memory * given / (2 - count)
            return (memory, count + 1), memory

        start = (memory, jnp.int32(0))
        until = lambda carry: carry[1] == 2  # noqa: E731
        return window.scan(step, None, start, jnp.ones(4), until=until)[1].sum()

    assert jax.grad(loss)(2.0) == 0.5 + 0.5  # memory / 2, then that divided by 1
    assert loss(2.0) == 2.0


def test_weights_are_not_stored_for_each_step():
    trace = jax.make_jaxpr(lambda: slope(stopping, jnp.int32(2)))()
    stored = {
        var.aval.shape
        for eqn in jax.tree.leaves(trace.eqns[0].params["jaxpr"].eqns)
        for var in eqn.outvars
    }
    assert (LENGTH, 7) in stored
    assert (LENGTH, WIDTH, WIDTH) not in stored


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
def test_it_may_be_transformed_before_it_is_differentiated(wrap):
    loss = wrap(lambda memory, noise: stopping(2, WEIGHTS, memory, noise)[0])
    slopes = jax.grad(loss, argnums=(0, 1))(MEMORY, NOISE)
    np.testing.assert_allclose(slopes[0], slope(stopping, jnp.int32(2))[1][1], rtol=1e-5)
    assert not slopes[1].any()  # inputs are constants


def test_it_may_be_part_of_a_scan_and_of_a_batch():
    def loss(memories):
        one = lambda total, memory: (total + stopping(2, WEIGHTS, memory)[0], None)  # noqa: E731
        return jax.lax.scan(one, 0.0, memories)[0]

    memories = jnp.stack([MEMORY, 2 * MEMORY])
    alone = jax.grad(lambda memory: stopping(2, WEIGHTS, memory)[0])
    np.testing.assert_allclose(jax.grad(loss)(memories), jax.vmap(alone)(memories), rtol=1e-5)
