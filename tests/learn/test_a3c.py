"""The learning rule, on tables small enough to work out by hand."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain import chi_square, chi_square_limit, softmax
from probes import AsksLater, Errand, PaysTheCue, tiny_gru

from wmg import registry
from wmg.agents.baselines.agent import Random
from wmg.agents.layers import Linear
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Hyper
from wmg.learn import a3c, losses, optimizer
from wmg.learn.a3c import A3C
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Learner, Observation, ObservationSpec, Step, Summary, sample

LIMIT = 8
HYPER = Hyper(
    learning_rate=0.1,
    discount=0.9,
    entropy=0.05,
    adam_eps=0.1,
    grad_clip=1000.0,
    reward_scale=1.0,
)
REWARDS = (1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 4.0)
VALUES = (0.3, -0.7, 1.1, 0.2, -0.4, 0.9, 0.6, -0.2)


class Played(eqx.Module):
    """How far the script has been played, and what was done."""

    time: jax.Array
    actions: jax.Array


class Script(Env[Played]):
    """Pays a list of rewards whatever is done, and shows the time as a one-hot."""

    rewards: jax.Array
    ends: jax.Array
    """The episode's length, of at most LIMIT."""
    by_timeout: jax.Array

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(LIMIT + 1), 2, LIMIT, "reward")

    def reset(self, key):
        state = Played(jnp.zeros((), jnp.int32), jnp.zeros(LIMIT, jnp.int32))
        return state, observe(state)

    def step(self, state, action, key):
        after = Played(state.time + 1, state.actions.at[state.time].set(action))
        done = after.time == self.ends
        ends = done & ~self.by_timeout, done & self.by_timeout
        return Step(after, observe(after), self.rewards[state.time], *ends, done)


def observe(state):
    return Observation(jax.nn.one_hot(state.time, LIMIT + 1))


class Table(Learner[None]):
    """A value and two logits for each time."""

    values: jax.Array
    logits: jax.Array

    def initial_memory(self):
        return None

    def summarise(self, observation, memory):
        return Summary(observation.core, None)

    def decide(self, summary):
        return summary @ self.logits, summary @ self.values


class Notebook(Learner[jax.Array]):
    """Writes `write` times a mark; its value is what it wrote in the step before."""

    write: jax.Array

    def initial_memory(self):
        return jnp.zeros(())

    def summarise(self, observation, memory):
        return Summary(memory[None], self.write * (1.0 + observation.core[0]))

    def decide(self, summary):
        return jnp.zeros((*summary.shape[:-1], 2)), summary[..., 0]


def script(ends=5, rewards=REWARDS, by_timeout=False):
    return Script(jnp.array(rewards), jnp.array(ends), jnp.array(by_timeout))


def table(values=VALUES):
    draw = np.random.default_rng(0)
    logits = jnp.asarray(draw.normal(size=(LIMIT + 1, 2)), jnp.float32)
    return Table(jnp.array([*values, 0.0]), logits)


@functools.partial(jax.jit, static_argnums=4)
def train(env, hyper, run, until, t_max):
    return A3C(t_max).advance(env, hyper, run, until)


update = jax.jit(optimizer.update)


def start(env, agent, seed=0):
    return A3C(1).start(env, agent, jax.random.key(seed))


def one_window(env, agent, t_max, hyper=HYPER):
    return train(env, hyper, start(env, agent), jnp.array(1), t_max)


def leaves(tree):
    """The arrays of a PyTree in numpy, keys as their numbers."""
    arrays = jax.tree.leaves(tree)
    keys = [jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) for x in arrays]
    pairs = zip(arrays, keys, strict=True)
    return [np.asarray(jax.random.key_data(x) if is_key else x) for x, is_key in pairs]


