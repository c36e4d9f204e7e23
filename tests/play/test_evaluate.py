"""Held-out episodes: hand-made environments and agents, and the Depth-n baselines."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int
from probes import (
    Errand,
    PaysActionOne,
    PaysAtTheEnd,
    PaysTheFittingAction,
    Skilled,
    tiny_gru,
    tiny_wmg,
)

from wmg import registry
from wmg.agents.baselines.settings import DepthSettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.play import evaluate
from wmg.play.evaluate import Episodes
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, EnvSpec, Observation, ObservationSpec, Output, Step


@functools.cache
def depth(n, nodes=7, seed=1):
    """Depth-n on 2,500 episodes: always as many, so that each is compiled once."""
    env = registry.make_env(PathfindingSettings(nodes=nodes))
    agent = registry.make_agent(DepthSettings(depth=n, nodes=nodes), env.spec, jax.random.key(0))
    return env.spec, evaluate.evaluate(env, agent, seed, 2500)


class Leaning(Agent[None]):
    """Always has the same opinion."""

    logits: Array

    def initial_memory(self):
        return None

    def __call__(self, observation, memory):
        return Output(self.logits, jnp.zeros(()), None)


class Patient(Agent[Int[Array, ""]]):
    """Takes action 1 in the third step alone."""

    scale: float = 1.0
    """How sure it is."""

    def initial_memory(self):
        return jnp.zeros((), jnp.int32)

    def __call__(self, observation, memory):
        logits = jnp.array([0.0, self.scale]) * jnp.where(memory == 2, 1.0, -1.0)
        return Output(logits, jnp.zeros(()), memory + 1)


class EndsEarly(Env[Int[Array, ""]]):
    """Pays 1 in every step, for ever, and ends in success after two of at most five."""

    truncate: bool = eqx.field(static=True, default=False)

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(1), actions=2, max_steps=5, metric="success")

    def reset(self, key):
        return jnp.zeros((), jnp.int32), Observation(jnp.zeros(1))

    def step(self, state, action, key):
        ends, no = state + 1 == 2, jnp.zeros((), bool)
        ended = (no, ends) if self.truncate else (ends, no)
        return Step(state + 1, Observation(jnp.zeros(1)), jnp.ones(()), *ended, ends)


def episodes(reward, length, success):
    return Episodes(
        jnp.array(reward, jnp.float32), jnp.array(length, jnp.int32), jnp.array(success)
    )


def spec(metric, reward_per_step=1.0):
    return EnvSpec(ObservationSpec(1), 2, 12, metric, reward_per_step)


@pytest.mark.parametrize(
    ("n", "nodes", "score"),
    [
        *((1, 7, 86.9), (2, 7, 97.6), (3, 7, 99.7), (2, 13, 94.2)),
        pytest.param(1, 13, 80.9, marks=pytest.mark.slow),
        pytest.param(3, 13, 98.6, marks=pytest.mark.slow),
    ],
)
def test_depth_baselines_obtain_what_the_paper_or_our_long_measurement_says(n, nodes, score):
    assert evaluate.summary(*depth(n, nodes))["score"] == pytest.approx(score, abs=0.7)


def test_the_deepest_baseline_answers_every_quiz():
    _, played = depth(6)
    assert (played.reward == 6).all() and played.success.all() and (played.length == 12).all()


def test_every_agent_gets_the_same_episodes():
    # On the same episodes, whoever looks deeper is never worse. On others it would be.
    rewards = [depth(n)[1].reward for n in (1, 2, 3)]
    assert (rewards[0] <= rewards[1]).all() and (rewards[1] <= rewards[2]).all()
    assert (rewards[0] > depth(2, seed=2)[1].reward).any()


def test_another_test_seed_gives_other_episodes():
    assert (depth(2)[1].reward != depth(2, seed=2)[1].reward).mean() > 0.1


def test_the_same_seed_gives_the_same_episodes_again():
    env, agent = PaysActionOne(length=4, actions=2), Leaning(jnp.zeros(2))
    rewards = [evaluate.evaluate(env, agent, 1, 100).reward for _ in range(2)]
    np.testing.assert_array_equal(rewards[0], rewards[1])


def test_asking_for_more_episodes_does_not_change_the_first():
    env, agent = PaysActionOne(length=4, actions=2), Leaning(jnp.zeros(2))
    few, many = (evaluate.evaluate(env, agent, 1, count).reward for count in (30, 270))
    np.testing.assert_array_equal(many[:30], few)


def test_a_greedy_agent_takes_the_most_likely_action_in_every_step():
    env = PaysActionOne(length=4, actions=2)
    played = evaluate.evaluate(env, Leaning(jnp.array([0.0, 0.5])), 1, 100, greedy=True)
    assert (played.reward == 4).all()


def test_an_agent_that_is_not_greedy_acts_by_its_probabilities():
    env = PaysActionOne(length=4, actions=2)
    played = evaluate.evaluate(env, Leaning(jnp.array([0.0, 0.5])), 1, 2000)
    chance = np.exp(0.5) / (1 + np.exp(0.5))
    error = (chance * (1 - chance) / 8000) ** 0.5
    assert played.reward.sum() / 8000 == pytest.approx(chance, abs=4 * error)


def test_actions_of_one_episode_are_independent():
    env = PaysActionOne(length=4, actions=2)
    played = evaluate.evaluate(env, Leaning(jnp.zeros(2)), 1, 2000)
    got = np.bincount(played.reward.astype(int), minlength=5) / 2000
    np.testing.assert_allclose(got, np.array([1, 4, 6, 4, 1]) / 16, atol=0.045)


def test_memory_is_carried_through_an_episode_and_not_into_the_next():
    env = PaysActionOne(length=4, actions=2)
    played = evaluate.evaluate(env, Patient(), 1, 300, greedy=True)
    assert (played.reward == 1).all()


@pytest.mark.parametrize("truncate", [False, True])
def test_nothing_counts_after_an_episodes_end(truncate):
    played = evaluate.evaluate(EndsEarly(truncate), Leaning(jnp.zeros(2)), 1, 3)
    assert played.reward.tolist() == [2, 2, 2] and played.length.tolist() == [2, 2, 2]
    assert played.success.all()


def test_a_reward_score_is_the_share_of_what_was_possible():
    played = episodes([3, 6, 2], [12, 12, 8], [False, True, False])
    np.testing.assert_allclose(evaluate.scores(spec("reward", 0.5), played), [50, 100, 50])


def test_a_success_score_is_a_hundred_or_nothing():
    played = episodes([3, 6, 2], [12, 12, 8], [False, True, False])
    np.testing.assert_allclose(evaluate.scores(spec("success"), played), [0, 100, 0])


def test_a_summary_is_mean_and_standard_error_over_episodes():
    played = episodes([3, 6, 4.5, 6], [12, 12, 12, 12], [False, True, False, True])
    got = evaluate.summary(spec("reward", 0.5), played)
    # Scores 50, 100, 75, 100: mean 81.25, squared deviations 976.5625, 351.5625 twice, 39.0625.
    assert got == pytest.approx(
        {
            "score": 81.25,
            "standard_error": (1718.75 / 3 / 4) ** 0.5,
            "success": 0.5,
            "episodes": 4,
            "mean_length": 12.0,
        }
    )


class Slow(Agent[Float[Array, ""]]):
    """Knows the fitting action once it has seen the cue three times before; till then it errs."""

    def initial_memory(self):
        return jnp.float32(0)

    def __call__(self, observation, memory):
        cue = observation.core[0]
        sure = jnp.where(abs(memory) >= 3, 50.0, -50.0) * cue
        return Output(jnp.stack([-sure, sure]), jnp.zeros(()), memory + cue)


@pytest.mark.parametrize(("thinking", "right"), [(0, 0), (2, 0), (3, 1), (4, 1)])
def test_thinking_shows_the_first_observation_again_in_every_episode(thinking, right):
    env = PaysTheFittingAction(length=1, actions=2)
    played = evaluate.evaluate(env, Slow(), 1, 200, thinking=thinking)
    assert (played.reward == right).all() and (played.length == 1).all()


def test_no_time_passes_while_the_agent_thinks():
    # Only the last of three steps is paid, so a step taken while thinking would be missed.
    env, agent = PaysAtTheEnd(length=3, actions=2), Patient()
    played = evaluate.evaluate(env, agent, 1, 70, thinking=5)
    assert (played.reward == 1).all() and (played.length == 3).all()


def test_thinking_is_refused_where_nothing_would_be_remembered():
    env = PaysActionOne(length=1, actions=2)
    forgets = tiny_wmg(env.spec, memory="none", slots=0, memo_size=0)
    for agent in (Leaning(jnp.zeros(2)), forgets):
        with pytest.raises(BadInput, match="no effect on an agent without memory, got 3"):
            evaluate.evaluate(env, agent, 1, 2, thinking=3)
    assert tiny_wmg(env.spec).remembers and tiny_gru(env.spec).remembers


@functools.partial(jax.jit, static_argnums=(2, 3))
def stretch(key, spare, episodes, lanes, env=None, agent=None):
    env, agent = env or Errand(), agent or Skilled(jnp.float32(0.6))
    return evaluate.play_block(env, agent, key, jnp.full(episodes + 1, spare), lanes)


def fates(key, episodes):
    """What becomes of each errand of a stretch, if it is solved when easier than 0.6."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.split(key)[0], jnp.arange(episodes))
    return np.where(jax.vmap(jax.random.uniform)(keys) < 0.6, evaluate.SOLVED, evaluate.FAILED)


