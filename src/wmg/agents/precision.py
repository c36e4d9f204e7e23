"""An agent that computes in a shorter number format, for faster products."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from wmg.agents.heads import ActorCritic
from wmg.types import Agent, Observation, Output


def in_precision(agent: Agent, precision: str) -> Callable[[Observation, Any], Output]:
    """The agent's step with weights of that precision; what goes in and comes out is float32.

    Layers compute in the precision of their weights, and normalise in float32. Actor and critic
    keep float32: a value needs more than the three digits of bfloat16.
    """
    if precision == "float32":
        return agent
    is_head = lambda node: isinstance(node, ActorCritic)  # noqa: E731
    low = jax.tree.map(lambda x: x if is_head(x) else _cast(x, precision), agent, is_leaf=is_head)

    def step(observation: Observation, memory: Any) -> Output:
        return jax.tree.map(lambda x: _cast(x, "float32"), low(observation, memory))

    return step


def _cast(leaf: Any, dtype: str) -> Any:
    return leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