def assert_same(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def returns_by_hand(rewards, bootstrap, discount):
    out, after = [], bootstrap
    for reward in reversed(rewards):
        after = reward + discount * after
        out.insert(0, after)
    return out


def value_loss_by_hand(rewards, values, bootstrap, discount=0.9):
    targets = returns_by_hand(rewards, bootstrap, discount)
    return sum((r - v) ** 2 for r, v in zip(targets, values, strict=True))


# Returns and losses


def test_returns_match_the_definition():
    rewards = [1.0, 0.0, -2.0, 0.5]
    got = losses.returns(jnp.array(rewards), jnp.ones(4, bool), jnp.float32(3.0), 0.9)
    np.testing.assert_allclose(got, returns_by_hand(rewards, 3.0, 0.9), rtol=1e-6)


def test_steps_that_are_not_valid_pass_the_return_through():
    valid = jnp.array([True, True, False, False])
    got = losses.returns(jnp.array([1.0, 2.0, 100.0, 100.0]), valid, jnp.float32(4.0), 0.5)
    np.testing.assert_allclose(got, [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4, 4], rtol=1e-6)


def loss_terms(window, bootstrap, hyper, valid=None):
    """The terms of the loss of logits, values, actions and rewards."""
    logits, values, actions, rewards = window
    valid = [True] * len(values) if valid is None else valid
    logits, values, rewards = (jnp.array(x, jnp.float32) for x in (logits, values, rewards))
    valid = jnp.array(valid)
    actions = jnp.array(actions, jnp.int32)
    rewards = rewards * hyper.reward_scale
    target = losses.returns(rewards, valid, jnp.float32(bootstrap), hyper.discount)
    return losses.actor_critic_terms(logits, values, actions, target, valid)


def losses_by_hand(logits, values, actions, rewards, bootstrap, hyper):
    rewards = [reward * hyper.reward_scale for reward in rewards]
    policy_loss = value_loss = entropy = 0.0
    for i, target in enumerate(returns_by_hand(rewards, bootstrap, hyper.discount)):
        policy = softmax(logits[i])
        policy_loss -= np.log(policy[actions[i]]) * (target - values[i])
        value_loss += (target - values[i]) ** 2
        entropy -= sum(p * np.log(p) for p in policy)
    return policy_loss, value_loss, entropy


WINDOW = ([[1.0, -1.0, 0.0], [0.5, 2.0, 0.0]], [0.3, -0.4], [2, 1], [1.0, -2.0])


def test_losses_match_the_definition():
    hyper = dataclasses.replace(HYPER, reward_scale=3.0)
    got = loss_terms(WINDOW, 0.7, hyper)
    np.testing.assert_allclose(got, losses_by_hand(*WINDOW, 0.7, hyper), rtol=1e-5)


def test_losses_are_sums_not_means():
    hyper = dataclasses.replace(HYPER, discount=0.0)
    one = [part[:1] for part in WINDOW]
    twice = [part * 2 for part in one]
    alone, doubled = (loss_terms(w, 0.0, hyper) for w in (one, twice))
    np.testing.assert_allclose(doubled, 2 * np.array(alone), rtol=1e-6)


def test_masked_steps_do_not_count_in_any_loss():
    longer = [[*part, *part] for part in WINDOW]
    got = loss_terms(longer, 0.7, HYPER, valid=[True, True, False, False])
    np.testing.assert_allclose(got, losses_by_hand(*WINDOW, 0.7, HYPER), rtol=1e-5)


def test_actions_are_sampled_from_the_policy():
    logits = jnp.array([1.0, 0.0, -1.0])
    noise = jax.random.gumbel(jax.random.key(0), (10_000, 3))
    actions = jax.jit(jax.vmap(lambda noise: sample(logits, noise)))(noise)
    expected = 10_000 * softmax([1.0, 0.0, -1.0])
    assert chi_square(np.bincount(actions, minlength=3), expected) < chi_square_limit(2)


# Windows


@pytest.mark.parametrize(
    ("goal", "ends_at"), [(1, 2), (2, 2), (3, 4), (5, 5), (6, 7), (10, 10), (11, 12)]
)
def test_windows_end_at_t_max_or_with_the_episode(goal, ends_at):
    env = script(ends=5)
    run, totals = train(env, HYPER, start(env, table()), jnp.array(goal), 2)
    assert run.steps == totals.steps == ends_at


def test_totals_count_windows_episodes_and_successes():
    env = script(ends=5)
    _, totals = train(env, HYPER, start(env, table()), jnp.array(11), 3)
    assert (totals.windows, totals.episodes, totals.successes) == (5, 2, 2)
    np.testing.assert_allclose(totals.reward, 2 * sum(REWARDS[:5]) + sum(REWARDS[:3]))


def test_steps_after_the_end_of_an_episode_do_not_count():
    _, totals = one_window(script(ends=3), table(), t_max=LIMIT)
    assert totals.steps == 3
    np.testing.assert_allclose(totals.reward, sum(REWARDS[:3]))
    want = value_loss_by_hand(REWARDS[:3], VALUES[:3], bootstrap=0.0)
    np.testing.assert_allclose(totals.value_loss, want, rtol=1e-5)


def test_a_window_that_does_not_end_the_episode_bootstraps_from_the_next_value():
    _, totals = one_window(script(), table(), t_max=2)
    want = value_loss_by_hand(REWARDS[:2], VALUES[:2], bootstrap=VALUES[2])
    np.testing.assert_allclose(totals.value_loss, want, rtol=1e-5)


@pytest.mark.parametrize("by_timeout", [False, True])
def test_nothing_follows_the_end_of_an_episode_also_by_timeout(by_timeout):
    _, totals = one_window(script(ends=2, by_timeout=by_timeout), table(), t_max=2)
    want = value_loss_by_hand(REWARDS[:2], VALUES[:2], bootstrap=0.0)
    np.testing.assert_allclose(totals.value_loss, want, rtol=1e-5)


class Level(Learner[None]):
    """One value for all times, so that an update changes the next value too."""

    level: jax.Array

    def initial_memory(self):
        return None

    def summarise(self, observation, memory):
        return Summary(observation.core, None)

    def decide(self, summary):
        rows = summary.shape[:-1]
        return jnp.zeros((*rows, 2)), jnp.broadcast_to(self.level, rows)


class Shared(Level):
    """Decides by the layer it summarises with."""

    layer: Linear

    def summarise(self, observation, memory):
        return Summary(self.layer(observation.core), None)

    def decide(self, summary):
        return self.layer(summary)[..., :2], summary[..., 0]


class VectorsOnly(Level):
    """Decides by a layer that takes one vector, and no rows."""

    layer: eqx.nn.Linear

    def decide(self, summary):
        logits = self.layer(summary)
        return logits, self.level + logits[0]


class NoValue(Level):
    """Returns a vector where the value should be."""

    def decide(self, summary):
        return jnp.zeros(2), summary


def plain_scan(step, agent, carry, inputs, **_):
    return jax.lax.scan(lambda carry, given: step(agent, carry, given), carry, inputs)


def test_a_layer_that_both_parts_share_gets_both_gradients(monkeypatch):
    layer = Linear.create(LIMIT + 1, LIMIT + 1, key=jax.random.key(0))
    agent = Shared(jnp.float32(0.5), layer)
    window = lambda run: a3c.window(script(), HYPER, run, A3C(3))[1].gradient_norm  # noqa: E731
    got = jax.jit(window)(start(script(), agent))
    monkeypatch.setattr(a3c, "scan", plain_scan)
    wanted = jax.jit(lambda run: window(run))(start(script(), agent))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_an_agent_may_decide_for_one_step_at_a_time():
    layer = eqx.nn.Linear(LIMIT + 1, 2, key=jax.random.key(0))
    agent = VectorsOnly(jnp.float32(0.5), layer)
    _, totals = one_window(script(), agent, t_max=2)
    values = 0.5 + layer.weight[0, :3] + layer.bias[0]
    want = value_loss_by_hand(REWARDS[:2], values[:2], bootstrap=values[2])
    np.testing.assert_allclose(totals.value_loss, want, rtol=1e-5)


def test_an_agent_that_decides_without_a_value_is_refused():
    with pytest.raises(BadInput, match="decide of NoValue must return a vector of logits and one"):
        one_window(script(), NoValue(jnp.float32(0.5)), t_max=2)


def test_an_agent_that_is_no_learner_is_refused():
    agent = Random(ObservationSpec(LIMIT + 1), 2, key=jax.random.key(0))
    with pytest.raises(BadInput, match="Random cannot be trained: it does not derive from"):
        A3C(1).start(script(), agent, jax.random.key(0))


def test_the_bootstrap_is_a_constant_made_by_the_weights_before_the_update():
    hyper = dataclasses.replace(HYPER, adam_eps=0.0)
    run, totals = one_window(script(), Level(jnp.float32(0.5)), t_max=1, hyper=hyper)
    target = REWARDS[0] + 0.9 * 0.5
    np.testing.assert_allclose(totals.value_loss, (target - 0.5) ** 2, rtol=1e-5)
    np.testing.assert_allclose(totals.gradient_norm, target - 0.5, rtol=1e-5)
    np.testing.assert_allclose(run.agent.level, 0.5 + 0.1, rtol=1e-5)


def test_no_gradient_reaches_the_value_of_the_next_observation():
    before = table()
    run, _ = one_window(script(), before, t_max=2)
    changed = np.asarray(run.agent.values != before.values)
    assert changed.tolist() == [True] * 2 + [False] * (LIMIT - 1)


def adams_first_step(gradient):
    return -0.1 * gradient / (np.abs(gradient) + 0.1)


def test_a_window_changes_every_parameter_as_the_loss_says():
    before = table()
    run, _ = one_window(script(), before, t_max=2)
    actions = np.asarray(run.scene.state.actions)
    targets = returns_by_hand(REWARDS[:2], VALUES[2], 0.9)
    for time in range(2):
        advantage = targets[time] - VALUES[time]
        policy = softmax(np.asarray(before.logits[time]).tolist())
        entropy = -sum(policy * np.log(policy))
        taken = np.eye(2)[actions[time]]
        slope = -advantage * (taken - policy) + 0.05 * policy * (np.log(policy) + entropy)
        change = run.agent.logits[time] - before.logits[time]
        np.testing.assert_allclose(change, adams_first_step(slope), rtol=1e-4)
        change = run.agent.values[time] - before.values[time]
        np.testing.assert_allclose(change, adams_first_step(-advantage), rtol=1e-4)


def test_gradients_reach_what_was_written_within_the_window():
    run, _ = one_window(script(), Notebook(jnp.float32(0.5)), t_max=2)
    assert run.agent.write != 0.5


def test_gradients_do_not_reach_what_was_written_in_an_earlier_window():
    env = script()
    run, totals = train(env, HYPER, start(env, Notebook(jnp.float32(0.5))), jnp.array(4), 1)
    assert totals.value_loss > 0.1 and run.agent.write == 0.5


def test_memory_lasts_from_window_to_window_and_not_into_the_next_episode():
    env, agent = script(ends=3), Notebook(jnp.float32(0.5))
    hyper = dataclasses.replace(HYPER, learning_rate=1e-30)
    kept = [
        train(env, hyper, start(env, agent), jnp.array(goal), 1)[0].scene.memory
        for goal in (1, 2, 3, 4)
    ]
    assert [float(x) for x in kept] == [1.0, 0.5, 0.0, 1.0]


def test_rewards_are_scaled_for_learning_and_not_in_reports():
    hyper = dataclasses.replace(HYPER, reward_scale=3.0)
    _, totals = one_window(script(), table(), 2, hyper)
    np.testing.assert_allclose(totals.reward, sum(REWARDS[:2]))
    scaled = [3 * reward for reward in REWARDS[:2]]
    want = value_loss_by_hand(scaled, VALUES[:2], bootstrap=VALUES[2])
    np.testing.assert_allclose(totals.value_loss, want, rtol=1e-5)


def test_every_episode_is_drawn_anew():
    env = PaysTheCue()
    _, totals = train(env, HYPER, start(env, tiny_gru(env.spec)), jnp.array(400), 1)
    assert totals.episodes == 400
    assert abs(totals.reward) < 4 * np.sqrt(400)


# Windows that stop


class Normed(Learner):
    """Decides on the direction of a summary, which zeros do not have."""

    inner: Learner

    def initial_memory(self):
        return self.inner.initial_memory()

    def summarise(self, observation, memory):
        return self.inner.summarise(observation, memory)

    def decide(self, summary):
        return self.inner.decide(summary / jnp.linalg.norm(summary))


@pytest.mark.parametrize("kind", [lambda agent: agent, Normed], ids=["plain", "normed"])
def test_a_window_that_stops_with_its_episode_is_that_of_a_scan(kind):
    env, tiny = (
        Errand(),
        WMGSettings(slots=3, memo_size=4, layers=1, heads=2, head_size=4, hidden=4),
    )
    agent = kind(registry.make_agent(tiny, env.spec, jax.random.key(0)))
    t_max, hyper = env.spec.max_steps - 1, Hyper(learning_rate=0.01, adam_eps=0.01)
    window = jax.jit(
        lambda run, unroll: a3c.window(env, hyper, run, A3C(t_max), unroll), static_argnums=1
    )
    lengths = set()
    runs = [A3C(1).start(env, agent, jax.random.key(5)) for _ in range(2)]
    for _ in range(12):
        (run, totals), (other, expected) = window(runs[0], 1), window(runs[1], 2)
        lengths.add(int(totals.steps))
        runs = [run, other]
        found = [eqx.filter(each, eqx.is_inexact_array) for each in runs]
        close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5)
        jax.tree.map(close, (found[0], totals), (found[1], expected))
    assert len(lengths) > 1 and not run.diverged