@pytest.mark.parametrize("lanes", [1, 3, 7, 40])
def test_a_stretch_has_the_outcome_of_every_episode_in_any_number_of_lanes(lanes):
    played = np.asarray(stretch(jax.random.key(3), 40, 40, lanes))
    expected = fates(jax.random.key(3), 40)
    np.testing.assert_array_equal(played, expected)
    assert 0 < (expected == evaluate.FAILED).sum() < 40


@pytest.mark.parametrize("spare", [4, 40])
def test_a_stretch_whose_starts_are_drawn_ahead_has_the_same_outcomes(spare):
    env, agent, allowed = Errand(), Skilled(jnp.float32(0.6)), jnp.full(41, spare)

    @functools.partial(jax.jit, static_argnums=0)
    def played(ahead):
        return evaluate.play_block(env, agent, jax.random.key(3), allowed, 7, ahead)

    np.testing.assert_array_equal(played(True), played(False))


@pytest.mark.parametrize("lanes", [1, 3, 7])
@pytest.mark.parametrize("spare", [0, 4])
def test_a_stretch_begins_no_episode_after_one_failure_too_many(lanes, spare):
    played = np.asarray(stretch(jax.random.key(3), spare, 40, lanes))
    expected = fates(jax.random.key(3), 40)
    begun = int((played != evaluate.UNPLAYED).sum())
    np.testing.assert_array_equal(played[:begun], expected[:begun])  # the first ones, all ended
    assert (played[begun:] == evaluate.UNPLAYED).all()
    # Lanes that are in an episode when the last failure ends are played to their end.
    last = int(np.flatnonzero(np.cumsum(expected == evaluate.FAILED) > spare)[0]) + 1
    assert last <= begun <= last + 9 * (lanes - 1) and begun < 40
    if lanes == 1:
        assert begun == last


