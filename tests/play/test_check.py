"""Each mistake in an environment of one's own, and the sentence that says it."""

import importlib
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own import Bag

from wmg import registry
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.play import host, host_arrays
from wmg.play.check import check_play, check_shapes
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Step

SEEN = ObservationSpec(2, (("balls", 3, 2),))


class Toy(Env[dict]):
    """Three steps; each method of `wrong` replaces what the environment does."""

    wrong: tuple = eqx.field(static=True, default=())

    def part(self, name, value):
        changes = dict(self.wrong)
        return changes[name](value) if name in changes else value

    @property
    def spec(self):
        return self.part("spec", EnvSpec(SEEN, 2, 3, "success"))

    def reset(self, key):
        state = {"time": jnp.int32(0), "secret": jax.random.bernoulli(key)}
        return self.part("reset", (state, self.part("seen", observe())))

    def step(self, state, action, key):
        after = self.part("after", {**state, "time": state["time"] + 1})
        over = state["time"] >= 2
        seen = self.part("later", self.part("seen", observe()))
        return self.part("step", Step(after, seen, jnp.float32(1), over, over & False, over))


def observe():
    return Observation(jnp.ones(2), {"balls": Factors(jnp.ones((3, 2)), jnp.ones(3, bool))})


def put(where, value):
    """Replaces one part, past the check of types that tests make of every constructor."""
    return lambda tree: eqx.tree_at(where, tree, value, is_leaf=lambda leaf: leaf is None)


def spec(observation=SEEN, actions=2, max_steps=3, metric="success", **more):
    return lambda _: EnvSpec(observation, actions, max_steps, metric, **more)


def rename(name):
    return lambda seen: put(lambda s: s.factors, {name: seen.factors["balls"]})(seen)


def fail(_):
    raise KeyError("the user's own mistake")


class Moved(eqx.Module):
    time: jax.Array


MISTAKES = [
    (
        "seen",
        put(lambda s: s.core, jnp.ones(5)),
        "Toy.reset: observation.core must be float32[2] as spec says, got float32[5]",
    ),
    (
        "seen",
        put(lambda s: s.core, jnp.ones(2, int)),
        "Toy.reset: observation.core must be float32[2] as spec says, got int32[2]",
    ),
    (
        "later",
        put(lambda s: s.core, jnp.ones(3)),
        "Toy.step: observation.core must be float32[2] as spec says, got float32[3]",
    ),
    (
        "seen",
        rename("bals"),
        "Toy.reset lacks observation.factors['balls'].values, which spec names, and has "
        "observation.factors['bals'].values",
    ),
    (
        "seen",
        put(lambda s: s.factors, {}),
        "Toy.reset lacks observation.factors['balls'].values, which spec names",
    ),
    (
        "seen",
        put(lambda s: s.factors["balls"].values, jnp.ones((4, 2))),
        "observation.factors['balls'].values must be float32[3, 2] as spec says, got float32[4, 2]",
    ),
    (
        "seen",
        put(lambda s: s.factors["balls"].present, jnp.ones(3)),
        "observation.factors['balls'].present must be bool[3] as spec says, got float32[3]",
    ),
    (
        "seen",
        put(lambda s: s.image, jnp.ones((2, 2, 1))),
        "Toy.reset has observation.image, which spec does not name",
    ),
    ("reset", lambda made: made[0], "Toy.reset must return (state, observation), got a dict"),
    (
        "after",
        lambda s: {**s, "time": s["time"] * 1.0},
        "Toy.step: state['time'] must be int32[] as after reset, got float32[]",
    ),
    (
        "after",
        lambda s: {"time": s["time"]},
        "Toy.step lacks state['secret'], which reset returns",
    ),
    (
        "after",
        lambda s: {**s, "more": s["time"]},
        "Toy.step has state['more'], which reset does not return",
    ),
    (
        "after",
        lambda s: Moved(s["time"]),
        "Toy.step lacks state['secret'], which reset returns, and has state.time",
    ),
    ("step", lambda step: step.state, "Toy.step must return a wmg.Step, got a dict"),
    (
        "step",
        put(lambda s: s.reward, jnp.int32(1)),
        "Toy.step: reward must be float32[], got int32[]",
    ),
    (
        "step",
        put(lambda s: s.reward, jnp.ones(1)),
        "Toy.step: reward must be float32[], got float32[1]",
    ),
    ("step", put(lambda s: s.success, None), "Toy.step lacks success, which a Step needs"),
    ("step", fail, "Toy.step raises KeyError in line "),
    ("spec", fail, "Toy.spec raises KeyError in line "),
    ("spec", lambda spec: SEEN, "Toy.spec must be a wmg.EnvSpec, got a ObservationSpec"),
]
PLAYED = [
    (
        "seen",
        put(lambda s: s.core, jnp.array([1, jnp.nan])),
        "Toy.reset: observation.core is NaN or infinite in random play",
    ),
    (
        "later",
        put(lambda s: s.factors["balls"].values, jnp.full((3, 2), jnp.inf)),
        "Toy.step: observation.factors['balls'].values is NaN or infinite",
    ),
    (
        "step",
        put(lambda s: s.reward, jnp.float32(jnp.nan)),
        "Toy.step: reward is NaN or infinite in random play",
    ),
    (
        "after",
        lambda s: {**s, "time": s["time"] * 0},
        "Toy: an episode goes on after 3 steps, the most that its EnvSpec promises: step must end",
    ),
]


