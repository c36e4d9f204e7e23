"""Episodes on the host: each played once, to its end, whatever is played beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import toy

from wmg import registry
from wmg.agents.gru.settings import GRUSettings
from wmg.play import host_arrays
from wmg.play.host import Host
from wmg.play.host_evaluate import evaluate
from wmg.types import Agent, EnvSpec, ObservationSpec, Output

AGENT = GRUSettings(embedding=4, size=4, actor_critic=4)


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
    observe = lambda number: host_arrays.observation(np.array([number], np.float32), {})  # noqa: E731
    return [Host(Dice(), observe, spec) for _ in range(count)]


@pytest.fixture(scope="module")
def gru():
    return registry.make_agent(AGENT, dice(1)[0].spec, jax.random.key(1))


@pytest.fixture(scope="module")
def played(gru):
    return evaluate(dice(7), gru, seed=3, episodes=200)


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
    same = evaluate(dice(count), gru, seed=3, episodes=200)
    np.testing.assert_array_equal(same.length, played.length)
    np.testing.assert_allclose(same.reward, played.reward, atol=1e-6)


def test_progress_is_shown_from_compiling_to_the_last_episode(gru):
    shown = []
    evaluate(dice(7), gru, seed=3, episodes=40, show=lambda *about: shown.append(about))
    assert shown[0] == ("compiling ...", 0, 0)
    counts = [done for what, done, total in shown[1:] if (what, total) == ("episodes", 40)]
    assert len(counts) == len(shown) - 1 > 5 and counts == sorted(counts) and counts[-1] == 40


def test_another_seed_plays_other_episodes(gru, played):
    other = evaluate(dice(7), gru, seed=4, episodes=200)
    assert (other.length != played.length).any()


def test_sampled_actions_follow_the_policy_and_greedy_ones_its_peak(gru):
    """A new agent's policy is uniform: sampling takes all five actions alike."""
    sampled = evaluate(dice(50), gru, seed=1, episodes=500)
    actions = 100 * (sampled.reward - (sampled.length - 3))
    mean = actions.sum() / sampled.length.sum()
    assert abs(mean - 2.0) < 4 * (2.0 / sampled.length.sum()) ** 0.5
    greedy = evaluate(dice(50), gru, seed=1, episodes=20, greedy=True)
    np.testing.assert_allclose(greedy.reward, greedy.length - 3, atol=1e-6)


class Counter(Agent[jax.Array]):
    """Its action is the number of steps it remembers."""

    def initial_memory(self):
        return jnp.zeros((), jnp.int32)

    def __call__(self, observation, memory):
        return Output(1e3 * jax.nn.one_hot(memory, 5), jnp.zeros(()), memory + 1)


def test_memory_starts_anew_with_each_episode():
    counted = evaluate(dice(3), Counter(), seed=0, episodes=30)
    actions = np.array([sum(range(length)) for length in counted.length])
    np.testing.assert_allclose(counted.reward, counted.length - 3 + 0.01 * actions, atol=1e-5)


def test_thinking_shows_the_first_observation_again_in_every_episode():
    counted = evaluate(dice(3), Counter(), seed=0, episodes=30, thinking=1)
    known = counted.length < 5  # it knows no action for the fifth step
    actions = np.array([sum(range(1, length + 1)) for length in counted.length])
    paid = counted.length - 3 + 0.01 * actions
    np.testing.assert_allclose(counted.reward[known], paid[known], atol=1e-5)
    np.testing.assert_array_equal(
        counted.length, evaluate(dice(1), Counter(), seed=0, episodes=30).length
    )


@pytest.mark.parametrize("thinking", [0, 2])
@pytest.mark.parametrize("kind", toy.VECTORS)
def test_vector_environments_play_held_out_episodes(kind, thinking):
    agent = plain.shaken(registry.make_agent(AGENT, toy.SPEC, jax.random.key(1)))
    alone = evaluate(toy.single(3), agent, seed=3, episodes=20, thinking=thinking)
    envs = toy.vector(*toy.VECTORS[kind], 2)
    found = evaluate(envs, agent, seed=3, episodes=20, thinking=thinking)
    assert (found.length > 0).all()
    if envs.takes_seeds:
        np.testing.assert_array_equal(found.length, alone.length)
        np.testing.assert_array_equal(found.success, alone.success)
        np.testing.assert_allclose(found.reward, alone.reward, atol=1e-6)
