"""What environments and agents say to each other, and the state of a training run.

An environment and an agent are each one `equinox.Module`: a PyTree whose arrays are
arguments of every compiled function and whose other fields are static. Everything here is
for one environment and one agent, without a batch axis; batch with `jax.vmap`.
"""

import abc
import dataclasses
import math
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.hooks import EnvHooks, State

Memory = TypeVar("Memory")


class Factors(eqx.Module):
    """The Factors of one type, padded to a fixed number: row i is real where `present[i]`."""

    values: Float[Array, "count size"]
    present: Bool[Array, " count"]


class Observation(eqx.Module):
    """What the agent sees in one step: the Core's vector, any number of named Factor types, and,
    for agents that take one, an image."""

    core: Float[Array, " core"]
    factors: dict[str, Factors] = dataclasses.field(default_factory=dict)
    image: Float[Array, "width height channels"] | None = None


@dataclasses.dataclass(frozen=True)
class ObservationSpec:
    """The shapes of an `Observation`: enough to build an agent for it."""

    core: int
    factors: tuple[tuple[str, int, int], ...] = ()
    """(name, largest count, size of one) for each Factor type, sorted by name."""
    image: tuple[int, int, int] | None = None

    def zeros(self) -> Observation:
        """An observation with these shapes."""
        rows = {
            name: Factors(jnp.zeros((count, size)), jnp.zeros(count, bool))
            for name, count, size in self.factors
        }
        image = None if self.image is None else jnp.zeros(self.image)
        return Observation(jnp.zeros(self.core), rows, image)


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What a trainer must know of an environment before the first step."""

    observation: ObservationSpec
    actions: int
    max_steps: int
    """No episode is longer than this."""
    metric: str
    """What `score` means for this environment: 'success' or 'reward', in percent, or 'return', the
    mean return of an episode."""
    reward_per_step: float = 1.0
    """Mean reward per step of a perfect agent: the 100% of a 'reward' score."""


class Step(eqx.Module, Generic[State]):
    """The outcome of one action. `success` is meaningful where the episode ended."""

    state: State
    observation: Observation
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    success: Bool[Array, ""]
    total: Float[Array, ""] | None = None
    """The whole reward of the episode so far, if the environment keeps it."""

    @property
    def done(self) -> Bool[Array, ""]:
        return self.terminated | self.truncated


class Env(EnvHooks[State]):
    """An environment: two pure functions and the shapes they produce; and optional hooks."""

    @property
    @abc.abstractmethod
    def spec(self) -> EnvSpec: ...

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, Observation]:
        """A fresh episode."""

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, ""], key: PRNGKeyArray) -> Step[State]:
        """What follows `action`. After an episode's end the result is thrown away."""


class LevelEnv(Env[State]):
    """An environment whose episodes are the levels of a bank, so each can be played once."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many levels there are."""

    @abc.abstractmethod
    def start(self, index: Int[Array, ""]) -> tuple[State, Observation]:
        """An episode of the level at this index of the bank."""

    @abc.abstractmethod
    def with_limit(self, steps: int) -> "LevelEnv[State]":
        """The same environment with another limit of steps."""


class Output(eqx.Module, Generic[Memory]):
    """What an agent makes of one observation."""

    logits: Float[Array, " actions"]
    value: Float[Array, ""]
    memory: Memory
    attention: Float[Array, "layers heads nodes"] | None = None
    """How the Core attends to every node (Core, Factors by type, memory newest first)."""


class Agent(eqx.Module, Generic[Memory]):
    """An agent: a memory to start an episode with, and a step.

    Outputs that are not used, for example attention, are removed by `jit`.
    """

    @abc.abstractmethod
    def initial_memory(self) -> Memory: ...

    @abc.abstractmethod
    def __call__(self, observation: Observation, memory: Memory) -> Output[Memory]: ...

    def attend_to(
        self, observation: Observation, memory: Memory, on: Bool[Array, " nodes"]
    ) -> tuple[Output[Memory], Bool[Array, " nodes"]] | None:
        """The step if only nodes that are `on` are attended to, in the order of
        `Output.attention`; and which of those are there. None if the agent cannot do that."""
        del observation, memory, on
        return None