@pytest.mark.parametrize(("part", "wrong", "sentence"), MISTAKES)
def test_a_mistake_in_shapes_is_said_in_one_sentence(part, wrong, sentence):
    with pytest.raises(BadInput) as caught:
        check_shapes(Toy(((part, wrong),)))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("part", "wrong", "sentence"), PLAYED)
def test_a_mistake_that_shows_in_play_is_said_in_one_sentence(part, wrong, sentence):
    env = Toy(((part, wrong),))
    check_shapes(env)
    with pytest.raises(BadInput) as caught:
        check_play(env, steps=8)
    assert sentence in str(caught.value)


def test_one_action_is_no_choice():
    with pytest.raises(BadInput, match="Toy has one action: there is nothing to choose"):
        check_play(Toy((("spec", spec(actions=1)),)), steps=8)


def test_the_users_own_error_is_the_cause_with_its_traceback():
    with pytest.raises(BadInput, match=r"test_check.py: .the user's own mistake") as caught:
        check_shapes(Toy((("step", fail),)))
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError) and cause.__traceback__ is not None


class Counting(Toy):
    """A number that decides shapes and is not declared static; a field that is no array."""

    size: int = 3
    words: str | None = None

    def reset(self, key):
        return super().reset(key) if jnp.zeros(self.size).shape else None


def test_fields_that_are_no_arrays_are_told_from_those_that_are():
    with pytest.raises(BadInput, match=r"decides shapes is a field with equinox.field\(static"):
        check_shapes(Counting())
    with pytest.raises(BadInput, match=r"Counting.words is a str and no array: declare the field"):
        check_shapes(Counting(words="left"))


class Gym:
    """A Gymnasium environment: two numbers and a number of steps."""

    def __init__(self, wrong=None, at=5):
        self.wrong, self.at, self.time = wrong, at, 0

    def reset(self, *, seed=None):
        self.time = 0
        return np.ones(2, np.float32), {}

    def step(self, action):
        self.time += 1
        seen, pay, over = np.ones(2, np.float32), 0.0, self.time >= 8
        if self.time == self.at and self.wrong:
            seen, pay, over = self.wrong(seen, pay, over)
        return seen, pay, over, False, {}


def hosted(wrong=None, **changes):
    numbers = {"actions": 2, "max_steps": 8, "metric": "reward", **changes}
    spec = EnvSpec(ObservationSpec(2), **numbers)
    return host.as_envs(host.Host(Gym(wrong), lambda x: host_arrays.observation(x, {}), spec))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda s, p, o: (s[:1], p, o), "the Core must have the shape (2,), got (1,)"),
        (lambda s, p, o: (s * np.nan, p, o), "the Core of environment 0 is not finite: nan"),
        (lambda s, p, o: (s, float("inf"), o), "the reward of environment 0 is not finite: inf"),
        (lambda s, p, o: fail(s), "Gym.step raises KeyError in line"),
    ],
)
def test_a_mistake_on_the_host_is_said_in_one_sentence(wrong, sentence):
    with pytest.raises(BadInput) as caught:
        check_play(hosted(wrong), steps=20)
    assert sentence in str(caught.value)
    check_play(hosted(), steps=20)


def test_an_episode_on_the_host_that_is_longer_than_promised_is_refused():
    with pytest.raises(BadInput, match="an episode goes on after 7 steps"):
        check_play(hosted(max_steps=7), steps=20)


@pytest.fixture
def shelf(monkeypatch, request):
    monkeypatch.syspath_prepend(str(request.config.rootpath / "examples"))
    own_environment = importlib.import_module("own_environment")
    yield own_environment.Shelf(3)
    registry.ENVS.pop(own_environment.ShelfSettings.name, None)
    sys.modules.pop("own_environment", None)


def test_the_example_and_the_packages_environments_pass(shelf):
    small = PathfindingSettings(nodes=3, pattern=2), BabyAISettings(level="GoToObj")
    for env in (Toy(), Bag(2), shelf, *map(registry.make_env, small)):
        check_shapes(env)
        check_play(env, steps=32)
