"""Working Memory Graph: a Transformer over the Core, the Factors and the memory (section 3).

With `memory="memos"` this is the paper's WMG; with "observations" it is nr-WMG, whose memory
holds past observations instead; with "none" it is the paper's nr-WMG on BabyAI.
"""

import dataclasses
import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.heads import ActorCritic, ActorCriticAgent, require_parts
from wmg.agents.layers import Linear, with_he_weights
from wmg.agents.wmg.memory import Memory
from wmg.agents.wmg.transformer import Transformer
from wmg.types import Observation, ObservationSpec, Output, Summary

AgeEncoding = Literal["concatenated", "added"]
Older = Literal["as oldest", "without age"]


class MemoryEmbedding(eqx.Module):
    """Memory vectors and their ages as Transformer nodes.

    "concatenated": a one-hot age is appended to the vector (Pathfinding, BabyAI). "added":
    one-hot and scalar age have a linear map of their own, whose result is added (Sokoban).
    """

    vectors: Linear
    ages: Linear | None
    oldest: int = eqx.field(static=True)
    """The highest age that has an encoding."""
    shown_ages: tuple[int | None, ...] = eqx.field(static=True)
    """The age each slot is shown as, 1 for the newest; None shows no age at all."""
    floor: int = eqx.field(static=True)
    """Number of slots that are attended to from the start, as zeros."""

    @staticmethod
    def create(
        slots: int,
        vector: int,
        size: int,
        age: AgeEncoding,
        floor: int,
        *,
        key: PRNGKeyArray,
    ):
        vkey, akey = jax.random.split(key)
        added = age == "added"
        return MemoryEmbedding(
            vectors=Linear.create(vector if added else vector + slots, size, key=vkey),
            ages=Linear.create(slots + 2, size, key=akey) if added else None,
            oldest=slots,
            shown_ages=tuple(range(1, slots + 1)),
            floor=floor,
        )

    def age_table(self) -> np.ndarray:
        """The encoded age of each slot, one row per slot."""
        columns = np.array([0 if age is None else age for age in self.shown_ages])
        shown = np.array([age is not None for age in self.shown_ages])[:, None]
        if self.ages is None:  # The authors' order: age S first, then 1, 2, ...
            return (np.eye(self.oldest)[columns % self.oldest] * shown).astype(np.float32)
        onehot = np.eye(self.oldest + 1)[np.maximum(columns - 1, 0)]
        scalar = (columns[:, None] - 1) / self.oldest
        return (np.concatenate([onehot, scalar], axis=1) * shown).astype(np.float32)

    def __call__(self, vectors: Float[Array, "slots vector"]) -> Float[Array, "slots size"]:
        ages = jnp.asarray(self.age_table())
        if self.ages is None:
            return self.vectors(jnp.concatenate([vectors, ages], axis=1))
        return self.vectors(vectors) + self.ages(ages)


