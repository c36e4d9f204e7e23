"""Playing an episode step by step, with a snapshot of every moment to go back to.

Episode n plays as episode n of `wmg eval` does, chance and all, as long as nobody interferes. Two
kinds differ: `wmg eval` plays Sokoban's levels in their order, and here they are drawn; and actions
that are sampled for environments in Python have other random numbers (`wmg.viewer.hosted`).
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from wmg import config
from wmg.config import Config
from wmg.envs.scenery import Scenery
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, EnvSpec, Observation, Output, Step, count_parameters, sample
from wmg.viewer import recording
from wmg.viewer.chance import chance, reset, step
from wmg.viewer.generic import scenery_of
from wmg.viewer.hosted import HostedEpisodes
from wmg.viewer.recording import ENDED, FAILED, SOLVED, Thought


@dataclasses.dataclass(frozen=True)
class Player:
    """An agent under the name a user knows it by, in its own form of the environment."""

    name: str
    agent: Agent
    env: Env | HostedEpisodes
    settings: Config
    greedy: bool = False

    @functools.cached_property
    def scenery(self) -> Scenery:
        return scenery_of(self.env)

    @property
    def title(self) -> str:
        """What the environment is called."""
        settings = self.settings.env
        return type(self.env).__name__ if settings is None else settings.label

    @functools.cached_property
    def attention_shape(self) -> tuple[int, int, int] | None:
        """Layers, heads and nodes; None for an agent without attention."""
        first_step = functools.partial(_first_step, self.env.spec)
        attention = jax.eval_shape(first_step, self.agent).attention
        if attention is None:
            return None
        layers, heads, nodes = attention.shape
        if nodes < 1 + self.factors:
            raise BadInput(
                f"{self.name} attends to {nodes} nodes, and Core and Factors are {1 + self.factors}"
            )
        return layers, heads, nodes

    @functools.cached_property
    def factors(self) -> int:
        """How many of the nodes are Factors, present or not."""
        return sum(count for _, count, _ in self.env.spec.observation.factors)

    @functools.cached_property
    def slots(self) -> int:
        """How many of the nodes are memory."""
        shape = self.attention_shape
        return 0 if shape is None else shape[2] - 1 - self.factors

    @functools.cached_property
    def switchable(self) -> bool:
        """Whether nodes can be switched off."""
        shape = self.attention_shape
        if shape is None:
            return False
        on = jax.ShapeDtypeStruct(shape[2:], bool)
        first_attention = functools.partial(_first_attention, self.env.spec)
        return jax.eval_shape(first_attention, self.agent, on) is not None

    def about(self) -> dict[str, Any]:
        """What the page says of the agent, as JSON."""
        facts: dict[str, Any] = {
            "name": self.name,
            "kind": self.settings.agent.name,
            "parameters": count_parameters(self.agent),
            "attention": None,
        }
        if self.attention_shape is None:
            return facts
        factors = [[name, count] for name, count, _ in self.env.spec.observation.factors]
        layers, heads, _ = self.attention_shape
        shape = {"layers": layers, "heads": heads, "factors": factors, "slots": self.slots}
        told = config.to_dict(self.settings.agent)
        more: dict[str, Any] = {}
        if told.get("store"):
            more["vectors"] = told["reads"]
        if told.get("edges", "none") != "none":
            more["edges"] = told["edges"]
        kept = {"memory": told.get("memory"), "switchable": self.switchable}
        return facts | {"attention": {**shape, **kept, **more}}


def _first_step(spec: EnvSpec, agent: Agent) -> Output:
    return agent(spec.observation.zeros(), agent.initial_memory())


def _first_attention(spec: EnvSpec, agent: Agent, on: Bool[Array, " nodes"]) -> Any:
    return agent.attend_to(spec.observation.zeros(), agent.initial_memory(), on)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A moment of an episode: all that an exact return to it needs."""

    state: Any
    observation: Observation
    memory: Any
    """Before the thought."""
    output: Output | None
    thought: Thought | None


