"""One step of an agent in an environment: what every loop that plays has in common."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.types import Agent, Env, Observation, Output


class Scene(eqx.Module):
    """Where an episode stands: the environment's side and the agent's side of it."""

    state: PyTree[Any]
    observation: Observation
    memory: PyTree[Any]


def start_scene(env: Env, agent: Agent, key: PRNGKeyArray) -> Scene:
    """The beginning of an episode."""
    return Scene(*env.reset(key), agent.initial_memory())


def sample(logits: Float[Array, " actions"], noise: Float[Array, " actions"]) -> Int[Array, ""]:
    """An action from the policy, given Gumbel noise; the most likely one, given zeros."""
    return jnp.argmax(logits + noise).astype(jnp.int32)


def act(
    agent: Agent, observation: Observation, memory: PyTree, noise: Float[Array, " actions"]
) -> tuple[Int[Array, ""], Output]:
    """The agent's action, and all that it makes of the observation."""
    output = agent(observation, memory)
    return sample(output.logits, noise), output


def keep_if(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """`new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)
