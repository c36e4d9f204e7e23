"""Environments so small that an agent fails them for one reason, and agents to match.

After Andy Jones' "Debugging RL, without the agonizing pain" and rejax's tests.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wmg import registry
from wmg.agents.drc.settings import DRCSettings
from wmg.agents.film.settings import FiLMSettings
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.gtrxl.settings import GTrXLSettings
from wmg.agents.lstm.settings import LSTMSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.types import Agent, Env, EnvSpec, Factors, Observation, ObservationSpec, Output, Step


class Moment(eqx.Module):
    """The secret of the episode, +1 or -1, and the time."""

    cue: Float[Array, ""]
    time: Int[Array, ""]


class Probe(Env[Moment]):
    """An episode of `length` steps in which only a cue is random."""

    length: int = eqx.field(static=True, default=1)
    actions: int = eqx.field(static=True, default=1)

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(self.shape(), self.actions, self.length, metric="reward")

    def shape(self) -> ObservationSpec:
        return ObservationSpec(core=2)

    @abc.abstractmethod
    def observe(self, state: Moment) -> Observation: ...

    @abc.abstractmethod
    def pay(self, state: Moment, action: Array) -> Array: ...

    def reset(self, key):
        state = Moment(jax.random.rademacher(key, (), jnp.float32), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, state, action, key):
        del key
        after = Moment(state.cue, state.time + 1)
        reward = jnp.asarray(self.pay(state, action), jnp.float32)
        done, no = after.time >= self.length, jnp.zeros((), bool)
        return Step(after, self.observe(after), reward, done, no, reward > 0)


def core(*numbers) -> Observation:
    return Observation(jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers]))


def chosen(state: Moment, action: Array) -> Array:
    """1 where action 1 answers cue +1, or action 0 answers cue -1."""
    return (action == 1) == (state.cue > 0)


class Constant(Probe):
    """Always pays 1."""

    def observe(self, state):
        return core(0, 1)

    def pay(self, state, action):
        return 1.0


class PaysTheCue(Probe):
    """Pays the number it shows."""

    def observe(self, state):
        return core(state.cue, 1)

    def pay(self, state, action):
        return state.cue


class PaysAtTheEnd(Probe):
    """Shows the time and pays 1 in the last step."""

    def observe(self, state):
        return core(state.time, 1)

    def pay(self, state, action):
        return state.time == self.length - 1


class PaysActionOne(Probe):
    """Pays for action 1, shows nothing."""

    def observe(self, state):
        return core(0, 1)

    def pay(self, state, action):
        return action == 1


class PaysTheFittingAction(Probe):
    """Shows a cue and pays for the action that fits it."""

    def observe(self, state):
        return core(state.cue, 1)

    def pay(self, state, action):
        return chosen(state, action)


class AsksLater(Probe):
    """Shows a cue in the first step and pays for the fitting action in the last."""

    def observe(self, state):
        return core(jnp.where(state.time == 0, state.cue, 0.0), state.time == self.length - 1)

    def pay(self, state, action):
        return chosen(state, action) & (state.time == self.length - 1)


class AsksLaterAboutAPicture(AsksLater):
    """Shows the cue in a corner of a picture, and the time of the question in another."""

    def shape(self):
        return ObservationSpec(core=1, image=(3, 3, 1))

    def observe(self, state):
        return picture(*super().observe(state).core)


def picture(cue, asked) -> Observation:
    image = jnp.zeros((3, 3, 1)).at[0, 0, 0].set(cue).at[2, 2, 0].set(asked)
    return Observation(jnp.zeros(1), image=image)


class AsksLaterAboutAWord(AsksLater):
    """Says one of two words first, and shows in a corner of the picture when it asks."""

    def shape(self):
        return ObservationSpec(core=2, image=(7, 7, 1))

    def observe(self, state):
        return spoken(*super().observe(state).core)


def spoken(cue, asked) -> Observation:
    image = jnp.zeros((7, 7, 1)).at[0, 0, 0].set(asked)
    word = jnp.where(jnp.asarray(cue) == 0, 0.0, jnp.where(jnp.asarray(cue) > 0, 1.0, 2.0))
    return Observation(jnp.stack([word, jnp.float32(3)]), image=image)


KINDS = jnp.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.3, 0.3, -1.0]])
"""Factor rows: the one of cue -1, the one of cue +1, and one that is always there."""


def things(cue, order=(0, 1, 2), padding=0) -> Observation:
    """Two Factors, the cue's and the one always there, in that order, then padding."""
    place = jnp.array(order)
    present = jnp.stack([cue < 0, cue > 0, jnp.ones((), bool)])[place]
    values = jnp.concatenate([KINDS[place], jnp.full((padding, 3), 7.0)])
    present = jnp.concatenate([present, jnp.zeros(padding, bool)])
    return Observation(jnp.ones(2), {"things": Factors(values, present)})


class AsksWhichThing(Probe):
    """Pays for the action that fits the Factor that is present."""

    def shape(self):
        return ObservationSpec(core=2, factors=(("things", 3, 3),))

    def observe(self, state):
        return things(state.cue)

    def pay(self, state, action):
        return chosen(state, action)


class Errand(Env[Moment]):
    """Shows how hard it is, from 0 to 1. Action 1 solves it at once; without, it fails at the end.

    Solved episodes are short: whoever counts those that end first sees too many of them.
    """

    length: int = eqx.field(static=True, default=9)

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(ObservationSpec(core=1), 2, self.length, metric="success")

    def reset(self, key):
        state = Moment(jax.random.uniform(key), jnp.zeros((), jnp.int32))
        return state, core(state.cue)

    def step(self, state, action, key):
        del key
        after, solved = Moment(state.cue, state.time + 1), action == 1
        over = ~solved & (after.time == self.length)
        return Step(after, core(after.cue), solved.astype(jnp.float32), solved, over, solved)


class Skilled(Agent[None]):
    """Solves the errands that are easier than it is skilled, and no other."""

    skill: Float[Array, ""]

    def initial_memory(self):
        return None

    def __call__(self, observation, memory):
        sure = 1e6 * (self.skill - observation.core[0])
        return Output(jnp.stack([-sure, sure]), jnp.zeros(()), None)


TINY = {"memo_size": 6, "layers": 2, "heads": 2, "head_size": 4, "hidden": 6, "slots": 3}


def build(settings, spec: EnvSpec, seed=0):
    """An agent from its settings."""
    return registry.make_agent(settings, spec, jax.random.key(seed))


def tiny_wmg(spec: EnvSpec, seed=0, **changes):
    return build(WMGSettings(**{**TINY, "actor_critic": 8, **changes}), spec, seed)


def tiny_gru(spec: EnvSpec, seed=0):
    return build(GRUSettings(embedding=4, size=6, actor_critic=8), spec, seed)


def tiny_lstm(spec: EnvSpec, seed=0):
    return build(LSTMSettings(embedding=4, size=6, actor_critic=8), spec, seed)


def tiny_gtrxl(spec: EnvSpec, seed=0):
    settings = GTrXLSettings(slots=3, layers=2, heads=2, head_size=3, hidden=5, actor_critic=8)
    return build(settings, spec, seed)


def tiny_drc(spec: EnvSpec, seed=0):
    return build(DRCSettings(layers=2, ticks=2, channels=4, actor_critic=32), spec, seed)


def tiny_film(spec: EnvSpec, seed=0):
    return build(FiLMSettings(size=8, vocabulary=4, actor_critic=8), spec, seed)
