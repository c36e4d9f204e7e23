"""Batched programs against mapped ones, of training and of playing."""

import dataclasses
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config, paper, registry
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.learn.a3c import A3C
from wmg.runs import hardware, task, train, xla_options
from wmg.tools import machine

ONE_LAYER = dataclasses.replace(tiny.AGENT, layers=1)


def test_no_number_seed_or_step_count_compiles_anew(caplog):
    env = registry.make_env(PathfindingSettings())
    advance = tiny.over_runs(A3C(16), env)
    for index, seed in enumerate((0, 9)):
        numbers = config.Hyper(
            learning_rate=1e-4 + 0.01 * index,
            discount=0.5 + 0.2 * index,
            anneal_after=1.0 * index,
        )
        some = tiny.settings(runs=2, seed=seed, hyper=numbers)
        runs, hyper = task.start_runs(some, env), task.stack_hypers(some)
        with jax.log_compiles():
            caplog.clear()
            advance(hyper, runs, 24 + 12 * index)
    compiled = [r.getMessage() for r in caplog.records if "ompil" in r.getMessage()]
    assert compiled == [] and advance.args[0]._cache_size() == 1


def start_batch(runs, agent=ONE_LAYER):
    env = registry.make_env(PathfindingSettings(nodes=3))
    some = tiny.settings(
        runs=runs,
        env=PathfindingSettings(nodes=3),
        agent=agent,
        vary=(f"learning_rate={','.join(['1e-3'] * runs)}",),
    )
    return env, task.start_runs(some, env), task.stack_hypers(some)


def as_numbers(tree):
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(tree)
    ]


