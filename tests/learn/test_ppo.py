"""Many environments at once, against one at a time and against plain restatements."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from probes import (
    AsksLater,
    AsksLaterAboutAWord,
    PaysActionOne,
    core,
    tiny_film,
    tiny_gru,
    tiny_wmg,
)
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.agents.gru.settings import GRUSettings
from wmg.agents.precision import in_precision
from wmg.config import Batched, Hyper
from wmg.envs.batch import Batch
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.learn import losses, ppo
from wmg.learn.ppo import PPO
from wmg.runs import checkpoint, result, train
from wmg.tools.errors import BadInput
from wmg.types import Factors, Observation

HYPER = Hyper(
    learning_rate=3e-3, discount=0.5, entropy=0.01, adam_eps=1e-6, grad_clip=1.0, reward_scale=2.0
)
TWO = Batched(envs=2)
LATER = AsksLater(length=3, actions=2)
PAIR = AsksLater(length=2, actions=2)


def advantages(rollout, ahead, trace):
    reward = HYPER.reward_scale * rollout.reward
    return ppo.advantages(rollout.value, reward, rollout.done, ahead, HYPER.discount, trace)


@pytest.fixture(scope="module")
def played():
    """Two environments that remember a cue for three steps, five steps each: one end."""
    agent = tiny_wmg(LATER.spec, 0, layers=1)
    # Not the first policy, which is uniform whatever it remembers.
    heads = jax.random.normal(jax.random.key(5), agent.actor_critic.policy.weight.shape)
    agent = eqx.tree_at(lambda a: a.actor_critic.policy.weight, agent, heads)

    @jax.jit
    def act(agent):
        scene = PPO(5, TWO).start(LATER, agent, jax.random.key(1)).scene
        after, rollout = ppo.collect(Batch(LATER, 2), agent, scene, jax.random.key(2), 5)
        ahead = jax.vmap(agent)(after.observation, after.memory).value
        advantage = advantages(rollout, ahead, 1.0)
        return ppo.Minibatch(scene.memory, rollout, advantage, advantage + rollout.value), ahead

    return agent, *act(agent)


def windows(played, lane):
    """The steps of one environment, cut where its episodes end."""
    done = np.asarray(played.rollout.done)[:, lane]
    ends = [*(np.flatnonzero(done) + 1), len(done)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def of_one_environment(agent, played, lane, bootstrap):
    """What a3c's loss sums over the windows of one environment."""
    total = jnp.zeros(())
    for start, end in windows(played, lane):
        memory = agent.initial_memory()
        seen = []
        for time in range(start, end):
            observation = jax.tree.map(lambda x: x[time, lane], played.rollout.observation)  # noqa: B023
            output = agent(observation, memory)
            memory = output.memory
            seen.append((output.logits, output.value))
        logits, values = map(jnp.stack, zip(*seen, strict=True))
        steps = slice(start, end)
        action, reward = (x[steps, lane] for x in (played.rollout.action, played.rollout.reward))
        valid = jnp.ones(end - start, bool)
        ahead = 0.0 if np.asarray(played.rollout.done)[end - 1, lane] else bootstrap[lane]
        reward = HYPER.reward_scale * reward
        target = losses.returns(reward, valid, jnp.asarray(ahead), HYPER.discount)
        terms = losses.actor_critic_terms(logits, values, action, target, valid)
        total += losses.weigh(terms, HYPER)
    return total