class Summary(eqx.Module, Generic[Memory]):
    """The result of the first part of an agent's step, for one observation or for many."""

    vector: Float[Array, "*many size"]
    memory: Memory
    attention: Float[Array, "*many layers heads nodes"] | None = None


class Learner(Agent[Memory]):
    """An agent that can be trained. Its step has two parts, and only the first one uses memory. So
    training calls `summarise` step by step, and `decide` for all steps of a window at once."""

    @abc.abstractmethod
    def summarise(self, observation: Observation, memory: Memory) -> Summary[Memory]: ...

    def summarise_all(self, observation: Observation, memory: Memory) -> Summary[Memory]:
        """`summarise` of many at once, along a first axis of everything."""
        return jax.vmap(self.summarise)(observation, memory)

    def specialise(
        self, observation: Observation, precision: str, share: float = 1.0
    ) -> "Learner[Memory]":
        """An equivalent agent specialised for observations like these, in this precision. It has
        room for this share of all Factors, on average over the observations of one call."""
        return self

    def after_round(
        self, observation: Observation, valid: Bool[Array, " steps"] | None = None
    ) -> "Learner[Memory]":
        """The agent after PPO has learned from a round with these observations, along a first axis.
        Agents that measure their activations do so here, from the `valid` observations."""
        del observation, valid
        return self

    @abc.abstractmethod
    def decide(
        self, summary: Float[Array, " size"]
    ) -> tuple[Float[Array, " actions"], Float[Array, ""]]:
        """Action logits and the value."""

    def __call__(self, observation: Observation, memory: Memory) -> Output[Memory]:
        return self.output(self.summarise(observation, memory))

    def output(self, summary: Summary[Memory]) -> Output[Memory]:
        """The whole step, given its first part."""
        return Output(*self.decide(summary.vector), summary.memory, summary.attention)


class Statistics(eqx.Module):
    """Running statistics of an agent's activations, which are measured and not trained."""

    mean: Float[Array, " channels"]
    variance: Float[Array, " channels"]


def count_parameters(agent: PyTree[Any]) -> int:
    """The number of trainable parameters; shapes in place of arrays will do."""
    nodes = jax.tree.leaves(agent, is_leaf=lambda node: isinstance(node, Statistics))
    leaves = [node for node in nodes if not isinstance(node, Statistics)]
    return sum(math.prod(x.shape) for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))


class Scene(eqx.Module):
    """Where an episode stands: the environment's side and the agent's side of it."""

    state: PyTree[Any]
    observation: Observation
    memory: PyTree[Any]


class Run(eqx.Module):
    """The whole of a training run: what a checkpoint holds, and all that resuming needs."""

    agent: Learner
    optimizer: PyTree[Any]
    scene: Scene
    key: PRNGKeyArray
    steps: Int[Array, ""]
    diverged: Bool[Array, ""]
    """Whether a loss or gradient was not finite; such a run stands still from then on."""


class Totals(eqx.Module):
    """Sums over the updates of a report interval."""

    steps: Int[Array, ""]
    windows: Int[Array, ""]
    episodes: Int[Array, ""]
    successes: Int[Array, ""]
    reward: Float[Array, ""]
    policy_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    returns: Float[Array, ""]
    """Returns of the episodes that ended; equal to `reward` where the environment does not keep
    `Step.total`."""

    @staticmethod
    def zeros() -> "Totals":
        counts = [jnp.zeros((), jnp.int32)] * 4
        return Totals(*counts, *[jnp.zeros(())] * 6)


def start_scene(env: Env, agent: Agent, key: PRNGKeyArray) -> Scene:
    """The beginning of an episode."""
    return Scene(*env.reset(key), agent.initial_memory())


def sample(logits: Float[Array, " actions"], noise: Float[Array, " actions"]) -> Int[Array, ""]:
    """An action from the policy, given Gumbel noise; the most likely one, given zeros."""
    return jnp.argmax(logits + noise).astype(jnp.int32)


def keep_if(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """`new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)
