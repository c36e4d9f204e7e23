"""Host environments against compiled ones: the same play, the same update."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wmg import config, registry
from wmg.agents.gru.settings import GRUSettings
from wmg.config import Config, Hyper
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.learn import a3c, host
from wmg.learn.host import Host
from wmg.tools.errors import BadInput
from wmg.types import (
    Agent,
    Env,
    EnvSpec,
    Observation,
    ObservationSpec,
    Output,
    Step,
)

HYPER = Hyper(learning_rate=0.01, discount=0.8, entropy=0.01, adam_eps=0.1, reward_scale=4.0)
AGENT = GRUSettings(embedding=4, size=4, actor_critic=4)
SETTINGS = Config(env=None, agent=AGENT, hyper=HYPER, t_max=3, steps=40, report_every=20, seed=5)


class Place(eqx.Module):
    """Where the walker is, and for how long it has walked."""

    x: jax.Array
    time: jax.Array


class Walk(Env[Place]):
    """A walk that starts at 0 and ends at 2, which pays 1, at -3, or by timeout.

    Nothing in it is random, so that a copy needs no keys.
    """

    limit: int = eqx.field(static=True, default=7)

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(3), 3, self.limit, "success")

    def reset(self, key):
        state = Place(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return state, observe(state)

    def step(self, state, action, key):
        after = Place(state.x + action - 1, state.time + 1)
        won, lost, late = after.x == 2, after.x == -3, after.time == self.limit
        reward = jnp.where(won, 1.0, jnp.where(lost, -1.0, -0.1))
        return Step(after, observe(after), reward, won | lost, late, reward > 0)


def observe(state):
    return Observation(jnp.stack([state.x, state.x**2, state.time]).astype(jnp.float32))


class Copy:
    """A compiled environment behind Gymnasium's functions."""

    def __init__(self, env):
        self.env, self.key = env, jax.random.key(0)
        self.reset_compiled, self.step_compiled = jax.jit(env.reset), jax.jit(env.step)
        self.seeds, self.ends = [], 0

    def reset(self, *, seed=None):
        self.seeds.append(seed)
        self.state, seen = self.reset_compiled(jax.random.clone(self.key))
        return seen, {}

    def step(self, action):
        assert type(action) is int
        step = self.step_compiled(self.state, jnp.int32(action), jax.random.clone(self.key))
        self.state = step.state
        self.ends += bool(step.done)
        ends = bool(step.terminated), bool(step.truncated)
        return step.observation, step.reward, *ends, {}


def copied(env):
    return Host(Copy(env), lambda seen: seen, env.spec)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]


@pytest.mark.parametrize("t_max", [3, 9])
def test_windows_on_the_host_update_like_compiled_ones(t_max):
    env = Walk()
    on_host = copied(env)
    run = host.start_run(SETTINGS, on_host)
    start = env.reset(jax.random.key(0))[0], jax.random.clone(run.key)
    theirs = eqx.tree_at(lambda r: (r.scene.state, r.key), run, start)
    compiled = jax.jit(lambda hyper, run: a3c.window(env, hyper, run, t_max, 1))
    before = leaves(run.agent)
    for _ in range(12):
        until = int(run.steps) + 1
        run, totals = host.train_until(on_host, HYPER, run, until, t_max)
        theirs, expected = compiled(HYPER, theirs)
        assert int(run.steps) == int(theirs.steps)
        for ours, others in zip(jax.tree.leaves(totals), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, others, rtol=1e-5, atol=1e-6)
    kept = [leaves((run.agent, run.scene.memory)), leaves((theirs.agent, theirs.scene.memory))]
    for ours, others in zip(*kept, strict=True):
        np.testing.assert_allclose(ours, others, rtol=1e-4, atol=1e-6)
    assert any((new != old).any() for new, old in zip(leaves(run.agent), before, strict=True))
    assert on_host.env.ends > 0


def test_a_window_takes_one_program_whatever_its_length():
    on_host = copied(Walk())
    run = host.start_run(SETTINGS, on_host)
    run, _ = host.train_until(on_host, HYPER, run, 1, 4)
    learn = host._learn(jax.default_backend())
    before = learn._cache_size()
    run, totals = host.train_until(on_host, HYPER, run, 40, 4)
    assert totals.episodes > 2 and totals.steps < 4 * totals.windows  # some were cut short
    assert learn._cache_size() == before


def test_training_ends_after_its_steps_and_reports_on_the_way():
    shown = []
    result = host.train(SETTINGS, copied(Walk()), show=shown.append)
    assert [progress.steps for progress in shown] == [20, 40]
    assert result.finished and result.scores.shape == (1, 2)
    assert 40 <= int(result.runs.steps[0]) < 43
    assert result.agent(*starting(result.agent)).logits.shape == (3,)


