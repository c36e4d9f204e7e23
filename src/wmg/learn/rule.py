"""A learning rule starts a run and advances it to a step count.

A rule is written for one run. `wmg.runs.hardware` runs many of them, as `spread` says.
"""

import abc
import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.config import Hyper
from wmg.learn import optimizer
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, Learner, Run, Scene, Totals


@dataclasses.dataclass(frozen=True)
class Rule(abc.ABC):
    """A learning rule with its static settings."""

    t_max: int
    """Longest update window: gradients reach this many steps back."""
    bootstrap_truncated: bool = dataclasses.field(default=False, kw_only=True)
    """Whether returns bootstrap from the value of the last observation of a truncated episode."""

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


def new_run(agent: Agent, scene: Scene, key: PRNGKeyArray) -> Run:
    """A run of this agent that has not taken a step, from this scene."""
    if not isinstance(agent, Learner):
        name = type(agent).__name__
        raise BadInput(f"{name} cannot be trained: it does not derive from wmg.types.Learner")
    steps, diverged = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return Run(agent, optimizer.start(agent), scene, key, steps, diverged)