def test_the_gradient_is_the_mean_of_what_a3c_sums_over_each_environment(played):
    agent, made, ahead = played
    assert made.rollout.done.sum() == 2  # episodes end within the round, and memories with them
    plain = lambda agent: sum(of_one_environment(agent, made, i, ahead) for i in range(2)) / 2  # noqa: E731
    expected = jax.jit(jax.grad(plain))(agent)
    together = jax.jit(jax.grad(lambda agent: PPO(5, TWO).loss(agent, made, HYPER)[0]))
    for one, other in zip(*map(jax.tree.leaves, (together(agent), expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-6)
        assert not np.allclose(one, 0) or one.size < 40


def test_a_replay_by_the_agent_that_acted_is_what_it_did(played):
    agent, made, _ = played
    logits, value = jax.jit(ppo.replay, static_argnums=2)(agent, made, "float32")
    taken = np.take_along_axis(jax.nn.log_softmax(logits), made.rollout.action[..., None], -1)
    np.testing.assert_allclose(taken[..., 0], made.rollout.log_probability, atol=1e-5)
    np.testing.assert_allclose(value, made.rollout.value, atol=1e-5)


def plain_advantages(value, reward, done, ahead, trace):
    expected = np.zeros(value.shape)
    for lane in range(value.shape[1]):
        after, later = float(ahead[lane]), 0.0
        for time in reversed(range(len(value))):
            if done[time, lane]:
                after = later = 0.0
            surprise = 2.0 * float(reward[time, lane]) + 0.5 * after - float(value[time, lane])
            later = surprise + 0.5 * trace * later
            after, expected[time, lane] = float(value[time, lane]), later
    return expected


@pytest.mark.parametrize("trace", [1.0, 0.9, 0.0])
def test_advantages_are_those_of_a_plain_loop(played, trace):
    _, made, ahead = played
    rollout = made.rollout
    expected = plain_advantages(rollout.value, rollout.reward, rollout.done, ahead, trace)
    found = advantages(rollout, ahead, trace)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_windows_of_a_round_are_side_by_side_and_returns_look_past_their_ends(played):
    agent, *_ = played
    settings = Batched(envs=2, windows=3, trace=0.9)

    @jax.jit
    def collect(agent):
        rule = PPO(2, settings)
        run = rule.start(LATER, agent, jax.random.key(1))
        scene, memory, rollout = rule.play(LATER, run, jax.random.key(2))
        made = rule.prepare(agent, scene, memory, rollout, HYPER)
        ahead = jax.vmap(agent)(scene.observation, scene.memory).value
        return made, ahead, ppo.replay(agent, made, "float32")

    made, ahead, (_, value) = collect(agent)
    assert made.rollout.done.shape == (2, 6)
    # A replay says what was said, so the memories are right; later windows begin within episodes.
    np.testing.assert_allclose(value, made.rollout.value, atol=1e-5)
    remembered = np.asarray(made.memory.vectors).any((1, 2))
    assert remembered.tolist() == [False, False, True, True, True, True]
    steps = (made.rollout.value, made.rollout.reward, made.rollout.done)
    value, reward, done, found = (
        np.concatenate(np.split(np.asarray(x), 3, axis=1)) for x in (*steps, made.advantage)
    )
    expected = plain_advantages(value, reward, done, ahead, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(made.target, made.advantage + made.rollout.value)


@pytest.mark.parametrize(
    ("present", "share"),
    [
        ([[4, 5]], ppo.FACTOR_CAPACITY),  # in the mean over environments, nine of sixteen
        ([[4, 6]], 1.0),
        ([[1, 1], [4, 6]], 1.0),  # one step with many is enough
        ([[0, 0], [1, 8]], ppo.FACTOR_CAPACITY),
    ],
)
def test_an_agent_is_in_its_form_for_few_factors_where_there_are_few(present, share, monkeypatch):
    there = jnp.arange(8) < jnp.array(present)[..., None]
    one = lambda there: Observation(jnp.zeros(1), {"cells": Factors(jnp.zeros((8, 1)), there)})  # noqa: E731
    observation = jax.vmap(jax.vmap(one))(there)
    agent = tiny_gru(PAIR.spec, 0)
    monkeypatch.setattr(type(agent), "specialise", lambda *_: "another form")
    found = jax.jit(lambda o: ppo.by_capacity(agent, o, "bfloat16", jnp.float32))(observation)
    assert float(found) == np.float32(share)


def test_an_agent_of_one_form_serves_all():
    only = tiny_gru(PAIR.spec, 0)
    assert ppo.by_capacity(only, core(0, 1), "bfloat16", lambda share: share) == 1.0


@pytest.mark.parametrize(("shift", "moves"), [(0.0, True), (0.5, False)])
def test_an_action_that_has_become_much_likelier_is_not_pushed_further(played, shift, moves):
    agent, made, _ = played
    rollout = dataclasses.replace(
        made.rollout, log_probability=made.rollout.log_probability - shift
    )
    gained = dataclasses.replace(made, rollout=rollout, advantage=jnp.ones_like(made.advantage))
    policy_loss = lambda agent: PPO(5, TWO).loss(agent, gained, HYPER)[1][0]  # noqa: E731
    slope = jax.jit(jax.grad(policy_loss))(agent)
    assert bool(jnp.any(slope.actor_critic.policy.weight != 0)) == moves


@functools.partial(jax.jit, static_argnums=0)
def advance(rule, env, hyper, run, until):
    return rule.advance(env, hyper, run, until)


def rounds(env, kind, settings, count, hyper=HYPER, t_max=4, precision="float32"):
    agent = kind(env.spec, 0)
    rule = PPO(t_max, settings, precision)
    run = jax.jit(lambda: rule.start(env, agent, jax.random.key(0)))()
    return advance(rule, env, hyper, run, jnp.array(count * settings.envs * t_max))


MANY = Batched(envs=16, passes=2, minibatches=4, trace=0.95, normalise=True)


def test_in_bfloat16_the_better_action_is_learned():
    run, _ = rounds(PaysActionOne(actions=2), tiny_gru, Batched(envs=16), 300, precision="bfloat16")
    output = run.agent(core(0, 1), run.agent.initial_memory())
    assert jax.nn.softmax(output.logits)[1] > 0.9


def test_an_agent_without_memory_learns_the_better_action():
    def without_memory(spec, seed=0):
        return tiny_wmg(spec, seed, memory="none", slots=0)

    run, _ = rounds(PaysActionOne(actions=2), without_memory, MANY, 60)
    output = run.agent(core(0, 1), run.agent.initial_memory())
    assert jax.nn.softmax(output.logits)[1] > 0.9


def test_what_an_episode_showed_is_remembered_to_its_end_and_not_beyond():
    run, totals = rounds(PAIR, tiny_wmg, MANY, 100)
    assert int(totals.steps) == int(run.steps) == 100 * 16 * 4
    assert int(run.optimizer.count) == 100 * MANY.updates == 800
    _, last = advance(PPO(4, MANY), PAIR, HYPER, run, run.steps + 20 * 16 * 4)
    assert last.reward / last.episodes > 0.95


def test_film_measures_every_round_and_remembers_a_word_to_the_end_of_an_episode():
    env = AsksLaterAboutAWord(length=2, actions=2)
    run, _ = rounds(env, tiny_film, MANY, 1)
    assert all(seen.mean.any() for seen in run.agent.vision.statistics()[2:])
    again, _ = advance(PPO(4, MANY), env, HYPER, run, run.steps + 100 * 16 * 4)
    changed = (
        again.agent.vision.first_norm.seen.variance != run.agent.vision.first_norm.seen.variance
    )
    assert changed.any()
    _, last = advance(PPO(4, MANY), env, HYPER, again, again.steps + 20 * 16 * 4)
    assert last.reward / last.episodes > 0.95


def test_a_clipped_value_gains_nothing_by_moving_further():
    """Targets 1 away from the old value: up to a change of 0.2 the error falls, then it stays."""
    zeros = jnp.zeros((1, 1))
    error = lambda value: ppo.clipped_terms(  # noqa: E731
        jnp.zeros((1, 1, 2)),
        zeros + value,
        zeros.astype(int),
        zeros,
        zeros,
        zeros + 1.0,
        0.2,
        zeros,
    )[1]
    found = [float(error(value)) for value in (0.0, 0.1, 0.2, 0.5, 1.0)]
    np.testing.assert_allclose(found, [1.0, 0.81, 0.64, 0.64, 0.64], rtol=1e-5)
    assert float(error(-0.5)) == pytest.approx(2.25)  # away from the target it is not clipped


def test_a_run_that_explodes_keeps_the_weights_it_had_before_the_round():
    wild = dataclasses.replace(HYPER, reward_scale=1e38)
    run, totals = rounds(PAIR, tiny_wmg, MANY, 50, hyper=wild)
    assert bool(run.diverged) and int(totals.steps) == int(run.steps) < 50 * 16 * 4
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(run.agent))


@pytest.mark.parametrize("kind", [tiny_wmg, tiny_gru])
def test_in_bfloat16_an_agent_says_nearly_the_same_and_keeps_what_it_is_given_in_float32(kind):
    agent = kind(LATER.spec, 0)
    one_of_each = jax.tree.map(lambda x: x[None], (core(1, 0), agent.initial_memory()))
    say = jax.jit(lambda p: in_precision(agent, p)(*one_of_each), static_argnums=0)
    low, high = (say(p) for p in ("bfloat16", "float32"))
    for one, other in zip(*map(jax.tree.leaves, (low, high)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=0.03)
    assert (low.vector != high.vector).any()


SOME = {
    "env": PathfindingSettings(nodes=3),
    "agent": GRUSettings(embedding=4, size=4, actor_critic=4),
    "batched": Batched(envs=4, passes=2, minibatches=2, trace=0.9),
    "t_max": 3,
}


def test_a_run_goes_on_exactly_where_it_was_interrupted_and_leaves_a_model(tmp_path):
    whole = train.train(tiny.settings(**SOME))
    train.train(tiny.settings(**SOME, steps=240), tmp_path / "run")
    rest = train.train(tiny.settings(**SOME), tmp_path / "run", resume=True)
    assert rest.finished and rest.runs.steps.tolist() == whole.runs.steps.tolist() == [480]
    np.testing.assert_array_equal(rest.scores, whole.scores)
    loaded, settings = checkpoint.load_model(tmp_path / "run" / "best.safetensors")
    assert settings.batched == SOME["batched"]
    for agent in (rest.agent, loaded):
        for one, other in zip(*map(jax.tree.leaves, (agent, whole.agent)), strict=True):
            np.testing.assert_array_equal(one, other)


SPLIT = """
import jax, numpy as np
import tiny
from learn import test_ppo as test_batched
from wmg import registry
from wmg.runs import task
settings = tiny.settings(**test_batched.SOME)
env = registry.make_env(settings.env)
results = []
for backend in ("cpu", "gpu"):
    runs, hyper = task.start_runs(settings, env), task.stack_hypers(settings)
    advance = tiny.over_runs(task.rule_for(settings), env, backend=backend)
    results.append(advance(hyper, runs, 48)[0])
assert len(results[1].scene.observation.core.sharding.device_set) == jax.device_count() == 2
for one, other in zip(*(jax.tree.leaves((r.agent, r.scene.observation)) for r in results)):
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
print("agrees")
"""


def test_environments_split_over_two_devices_agree_with_those_on_one():
    assert tiny.output_on_two_devices(SPLIT) == "agrees\n"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            {"envs": 8, "minibatches": 3},
            "minibatches must be a divisor of envs x windows = 8, got 3",
        ),
        ({"windows": 2}, "envs must be more than 1 where windows are given, got 1"),
        ({"envs": 8, "clip": 1.5}, "clip must be a number from 0 to 1, got 1.5"),
        ({"passes": 2}, "envs must be more than 1 where passes are given, got 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(bad, sentence):
    with pytest.raises(BadInput, match=sentence):
        Batched(**bad)


def test_a_round_reports_means_of_losses_and_the_entropy_of_a_step():
    """Of 3 steps in 4 windows, by a policy that takes one of two actions alike."""
    done = jnp.zeros((3, 4), bool).at[1, 2].set(True).at[2].set(True)
    won = jnp.zeros((3, 4), bool).at[0].set(True).at[1, 2].set(True)
    seen, zeros = Observation(jnp.zeros(1)), jnp.zeros((3, 4))
    rollout = ppo.Rollout(seen, zeros.astype(int), zeros, zeros, zeros + 0.5, done, won)
    terms = ppo.clipped_terms(jnp.zeros((3, 4, 2)), zeros, rollout.action, *[zeros] * 3, clip=0.2)
    one = ppo.totals_of(rollout, (jnp.float32(1.5), jnp.float32(2.5), terms[2], jnp.float32(7)))
    assert (int(one.steps), int(one.episodes), int(one.successes)) == (12, 5, 1)
    two = jax.tree.map(jnp.add, one, one)
    logged = result.record(LATER.spec, two, 24, 1e-3, False)
    assert logged["entropy"] == pytest.approx(np.log(2))
    assert (logged["policy_loss"], logged["value_loss"]) == (1.5, 2.5)
    assert (logged["gradient_norm"], logged["reward"], logged["episodes"]) == (7.0, 12.0, 10)