def starting(agent):
    return Walk().reset(jax.random.key(0))[1], agent.initial_memory()


def test_only_the_first_episode_of_a_run_is_seeded():
    on_host = copied(Walk())
    host.train(SETTINGS, on_host)
    first, *others = on_host.env.seeds
    assert first == SETTINGS.seed and others and set(others) == {None}


@pytest.mark.parametrize(
    "change", [{"runs": 2}, {"env": PathfindingSettings()}, {"goal": config.Goal()}]
)
def test_what_a_host_cannot_do_is_refused(change):
    with pytest.raises(BadInput, match="training on a host environment takes settings whose"):
        host.train(dataclasses.replace(SETTINGS, **change), copied(Walk()))


def test_many_environments_are_refused_on_a_host():
    many = dataclasses.replace(SETTINGS, batched=config.Batched(envs=4))
    with pytest.raises(BadInput, match="a host environment is one alone"):
        host.train(many, copied(Walk()))


def test_numbers_that_vary_are_those_of_the_one_run():
    fast = dataclasses.replace(SETTINGS.hyper, learning_rate=0.5)
    given = dataclasses.replace(SETTINGS, steps=16, hyper=fast)
    varied = dataclasses.replace(SETTINGS, steps=16, vary=("learning_rate=0.5",))
    plain = dataclasses.replace(SETTINGS, steps=16)
    agents = [host.train(some, copied(Walk())).agent for some in (given, varied, plain)]
    assert eqx.tree_equal(*agents[:2]) and not eqx.tree_equal(*agents[1:])


class Dice:
    """Shows a number that its seed decides; an episode lasts that many steps and then pays it."""

    def reset(self, *, seed=None):
        self.number, self.time = np.random.default_rng(seed).integers(1, 6), 0
        return self.number, {}

    def step(self, action):
        self.time += 1
        done = self.time == self.number
        reward = float(done) * (self.number - 3) + 0.01 * action
        return self.number, reward, bool(done), False, {}


def dice(count):
    spec = EnvSpec(ObservationSpec(1), 5, 5, "reward")
    observe = lambda number: host.observation(np.array([number], np.float32), {})  # noqa: E731
    return [Host(Dice(), observe, spec) for _ in range(count)]


@pytest.fixture(scope="module")
def gru():
    return registry.make_agent(AGENT, dice(1)[0].spec, jax.random.key(1))


@pytest.fixture(scope="module")
def played(gru):
    return host.evaluate(dice(7), gru, seed=3, episodes=200)


def test_every_episode_is_played_to_its_end_once(played):
    assert len(played.length) == 200
    assert set(played.length.tolist()) == {1, 2, 3, 4, 5}
    paid = played.reward - (played.length - 3)
    assert ((paid >= -1e-5) & (paid <= 0.04 * played.length + 1e-5)).all()


def test_success_is_a_last_reward_above_zero(played):
    assert played.success[played.length > 3].all()
    assert not played.success[played.length < 3].any()


@pytest.mark.parametrize("count", [1, 50, 300])
def test_episodes_do_not_depend_on_how_many_are_played_together(gru, played, count):
    same = host.evaluate(dice(count), gru, seed=3, episodes=200)
    np.testing.assert_array_equal(same.length, played.length)
    np.testing.assert_allclose(same.reward, played.reward, atol=1e-6)


def test_another_seed_plays_other_episodes(gru, played):
    other = host.evaluate(dice(7), gru, seed=4, episodes=200)
    assert (other.length != played.length).any()


def test_sampled_actions_follow_the_policy_and_greedy_ones_its_peak(gru):
    """A new agent's policy is uniform: sampling takes all five actions alike."""
    sampled = host.evaluate(dice(50), gru, seed=1, episodes=500)
    actions = 100 * (sampled.reward - (sampled.length - 3))
    mean = actions.sum() / sampled.length.sum()
    assert abs(mean - 2.0) < 4 * (2.0 / sampled.length.sum()) ** 0.5
    greedy = host.evaluate(dice(50), gru, seed=1, episodes=20, greedy=True)
    np.testing.assert_allclose(greedy.reward, greedy.length - 3, atol=1e-6)


class Counter(Agent[jax.Array]):
    """Its action is the number of steps it remembers."""

    def initial_memory(self):
        return jnp.zeros((), jnp.int32)

    def __call__(self, observation, memory):
        return Output(1e3 * jax.nn.one_hot(memory, 5), jnp.zeros(()), memory + 1)


def test_memory_starts_anew_with_each_episode():
    counted = host.evaluate(dice(3), Counter(), seed=0, episodes=30)
    actions = np.array([sum(range(length)) for length in counted.length])
    np.testing.assert_allclose(counted.reward, counted.length - 3 + 0.01 * actions, atol=1e-5)
