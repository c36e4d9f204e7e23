"""Agents that do not learn: Depth-n and random."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.types import Agent, Observation, ObservationSpec, Output

SURE = 1e4
"""A logit high enough that the other actions are never sampled."""


class Graph(eqx.Module):
    """All patterns seen, and the length of the path from each to each (0: no path)."""

    patterns: Float[Array, "nodes pattern"]
    lengths: Int[Array, "nodes nodes"]
    count: Int[Array, ""]

    def add(self, pattern: Float[Array, " pattern"]) -> tuple[Bool[Array, " nodes"], "Graph"]:
        """Where `pattern` stands, and this graph with it added if it is new."""
        known = (self.patterns == pattern).all(1)
        is_new = ~known.any()
        place = jnp.where(is_new, jnp.arange(known.shape[0]) == self.count, known)
        patterns = jnp.where(place[:, None], pattern, self.patterns)
        return place, Graph(patterns, self.lengths, self.count + is_new)

    def link(self, a: Bool[Array, " nodes"], b: Bool[Array, " nodes"]) -> "Graph":
        """This graph with a link from node `a` to node `b`: whatever leads to a now goes on."""
        to_a = jnp.where(a, 0, self.lengths @ a)
        from_b = jnp.where(b, 0, b @ self.lengths)
        joined = (a | (to_a > 0))[:, None] & (b | (from_b > 0))
        lengths = jnp.where(joined, to_a[:, None] + 1 + from_b, self.lengths)
        return Graph(self.patterns, lengths, self.count)


class Depth(Agent[Graph]):
    """The paper's hand-coded Pathfinding baseline (appendix A): yes if 0 < length <= depth."""

    depth: int = eqx.field(static=True)
    nodes: int = eqx.field(static=True)
    pattern: int = eqx.field(static=True)

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        depth: int,
        nodes: int,
        key: PRNGKeyArray,
    ):
        del key  # it has nothing to learn
        if observation.factors or observation.core % 2 == 0 or actions != 2:
            raise ValueError("the Depth-n agent only plays Pathfinding")
        self.depth, self.nodes, self.pattern = depth, nodes, (observation.core - 1) // 2

    def initial_memory(self) -> Graph:
        nowhere = jnp.full((self.nodes, self.pattern), jnp.inf)
        lengths = jnp.zeros((self.nodes, self.nodes), jnp.int32)
        return Graph(nowhere, lengths, jnp.zeros((), jnp.int32))

    def __call__(self, observation: Observation, memory: Graph) -> Output[Graph]:
        source, target = observation.core[:-1].reshape(2, self.pattern)
        is_quiz = observation.core[-1] > 0.5
        a, graph = memory.add(source)
        b, graph = graph.add(target)
        length = a @ memory.lengths @ b
        yes = (length > 0) & (length <= self.depth)
        logits = jnp.where(yes, SURE, -SURE) * jnp.array([-1.0, 1.0])
        learned = graph.link(a, b)
        after = jax.tree.map(lambda old, new: jnp.where(is_quiz, old, new), memory, learned)
        return Output(logits, jnp.zeros(()), after)


class Random(Agent[None]):
    """An agent that finds all actions equally good."""

    actions: int = eqx.field(static=True)

    def __init__(self, observation: ObservationSpec, actions: int, *, key: PRNGKeyArray):
        del observation, key
        self.actions = actions

    def initial_memory(self) -> None:
        return None

    def __call__(self, observation: Observation, memory: None) -> Output[None]:
        return Output(jnp.zeros(self.actions), jnp.zeros(()), None)
