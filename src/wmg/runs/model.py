"""A trained agent, ready to be used: it knows its settings and its environment."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from wmg import registry
from wmg.config import Config
from wmg.play import evaluate
from wmg.play.check import spec_of
from wmg.play.source import HostSource, play_episodes
from wmg.runs import checkpoint, hardware
from wmg.settings import EnvSettings, require
from wmg.tools import scores
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, EnvSpec, Observation


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How an agent played some episodes."""

    score: float
    """In percent: of episodes solved, or of the reward of a perfect agent, as the metric of the
    environment says. With the metric "return" it is the mean return of an episode."""
    standard_error: float
    """Of the score."""
    success: float
    """The share of episodes that were solved."""
    episodes: int
    mean_length: float
    metric: str

    def __str__(self) -> str:
        score = scores.write(self.metric, self.score, 2)
        return (
            f"{score} (standard error {self.standard_error:.2f}) "
            f"over {self.episodes:,} episodes of {self.mean_length:.0f} steps"
        )


@dataclasses.dataclass
class Model:
    """An agent and what it was trained with."""

    agent: Agent
    config: Config
    spec: EnvSpec
    """Of the environment it was trained on."""
    own_env: Env | HostSource | None = None
    """The environment, if its settings do not name it."""

    @functools.cached_property
    def env(self) -> Any:
        """The environment on which the agent is tested: an `Env` or a `HostSource`."""
        settings = self.config.env
        return registry.make_env(settings and settings.held_out().pinned(), self.own_env)

    def on(self, named: EnvSettings | None, own: Env | HostSource | None = None) -> "Model":
        """The same agent for another environment, whose observations have the same shapes."""
        env = registry.make_env(named, own)
        spec = spec_of(env)
        if (spec.observation, spec.actions) != (self.spec.observation, self.spec.actions):
            raise BadInput(
                f"the model takes {self.spec.observation} and {self.spec.actions} actions, "
                f"and the environment has {spec.observation} and {spec.actions}"
            )
        model = Model(self.agent, dataclasses.replace(self.config, env=named), spec, own)
        model.env = env  # as it was asked for, not its held-out form
        return model

    def initial_memory(self) -> Any:
        """The memory with which an episode begins."""
        return self.agent.initial_memory()

    def act(
        self, seen: Any, memory: Any = None, key: PRNGKeyArray | None = None
    ) -> tuple[Int[Array, ""], Any]:
        """An action, and the memory for the next step.

        `seen` is an `Observation` or, from a Gymnasium environment, what that shows. Without a
        memory the agent begins an episode. With a key it samples from its policy; without one it
        takes the most likely action.
        """
        if not isinstance(seen, Observation):
            seen = self._observe(seen)
        memory = self.agent.initial_memory() if memory is None else memory
        noise = jnp.zeros(self.spec.actions)
        if key is not None:
            noise = jax.random.gumbel(key, noise.shape)
        action, output = _act(self.agent, seen, memory, noise)
        return action, output.memory

    def _observe(self, seen: Any) -> Observation:
        if isinstance(self.env, HostSource):
            return self.env.mapping.observe(seen)
        raise BadInput(f"seen must be a wmg.Observation, got {type(seen).__name__}")

    def evaluate(
        self,
        episodes: int = 1000,
        *,
        seed: int = 1,
        greedy: bool = False,
        thinking: int = 0,
        show: Callable[[str, int, int], None] | None = None,
    ) -> Evaluation:
        """How well it plays fresh episodes: the episodes of this test seed are the same for
        every model. Arguments as for `wmg.evaluate`."""
        for name, value, least, most in (
            ("episodes", episodes, 2, 10_000_000),
            ("seed", seed, 0, 2**31 - 1),
        ):
            fits = type(value) is int and least <= value <= most
            require(fits, name, value, f"a whole number from {least} to {most:,}")
        with hardware.products(self.config.precision):
            test = self.env, self.agent, seed, episodes, greedy
            played = play_episodes(*test, show, thinking)
        return Evaluation(**{**evaluate.summary(self.spec, played), "metric": self.spec.metric})

    def save(self, path: pathlib.Path | str, **about: Any) -> None:
        """Write the agent and its settings to a file."""
        checkpoint.save_model(path, self.agent, self.config, self.spec, **about)


_act = eqx.filter_jit(evaluate.act)