def test_the_batched_program_agrees_with_the_mapped_one():
    env, runs, hyper = start_batch(3)
    mapped = tiny.over_runs(A3C(16), env, backend="cpu")(hyper, runs, 96)
    batched = tiny.over_runs(A3C(16), env, backend="gpu")(hyper, runs, 96)
    for one, other in zip(as_numbers(mapped), as_numbers(batched), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
    assert (np.asarray(batched[0].steps) == 96).all()


@pytest.mark.gpu
def test_on_a_gpu_a_run_alone_is_the_same_as_among_others_within_rounding():
    preset = dataclasses.replace(paper.PRESETS["pathfinding/wmg"], steps=600)
    several, one = (
        train.train(dataclasses.replace(preset, runs=runs, seed=seed)).runs
        for runs, seed in ((8, 3), (1, 5))
    )
    same, alone = hardware.take(several, 2), hardware.take(one, 0)
    for a, b in zip(*map(as_numbers, (same.scene.state, alone.scene.state)), strict=True):
        np.testing.assert_array_equal(a, b)  # so all actions were the same
    for path, a in jax.tree.leaves_with_path(jax.tree.map(jnp.subtract, same.agent, alone.agent)):
        if "qkv.bias" in jax.tree_util.keystr(path):
            # The gradient of the keys is zero except rounding, which Adam turns into full steps.
            a = jnp.delete(a, slice(len(a) // 3, 2 * len(a) // 3))
        assert float(jnp.abs(a).max()) < 1e-3


SHARDED = """
import logging, jax, numpy as np
import tiny
from runs import test_hardware as test_parallel
from wmg.agents.gru.settings import GRUSettings
from wmg.learn.a3c import A3C
from wmg.play.streams import goal_keys
from wmg.config import Goal
from wmg.runs.active_runs import ActiveRuns
env, runs, hyper = test_parallel.start_batch(4, GRUSettings(2, 2, 2))
records, handler = [], logging.Handler()
handler.emit = lambda record: records.append(record.getMessage())
logging.getLogger("jax").addHandler(handler)
assert jax.device_count() == 2
mapped = tiny.over_runs(A3C(16), env, backend="cpu")(hyper, runs, 96)
over_devices = tiny.over_runs(A3C(16), env, backend="gpu")
split = over_devices(hyper, runs, 96)
assert len(split[0].steps.sharding.device_set) == 2
for one, other in zip(test_parallel.as_numbers(mapped), test_parallel.as_numbers(split)):
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
split, _ = over_devices(hyper, split[0], 192)
assert (np.asarray(split.steps) == 192).all()
trials = tiny.goal_tester(env, Goal(0.01, 20), 3, backend="gpu")
assert trials.at_once == 4  # two for each device
keys = goal_keys(np.array([2]), 1, 1)
with jax.log_compiles():
    (tested,) = trials(split.agent, np.array([2]), keys)
assert tested[1] == 20
batch = ActiveRuns(split, hyper)
batch.drop(np.array([0, 1, 3]))
one, _ = over_devices(batch.hyper, batch.runs, 0)
with jax.log_compiles():
    assert trials(one.agent, np.array([0]), keys) == [tested]
assert len([r for r in records if "XLA compilation of jit(play)" in r]) == 1
batch.runs, _ = over_devices(batch.hyper, one, 240)
assert len(batch.runs.steps.sharding.device_set) == 1
assert batch.all().steps.tolist() == [192, 192, 240, 192]
print("agrees")
"""


def test_runs_split_over_two_devices_agree_with_those_on_one():
    assert tiny.output_on_two_devices(SHARDED) == "agrees\n"


@pytest.mark.parametrize(
    ("processor", "widest"),
    [("x86_64", {"xla_cpu_max_isa": "AVX2"}), ("AMD64", {"xla_cpu_max_isa": "AVX2"}), ("arm", {})],
)
def test_programs_for_the_cpu_use_one_thread_and_no_512_bit_code(monkeypatch, processor, widest):
    monkeypatch.setattr(xla_options.platform, "machine", lambda: processor)
    one_thread = {
        "xla_cpu_multi_thread_eigen": False,
        "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    }
    assert xla_options.for_cpu() == one_thread | widest


def test_no_loop_of_a_program_for_the_cpu_is_split_over_threads():
    def loops(x):
        return jnp.tanh(x) * 2 + jnp.exp(x)

    def compiled(options):
        program = jax.jit(loops).lower(jnp.zeros((2000, 2000))).compile(compiler_options=options)
        return str(program.as_text())

    assert "outer_dimension_partitions" not in compiled(xla_options.for_cpu())
    if machine.cores() > 1:
        assert "outer_dimension_partitions" in compiled({})


def test_what_fails_on_one_core_does_not_wait_for_the_others(monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: 2)
    begun, blocked, ended = (threading.Event() for _ in range(3))

    def work(index):
        if index == 0:
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        blocked.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        hardware.map_over_cores(work, 2)
    assert begun.is_set() and not ended.is_set()
    blocked.set()


def matmul_precisions(text):
    return set(re.findall(r"precision = \[(\w+), \w+\]", text))


@pytest.mark.parametrize(("precision", "expected"), [("float32", "HIGHEST"), ("tf32", "HIGH")])
def test_on_an_accelerator_all_products_are_compiled_for_the_precision(precision, expected):
    """The program's text: what JAX hands to the compiler."""
    env = registry.make_env(PathfindingSettings(nodes=3))
    settings = tiny.settings(env=PathfindingSettings(nodes=3))
    run = hardware.take(task.start_runs(settings, env), 0)

    def learn(run):
        with tiny.made_for("gpu"), hardware.products(precision):
            return A3C(4).advance(env, settings.hyper, run, jnp.array(8))

    text = jax.jit(learn).lower(run).as_text()
    assert text.count("dot_general") > 20 and matmul_precisions(text) == {expected}


def test_on_a_cpu_the_precision_changes_no_bit():
    env = registry.make_env(PathfindingSettings(nodes=3))
    settings = tiny.settings(env=PathfindingSettings(nodes=3))
    runs, hyper = task.start_runs(settings, env), task.stack_hypers(settings)
    agents = [
        tiny.over_runs(A3C(4), env, precision)(hyper, jax.tree.map(jnp.copy, runs), 48)[0]
        for precision in ("float32", "tf32")
    ]
    same = jax.tree.map(lambda a, b: bool((a == b).all()), agents[0].agent, agents[1].agent)
    assert all(jax.tree.leaves(same))
    assert hardware.computed_precision("tf32") == "float32"


def test_options_of_a_gpu_are_for_gpus():
    assert xla_options.for_gpu() == {}