@pytest.mark.parametrize("lanes", [1, 3, 7])
def test_a_stretch_ends_where_too_many_of_those_begun_have_failed(lanes):
    allowed = np.array([0, 1, 1, *[2] * 12, *[40] * 26])
    env, agent = Errand(), Skilled(jnp.float32(0.6))
    played = jax.jit(lambda a: evaluate.play_block(env, agent, jax.random.key(3), a, lanes))
    found, expected = np.asarray(played(jnp.array(allowed))), fates(jax.random.key(3), 40)
    last = int(np.flatnonzero(np.cumsum(expected == evaluate.FAILED) > allowed[1:])[0]) + 1
    begun = int((found != evaluate.UNPLAYED).sum())
    np.testing.assert_array_equal(found[:begun], expected[:begun])
    assert last <= begun and last < 15
    assert begun < 40 or lanes == 7  # with many lanes, too many had been begun to know


def test_a_stretch_that_may_fail_nothing_begins_one_episode_per_lane():
    played = np.asarray(stretch(jax.random.key(3), -1, 40, 3))
    assert (played != evaluate.UNPLAYED).sum() == 3


def test_actions_of_a_stretch_are_sampled_anew_in_every_step_and_lane():
    agent = Leaning(jnp.array([0.0, 0.5]))
    played = np.asarray(stretch(jax.random.key(1), 4000, 4000, 8, Errand(length=1), agent))
    won = (played == evaluate.SOLVED).reshape(500, 8)  # step by lane: all end in every step
    chance = np.exp(0.5) / (1 + np.exp(0.5))
    assert won.mean() == pytest.approx(chance, abs=4 * (chance * (1 - chance) / 4000) ** 0.5)
    assert len({row.tobytes() for row in won}) > 150  # of 256
    correlation = np.corrcoef(won.T)[np.triu_indices(8, 1)]
    assert abs(correlation).max() < 0.2


def test_memory_is_not_carried_from_one_episode_of_a_lane_to_the_next():
    env = PaysActionOne(length=3, actions=2)
    # Patient takes action 1 in the third step alone, so every episode's last step is paid.
    played = np.asarray(stretch(jax.random.key(1), 40, 40, 3, env, Patient(50.0)))
    assert (played == evaluate.SOLVED).all()


@pytest.mark.filterwarnings("error")
def test_of_one_episode_the_error_is_not_known():
    played = evaluate.evaluate(EndsEarly(False), Leaning(jnp.zeros(2)), 1, 1)
    found = evaluate.summary(EndsEarly(False).spec, played)
    assert found["episodes"] == 1 and np.isnan(found["standard_error"])


def test_play_in_parts_is_the_same_play_and_counts_up_to_all_episodes(monkeypatch):
    env, agent = registry.make_env(PathfindingSettings(nodes=3)), Leaning(jnp.zeros(2))
    monkeypatch.setattr(evaluate, "lanes_for", lambda episodes: 8)
    shown = []
    whole = evaluate.evaluate(env, agent, 1, 50)
    parts = evaluate.evaluate(env, agent, 1, 50, show=lambda *what: shown.append(what))
    assert jax.tree.all(jax.tree.map(np.array_equal, whole, parts))
    assert shown[0] == ("compiling ...", 0, 0) and shown[-1] == ("episodes", 50, 50)
    counts = [done for _, done, _ in shown]
    assert counts == sorted(counts) and len(set(counts)) > 3
