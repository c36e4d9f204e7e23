"""Environments that run on the host: any Gymnasium environment, in plain Python.

The agent is compiled, the environment is not. Several copies of the environment take their steps
together, so that the agent is called once for all.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.play.evaluate import Episodes
from wmg.play.streams import TEST_STREAM, test_key
from wmg.types import Agent, EnvSpec, Factors, Observation, act, keep_if


@runtime_checkable
class Gymnasium(Protocol):
    """The two functions of a `gymnasium.Env` that are used here."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]: ...


@dataclasses.dataclass(frozen=True)
class Host:
    """A Gymnasium environment, and how an agent sees it.

    An episode is a success if its last step pays more than 0.
    """

    env: Gymnasium
    observe: Callable[[Any], Observation]
    """From the environment's observation to the agent's."""
    spec: EnvSpec

    def reset(self, seed: int | None = None) -> Observation:
        """The start of a new episode."""
        return self.observe(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> "HostStep":
        """What follows an action."""
        seen, reward, terminated, truncated, _ = self.env.step(action)
        return HostStep(self.observe(seen), float(reward), bool(terminated), bool(truncated))


@dataclasses.dataclass(frozen=True)
class HostStep:
    """The outcome of one action."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


def observation(core: np.ndarray, factors: dict[str, tuple[np.ndarray, np.ndarray]]) -> Observation:
    """An observation whose arrays stay on the host: (values, present) for each Factor type."""
    rows = [factors[name] for name in sorted(factors)]
    return jax.tree.unflatten(_structure(tuple(sorted(factors))), [core, *sum(rows, ())])


@functools.cache
def _structure(names: tuple[str, ...]) -> Any:
    rows = Factors(jnp.zeros((1, 1)), jnp.zeros(1, bool))
    return jax.tree.structure(Observation(jnp.zeros(1), dict.fromkeys(names, rows)))


@dataclasses.dataclass
class Lane:
    """One copy of an environment that plays episode after episode."""

    host: Host
    episode: int
    """Which one it plays; -1 when there are none left."""
    observation: Observation
    time: int = 0


def evaluate(
    hosts: Sequence[Host], agent: Agent, seed: int, episodes: int, greedy: bool = False
) -> Episodes:
    """The episodes of a test seed, played on copies of one environment in lockstep.

    Each episode has its own seed and its own chance, so that it does not depend on how many
    copies there are.
    """
    key, count = test_key(seed), hosts[0].spec.actions
    seeds = np.random.SeedSequence((TEST_STREAM, seed)).generate_state(episodes).tolist()
    reward, length = np.zeros(episodes, np.float32), np.zeros(episodes, np.int32)
    success = np.zeros(episodes, bool)
    lanes = [Lane(host, i, host.reset(seeds[i])) for i, host in enumerate(hosts[:episodes])]
    waiting = iter(range(len(lanes), episodes))
    memory = stack([agent.initial_memory()] * len(lanes))
    while any(lane.episode >= 0 for lane in lanes):
        places = np.array([(lane.episode, lane.time) for lane in lanes], np.int32)
        seen = stack([lane.observation for lane in lanes])
        actions, memory = _act_in_lanes(agent, seen, memory, places, key, count, greedy)
        for lane, action in zip(lanes, np.asarray(actions).tolist(), strict=True):
            if lane.episode < 0:
                continue
            step = lane.host.step(action)
            lane.observation, lane.time = step.observation, lane.time + 1
            reward[lane.episode] += step.reward
            if step.done:
                length[lane.episode], success[lane.episode] = lane.time, step.reward > 0
                lane.episode, lane.time = next(waiting, -1), 0
                if lane.episode >= 0:
                    lane.observation = lane.host.reset(seeds[lane.episode])
    return jax.device_get(Episodes(*map(jnp.asarray, (reward, length, success))))


@functools.partial(jax.jit, static_argnums=(5, 6))
def _act_in_lanes(
    agent: Agent,
    seen: Observation,
    memory: Any,
    places: Int[Array, "lanes 2"],
    key: PRNGKeyArray,
    actions: int,
    greedy: bool,
) -> tuple[Int[Array, " lanes"], Any]:
    """Each lane's action and memory. `places` are its episode and how far that is played."""

    def one(seen: Observation, memory: Any, place: Int[Array, "2"]) -> tuple[Array, Any]:
        episode, time = place
        memory = keep_if(time == 0, agent.initial_memory(), memory)
        here = jax.random.fold_in(jax.random.fold_in(key, episode), time)
        noise = jax.random.gumbel(here, (actions,)) * (0.0 if greedy else 1.0)
        action, output = act(agent, seen, memory, noise)
        return action, output.memory

    return jax.vmap(one)(seen, memory, places)


def stack(trees: list[Any]) -> Any:
    """Trees of arrays as one, with a first axis, on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
