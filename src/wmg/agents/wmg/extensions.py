"""What WMG can have beyond the paper: the three directions of its future work.

Each extension replaces or adds one part of the agent and leaves all other parts as they are.
"""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray, PyTree

from wmg.agents.layers import with_he_weights
from wmg.agents.wmg.agent import WMG
from wmg.agents.wmg.edges import EdgeContent, EdgeTransformer, edge_maps
from wmg.agents.wmg.lifetimes import FlexibleEmbedding
from wmg.agents.wmg.settings import WMGSettings
from wmg.agents.wmg.store import MemoryVectors
from wmg.types import ObservationSpec


def extend(
    agent: WMG, observation: ObservationSpec, settings: WMGSettings, key: PRNGKeyArray
) -> WMG:
    """The paper's agent with the extensions of its settings."""
    lkey, ekey, tkey, skey = jax.random.split(jax.random.fold_in(key, 1), 4)
    if settings.lifetimes == "attention":
        agent = _with_lifetimes(agent, observation, settings, lkey)
    if settings.edges != "none":
        agent = _with_edges(agent, observation, settings, ekey, tkey)
    if settings.store:
        agent = _with_store(agent, settings, skey)
    return agent


def _with_lifetimes(
    agent: WMG, observation: ObservationSpec, settings: WMGSettings, key: PRNGKeyArray
) -> WMG:
    embedding = FlexibleEmbedding.create(
        settings.slots,
        settings.memo_size,
        settings.heads * settings.head_size,
        added=settings.age == "added",
        floor=settings.slots if settings.start == "full" else 0,
        first=1 + sum(count for _, count, _ in observation.factors),
        decay=settings.attention_decay,
        drop_below=settings.drop_below,
        key=key,
    )
    return _with(agent, "memory_embedding", _initial(settings, embedding))


def _with_edges(
    agent: WMG,
    observation: ObservationSpec,
    settings: WMGSettings,
    ekey: PRNGKeyArray,
    tkey: PRNGKeyArray,
) -> WMG:
    of_factors = settings.edges in ("factors", "both")
    if of_factors and not observation.factors:
        raise ValueError(
            f"edges must be 'none' or 'memos' for an observation without Factors, "
            f"got {settings.edges!r}"
        )
    factors = observation.factors if of_factors else ()
    slots = settings.slots if settings.edges in ("memos", "both") else 0
    edges = EdgeContent.create(factors, settings.edge_size, slots, key=ekey)
    maps = _initial(settings, edge_maps(agent.transformer, edges.size, key=tkey))
    agent = _with(agent, "transformer", EdgeTransformer.of(agent.transformer, maps))
    return _with(agent, "edge_content", _initial(settings, edges))


def _with_store(agent: WMG, settings: WMGSettings, key: PRNGKeyArray) -> WMG:
    size = settings.heads * settings.head_size
    vectors = MemoryVectors.create(
        settings.store, settings.store_size, settings.reads, size, key=key
    )
    return _with(agent, "memory_vectors", _initial(settings, vectors))


def _initial(settings: WMGSettings, layers: PyTree) -> PyTree:
    """New layers with the initial weights of the agent's other layers."""
    return with_he_weights(layers) if settings.init == "he" else layers


def _with(agent: WMG, name: str, part: Any) -> WMG:
    """The agent with another part."""
    return eqx.tree_at(lambda agent: getattr(agent, name), agent, part, is_leaf=lambda x: x is None)
