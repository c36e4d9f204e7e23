"""The window kernel beside the XLA program: the same runs, up to rounding."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from learn.kernels import emulated, plain

from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config, Hyper
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.learn.a3c import A3C
from wmg.learn.kernels import window
from wmg.learn.kernels.layout import VectorLayout, sizes_of, up
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable
from wmg.learn.kernels.window import WindowKernel, suit
from wmg.paper import find_preset
from wmg.runs.task import stack_hypers
from wmg.runs.train import make_task

SMALL = WMGSettings(
    slots=3, memo_size=10, layers=2, heads=2, head_size=6, hidden=5, actor_critic=12
)
SHAPES = {
    "memos": SMALL,
    "observations": dataclasses.replace(SMALL, memory="observations", hidden=16),
    "one layer": dataclasses.replace(SMALL, layers=1, heads=3, head_size=10),
    "starts empty": dataclasses.replace(SMALL, start="empty", slots=9, memo_size=16),
    "shared heads": dataclasses.replace(SMALL, shared_heads=True, head_size=8),
    "more slots than steps": dataclasses.replace(
        SMALL, memory="observations", slots=17, layers=3, heads=1, head_size=32, actor_critic=130
    ),
}
"""Sizes that are and are not multiples of 4, 8 and 16."""
HYPER = Hyper(learning_rate=1e-3, adam_eps=1e-3, anneal=0.5, anneal_every=12.0, anneal_after=6.0)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(window, "CHUNK", 2)


def make_runs(agent, count=3, nodes=4, vary=()):
    """Settings, environment, numbers and runs with jiggled weights."""
    settings = Config(
        env=PathfindingSettings(nodes=nodes), agent=agent, hyper=HYPER, runs=count, vary=vary
    )
    task = make_task(settings, None)
    runs = task.start()
    chance = np.random.default_rng(7)
    agents = jax.tree.map(
        lambda x: np.float32(x + 0.1 * chance.normal(size=x.shape)), jax.device_get(runs.agent)
    )
    return task.env, stack_hypers(settings), eqx.tree_at(lambda r: r.agent, runs, agents)


def make_kernel(env, runs, launcher=None):
    like = jax.tree.map(lambda x: x[0], runs.agent)
    agent, sizes = suit(A3C(16), env, like, "float32")
    layout = VectorLayout(agent, sizes)
    launch = launcher(layout, sizes) if launcher else plain.launcher(layout, sizes, like)
    return WindowKernel(layout, sizes, launch)


@functools.cache
def by_xla(env):
    """The XLA program, compiled once for each shape of agents."""
    return tiny.over_runs(A3C(16), env)


def by_kernel(env, runs, launcher=None):
    return jax.jit(functools.partial(make_kernel(env, runs, launcher).advance, env))


def take(runs, rows):
    return jax.tree.map(lambda x: x[np.array(rows)], runs)


def assert_same(one, other, most=1e-5):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if not jnp.issubdtype(a.dtype, jnp.inexact):
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, atol=most * float(jnp.abs(b).max() + 1e-30), rtol=0)


@pytest.mark.parametrize("agent", SHAPES.values(), ids=SHAPES)
def test_a_vector_of_parameters_and_back(agent):
    env, _, runs = make_runs(agent)
    kernel = make_kernel(env, runs)
    one = jax.tree.map(lambda x: x[0], runs.agent)
    vector = np.asarray(jax.jit(kernel.layout.pack)(one))
    assert len(vector) % 32 == 0
    assert int((vector != 0).sum()) == sum(int((x != 0).sum()) for x in jax.tree.leaves(one))
    assert_same(jax.jit(kernel.layout.unpack)(vector, one), one, most=0)


def test_the_vector_is_in_the_order_that_the_kernel_reads():
    env, _, runs = make_runs(SMALL)
    one = jax.tree.map(lambda x: x[0], runs.agent)
    vector = np.asarray(make_kernel(env, runs).layout.pack(one))
    qkv = vector[: 3 * 2 * 8 * 24].reshape(3, 2, 8, 24)
    first = one.transformer.layers[0].qkv.weight.reshape(3, 2, 6, 12)
    np.testing.assert_array_equal(qkv[:, :, :6, :12], first)
    assert not qkv[:, :, 6:].any() and not qkv[..., 12:].any()


@pytest.mark.skipif(bool(emulated.MISSING), reason=str(emulated.MISSING))
@pytest.mark.parametrize("agent", SHAPES.values(), ids=SHAPES)
def test_the_emulated_kernel_is_the_xla_program(agent):
    numbers = ("learning_rate=1e-3,2e-3,1e-4", "discount=0.5,0.9,0.1", "grad_clip=16,0.1,1")
    env, hyper, runs = make_runs(agent, vary=numbers)
    until = jnp.array([18, 7, 0])  # three windows, two, none: chunks have two
    with jax.debug_key_reuse(False):  # both ways begin with the same keys
        want, sums = by_xla(env)(hyper, runs, until)
        got, totals = by_kernel(env, runs, emulated.launcher)(hyper, runs, until)
    assert_same(got, want, 1e-6)
    assert_same(totals, sums)


@pytest.mark.skipif(bool(emulated.MISSING), reason=str(emulated.MISSING))
def test_an_emulated_run_that_diverges_stands_still_and_harms_no_other():
    check_divergence(emulated.launcher)


def test_runs_are_those_of_the_xla_program():
    env, hyper, runs = make_runs(SMALL, vary=("learning_rate=1e-3,2e-3,1e-4",))
    until = jnp.array([30, 7, 0])  # five windows, two, none: chunks have two
    advance = by_kernel(env, runs)
    with jax.debug_key_reuse(False):  # both ways begin with the same keys
        want, sums = by_xla(env)(hyper, runs, until)
        got, totals = advance(hyper, runs, until)
        assert list(got.steps) == [30, 12, 0] and got.scene.state.time.sum() == 0
        assert_same((got, totals), (want, sums))
        # From there on, too: nothing that the next report needs was lost.
        assert_same(advance(hyper, got, until + 20), by_xla(env)(hyper, want, until + 20), 1e-4)


def test_a_run_that_diverges_stands_still_and_harms_no_other():
    check_divergence()


def check_divergence(launcher=None):
    env, hyper, runs = make_runs(SMALL)
    bias = jnp.asarray(runs.agent.actor_critic.value.bias)
    broken = eqx.tree_at(lambda r: r.agent.actor_critic.value.bias, runs, bias.at[1].set(jnp.inf))
    until, advance = jnp.full(3, 18, jnp.int32), by_kernel(env, runs, launcher)
    with jax.debug_key_reuse(False):
        want, sums = by_xla(env)(hyper, broken, until)
        got, totals = advance(hyper, broken, until)
        again, _ = advance(hyper, got, until + 6)
    assert list(got.diverged) == [False, True, False] and list(got.steps) == [18, 0, 18]
    assert list(again.steps) == [24, 0, 24]
    assert_same((take(got, [0, 2]), totals), (take(want, [0, 2]), sums))
    assert_same(take(got.key, 1), take(want.key, 1))
    for part in ("scene", "optimizer"):
        assert_same(take(getattr(got, part), 1), take(getattr(broken, part), 1), most=0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"agent": GRUSettings()}, "WMG on Pathfinding"),
        ({"env": BabyAISettings(level="GoToObj")}, "WMG on Pathfinding"),
        ({"t_max": 5}, "t_max must be at least 6"),
        ({"agent": dataclasses.replace(SMALL, memory="none")}, "a memory"),
        ({"agent": dataclasses.replace(SMALL, age="added")}, "ages are concatenated"),
    ],
)
def test_what_it_is_not_made_for_is_said(changes, why):
    settings = Config(**{"env": PathfindingSettings(nodes=4), "agent": SMALL, **changes})
    task = make_task(settings, None)
    with pytest.raises(Unsuitable, match=why):
        suit(A3C(settings.t_max), task.env, task.shape().agent, "float32")


@pytest.mark.skipif(bool(emulated.MISSING), reason=str(emulated.MISSING))
def test_the_emulated_kernel_passes_its_probe():
    env, _, runs = make_runs(SMALL)
    window.probe(make_kernel(env, runs, emulated.launcher))


def idle(layout, sizes):
    """A launcher of a kernel that trains for no windows, whatever it is asked."""

    def launch(*given):
        runs, chunk = given[3].shape[:2]
        work, totals = jnp.zeros((runs, 1)), jnp.zeros((runs, chunk, 5))
        return *given[:3], work, totals, jnp.zeros((runs, 2), jnp.int32)

    return launch


def spoilt(place, number):
    """A launcher of a kernel that returns a wrong number in one of its results."""

    def launch(*given):
        made = list(idle(None, None)(*given))
        made[place] = made[place].at[0, -1].set(number)
        return tuple(made)

    return lambda layout, sizes: launch


def raises(layout, sizes):
    """A launcher of a kernel that the driver refuses."""

    def launch(*given):
        raise RuntimeError("CUDA_ERROR_INVALID_PTX\nand more")

    return launch


def test_a_kernel_that_leaves_everything_as_it_is_passes_its_probe():
    env, _, runs = make_runs(SMALL)
    window.probe(make_kernel(env, runs, idle))


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        (spoilt(0, 0.5), "returned nonsense"),  # a weight has changed
        (spoilt(5, 1), "returned nonsense"),  # a run has diverged
        (raises, "^CUDA_ERROR_INVALID_PTX$"),
    ],
)
def test_a_kernel_that_fails_its_probe_is_not_used(launcher, why):
    env, _, runs = make_runs(SMALL)
    with pytest.raises(NoKernel, match=why):
        window.probe(make_kernel(env, runs, launcher))


def test_sizes_are_rounded_up():
    assert [up(n, 4) for n in (1, 4, 5)] == [4, 4, 8]
    _, _, runs = make_runs(SMALL)
    sizes = sizes_of(jax.tree.map(lambda x: x[0], runs.agent), 6)
    assert sizes.macros()["HEAD"] == 6 and sizes.macros()["MEMOS"] == 1


@pytest.mark.slow
@pytest.mark.skipif(bool(emulated.MISSING), reason=str(emulated.MISSING))
@pytest.mark.parametrize(
    "preset", ["pathfinding/wmg", "pathfinding/nr-wmg", "pathfinding-6-memos/nr-wmg"]
)
def test_the_emulated_kernel_is_the_xla_program_for_a_preset(preset):
    env, hyper, runs = make_runs(find_preset(preset).agent, nodes=7)
    until = jnp.array([24, 12, 0])
    with jax.debug_key_reuse(False):
        want, sums = by_xla(env)(hyper, runs, until)
        got, totals = by_kernel(env, runs, emulated.launcher)(hyper, runs, until)
    assert_same((got, totals), (want, sums), 2e-5)
