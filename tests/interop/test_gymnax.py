"""JAX environments of others: one written here, and gymnax's own where it is installed."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import wmg
from wmg.config import Batched, Config, Hyper
from wmg.interop.gymnax import wrap
from wmg.interop.outside import adapt
from wmg.play import evaluate
from wmg.runs import train
from wmg.tools.errors import BadInput
from wmg.types import Observation

keys_may_be_split_up = tiny.keys_may_be_split_up


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The goal is a number of steps to the right."""

    goal: int = 3
    max_steps_in_episode: int = 5


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Place:
    x: Any
    time: Any


class Discrete(NamedTuple):
    n: int


class Box(NamedTuple):
    low: float
    high: float


class Walk:
    """A walk with gymnax's interface of 0.0.x: `done` is either end, and `step` begins anew."""

    default_params = Params()
    num_actions = 2

    def reset_env(self, key, params):
        state = Place(jax.random.randint(key, (), 0, 2), 0)
        return self.show(state), state

    def step_env(self, key, state, action, params):
        after = Place(state.x + 2 * action - 1, state.time + 1)
        won = after.x >= params.goal
        done = won | (after.time >= params.max_steps_in_episode)
        return self.show(after), after, 1.0 * won, done, {"discount": 1.0 - done}

    def reset(self, key, params=None):
        return self.reset_env(key, params)

    def step(self, key, state, action, params=None):
        skey, rkey = jax.random.split(key)
        seen, after, reward, done, info = self.step_env(skey, state, action, params)
        new, fresh = self.reset_env(rkey, params)
        seen, after = jax.tree.map(lambda a, b: jnp.where(done, a, b), (new, fresh), (seen, after))
        return seen, after, reward, done, info

    def show(self, state):
        return jnp.stack([state.x, state.time])

    def action_space(self, params):
        return Discrete(2)