# Updates


def adam_by_hand(parameters, gradients, hyper, b1=0.9, b2=0.999):
    """The parameters after each update: PyTorch's clip_grad_norm_, then Adam."""
    m, v, out = 0.0, 0.0, []
    for t, g in enumerate(np.asarray(gradients, np.float64), start=1):
        norm = np.sqrt((g**2).sum())
        g = g * min(1.0, hyper.grad_clip / (norm + 1e-6))
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        step = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + hyper.adam_eps)
        parameters = parameters - hyper.learning_rate * step
        out.append(parameters)
    return out


def updated(agent, gradients, hyper, steps=0):
    """The Table's values after each update, by our code, and the norms it reports."""
    run = start(script(), agent)
    run = eqx.tree_at(lambda r: r.steps, run, jnp.array(steps, jnp.int32))
    out, norms = [], []
    for values in gradients:
        gradient = Table(jnp.asarray(values, jnp.float32), jnp.zeros_like(agent.logits))
        agent, optimizer, norm, finite = update(run, gradient, jnp.zeros(()), hyper)
        assert finite
        run = eqx.tree_at(lambda r: (r.agent, r.optimizer), run, (agent, optimizer))
        out.append(np.asarray(agent.values))
        norms.append(float(norm))
    return out, norms


GRADIENTS = np.random.default_rng(1).normal(size=(5, LIMIT + 1)).astype(np.float32)


