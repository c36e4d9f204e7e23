"""Working Memory Graph: a Transformer over the Core, the Factors and the memory (section 3).

With `memory="memos"` this is the paper's WMG; with "observations" it is nr-WMG, whose memory
holds past observations instead; with "none" it is the paper's nr-WMG on BabyAI. The extensions
(`lifetimes`, `edges`, `store`) are not in the paper; docs/extensions.md describes them.
"""

import dataclasses
import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear, with_he_weights
from wmg.agents.wmg.edges import EdgeContent
from wmg.agents.wmg.lifetimes import FlexibleEmbedding, FlexibleMemory
from wmg.agents.wmg.memory import AgeEncoding, Memory, MemoryEmbedding
from wmg.agents.wmg.store import MemoryAndStore, MemoryStore, MemoryVectors
from wmg.agents.wmg.transformer import Transformer
from wmg.types import Observation, ObservationSpec, Output, Summary

Older = Literal["as oldest", "without age"]
AnyMemory = Memory | FlexibleMemory | MemoryAndStore


class WMG(ActorCriticAgent[AnyMemory]):
    """The agent of the paper. See `WMGSettings` for what the settings mean.

    An extension puts its own kind of `memory_embedding` or `transformer` in the place of the
    paper's, or fills `edge_content` or `memory_vectors`: see `wmg.agents.wmg.extensions`.
    """

    core_embedding: Linear
    factor_embeddings: dict[str, Linear]
    memory_embedding: MemoryEmbedding | None
    transformer: Transformer
    new_memo: Linear | None
    edge_content: EdgeContent | None
    memory_vectors: MemoryVectors | None
    actor_critic: ActorCritic

    def __init__(
        self,
        observation: ObservationSpec,
        actions: int,
        *,
        memory: Literal["memos", "observations", "none"],
        slots: int,
        memo_size: int,
        layers: int,
        heads: int,
        head_size: int,
        hidden: int,
        actor_critic: int,
        shared_heads: bool,
        start: Literal["full", "empty"],
        age: AgeEncoding,
        init: Literal["pytorch", "he"] = "pytorch",
        key: PRNGKeyArray,
    ):
        require_parts("WMG", observation, factors=True)
        size = heads * head_size
        ckey, fkey, mkey, tkey, nkey, akey = jax.random.split(key, 6)
        fkeys = jax.random.split(fkey, len(observation.factors))
        core_embedding = Linear.create(observation.core, size, key=ckey)
        factor_embeddings = {
            name: Linear.create(width, size, key=k)
            for (name, _, width), k in zip(observation.factors, fkeys, strict=True)
        }
        vector = memo_size if memory == "memos" else observation.core
        memory_embedding = new_memo = None
        if memory != "none":
            floor = slots if start == "full" else 0
            memory_embedding = MemoryEmbedding.create(slots, vector, size, age, floor, key=mkey)
        transformer = Transformer.create(layers, heads, head_size, hidden, key=tkey)
        if memory == "memos":
            new_memo = Linear.create(size, memo_size, key=nkey)
        made = (core_embedding, factor_embeddings, memory_embedding, transformer, new_memo)
        made = with_he_weights(made) if init == "he" else made
        self.core_embedding, self.factor_embeddings, self.memory_embedding = made[:3]
        self.transformer, self.new_memo = made[3:]
        self.actor_critic = ActorCritic.create(size, actor_critic, actions, shared_heads, key=akey)
        self.edge_content = self.memory_vectors = None

    @property
    def extensions(self) -> tuple[str, ...]:
        """The settings by which it differs from the paper's agents."""
        flexible = isinstance(self.memory_embedding, FlexibleEmbedding)
        on = {
            "lifetimes": flexible,
            "edges": self.edge_content is not None,
            "store": self.memory_vectors is not None,
        }
        return tuple(name for name in on if on[name])

    def initial_memory(self) -> AnyMemory:
        layer = self.core_embedding.weight.T if self.new_memo is None else self.new_memo.weight
        memory = Memory.zeros(0, layer.shape[0], 0)
        if self.memory_embedding is not None:
            memory = self.memory_embedding.start(layer.shape[0])
        return memory if self.memory_vectors is None else self.memory_vectors.start(memory)

    @property
    def remembers(self) -> bool:
        return self.memory_embedding is not None or self.memory_vectors is not None

    def summarise(self, observation: Observation, memory: AnyMemory) -> Summary[AnyMemory]:
        core, attention = self.transformer(*self._embed(observation, memory))
        return Summary(core, self._remember(core, attention, observation, memory), attention)

    def summarise_all(self, observation: Observation, memory: AnyMemory) -> Summary[AnyMemory]:
        core, attention = self.transformer.of_all(*jax.vmap(self._embed)(observation, memory))
        memory = jax.vmap(self._remember)(core, attention, observation, memory)
        return Summary(core, memory, attention)

    def attend_to(
        self, observation: Observation, memory: AnyMemory, on: Bool[Array, " nodes"]
    ) -> tuple[Output[AnyMemory], Bool[Array, " nodes"]]:
        nodes, there, *edges = self._embed(observation, memory)
        core, attention = self.transformer(nodes, there & on, *edges)
        memory = self._remember(core, attention, observation, memory)
        return self.output(Summary(core, memory, attention)), there & on

    def ages(self, observation: Observation, memory: AnyMemory) -> Int[Array, " remembered"] | None:
        """Ages of the Memos, and of what each memory vector has most of."""
        if not {"lifetimes", "store"} & {*self.extensions}:
            return None
        memos, store = _parts(memory)
        ages = [jnp.asarray(memos.ages, jnp.int32)]
        if self.memory_vectors is not None and store is not None:
            core = self.core_embedding(observation.core)
            most = jnp.argmax(self.memory_vectors.weights(core, store), axis=-1)
            ages.append(store.time - store.written[most])
        return jnp.concatenate(ages)

    def edges_between(
        self, observation: Observation, memory: AnyMemory
    ) -> Float[Array, "nodes nodes vector"] | None:
        edges = self._embed(observation, memory)[2:]
        return edges[0] if edges else None

    def specialise(self, observation: Observation, precision: str, share: float = 1.0) -> "WMG":
        """With fused kernels in place of the Transformer, where its sizes allow: in bfloat16 on a
        single NVIDIA GPU that has it."""
        if precision != "bfloat16" or jax.default_backend() != "gpu" or jax.device_count() > 1:
            return self
        if self.extensions:  # the kernels neither see edges nor tell what is attended to
            return self
        generation = getattr(jax.devices()[0], "compute_capability", "").partition(".")[0]
        if not generation.isdecimal() or int(generation) < 8:
            return self
        try:
            from wmg.agents.wmg import kernels as fused
        except ImportError:  # a version of jax without the part they are written in
            return self
        slots = 0 if self.memory_embedding is None else self.memory_embedding.slots
        factors = sum(factor.present.shape[-1] for factor in observation.factors.values())
        if not fused.fits(self.transformer, 1 + factors + slots):
            return self
        room = 1 + math.ceil(share * factors) + slots
        kernels = fused.FusedTransformer.of(self.transformer, room)
        return eqx.tree_at(lambda agent: agent.transformer, self, kernels)

    def _embed(self, observation: Observation, memory: AnyMemory) -> tuple[Array, ...]:
        """What the Transformer takes: nodes, which of them are present, and the vectors of edges if
        the agent has edges."""
        memos, store = _parts(memory)
        core = self.core_embedding(observation.core)
        nodes, present = [core[None]], [jnp.ones(1, bool)]
        for name, embedding in self.factor_embeddings.items():
            nodes.append(embedding(observation.factors[name].values))
            present.append(observation.factors[name].present)
        if self.memory_embedding is not None:
            nodes.append(self.memory_embedding(memos))
            present.append(memos.present)
        if self.memory_vectors is not None and store is not None:
            vectors, there = self.memory_vectors(core, store)
            nodes.append(vectors)
            present.append(there)
        graph = jnp.concatenate(nodes), jnp.concatenate(present)
        if self.edge_content is None:
            return graph
        return *graph, self.edge_content(observation, memos, len(graph[1]))

    def _remember(
        self,
        core: Float[Array, " size"],
        attention: Float[Array, "layers heads nodes"] | None,
        observation: Observation,
        memory: AnyMemory,
    ) -> AnyMemory:
        memo = observation.core if self.new_memo is None else self.new_memo(core)
        # Past observations, too, are kept through a tanh, as in the authors' code.
        memos, store = _parts(memory)
        memos = memos.push(jnp.tanh(memo), attention)
        if self.memory_vectors is None or store is None:
            return memos
        return MemoryAndStore(memos, self.memory_vectors.write(core, store))


