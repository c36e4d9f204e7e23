"""The kernels, interpreted, against the Transformer they stand in for."""

import sys
import types

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from plain import shaken
from probes import AsksLater
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.agents.wmg.agent import WMG
from wmg.agents.wmg.transformer import Transformer
from wmg.config import Batched, Hyper
from wmg.learn.ppo import PPO

fused = pytest.importorskip(
    "wmg.agents.wmg.kernels", reason="this jax has no Pallas for Triton", exc_type=ImportError
)

ENVS, NODES, HEADS, SIZE = 3, 11, 2, 32


@pytest.fixture(scope="module")
def model():
    return shaken(Transformer.create(2, HEADS, SIZE // HEADS, 6, key=jax.random.key(0)))


@pytest.fixture(scope="module")
def nodes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ENVS, NODES, SIZE)).astype(np.float32)
    present = rng.random((ENVS, NODES)) < 0.6
    present[:, 0] = True
    return jnp.asarray(x), jnp.asarray(present)


def kernels_of(model):
    return fused.FusedTransformer.of(model, NODES)


def both_ways(form, model, x, present):
    """The Cores, and the gradients of a sum over them by weights and by nodes."""

    @jax.jit
    def run(model, x):
        def total(model, x):
            core, _ = form(model).of_all(x, present)
            return (core.astype(jnp.float32) * jnp.arange(SIZE)).sum(), core

        return jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(model, x)

    (_, core), (by_weights, by_nodes) = run(model, x)
    return core, [by_nodes, *jax.tree.leaves(by_weights)]


def test_cores_and_all_gradients_are_those_of_the_transformer(model, nodes):
    core, gradients = both_ways(kernels_of, model, *nodes)
    want, wanted = both_ways(lambda model: model, model, *nodes)
    np.testing.assert_allclose(core, want, atol=2e-5)
    for one, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * float(jnp.abs(other).max()) + 1e-6)


def test_in_bfloat16_they_are_no_further_from_it_than_the_transformer_is(model, nodes):
    x, present = nodes
    short = jax.tree.map(lambda x: x.astype(jnp.bfloat16), model)
    exact = both_ways(lambda model: model, model, x, present)
    forms = kernels_of, lambda model: model
    ours, plain = (both_ways(form, short, x.astype(jnp.bfloat16), present) for form in forms)

    def distance(found):
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
        return np.array([jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in pairs])

    assert 0 < distance(ours).max() < 0.05
    assert distance(ours).mean() < 1.2 * distance(plain).mean()


def test_the_content_of_absent_nodes_changes_nothing(model, nodes):
    x, present = nodes
    other = jnp.where(present[..., None], x, 100 * x + 5)
    kernels = kernels_of(model)
    np.testing.assert_array_equal(kernels.of_all(x, present)[0], kernels.of_all(other, present)[0])