class Outside:
    """A wrapper as PureJaxRL has them: only `reset` and `step` are its own."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, key, params):
        seen, state = self.env.reset(key, params)
        return seen * 10, state

    def step(self, key, state, action, params):
        seen, *rest = self.env.step(key, state, action, params)
        return seen * 10, *rest


class Told(Outside):
    """Tells both ends apart, and the last observation, as gymnax 1.0 does."""

    def step(self, key, state, action, params):
        last, after, reward, done, _ = self.env.step_env(key, state, action, params)
        new, fresh = self.env.reset_env(key, params)
        pick = functools.partial(jnp.where, done)
        return (
            *jax.tree.map(pick, (new * 10, fresh), (last * 10, after)),
            reward,
            reward > 0,
            after.time >= params.max_steps_in_episode,
            {"final_observation": last * 10},
        )


class Showing(Walk):
    """Shows whatever the test wants."""

    def __init__(self, shown, space=None):
        self.shown, self.space = shown, space

    def show(self, state):
        return self.shown

    def observation_space(self, params):
        return self.space


RIGHT, LEFT = 1, 0
KEY = jax.random.key(0)


def play(env, actions):
    """The start of an episode, and what each action leads to."""
    state, seen = eqx.filter_jit(env.reset)(jax.random.key(3))
    steps = []
    for action in actions:
        steps.append(eqx.filter_jit(env.step)(state, jnp.int32(action), jax.random.key(0)))
        state = steps[-1].state
    return seen, steps


def ends(steps):
    return [tuple(map(bool, (s.terminated, s.truncated, s.success))) for s in steps]


OPEN, WON, LATE = (False, False, False), (True, False, True), (False, True, False)


def test_the_last_observation_is_of_the_episode_that_ends():
    env = wrap(Walk())
    seen, steps = play(env, [RIGHT] * 3)
    x = int(seen.core[0])
    rows = [[x, 0], *[[x + i + 1, i + 1] for i in range(3)]]
    shown = [seen.core.tolist(), *[s.observation.core.tolist() for s in steps]]
    last = 3 - x  # steps to the goal
    assert shown[: last + 1] == rows[: last + 1]
    assert ends(steps)[:last] == [OPEN] * (last - 1) + [WON]
    assert [float(s.reward) for s in steps[:last]] == [0.0] * (last - 1) + [1.0]


def test_the_end_of_time_truncates():
    _, steps = play(wrap(Walk()), [LEFT, RIGHT, LEFT, RIGHT, LEFT])
    assert ends(steps) == [OPEN] * 4 + [LATE]


def test_a_limit_given_truncates_earlier_and_without_one_there_is_one():
    env = wrap(Walk(), max_steps=2)
    assert env.spec.max_steps == 2
    assert ends(play(env, [LEFT, LEFT])[1]) == [OPEN, LATE]
    assert wrap(Walk()).spec.max_steps == 5

    class Endless(Walk):
        default_params = None

        def step_env(self, key, state, action, params):
            return *super().step_env(key, state, action, Params(3, 99_999))[:4], {}

    assert wrap(Endless()).spec.max_steps == 10_000


def test_a_wrapper_is_not_passed_by_and_its_new_episode_is_not_taken_for_the_old_one():
    env = wrap(Outside(Walk()))
    seen, steps = play(env, [LEFT, RIGHT, LEFT, RIGHT, LEFT])
    assert seen.core.tolist()[0] in (0.0, 10.0)
    assert steps[0].observation.core.tolist()[1] == 10.0
    assert ends(steps) == [OPEN] * 4 + [LATE]  # though the state's own time begins anew


def test_what_is_told_of_the_end_is_used():
    env = wrap(Told(Walk()))
    _, steps = play(env, [LEFT, RIGHT, LEFT, RIGHT, LEFT])
    assert ends(steps) == [OPEN] * 4 + [LATE]
    assert steps[-1].observation.core[1] == 50.0
    seen, steps = play(env, [RIGHT] * 3)
    last = 3 - int(seen.core[0]) // 10
    assert ends(steps)[last - 1] == WON
    assert steps[last - 1].observation.core[0] == 30.0


def test_a_class_a_function_a_pair_and_an_object_are_taken():
    for env in (Walk, lambda: (Walk(), Params()), (Walk(), Params()), Walk(), Outside(Walk())):
        assert adapt(env, "it").spec == wrap(Walk()).spec
    assert adapt((Walk(), Params(3, 7)), "it").spec.max_steps == 7


ROWS = jnp.arange(6.0).reshape(3, 2)
MASK = jnp.array([1, 0, 1])


def test_arrays_are_joined_in_the_core_and_a_discrete_number_is_one_hot():
    class Spaces(NamedTuple):
        spaces: dict

    shown = {"a": jnp.array([5, 6]), "b": jnp.int32(1), "grid": jnp.eye(2) > 0}
    env = wrap(Showing(shown, Spaces({"b": Discrete(3)})))
    _, seen = env.reset(KEY)
    assert seen.core.tolist() == [5, 6, 0, 1, 0, 1, 0, 0, 1]
    assert (env.spec.observation.factors, env.spec.observation.image) == ((), None)


@pytest.mark.parametrize("end", ["_mask", "_present"])
def test_rows_with_a_mask_are_factors(end):
    shown = {"me": jnp.ones(2), "things": ROWS, f"things{end}": MASK, "far": {"x": ROWS}}
    shown["far"]["x" + end] = MASK > 0
    env = wrap(Showing(shown))
    assert env.spec.observation.factors == (("far.x", 3, 2), ("things", 3, 2))
    _, seen = env.reset(KEY)
    assert seen.core.tolist() == [1, 1]
    np.testing.assert_array_equal(seen.factors["things"].values, ROWS)
    assert seen.factors["far.x"].present.tolist() == [True, False, True]


def test_pixels_are_the_image_and_bytes_are_scaled():
    pixels = jnp.full((20, 30, 3), 255, jnp.uint8)
    env = wrap(Showing({"pixels": pixels}))
    _, seen = env.reset(KEY)
    assert env.spec.observation.image == (20, 30, 3) and float(seen.image.max()) == 1.0
    assert seen.core.shape == (env.spec.observation.core,) == (0,)
    assert wrap(Showing(jnp.ones((10, 10, 4)))).spec.observation.core == 400


def test_a_mapping_of_ones_own_replaces_the_rules():
    env = wrap(Walk(), observe=lambda seen: Observation(seen[:1] / 10.0))
    assert env.spec.observation.core == 1
    assert play(env, [RIGHT])[1][0].observation.core.shape == (1,)


def test_an_observation_with_two_images_is_refused():
    with pytest.raises(BadInput, match="at most one image, got a and b"):
        wrap(Showing({"a": jnp.ones((20, 20, 3)), "b": jnp.ones((20, 20, 3))}))


class Continuous(Walk):
    def action_space(self, params):
        return Box(-1.0, 1.0)


class Bare(Walk):
    num_actions = None

    def __init__(self):
        self.action_space = None


class Failing(Walk):
    def reset_env(self, key, params):
        raise KeyError("the user's own mistake")


class Growing(Walk):
    def step_env(self, key, state, action, params):
        seen, after, *rest = super().step_env(key, state, action, params)
        return seen, Place(after.x[None], after.time), *rest


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (Continuous(), r"discrete: Continuous has the action space Box\(low=-1.0, high=1.0\)"),
        (Bare(), "actions must be discrete: Bare has the action space None"),
        (Growing(), r"Growing: an array of the state has the shape \(\) after reset and \(1,\)"),
        (Failing(), "Failing.reset raises KeyError in line .* of test_gymnax.py"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_in_one_sentence(env, sentence):
    with pytest.raises(BadInput, match=sentence):
        wrap(env)


def test_the_check_finds_nothing():
    wmg.check_env(Walk, steps=32)
    wmg.check_env(Told(Walk()), steps=32)


HYPER = Hyper(discount=0.9, reward_scale=1.0)
PPO = Batched(envs=4)


@pytest.mark.parametrize("batched", [Batched(), PPO])
def test_an_agent_trains_in_it_and_is_evaluated(batched):
    settings = Config(
        env=None,
        agent=tiny.AGENT,
        hyper=HYPER,
        steps=240,
        report_every=120,
        t_max=4,
        batched=batched,
    )
    env = wrap(Walk())
    result = train.train(settings, env=env)
    assert result.finished and result.scores.shape == (1, 2)
    played = evaluate.evaluate(env, result.agent, seed=1, episodes=8)
    assert (played.length <= 5).all() and (played.length >= 2).all()


def test_episodes_without_a_limit_are_evaluated():
    env = wrap(Walk(), Params(3, 2000))
    agent = tiny_agent(env)
    played = evaluate.evaluate(env, agent, seed=1, episodes=4)
    assert (played.length <= 2000).all() and played.success.any()


def tiny_agent(env):
    from wmg import registry
    from wmg.agents.baselines.settings import RandomSettings

    return registry.make_agent(RandomSettings(), env.spec, jax.random.key(0))


# gymnax itself


@pytest.fixture
def gymnax():
    return pytest.importorskip("gymnax")


@pytest.mark.parametrize("name", ["CartPole-v1", "MemoryChain-bsuite", "DeepSea-bsuite"])
def test_it_does_step_by_step_what_gymnax_does(gymnax, name):
    theirs, params = gymnax.make(name)
    env = wrap(theirs, params)
    skey = jax.random.key(5)
    inner_key = jax.random.split(jax.random.clone(skey))[0]  # gymnax splits it in `step`
    shown, state = theirs.reset(jax.random.key(4), params)
    own, seen = eqx.filter_jit(env.reset)(jax.random.key(4))
    step = eqx.filter_jit(env.step)
    np.testing.assert_array_equal(np.ravel(shown), seen.core)
    over = False
    for time in range(500):
        action = jnp.int32(time % 3 == 0)
        out = theirs.step(jax.random.clone(skey), state, action, params)
        _, state, reward, terminated, truncated, info = out
        made = step(own, action, jax.random.clone(inner_key))
        own = made.state
        last = np.ravel(info["final_observation"])
        np.testing.assert_allclose(last, made.observation.core, rtol=1e-5, atol=1e-6)
        assert float(reward) == pytest.approx(float(made.reward))
        assert bool(terminated) == bool(made.terminated)
        assert bool(truncated and not terminated) == bool(made.truncated)
        if over := bool(made.done):
            break
    assert over


@pytest.mark.parametrize("batched", [Batched(), PPO])
def test_an_agent_trains_on_gymnaxs_cartpole(gymnax, batched):
    settings = {"agent": tiny.AGENT, "steps": 400, "report_every": 200, "batched": batched}
    assert wmg.train(env=gymnax.make("CartPole-v1"), **settings).finished
