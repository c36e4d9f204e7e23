"""What a learning rule is: it starts a run and advances it to a step count.

A rule is written for one run. `wmg.runs.hardware` runs many of them, as `spread` says.
"""

import abc
import dataclasses
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.config import Hyper
from wmg.play.act import Scene
from wmg.types import Agent, Env, Learner


class Run(eqx.Module):
    """The whole of a training run: what a checkpoint holds, and all that resuming needs."""

    agent: Learner
    optimizer: PyTree[Any]
    scene: Scene
    key: PRNGKeyArray
    steps: Int[Array, ""]
    diverged: Bool[Array, ""]
    """Whether a loss or gradient was not finite; such a run stands still from then on."""


class Totals(eqx.Module):
    """Sums over the updates of a report interval."""

    steps: Int[Array, ""]
    windows: Int[Array, ""]
    episodes: Int[Array, ""]
    successes: Int[Array, ""]
    reward: Float[Array, ""]
    policy_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    gradient_norm: Float[Array, ""]

    @staticmethod
    def zeros() -> "Totals":
        counts = [jnp.zeros((), jnp.int32)] * 4
        return Totals(*counts, *[jnp.zeros(())] * 5)


@dataclasses.dataclass(frozen=True)
class Rule(abc.ABC):
    """A learning rule with its static settings."""

    t_max: int
    """Longest update window: gradients reach this many steps back."""

    spread: ClassVar[Literal["runs", "envs"]]
    """Whether an accelerator computes many runs as one program, or each run alone with its
    environments split over the devices."""

    @abc.abstractmethod
    def start(self, env: Env, agent: Agent, key: PRNGKeyArray) -> Run:
        """A run that has not taken a step."""

    @abc.abstractmethod
    def advance(
        self, env: Env, hyper: Hyper, run: Run, until: Int[Array, ""], batch: str | None = None
    ) -> tuple[Run, Totals]:
        """The run after its first update that ends at or after `until` steps, and the sums over
        all updates on the way. `batch` names the axis over which runs are mapped, if they are."""
