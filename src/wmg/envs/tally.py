"""An environment that keeps the whole reward of its episode, for scores that are mean returns."""

from typing import Any, Generic

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from wmg.types import Env, EnvSpec, Observation, State, Step


class TalliedState(eqx.Module, Generic[State]):
    """The state of an episode, and its reward so far."""

    state: State
    total: Float[Array, ""]


class Tallied(Env[TalliedState[State]]):
    """An environment whose steps have a `total`."""

    env: Env[State]

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def reset(self, key: PRNGKeyArray) -> tuple[TalliedState[State], Observation]:
        state, observation = self.env.reset(key)
        return TalliedState(state, jnp.zeros(())), observation

    def step(
        self, state: TalliedState[State], action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[TalliedState[State]]:
        made: Any = self.env.step(state.state, action, key)
        total = state.total + made.reward
        after = TalliedState(made.state, total)
        ends = made.terminated, made.truncated, made.success
        return Step(after, made.observation, made.reward, *ends, total)