class Track:
    """One agent's way through an episode."""

    def __init__(self, player: Player, seed: int, state: Any = None):
        """From a state or, without one, from where the seed starts."""
        self.player, self.seed, self.success = player, seed, False
        if state is None:
            state, observation = reset(player.env, seed)
        else:
            assert player.scenery.observe is not None, "the scenery gives states, so it has observe"
            observation = player.scenery.observe(player.env, state)
        self.snapshots: list[Snapshot] = []
        self.steps: list[recording.RecordedStep] = []
        self._add(state, observation, player.agent.initial_memory(), None)

    @property
    def over(self) -> bool:
        return self.steps[-1].end is not None

    def think(self, time: int, off: tuple[int, ...]) -> Thought:
        """What the agent would make of an earlier moment without some of the nodes."""
        snapshot = self.snapshots[time]
        _, thought = self._think(snapshot.observation, snapshot.memory, time, off)
        return thought

    def edges(self, time: int, node: int) -> list[list[float]]:
        """The vectors of the edges from a node to all nodes, at an earlier moment; none for an
        agent whose edges have no content."""
        snapshot = self.snapshots[time]
        edges = self.player.agent.edges_between(snapshot.observation, snapshot.memory)
        return [] if edges is None else np.round(np.asarray(edges[node]), 4).tolist()

    def act(self, time: int, action: int | None, off: tuple[int, ...]) -> None:
        """Go on from a moment with an action, or with the agent's own choice, without some of
        the nodes. What had come after that moment is forgotten."""
        del self.snapshots[time + 1 :], self.steps[time + 1 :]
        snapshot, player = self.snapshots[time], self.player
        output, thought = snapshot.output, snapshot.thought
        if self.over:
            return
        if thought is None or thought.off != off:
            output, thought = self._think(snapshot.observation, snapshot.memory, time, off)
        assert output is not None
        taken = thought.choice if action is None else action
        after: Step = step(player.env, snapshot.state, taken, self.seed, time)
        reward, done, success = map(float, (after.reward, after.done, after.success))
        self.snapshots[time] = dataclasses.replace(snapshot, output=output, thought=thought)
        self.steps[time] = dataclasses.replace(
            self.steps[time],
            thought=thought,
            action=taken,
            human=action is not None,
            reward=reward,
        )
        end = SOLVED if success else FAILED
        if player.env.spec.metric == "return":
            end = ENDED
        self.success = bool(done and success)
        self._add(after.state, after.observation, output.memory, end if done else None)

    def _add(self, state: Any, observation: Observation, memory: Any, end: str | None) -> None:
        output = thought = None
        if end is None:
            output, thought = self._think(observation, memory, len(self.snapshots), ())
        scene = self.player.scenery.describe(*jax.device_get((state, observation)))
        self.snapshots.append(Snapshot(state, observation, memory, output, thought))
        self.steps.append(recording.RecordedStep(scene, thought, end=end))

    def _think(
        self, observation: Observation, memory: Any, time: int, off: tuple[int, ...]
    ) -> tuple[Output, Thought]:
        player = self.player
        shape = player.attention_shape
        on = np.ones(shape[2] if shape else 0, bool)
        on[list(off)] = False
        output, present, policy, choice, ages = think(
            player.env.spec, player.agent, observation, memory, on, self.seed, time, player.greedy
        )
        policy, value, present, attention, ages = jax.device_get(
            (policy, output.value, present, output.attention, ages)
        )
        written = None if ages is None else tuple(time - int(age) for age in ages)
        return output, Thought(policy, float(value), int(choice), attention, present, off, written)


@functools.partial(jax.jit, static_argnums=0)
def think(
    spec: EnvSpec,
    agent: Agent,
    observation: Observation,
    memory: Any,
    on: Bool[Array | np.ndarray, " nodes"],
    seed: Int[Array, ""] | int,
    time: Int[Array, ""] | int,
    greedy: Bool[Array, ""] | bool,
) -> tuple[Output, Bool[Array, " nodes"], Array, Int[Array, ""], Int[Array, " remembered"] | None]:
    """What the agent makes of an observation if only nodes that are `on` are there; the nodes
    that are; its policy; the action it chooses at that time; and the ages of its memory nodes,
    if it says them."""
    output, present = attend(agent, observation, memory, jnp.asarray(on))
    noise, _ = chance(spec, seed, time)
    choice = sample(output.logits, jnp.where(greedy, 0.0, noise))
    policy = jax.nn.softmax(output.logits)
    return output, present, policy, choice, agent.ages(observation, memory)


def attend(
    agent: Agent, observation: Observation, memory: Any, on: Bool[Array, " nodes"]
) -> tuple[Output, Bool[Array, " nodes"]]:
    """An agent's step with attention to nodes that are `on` alone, and which nodes are then there.
    For an agent that cannot switch nodes off, these are all that it attends to."""
    attended = agent.attend_to(observation, memory, on)
    if attended is not None:
        return attended
    output = agent(observation, memory)
    return output, on if output.attention is None else (output.attention > 0).any((0, 1))