class WMG(ActorCriticAgent[Memory]):
    """The agent of the paper. See `WMGSettings` for what the settings mean."""

    core_embedding: Linear
    factor_embeddings: dict[str, Linear]
    memory_embedding: MemoryEmbedding | None
    transformer: Transformer
    new_memo: Linear | None
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

    def initial_memory(self) -> Memory:
        if self.memory_embedding is None:
            return Memory.zeros(0, self.core_embedding.weight.shape[1], 0)
        layer = self.core_embedding.weight.T if self.new_memo is None else self.new_memo.weight
        slots, floor = len(self.memory_embedding.shown_ages), self.memory_embedding.floor
        return Memory.zeros(slots, layer.shape[0], floor)

    def summarise(self, observation: Observation, memory: Memory) -> Summary[Memory]:
        core, attention = self.transformer(*self._embed(observation, memory))
        return Summary(core, self._remember(core, observation, memory), attention)

    def summarise_all(self, observation: Observation, memory: Memory) -> Summary[Memory]:
        core, attention = self.transformer.of_all(*jax.vmap(self._embed)(observation, memory))
        return Summary(core, jax.vmap(self._remember)(core, observation, memory), attention)

    def attend_to(
        self, observation: Observation, memory: Memory, on: Bool[Array, " nodes"]
    ) -> tuple[Output[Memory], Bool[Array, " nodes"]]:
        nodes, there = self._embed(observation, memory)
        core, attention = self.transformer(nodes, there & on)
        summary = Summary(core, self._remember(core, observation, memory), attention)
        return self.output(summary), there & on

    def specialise(self, observation: Observation, precision: str, share: float = 1.0) -> "WMG":
        """With fused kernels in place of the Transformer, where its sizes allow: in bfloat16 on a
        single NVIDIA GPU that has it."""
        if precision != "bfloat16" or jax.default_backend() != "gpu" or jax.device_count() > 1:
            return self
        generation = getattr(jax.devices()[0], "compute_capability", "").partition(".")[0]
        if not generation.isdecimal() or int(generation) < 8:
            return self
        try:
            from wmg.agents.wmg import kernels as fused
        except ImportError:  # a version of jax without the part they are written in
            return self
        slots = 0 if self.memory_embedding is None else len(self.memory_embedding.shown_ages)
        factors = sum(factor.present.shape[-1] for factor in observation.factors.values())
        if not fused.fits(self.transformer, 1 + factors + slots):
            return self
        room = 1 + math.ceil(share * factors) + slots
        kernels = fused.FusedTransformer.of(self.transformer, room)
        return eqx.tree_at(lambda agent: agent.transformer, self, kernels)

    def _embed(
        self, observation: Observation, memory: Memory
    ) -> tuple[Float[Array, "nodes size"], Bool[Array, " nodes"]]:
        """The Transformer's nodes, and which of them are present."""
        nodes = [self.core_embedding(observation.core)[None]]
        present = [jnp.ones(1, bool)]
        for name, embedding in self.factor_embeddings.items():
            nodes.append(embedding(observation.factors[name].values))
            present.append(observation.factors[name].present)
        if self.memory_embedding is not None:
            nodes.append(self.memory_embedding(memory.vectors))
            present.append(memory.present)
        return jnp.concatenate(nodes), jnp.concatenate(present)

    def _remember(
        self, core: Float[Array, " size"], observation: Observation, memory: Memory
    ) -> Memory:
        memo = observation.core if self.new_memo is None else self.new_memo(core)
        # Past observations, too, are kept through a tanh, as in the authors' code.
        return memory.push(jnp.tanh(memo))


def with_slots(
    agent: WMG,
    slots: int,
    *,
    oldest_age: int | None = None,
    older: Older = "as oldest",
    floor: int | None = None,
) -> WMG:
    """A trained agent with more memory slots than it was trained with.

    Ages above `oldest_age` (by default the highest it was trained with) are shown as that
    age or not at all. Of the slots, `floor` are there from the start, as zeros; by default
    all or none, as in training.
    """
    embedding = agent.memory_embedding
    if embedding is None:
        raise ValueError("this agent keeps no memory, so it has no slots to add")
    trained = len(embedding.shown_ages)
    limit = embedding.oldest if oldest_age is None else oldest_age
    if slots < trained:
        raise ValueError(f"slots must be at least the {trained} of the agent, got {slots}")
    if not 1 <= limit <= embedding.oldest:
        raise ValueError(f"oldest age must be from 1 to {embedding.oldest}, got {limit}")
    beyond = limit if older == "as oldest" else None
    ages = tuple(age if age <= limit else beyond for age in range(1, slots + 1))
    if floor is None:
        floor = slots if embedding.floor else 0
    longer = dataclasses.replace(embedding, shown_ages=ages, floor=floor)
    return eqx.tree_at(lambda a: a.memory_embedding, agent, longer)
