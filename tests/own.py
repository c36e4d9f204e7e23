"""An environment and an agent as somebody else would write them, outside of the package."""

import contextlib
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wmg import registry
from wmg.agents.layers import Linear
from wmg.hooks import Bounds
from wmg.settings import EnvSettings, require_counts
from wmg.types import (
    Agent,
    Env,
    EnvSpec,
    Factors,
    Learner,
    Observation,
    ObservationSpec,
    Output,
    Summary,
)
from wmg.types import Step as EnvStep


@dataclasses.dataclass(frozen=True)
class BagSettings(EnvSettings):
    """A bag of coins; each can be taken once."""

    name: ClassVar[str] = "bag"
    title: ClassVar[str] = "Bag"

    coins: int = 3

    def __post_init__(self):
        require_counts(self, coins=1)


class BagState(eqx.Module):
    """What each coin is worth, which are still there, and how many steps were taken."""

    worth: jax.Array
    there: jax.Array
    time: jax.Array


class Bag(Env[BagState]):
    """Action i takes coin i and pays its worth. The episode ends when the bag is empty."""

    coins: int = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        seen = ObservationSpec(core=1, factors=(("coins", self.coins, 2),))
        return EnvSpec(seen, actions=self.coins, max_steps=4 * self.coins, metric="success")

    def reset(self, key):
        worth, there = jax.random.uniform(key, (self.coins,)), jnp.ones(self.coins, bool)
        state = BagState(worth, there, jnp.int32(0))
        return state, self.observe(state)

    def step(self, state, action, key):
        taken = jnp.arange(self.coins) == action
        paid = jnp.where(taken & state.there, state.worth, 0.0).sum()
        after = BagState(state.worth, state.there & ~taken, state.time + 1)
        empty, late = ~after.there.any(), after.time >= self.spec.max_steps
        return EnvStep(after, self.observe(after), paid, empty, late & ~empty, empty)

    def observe(self, state):
        rows = jnp.stack([state.worth, jnp.arange(self.coins) / self.coins], axis=1)
        return Observation(jnp.full(1, 0.25), {"coins": Factors(rows, state.there)})


def make_bag():
    """A bag, for those that want a function."""
    return Bag(3)


class Sums(Learner[None]):
    """Decides by the sums of what it sees, and remembers nothing."""

    heads: Linear

    def __init__(self, observation, actions, *, key):
        (_, _, size), *_ = observation.factors
        self.heads = Linear.create(observation.core + size, actions + 1, key=key)

    def initial_memory(self):
        return None

    def summarise(self, observation, memory):
        coins = observation.factors["coins"]
        total = (coins.values * coins.present[:, None]).sum(0)
        return Summary(jnp.concatenate([observation.core, total]), memory)

    def decide(self, summary):
        out = self.heads(summary)
        return out[:-1], out[-1]


class PaintedBag(Bag):
    """The same with every hook of an environment except `scene`."""

    def picture(self, state):
        shades = np.where(state.there, 255 * np.asarray(state.worth), 0).astype(np.uint8)
        return np.repeat(np.tile(shades, (8, 8)).repeat(2, 1)[..., None], 3, -1)

    def text(self, state):
        return f"{int(np.sum(state.there))} coins"

    def bounds(self):
        return Bounds(numbers=(0.0, 1.0))

    def info(self, state):
        return {"sum": float(np.sum(state.worth)), "name": f"bag of {self.coins}"}


class Gazer(Agent[None]):
    """Attends to the Core and to all coins that are there alike, and takes one of them."""

    def initial_memory(self):
        return None

    def __call__(self, observation, memory):
        seen = jnp.concatenate([jnp.ones(1), observation.factors["coins"].present])
        logits = 20.0 * observation.factors["coins"].present
        return Output(logits, jnp.zeros(()), memory, (seen / seen.sum())[None, None])


@contextlib.contextmanager
def registered(constructor=Bag):
    """The environment is one of the registry's in here."""
    registry.register_env(BagSettings, constructor)
    try:
        yield BagSettings
    finally:
        del registry.ENVS[BagSettings.name]
