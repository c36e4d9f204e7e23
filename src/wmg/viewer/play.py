"""Playing an episode step by step, keeping every moment: what can be seen can be gone back to.

Episode n plays as episode n of `wmg eval` does, chance and all, as long as nobody interferes. Only
Sokoban's differ: `wmg eval` plays its levels in their order, and here they are drawn.
"""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from wmg import config
from wmg.agents.wmg.agent import WMG
from wmg.config import Config
from wmg.play.act import sample
from wmg.types import Agent, Env, EnvSpec, Observation, Output, Step, count_parameters
from wmg.viewer import recording, scenes
from wmg.viewer.chance import chance, reset, step
from wmg.viewer.recording import FAILED, SOLVED, Thought
from wmg.viewer.scenes import Scenery


@dataclasses.dataclass(frozen=True)
class Player:
    """An agent under the name a user knows it by, in its own form of the environment."""

    name: str
    agent: Agent
    env: Env
    settings: Config
    greedy: bool = False

    @property
    def scenery(self) -> Scenery:
        assert self.settings.env is not None
        return scenes.SCENERIES[self.settings.env.name]

    @functools.cached_property
    def slots(self) -> int:
        """How many of the nodes are memory."""
        return len(self.agent.initial_memory().present) if isinstance(self.agent, WMG) else 0

    @functools.cached_property
    def attention_shape(self) -> tuple[int, int, int] | None:
        """Layers, heads and nodes; None for an agent without attention."""
        if not isinstance(self.agent, WMG):
            return None
        layers = self.agent.transformer.layers
        factors = sum(count for _, count, _ in self.env.spec.observation.factors)
        return len(layers), layers[0].heads, 1 + factors + self.slots

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
        kept = config.to_dict(self.settings.agent).get("memory")
        return facts | {"attention": shape | {"memory": kept}}


@dataclasses.dataclass(frozen=True)
class Moment:
    """The whole of a moment in an episode: what an exact return to it needs."""

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
        self.player, self.seed = player, seed
        if state is None:
            state, observation = reset(player.env, seed)
        else:
            observation = player.scenery.observe(player.env, state)
        self.moments: list[Moment] = []
        self.steps: list[recording.Step] = []
        self._add(state, observation, player.agent.initial_memory(), None)

    @property
    def over(self) -> bool:
        return self.steps[-1].end is not None

    def think(self, time: int, off: tuple[int, ...]) -> Thought:
        """What the agent would make of an earlier moment without some of the nodes."""
        moment = self.moments[time]
        _, thought = self._think(moment.observation, moment.memory, time, off)
        return thought

    def act(self, time: int, action: int | None, off: tuple[int, ...]) -> None:
        """Go on from a moment with an action, or with the agent's own choice, without some of
        the nodes. What had come after that moment is forgotten."""
        del self.moments[time + 1 :], self.steps[time + 1 :]
        moment, player = self.moments[time], self.player
        output, thought = moment.output, moment.thought
        if self.over:
            return
        if thought is None or thought.off != off:
            output, thought = self._think(moment.observation, moment.memory, time, off)
        assert output is not None
        taken = thought.choice if action is None else action
        after: Step = step(player.env, moment.state, taken, self.seed, time)
        reward, done, success = map(float, (after.reward, after.done, after.success))
        self.moments[time] = dataclasses.replace(moment, output=output, thought=thought)
        self.steps[time] = dataclasses.replace(
            self.steps[time], thought=thought, action=taken, human=action is not None,
            reward=reward,
        )  # fmt: skip
        end = (SOLVED if success else FAILED) if done else None
        self._add(after.state, after.observation, output.memory, end)

    def _add(self, state: Any, observation: Observation, memory: Any, end: str | None) -> None:
        output = thought = None
        if end is None:
            output, thought = self._think(observation, memory, len(self.moments), ())
        scene = self.player.scenery.describe(*jax.device_get((state, observation)))
        self.moments.append(Moment(state, observation, memory, output, thought))
        self.steps.append(recording.Step(scene, thought, end=end))

    def _think(
        self, observation: Observation, memory: Any, time: int, off: tuple[int, ...]
    ) -> tuple[Output, Thought]:
        player = self.player
        shape = player.attention_shape
        on = np.ones(shape[2] if shape else 0, bool)
        on[list(off)] = False
        output, present, policy, choice = think(
            player.env.spec, player.agent, observation, memory, on, self.seed, time, player.greedy
        )
        policy, value, present, attention = jax.device_get(
            (policy, output.value, present, output.attention)
        )
        return output, Thought(policy, float(value), int(choice), attention, present, off)


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
) -> tuple[Output, Bool[Array, " nodes"], Array, Int[Array, ""]]:
    """What the agent makes of an observation if only nodes that are `on` are there; the nodes
    that are; its policy; and the action it chooses at that time."""
    output, present = attend(agent, observation, memory, jnp.asarray(on))
    noise, _ = chance(spec, seed, time)
    choice = sample(output.logits, jnp.where(greedy, 0.0, noise))
    return output, present, jax.nn.softmax(output.logits), choice


def attend(
    agent: Agent, observation: Observation, memory: Any, on: Bool[Array, " nodes"]
) -> tuple[Output, Bool[Array, " nodes"]]:
    """An agent's step with some of the nodes switched off, and which nodes are then there."""
    if not isinstance(agent, WMG):
        return agent(observation, memory), on
    present, end = [on[:1]], 1
    for name in agent.factor_embeddings:
        factors = observation.factors[name]
        start, end = end, end + len(factors.present)
        present.append(factors.present & on[start:end])
        observation = eqx.tree_at(
            lambda seen, name=name: seen.factors[name].present, observation, present[-1]
        )
    present.append(memory.present & on[end:])
    return agent.output(agent.attend(observation, memory, present[-1])), jnp.concatenate(present)