def _parts(memory: AnyMemory) -> tuple[Any, MemoryStore | None]:
    """The Memos, and the store if there is one."""
    return (memory.memos, memory.store) if isinstance(memory, MemoryAndStore) else (memory, None)


def with_slots(
    agent: WMG,
    slots: int,
    *,
    oldest_age: int | None = None,
    older: Older = "as oldest",
) -> WMG:
    """A trained agent with more memory slots than it was trained with.

    Ages above `oldest_age` (by default the highest it was trained with) are shown as that
    age or not at all. All slots are there from the start, as zeros, or none, as in training.
    """
    embedding = agent.memory_embedding
    if embedding is None:
        raise ValueError("this agent keeps no memory, so it has no slots to add")
    if isinstance(embedding, FlexibleEmbedding):
        raise ValueError("this agent has lifetimes = 'attention', so it needs no more slots")
    trained = len(embedding.shown_ages)
    limit = embedding.oldest if oldest_age is None else oldest_age
    if slots < trained:
        raise ValueError(f"slots must be at least the {trained} of the agent, got {slots}")
    if not 1 <= limit <= embedding.oldest:
        raise ValueError(f"oldest age must be from 1 to {embedding.oldest}, got {limit}")
    beyond = limit if older == "as oldest" else None
    ages = tuple(age if age <= limit else beyond for age in range(1, slots + 1))
    floor = slots if embedding.floor else 0
    longer = dataclasses.replace(embedding, shown_ages=ages, floor=floor)
    return eqx.tree_at(lambda a: a.memory_embedding, agent, longer)