def test_a_list_with_just_enough_room_serves_as_well(model):
    rng = np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(6, NODES, SIZE)), jnp.float32)
    # A full environment last: its block of rows ends where the list may end.
    present = jnp.arange(NODES) < jnp.array([1, 3, 4, 2, 1, NODES])[:, None]
    assert int(present.sum()) == 22
    short, long = (
        both_ways(lambda m, room=room: fused.FusedTransformer.of(m, room), model, x, present)
        for room in (4, NODES)
    )
    for one, other in zip(*map(jax.tree.leaves, (short, long)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * float(jnp.abs(other).max()))


def test_what_lies_where_no_node_is_needed_is_finite_and_gets_no_gradient(model, nodes):
    x, present = nodes
    places = fused.Places.of(present, NODES)
    layer = fused.FusedLayer.of(model.layers[0])
    rows = fused._pack(x.reshape(-1, SIZE), places)
    block = fused._power_of_two(NODES)
    _, (*_, total) = fused._apply_forward(layer, rows, places.segments, HEADS, block)
    assert len(total) > int(present.sum()) and bool(jnp.isfinite(total).all())
    _, back = jax.vjp(lambda x: fused.apply(layer, x, places.segments, HEADS, block), rows)
    needed = jnp.arange(len(rows)) < present.sum()
    (slope,) = back(jnp.where(needed[:, None], 1.0 + rows, 0.0))
    np.testing.assert_array_equal(slope[~needed], 0)
    assert bool((slope[needed] != 0).any())


def test_several_agents_at_once_are_as_one_at_a_time(model, nodes):
    models = jax.tree.map(lambda x: jnp.stack([x, 1.5 * x]), model)
    cores = lambda model: kernels_of(model).of_all(*nodes)[0]  # noqa: E731
    for index, found in enumerate(jax.vmap(cores)(models)):
        one = jax.tree.map(lambda x, at=index: x[at], models)
        np.testing.assert_allclose(found, cores(one), atol=2e-5)


@pytest.mark.parametrize(
    "change",
    [
        *({"head_size": 8}, {"head_size": 24}, {"heads": 3}, {"hidden": 17}, {"head_size": 512}),
        *({"heads": 16, "head_size": 32}, {"heads": 1, "head_size": 128}),
    ],
)
def test_layers_that_there_are_no_kernels_for_are_refused(change):
    shape = {"heads": 2, "head_size": 16, "hidden": 16}

    def make(**shape):
        return jax.eval_shape(lambda: Transformer.create(2, **shape, key=jax.random.key(0)))

    assert fused.fits(make(**shape), 128) and not fused.fits(make(**shape), 129)
    assert not fused.fits(make(**shape | change), 16)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
def test_the_kernels_can_be_translated_for_a_gpu(model, nodes, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # or they would be interpreted
    short = jax.tree.map(lambda x: x.astype(jnp.bfloat16), model)

    def total(model):
        core, _ = kernels_of(model).of_all(nodes[0].astype(jnp.bfloat16), nodes[1])
        return core.astype(jnp.float32).sum()

    traced = jax.jit(jax.grad(total)).trace(short)
    try:
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    except RuntimeError as error:
        pytest.skip(str(error))  # newer versions of jax ask which GPU there is
    # In each layer, two ways there and two back. jax 0.10.0 writes two that are equal once.
    assert text.count("xla.gpu.triton") in (2 * 4, 2 * 4 - 1)


PROBE = AsksLater(length=3, actions=2)
MANY = Batched(envs=4)


@pytest.fixture(scope="module")
def agent():
    shape = {"layers": 1, "heads": 2, "head_size": 16, "hidden": 8, "actor_critic": 8}
    memory = {"memory": "memos", "slots": 3, "memo_size": 8, "start": "empty", "age": "added"}
    return WMG(
        PROBE.spec.observation, 2, **shape, **memory, shared_heads=True, key=jax.random.key(0)
    )


def a_gpu(monkeypatch, count=1, generation="9.0"):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "device_count", lambda: count)
    device = types.SimpleNamespace(compute_capability=generation)
    monkeypatch.setattr(jax, "devices", lambda: [device] * count)


def kernels_for(agent, precision):
    observation = jax.eval_shape(lambda: PROBE.reset(jax.random.key(0))[1])
    ready = agent.specialise(observation, precision)
    return isinstance(ready.transformer, fused.FusedTransformer)


def test_an_agent_uses_them_in_bfloat16_on_one_gpu_alone(agent, monkeypatch):
    assert not kernels_for(agent, "bfloat16")
    a_gpu(monkeypatch)
    assert kernels_for(agent, "bfloat16") and not kernels_for(agent, "float32")
    a_gpu(monkeypatch, count=2)
    assert not kernels_for(agent, "bfloat16")


@pytest.mark.parametrize("generation", ["7.5", "gfx90a"])
def test_older_gpus_and_those_of_others_do_without_them(agent, monkeypatch, generation):
    a_gpu(monkeypatch, generation=generation)
    assert not kernels_for(agent, "bfloat16")


def test_without_the_part_of_jax_they_are_written_in_it_does_without_them(agent, monkeypatch):
    a_gpu(monkeypatch)
    monkeypatch.setitem(sys.modules, "wmg.agents.wmg.kernels", None)
    monkeypatch.delattr("wmg.agents.wmg.kernels")
    assert not kernels_for(agent, "bfloat16")


def test_a_round_of_training_with_them_learns_the_same(agent, monkeypatch):
    hyper = Hyper(learning_rate=1e-3, adam_eps=1e-3, grad_clip=1e3)

    def after_a_round():
        rule = PPO(5, MANY, "bfloat16")
        run = rule.start(PROBE, agent, jax.random.key(1))
        return jax.jit(rule.one_round)(PROBE, hyper, run)

    plain, plain_totals = after_a_round()
    kernels = fused.FusedTransformer.of
    nodes = 1 + 3
    monkeypatch.setattr(
        WMG, "specialise",
        lambda self, *_: eqx.tree_at(
            lambda a: a.transformer, self, kernels(self.transformer, nodes)
        ),
    )  # fmt: skip
    ours, totals = after_a_round()
    assert int(totals.steps) == int(plain_totals.steps) == 20
    np.testing.assert_allclose(totals.value_loss, plain_totals.value_loss, rtol=0.05)
    one, other, before = (
        jax.flatten_util.ravel_pytree(a)[0] for a in (ours.agent, plain.agent, agent)
    )
    assert 0 < jnp.linalg.norm(one - other) < 0.1 * jnp.linalg.norm(other - before)
