"""An agent that computes in a shorter number format, for faster products."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from wmg.types import Learner, Observation, Summary


def in_precision(agent: Learner, precision: str) -> Callable[[Observation, Any], Summary]:
    """The agent's `summarise_all` with weights of that precision; what goes in and comes out is
    float32.

    Layers compute in the precision of their weights, and normalise in float32. To `decide` is not
    for short numbers: a value needs more than the three digits of bfloat16.
    """
    if precision != "bfloat16":
        return agent.summarise_all
    low = jax.tree.map(lambda x: _cast(x, precision), agent)

    def summarise_all(observation: Observation, memory: Any) -> Summary:
        return jax.tree.map(lambda x: _cast(x, "float32"), low.summarise_all(observation, memory))

    return summarise_all


def _cast(leaf: Any, dtype: str) -> Any:
    return leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf
