"""Many environments at once, with a new episode where one ends.

A new episode is worth many steps, so it is drawn only where it is needed: the environments that
are done are gathered, a fixed number at a time, and only those are reset. Every episode is a
fresh draw of the environment's own `reset`, so nothing about its distribution changes.
"""

from typing import Any, Generic

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg.types import Env, Observation, State, Step


class Round(eqx.Module):
    """How far new episodes have been given out."""

    done: Bool[Array, " size"]
    current: Any
    """State and observation of every environment."""
    key: PRNGKeyArray


class Batch(eqx.Module, Generic[State]):
    """`size` environments of one kind. States, observations and actions have a first axis."""

    env: Env[State]
    size: int = eqx.field(static=True)

    @property
    def width(self) -> int:
        """How many environments are reset at once."""
        return max(1, self.size // 32)

    def reset(self, key: PRNGKeyArray) -> tuple[State, Observation]:
        """A fresh episode everywhere."""
        return jax.vmap(self.env.reset)(jax.random.split(key, self.size))

    def step(
        self, state: State, actions: Int[Array, " size"], key: PRNGKeyArray
    ) -> tuple[State, Observation, Step[State]]:
        """What all actions lead to.

        State and observation are those to go on from: of a new episode where one ended. The
        step is as the environments gave it: reward and ends, and where an episode ended, its
        last observation.
        """
        skey, rkey = jax.random.split(key)
        step = jax.vmap(self.env.step)(state, actions, jax.random.split(skey, self.size))
        start = Round(step.terminated | step.truncated, (step.state, step.observation), rkey)

        # Not `self._renew` itself: it would be hashed, with whatever arrays the environment holds.
        def renew(last: Round) -> Round:
            return self._renew(last)

        end = jax.lax.while_loop(lambda last: last.done.any(), renew, start)
        return *end.current, step

    def _renew(self, last: Round) -> Round:
        """Start new episodes in the first environments that are done."""
        key, rkey = jax.random.split(last.key)
        (lanes,) = jnp.nonzero(last.done, size=self.width, fill_value=self.size)
        fresh = jax.vmap(self.env.reset)(jax.random.split(rkey, self.width))

        def put(whole: Array, new: Array) -> Array:
            return whole.at[lanes].set(new, mode="drop")

        current = jax.tree.map(put, last.current, fresh)
        return Round(last.done.at[lanes].set(False, mode="drop"), current, key)
