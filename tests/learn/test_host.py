"""Host environments against compiled ones: the same play, the same update."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config
from wmg.agents.gru.settings import GRUSettings
from wmg.config import Config, Hyper
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.tally import Tallied
from wmg.learn import a3c, host
from wmg.learn.a3c import A3C
from wmg.learn.host import HostA3C, HostPPO
from wmg.play.host import Host, Lockstep
from wmg.runs import host_task, task, train
from wmg.tools.errors import BadInput, FailedCode
from wmg.types import (
    Env,
    EnvSpec,
    Observation,
    ObservationSpec,
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


def start(on_host, t_max):
    """A rule on the host and a run at its start."""
    rule = HostA3C(A3C(t_max), Lockstep([on_host]))
    runs = task.start_runs(SETTINGS, host.empty_env(on_host.spec))
    return rule, rule.begin(jax.tree.map(lambda leaf: leaf[0], runs), SETTINGS.seed)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]


@pytest.mark.parametrize("t_max", [3, 9])
def test_windows_on_the_host_update_like_compiled_ones(t_max):
    env = Tallied(Walk())
    on_host = copied(Walk())
    rule, run = start(on_host, t_max)
    beginning = env.reset(jax.random.key(0))[0], jax.random.clone(run.key)
    theirs = eqx.tree_at(lambda r: (r.scene.state, r.key), run, beginning)
    compiled = jax.jit(lambda hyper, run: a3c.window(env, hyper, run, A3C(t_max)))
    before = leaves(run.agent)
    for _ in range(12):
        until = int(run.steps) + 1
        run, totals = rule.advance(HYPER, run, until)
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
    rule, run = start(on_host, 4)
    run, _ = rule.advance(HYPER, run, 1)
    learn = host._learn_window(on_host.spec, A3C(4), jax.jit)
    before = learn._cache_size()
    run, totals = rule.advance(HYPER, run, 40)
    assert totals.episodes > 2 and totals.steps < 4 * totals.windows  # some were cut short
    assert learn._cache_size() == before


def test_training_ends_after_its_steps_and_reports_on_the_way():
    shown = []
    result = train.train(SETTINGS, env=copied(Walk()), show=shown.append)
    assert [progress.steps for progress in shown] == [20, 40]
    assert result.finished and result.scores.shape == (1, 2)
    assert 40 <= int(result.runs.steps[0]) < 43
    assert result.agent(*starting(result.agent)).logits.shape == (3,)


def starting(agent):
    return Walk().reset(jax.random.key(0))[1], agent.initial_memory()


def test_only_the_first_episode_of_a_run_is_seeded():
    on_host = copied(Walk())
    train.train(SETTINGS, env=on_host)
    first, *others = on_host.env.seeds
    assert first is not None and others and set(others) == {None}


def first_seeds(seed, runs):
    """What the environments of each run are first reset with."""
    hosts = [[copied(Walk()) for _ in range(4)] for _ in range(runs)]
    some = dataclasses.replace(SETTINGS, batched=MANY, steps=24, seed=seed, runs=runs)
    train.train(some, env=[Lockstep(each) for each in hosts])
    return [[host.env.seeds[0] for host in each] for each in hosts]


def test_environments_of_a_run_have_the_same_seeds_alone_and_in_a_batch():
    batch = first_seeds(0, runs=2)
    assert batch == [*first_seeds(0, runs=1), *first_seeds(1, runs=1)]
    assert len({*batch[0], *batch[1]}) == 8


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"env": PathfindingSettings()},
            "the settings name an environment, and env is another",
        ),
        ({"goal": config.Goal()}, r"on the host there are no tests of a goal, got goal = Goal\("),
    ],
)
def test_what_a_host_cannot_do_is_refused(change, sentence):
    with pytest.raises(BadInput, match=sentence):
        train.train(dataclasses.replace(SETTINGS, **change), env=copied(Walk()))


@pytest.mark.parametrize(
    ("change", "count", "sentence"),
    [
        ({"runs": 2}, 3, "2 runs cannot share 3 host environments"),
        ({"batched": config.Batched(envs=4)}, 1, "a run needs 4 host environments, got 1"),
        ({"runs": 2, "batched": config.Batched(envs=4)}, 4, "a run needs 4 host environments"),
    ],
)
def test_too_few_environments_are_refused(change, count, sentence):
    hosts = [copied(Walk()) for _ in range(count)]
    with pytest.raises(BadInput, match=sentence):
        train.train(dataclasses.replace(SETTINGS, **change), env=hosts)


def test_runs_on_the_host_do_not_depend_on_each_other():
    pair = dataclasses.replace(SETTINGS, runs=2)
    both = train.train(pair, env=[copied(Walk()) for _ in range(2)])
    second = train.train(dataclasses.replace(SETTINGS, seed=6), env=copied(Walk()))
    for one, other in zip(leaves(both.runs.agent), leaves(second.runs.agent), strict=True):
        np.testing.assert_array_equal(one[1], other[0])
        assert (one[0] != one[1]).any() or one[0].size < 8


MANY = config.Batched(envs=4, windows=2, passes=2, minibatches=2, trace=0.9, normalise=True)


def test_the_batched_rule_learns_on_the_host():
    quick = dataclasses.replace(HYPER, learning_rate=0.02, adam_eps=1e-6)
    some = dataclasses.replace(SETTINGS, hyper=quick, steps=2400, report_every=48, batched=MANY)
    result = train.train(some, env=[copied(Walk()) for _ in range(4)])
    assert result.runs.steps.tolist() == [2400]
    assert result.scores[0, -10:].mean() > 90 > result.scores[0, :2].mean()


@pytest.mark.parametrize("batched", [config.Batched(), MANY], ids=["a3c", "ppo"])
def test_a_run_on_the_host_is_resumed_with_a_new_episode(batched, tmp_path):
    some = dataclasses.replace(SETTINGS, batched=batched, steps=48, report_every=24)
    hosts = [copied(Walk()) for _ in range(batched.envs)]
    half = train.train(dataclasses.replace(some, steps=24), tmp_path / "run", env=hosts)
    assert (tmp_path / "run" / "best.safetensors").exists()
    fresh = [copied(Walk()) for _ in range(batched.envs)]
    whole = train.train(some, tmp_path / "run", env=fresh, resume=True)
    assert whole.finished and int(whole.runs.steps[0]) >= 48 and whole.scores.shape == (1, 2)
    np.testing.assert_array_equal(whole.scores[0, 0], half.scores[0, 0])
    assert fresh[0].env.seeds[0] not in (None, hosts[0].env.seeds[0])
    assert any((a != b).any() for a, b in zip(leaves(whole.agent), leaves(half.agent), strict=True))


def test_numbers_that_vary_are_those_of_the_one_run():
    fast = dataclasses.replace(SETTINGS.hyper, learning_rate=0.5)
    given = dataclasses.replace(SETTINGS, steps=16, hyper=fast)
    varied = dataclasses.replace(SETTINGS, steps=16, vary=("learning_rate=0.5",))
    plain = dataclasses.replace(SETTINGS, steps=16)
    agents = [train.train(some, env=copied(Walk())).agent for some in (given, varied, plain)]
    assert eqx.tree_equal(*agents[:2]) and not eqx.tree_equal(*agents[1:])


TOY = dataclasses.replace(SETTINGS, steps=96, report_every=48)


@pytest.mark.parametrize(("count", "batched"), [(1, config.Batched()), (4, MANY)])
@pytest.mark.parametrize("kind", ["next step", "same step", "disabled"])
def test_learning_does_not_depend_on_how_environments_are_stepped(kind, count, batched):
    some = dataclasses.replace(TOY, batched=batched, bootstrap_truncated=True)
    alone = train.train(some, env=toy.single(count))
    vector = train.train(some, env=toy.vector(*toy.VECTORS[kind], count))
    np.testing.assert_array_equal(alone.scores, vector.scores)
    for one, other in zip(leaves(alone.agent), leaves(vector.agent), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a3c_learns_nothing_from_steps_that_only_begin_an_episode():
    alone = train.train(TOY, env=toy.single(1))
    vector = train.train(TOY, env=toy.vector(*toy.VECTORS["unknown, next step"], 1))
    assert eqx.tree_equal(alone.agent, vector.agent)


def played_round(envs):
    """What PPO learns in one round, and the round that was played."""
    some = dataclasses.replace(TOY, batched=MANY)
    rule = HostPPO(task.rule_for(some), envs)
    runs = task.start_runs(some, host.empty_env(envs.spec))
    run = rule.begin(jax.tree.map(lambda leaf: leaf[0], runs), 5)
    return rule, run, host.play_round(rule.rule, envs, run, jax.jit)


def test_ppo_learns_nothing_from_steps_that_only_begin_an_episode():
    rule, run, played = played_round(toy.vector(*toy.VECTORS["unknown, next step"], 4))
    valid = played.rollout["valid"]
    assert 0 < (~valid).sum() < valid.size / 2

    def learn(rollout):
        learned = host._learn_round(rule.rule, jax.jit)
        return learned(run, played._replace(rollout=rollout), HYPER)

    def changed(where):
        rollout, rng = played.rollout, np.random.default_rng(0)
        noise = rng.normal(size=valid.shape).astype(np.float32)
        names = ("value", "log_probability")
        other = {n: np.where(where, noise, rollout[n]) for n in names}
        return learn({**rollout, **other, "action": rollout["action"] * ~where})[0]

    after, totals = learn(played.rollout)
    assert int(totals.steps) == valid.sum() == int(after.steps)
    assert int(totals.episodes) == (played.rollout["done"] & valid).sum()
    assert eqx.tree_equal(after.agent, changed(~valid).agent)
    assert not eqx.tree_equal(after.agent, changed(valid).agent)


class Cut(toy.Toy):
    """Every episode is one step: it pays 1, and is cut off or at its end."""

    ends = False, True

    def step(self, action):
        seen, _, _, _, info = super().step(1)
        return seen, 1.0, *self.ends, info


class Ended(Cut):
    ends = True, False


@pytest.mark.parametrize("rule", ["a3c", "ppo"])
@pytest.mark.parametrize(("kind", "goes_on"), [(Cut, True), (Cut, False), (Ended, True)])
def test_the_value_of_the_last_observation_counts_where_an_episode_is_truncated(
    rule, kind, goes_on
):
    batched = config.Batched() if rule == "a3c" else config.Batched(envs=2)
    some = dataclasses.replace(TOY, t_max=1, batched=batched, bootstrap_truncated=goes_on)
    hosts = [Host(kind(), toy.Plain().observe, toy.SPEC) for _ in range(batched.envs)]
    made = host_task.HostTask(some, hosts)
    runs = made.begin(made.start())
    agent = jax.tree.map(lambda leaf: leaf[0], runs.agent)
    wanted = []
    for first in runs.scene.observation.core.reshape(-1, 3):
        output = agent(Observation(first), agent.initial_memory())
        last = agent(Observation(first.at[2].add(1)), output.memory)
        beyond = HYPER.discount * last.value if goes_on and kind is Cut else 0.0
        wanted.append((HYPER.reward_scale + beyond - output.value) ** 2)
    _, totals = made.advance()(task.stack_hypers(some), runs, 1)
    np.testing.assert_allclose(totals.value_loss[0], np.mean(wanted), rtol=1e-5)


class Fails(toy.Toy):
    """Its own code raises at a step."""

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 70:
            raise KeyError("a mistake of the user's")
        return super().step(action)


def test_a_step_that_raises_is_shown_and_the_folder_can_be_resumed(tmp_path):
    failing = Host(Fails(), toy.Plain().observe, toy.SPEC)
    with pytest.raises(FailedCode, match=r"Fails\.step raises KeyError in line") as raised:
        train.train(TOY, tmp_path / "run", env=failing, save_seconds=0.0)
    assert isinstance(raised.value.__cause__, KeyError)
    again = train.train(TOY, tmp_path / "run", env=toy.single(1), resume=True)
    assert again.finished and again.scores.shape == (1, 2)


def test_scores_are_mean_returns_of_whole_episodes():
    ends = []

    class Counted(toy.Toy):
        def step(self, action):
            seen, reward, *rest = super().step(action)
            self.paid = reward + (self.paid if self.time > 1 else 0.0)
            if any(rest[:2]):
                ends.append(self.paid)
            return seen, reward, *rest

    counted = Host(Counted(), toy.Plain().observe, toy.SPEC)
    result = train.train(dataclasses.replace(TOY, report_every=96), env=counted)
    assert result.spec.metric == "return"
    np.testing.assert_allclose(result.scores, [[np.mean(ends)]], rtol=1e-5)
