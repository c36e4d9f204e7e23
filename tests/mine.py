"""An agent of one's own with its network, registered beside the environment of `own.py`.

Importing this registers both: tests do it in processes of their own.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from own import Bag, BagSettings

from wmg import registry
from wmg.config import Config
from wmg.settings import AgentSettings
from wmg.types import Learner, Summary


@dataclasses.dataclass(frozen=True)
class PurseSettings(BagSettings):
    """A bag by another name."""

    name: ClassVar[str] = "purse"
    title: ClassVar[str] = "Purse"


@dataclasses.dataclass(frozen=True)
class AdderSettings(AgentSettings):
    """Adds up what it sees, and remembers some of it."""

    name: ClassVar[str] = "adder"

    width: int = 4
    """Size of its memory."""


class Adder(Learner[jax.Array]):
    """A recurrent network over the sums of all Factors."""

    remember: eqx.nn.Linear
    heads: eqx.nn.Linear
    width: int = eqx.field(static=True)

    def __init__(self, seen, actions, *, width, key):
        first, second = jax.random.split(key)
        size = seen.core + sum(count * size for _, count, size in seen.factors)
        self.remember = eqx.nn.Linear(size + width, width, key=first)
        self.heads = eqx.nn.Linear(width, actions + 1, key=second)
        self.width = width

    def initial_memory(self):
        return jnp.zeros(self.width)

    def summarise(self, observation, memory):
        each = [f.values * f.present[:, None] for f in observation.factors.values()]
        flat = [observation.core, *(values.ravel() for values in each), memory]
        memory = jnp.tanh(self.remember(jnp.concatenate(flat)))
        return Summary(memory, memory)

    def decide(self, summary):
        out = self.heads(summary)
        return out[:-1], out[-1]


registry.register_env(PurseSettings, Bag)
registry.register_agent(AdderSettings, Adder)

CONFIG = Config(env=PurseSettings(), agent=AdderSettings(), steps=4000, report_every=40)