@pytest.mark.parametrize(("clip", "size"), [(0.5, 1.0), (1000.0, 1.0), (1e-6, 1e-6)])
def test_updates_are_adam_after_pytorchs_clipping(clip, size):
    hyper = dataclasses.replace(HYPER, grad_clip=clip, adam_eps=0.1 * size)
    got, norms = updated(table(), size * GRADIENTS, hyper)
    want = adam_by_hand(np.array([*VALUES, 0.0]), size * GRADIENTS, hyper)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norms, size * np.sqrt((GRADIENTS**2).sum(1)), rtol=1e-5)


def test_parameters_without_gradient_keep_moving_by_their_momentum():
    once = np.zeros((3, LIMIT + 1))
    once[0, 0] = 1.0
    got, _ = updated(table(), once, HYPER)
    want = adam_by_hand(np.array([*VALUES, 0.0]), once, HYPER)
    assert got[2][0] < got[1][0] < got[0][0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


ANNEALED = dataclasses.replace(HYPER, anneal=0.98, anneal_every=1e5, anneal_after=1e7)


@pytest.mark.parametrize(
    ("steps", "times"),
    [
        (0, 0),
        (9_999_999, 0),
        (10_000_000, 0),
        (10_099_999, 0),
        (10_100_000, 1),
        (15_000_000, 50),
        (20_000_000, 100),
    ],
)
def test_the_rate_shrinks_by_two_percent_every_100k_steps_after_10m(steps, times):
    rate = optimizer.learning_rate(ANNEALED, jnp.array(steps))
    np.testing.assert_allclose(rate, 0.1 * 0.98**times, rtol=1e-5)


def test_updates_use_the_annealed_rate():
    before = table()
    (late,), _ = updated(before, GRADIENTS[:1], ANNEALED, steps=20_000_000)
    (early,), _ = updated(before, GRADIENTS[:1], ANNEALED)
    want = 0.98**100 * (early - before.values)
    np.testing.assert_allclose(late - before.values, want, rtol=1e-4, atol=1e-7)


# Runs


BREAKS = (*REWARDS[:2], np.inf, *REWARDS[3:])


def test_a_run_that_diverges_keeps_its_last_finite_weights():
    good, _ = train(script(), HYPER, start(script(), table()), jnp.array(2), 2)
    env = script(rewards=BREAKS)
    run, _ = train(env, HYPER, start(env, table()), jnp.array(50), 2)
    assert run.diverged and run.steps == 2 and not good.diverged
    assert_same((run.agent, run.optimizer), (good.agent, good.optimizer))


def test_a_diverged_run_stands_still():
    env = script(rewards=BREAKS)
    run, _ = train(env, HYPER, start(env, table()), jnp.array(50), 2)
    again, totals = train(env, HYPER, run, jnp.array(100), 2)
    assert_same(again, run)
    assert totals.windows == 0


def test_a_run_that_explodes_ends_with_finite_weights():
    hyper = dataclasses.replace(HYPER, learning_rate=1e30)
    run, _ = train(script(), hyper, start(script(), table()), jnp.array(1000), 2)
    assert run.diverged and all(np.isfinite(leaf).all() for leaf in leaves(run.agent))


def test_a_diverged_run_does_not_hold_up_its_neighbour():
    envs = jax.tree.map(lambda *x: jnp.stack(x), script(rewards=BREAKS), script())
    run = jax.vmap(lambda env: start(env, table()))(envs)
    together = eqx.filter_jit(
        lambda envs, run: jax.vmap(lambda env, run: A3C(2).advance(env, HYPER, run, jnp.array(10)))(
            envs, run
        )
    )
    run, _ = together(envs, run)
    assert run.diverged.tolist() == [True, False] and run.steps.tolist() == [2, 10]


def test_two_calls_equal_one_longer_call_bit_for_bit():
    env = AsksLater(length=3, actions=2)
    begun = start(env, tiny_gru(env.spec))
    whole, all_at_once = train(env, HYPER, begun, jnp.array(40), 2)
    half, first = train(env, HYPER, begun, jnp.array(20), 2)
    rest, second = train(env, HYPER, half, jnp.array(40), 2)
    assert_same(rest, whole)
    assert first.windows + second.windows == all_at_once.windows


def test_runs_of_different_seeds_differ():
    env = AsksLater(length=3, actions=2)
    agent = tiny_gru(env.spec)
    one, other = (
        train(env, HYPER, start(env, agent, seed), jnp.array(20), 2)[0].agent for seed in (0, 1)
    )
    assert (one.embedding.weight != other.embedding.weight).any()
