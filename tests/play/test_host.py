"""Episodes on the host: each played once, to its end, whatever is played beside it."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy

from wmg import registry
from wmg.agents.gru.settings import GRUSettings
from wmg.play import host
from wmg.play.host import Host
from wmg.tools.errors import BadInput
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


def played_by(envs, steps):
    """What each environment played, with an action that its number of steps decides."""
    told = [[] for _ in range(envs.count)]
    seen = envs.reset([10 + index for index in range(envs.count)]).core
    while min(map(len, told)) < steps:
        actions = np.array([(7 * len(one) + 3 * i) % 8 % 3 for i, one in enumerate(told)])
        made = envs.step(actions)
        for i in np.flatnonzero(made.played):
            ends = made.terminated[i], made.truncated[i], made.success[i]
            numbers = made.reward[i], made.total[i], *ends
            told[i].append([*seen[i], *made.final.core[i], *map(float, numbers)])
        seen = made.observation.core
    return np.array([one[:steps] for one in told])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", toy.VECTORS)
def test_vector_environments_play_like_single_ones(kind, count):
    alone = played_by(toy.single(count), 60)
    assert alone[..., -3].any() and alone[..., -2].any() and alone[..., -1].any()
    # Seeds go to each environment alone, or the first one to all of them, counting up.
    np.testing.assert_array_equal(played_by(toy.vector(*toy.VECTORS[kind], count), 60), alone)


def test_arrays_that_a_vector_environment_writes_again_are_copied():
    envs = toy.vector(toy.SyncVectorEnv, "SameStep", 2, copy=False)
    np.testing.assert_array_equal(played_by(envs, 30), played_by(toy.single(2), 30))


def test_only_an_unknown_environment_takes_steps_in_which_nothing_is_played():
    idle = {}
    for kind, how in toy.VECTORS.items():
        envs = toy.vector(*how, 2)
        envs.reset([1, 2])
        idle[kind] = sum((~envs.step(np.zeros(2, int)).played).sum() for _ in range(30))
    assert idle.pop("unknown, next step") == 20  # an episode takes two steps, and a third one
    assert not any(idle.values())


@pytest.mark.parametrize("kind", toy.VECTORS)
def test_vector_environments_play_held_out_episodes(kind):
    agent = registry.make_agent(AGENT, toy.SPEC, jax.random.key(1))
    alone = host.evaluate(toy.single(3), agent, seed=3, episodes=20)
    envs = toy.vector(*toy.VECTORS[kind], 2)
    found = host.evaluate(envs, agent, seed=3, episodes=20)
    assert (found.length > 0).all()
    if envs.takes_seeds:
        np.testing.assert_array_equal(found.length, alone.length)
        np.testing.assert_array_equal(found.success, alone.success)
        np.testing.assert_allclose(found.reward, alone.reward, atol=1e-6)


def test_an_asynchronous_environment_with_spawned_workers_plays():
    import gymnasium

    spec = EnvSpec(ObservationSpec(4), 2, 500, "return")
    vector = gymnasium.make_vec(
        "CartPole-v1", 2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    lone = [gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(2)]
    hosts = [host.Host(one, toy.Plain().observe, spec) for one in lone]
    both = host.Vectorised(vector, toy.Plain(), spec), host.Lockstep(hosts)
    try:
        for envs in both:
            envs.reset([5, 6])
        for time in range(40):
            ours, others = (envs.step(np.array([time % 2, 1])) for envs in both)
            np.testing.assert_array_equal(ours.final.core, others.final.core)
            np.testing.assert_array_equal(ours.observation.core, others.observation.core)
            np.testing.assert_array_equal(ours.done, others.done)
    finally:
        vector.close()


def test_forked_workers_are_refused():
    env = toy.SyncVectorEnv([toy.Toy])
    env.processes = [types.SimpleNamespace(_start_method="fork")]
    with pytest.raises(BadInput, match="context='spawn'"):
        host.Vectorised(env, toy.Plain(), toy.SPEC)


def test_a_vector_environment_must_say_how_it_begins_episodes():
    env = toy.SyncVectorEnv([toy.Toy])
    env.metadata = {}
    with pytest.raises(BadInput, match="must name its autoreset mode"):
        host.Vectorised(env, toy.Plain(), toy.SPEC)


class Wrong(toy.Toy):
    """Does something wrong in its third step."""

    def __init__(self, what):
        self.what = what

    def step(self, action):
        seen, reward, _, _, info = super().step(1)
        if self.time == 3 and self.what == "reward":
            reward = float("nan")
        if self.time == 3 and self.what == "values":
            seen[1] = np.nan
        if self.time == 3 and self.what == "shape":
            seen = seen[:2]
        return seen, reward, False, False, info


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("reward", "the reward of environment 1 is not finite: nan"),
        ("values", "the Core of environment 1 is not finite: nan"),
        ("shape", r"the Core must have the shape \(3,\), got \(2,\)"),
        ("length", "an episode goes on after 5 steps, the most that its EnvSpec promises"),
    ],
)
def test_what_an_environment_does_wrong_is_said_in_one_sentence(what, sentence):
    right = host.Host(toy.Toy(), toy.Plain().observe, toy.SPEC)
    envs = host.Lockstep([right, host.Host(Wrong(what), toy.Plain().observe, toy.SPEC)])
    envs.reset([1, 2])
    with pytest.raises(BadInput, match=sentence):
        for _ in range(6):
            envs.step(np.ones(2, int))
