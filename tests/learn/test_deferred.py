"""Deferred weight gradients against plain automatic differentiation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import build, tiny_gru, tiny_wmg

from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.layers import Linear
from wmg.learn import deferred
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
]


def model_of(kind):
    """A model with noisy parameters, and the memory it starts with."""
    if kind == "wmg":
        agent = plain.shaken(tiny_wmg(FACTORED, slots=2), by=0.3)
        return agent, agent.initial_memory()
    if kind == "gru":
        agent = plain.shaken(tiny_gru(CORE))
        return agent, agent.initial_memory()
    if kind == "cnn-gru":
        agent = plain.shaken(build(CNNGRUSettings((3, 4, 5), 4, 6, 8), IMAGE), by=0.2)
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
        image = numbers(7, 7, 2) if kind == "cnn-gru" else None
        return Observation(numbers(3), factors if kind == "wmg" else {}, image)

    return jax.tree.map(lambda *steps: jnp.stack(steps), *[one() for _ in range(TIME)])


def both_ways(kind):
    """((loss, aux), gradient), deferred and plain, of a sum of squares over a scan."""
    model, memory = model_of(kind)
    seen = observations(kind)

    def scan(rest, model_at, taps):
        def step(memory, inputs):
            observation, tap = inputs
            model, inputs_of = model_at(tap)
            summary = model.summarise(observation, memory)
            return summary.memory, (summary.vector, inputs_of())

        _, (summaries, inputs) = jax.lax.scan(step, memory, (seen, taps))
        logits, values = rest.decide(summaries)
        return (logits**2).sum() + 0.5 * (values**2).sum(), (values, inputs)

    @eqx.filter_jit
    def run(model):
        first = jax.tree.map(lambda x: x[0], seen)
        late = deferred.value_and_grad(scan, model, lambda m: m.summarise(first, memory), TIME)
        moving, fixed = eqx.partition(model, eqx.is_inexact_array)

        def plain_loss(moving):
            model = eqx.combine(moving, fixed)
            value, (aux, _) = scan(model, lambda tap: (model, lambda: None), None)
            return value, aux

        return late, jax.value_and_grad(plain_loss, has_aux=True)(moving)

    return model, *run(model)


@pytest.mark.parametrize("kind", ["wmg", "gru", "cnn-gru", *STUBS])
def test_loss_and_gradient_equal_those_of_plain_differentiation(kind):
    model, late, at_once = both_ways(kind)
    want = jax.tree.structure(eqx.filter(model, eqx.is_inexact_array))
    assert jax.tree.structure(late[1]) == want
    for got, wanted in zip(jax.tree.leaves(late), jax.tree.leaves(at_once), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert any(np.abs(leaf).max() > 0.1 for leaf in jax.tree.leaves(late[1]))


@pytest.mark.parametrize(
    ("kind", "deferred_layers"),
    [
        (EachOnce, [True, True, False]),
        (OneLayerTwice, [False, False, False]),
        (CalledAndReadDirectly, [False, True, False]),
        (Backwards, [True, True, False]),
        (Parts, [False, True, True]),
        (BlocksForwards, [False, True, True]),
        (ReadInAnotherWay, [False, True, False]),
        (OnePartOnly, [False, True, False]),
        (OnePartTwice, [False, False, False]),
        (PartsAndTheWhole, [False, False, False]),
        (SplitTwice, [False, False, False]),
        (OnePartRead, [False, False, False]),
    ],
)
def test_a_layer_is_deferred_only_if_a_step_uses_all_of_it_exactly_once(kind, deferred_layers):
    model, memory = model_of(kind)
    first = jax.tree.map(lambda x: x[0], observations(kind))
    plans = deferred.find_plans(model, lambda m: m.summarise(first, memory))
    assert [plan is not None for plan in plans] == deferred_layers


def test_every_layer_of_wmg_that_steps_use_is_deferred():
    model, memory = model_of("wmg")
    first = jax.tree.map(lambda x: x[0], observations("wmg"))
    plans = deferred.find_plans(model, lambda m: m.summarise(first, memory))
    decide = jax.tree.leaves(model.actor_critic, is_leaf=lambda node: isinstance(node, Linear))
    assert None not in plans[: -len(decide)] and plans[-len(decide) :] == [None] * len(decide)
