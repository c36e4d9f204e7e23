"""Specs that make no sense, and the places where an environment of one's own comes in."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import tiny
from toy import Plain, Toy

import wmg
from wmg import registry
from wmg.cli import inspect
from wmg.interop import outside
from wmg.interop.gymnasium import GymEnv
from wmg.play.check import check_shapes
from wmg.play.check_spec import check_spec
from wmg.play.host import Host, Lockstep
from wmg.play.source import HostSource
from wmg.runs import bench, checkpoint, models
from wmg.runs.model import Model
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, ObservationSpec, Step

FINE = EnvSpec(ObservationSpec(3), 2, 5, "success")
SIZES = "a size of an observation must be from 0 to 16,777,216, got"

IMAGE = "image must be the tuple (width, height, channels) or None, got"
ROWS = "factors must be a tuple with (name, largest count, size) for each type, got"


def spec(observation=FINE.observation, actions=2, max_steps=5, metric="success", perfect=1.0):
    return EnvSpec(observation, actions, max_steps, metric, perfect)


def unchecked(made, **fields):
    """The same with other fields, which the types of its constructor do not allow."""
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def shapes(**fields):
    return spec(unchecked(ObservationSpec(1), **fields))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (spec(ObservationSpec(-1)), f"{SIZES} -1"),
        (spec(ObservationSpec(2**24 + 1)), f"{SIZES} 16777217"),
        (spec(ObservationSpec(1, image=(7, 7, -3))), f"{SIZES} -3"),
        (spec(ObservationSpec(1, (("balls", 3, -2),))), f"{SIZES} -2"),
        (
            spec(ObservationSpec(1, (("b", 1, 1), ("a", 1, 1)))),
            "names of Factors must be different and sorted, got ['b', 'a']",
        ),
        (
            spec(ObservationSpec(1, (("a", 1, 1), ("a", 2, 1)))),
            "names of Factors must be different and sorted, got ['a', 'a']",
        ),
        (unchecked(spec(), observation=3), "observation must be a wmg.ObservationSpec, got 3"),
        (shapes(factors=(("a", 3),)), f"{ROWS} (('a', 3),)"),
        (shapes(factors=(("a", 3, 1), (2, 3, 1))), f"{ROWS} (('a', 3, 1), (2, 3, 1))"),
        (shapes(factors=("abc",)), f"{ROWS} ('abc',)"),
        (shapes(factors=[("a", 3, 1)]), f"{ROWS} [('a', 3, 1)]"),
        (shapes(factors=(["a", 3, 1],)), f"{ROWS} (['a', 3, 1],)"),
        (shapes(image=(7, 7)), f"{IMAGE} (7, 7)"),
        (shapes(image=[7, 7, 3]), f"{IMAGE} [7, 7, 3]"),
        (spec(actions=0), "actions must be a whole number from 1 to 65,536, got 0"),
        (spec(max_steps=0), "max_steps must be a whole number from 1 to 2,147,483,647, got 0"),
        (spec(metric="speed"), "metric must be one of success, reward, return, got 'speed'"),
        (spec(perfect=0.0), "reward_per_step must be a number other than 0, got 0.0"),
        (spec(perfect=jnp.inf), "reward_per_step must be a number other than 0, got inf"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_by_its_own_sentence(wrong, sentence):
    check_spec(FINE)
    with pytest.raises(BadInput) as caught:
        check_spec(wrong)
    assert str(caught.value) == sentence


class Still(Env[jax.Array]):
    """Nothing happens, for as long as its spec says."""

    told: EnvSpec = eqx.field(static=True)

    @property
    def spec(self):
        return self.told

    def reset(self, key):
        return jnp.int32(0), self.spec.observation.zeros()

    def step(self, state, action, key):
        over = state + 1 >= self.spec.max_steps
        seen = self.spec.observation.zeros()
        return Step(state + 1, seen, jnp.float32(0), over, over & False, over)


def model(told):
    return Model(registry.make_agent(tiny.AGENT, told, jax.random.key(0)), tiny.settings(), told)


def saved(told, folder):
    path = folder / "model.safetensors"
    made = model(FINE)
    checkpoint.save_model(path, made.agent, dataclasses.replace(made.config, env=None), told)
    return checkpoint.load_model(path)


def loaded(told, folder):
    path = folder / "model.safetensors"
    made = model(FINE)
    checkpoint.save_model(path, made.agent, dataclasses.replace(made.config, env=None), FINE)
    return wmg.load(path, env=Still(told))


def fitted(told, _):
    @dataclasses.dataclass(frozen=True)
    class StillSettings(EnvSettings):
        name = title = "still"

    registry.register_env(StillSettings, lambda: Still(told))
    return models.fit(model(FINE).agent, tiny.settings(), StillSettings())


WAYS_IN = {
    "train": lambda told, _: check_shapes(Still(told)),
    "evaluate": lambda told, _: model(FINE).on(None, Still(told)),
    "host": lambda told, _: Lockstep([Host(Toy(), Plain().observe, told)]),
    "copies": lambda told, _: HostSource("toy", told, Lockstep, Plain(), Toy),
    "Gymnasium": lambda told, _: GymEnv(Still(told)),
    "file": saved,
    "import path": lambda told, _: outside.adapt(lambda: Still(told), "own:still"),
    "load": loaded,
    "fit": fitted,
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_spec_is_checked_wherever_an_environment_comes_in(way, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "ENVS", dict(registry.ENVS))
    WAYS_IN[way](FINE, tmp_path)
    with pytest.raises(BadInput, match="metric must be one of success, reward, return, got 'x'"):
        WAYS_IN[way](spec(metric="x"), tmp_path)


class Broken(Still):
    """Its author made a mistake in the spec."""

    @property
    def spec(self):
        raise KeyError("my own mistake")


def registered(env, monkeypatch):
    """The name of an environment that somebody registered."""

    @dataclasses.dataclass(frozen=True)
    class OddSettings(EnvSettings):
        name = title = "odd"

    monkeypatch.setattr(registry, "ENVS", dict(registry.ENVS))
    registry.register_env(OddSettings, lambda: env)
    return OddSettings()


RAISING_WAYS_IN = {
    "train": lambda env, _: check_shapes(env),
    "evaluate": lambda env, _: model(FINE).on(None, env),
    "Gymnasium": lambda env, _: GymEnv(env),
    "import path": lambda env, _: outside.adapt(lambda: env, "own:broken"),
    "bench": lambda env, patch: bench.measure_env(registered(env, patch)),
    "inspect": lambda env, patch: inspect.inspect(registered(env, patch).name, (), False),
}


@pytest.mark.parametrize("way", RAISING_WAYS_IN)
def test_a_spec_that_raises_is_named_wherever_an_environment_comes_in(way, monkeypatch):
    with pytest.raises(BadInput, match=r"Broken\.spec raises KeyError in line") as caught:
        RAISING_WAYS_IN[way](Broken(FINE), monkeypatch)
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_speed_of_an_environment_without_actions_is_not_measured(monkeypatch):
    monkeypatch.setattr(registry, "make_env", lambda settings: Still(spec(actions=0)))
    with pytest.raises(BadInput, match="actions must be a whole number from 1"):
        bench.measure_env(None)
