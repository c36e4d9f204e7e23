"""Held-out episodes in environments of the host."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.play.evaluate import Episodes, Show, act, check_thinking
from wmg.play.host import Host, HostEnvs, HostSteps, as_envs, episode_seeds
from wmg.play.host_arrays import stack
from wmg.play.streams import test_key
from wmg.types import Agent, Observation, keep_if


def evaluate(
    hosts: Host | HostEnvs | Sequence[Host],
    agent: Agent,
    seed: int,
    episodes: int,
    greedy: bool = False,
    show: Show | None = None,
    thinking: int = 0,
) -> Episodes:
    """The episodes of a test seed, played in environments that step together.

    Each episode has its own seed, where the environments take one for each, and its own chance. So
    it does not depend on how many environments there are. For `thinking` see
    `wmg.play.evaluate.play`.
    """
    check_thinking(agent, thinking)
    few = hosts[:episodes] if isinstance(hosts, Sequence) else hosts
    test = _Test(as_envs(few), agent, seed, episodes, greedy, thinking)
    return test.play(show or _show_nothing)


def _show_nothing(what: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


class _Test:
    """Held-out episodes in progress. Each environment plays one, then the next nobody has begun."""

    def __init__(
        self, envs: HostEnvs, agent: Agent, seed: int, episodes: int, greedy: bool, thinking: int
    ):
        self.envs, self.agent, self.greedy, self.thinking = envs, agent, greedy, thinking
        self.key = test_key(seed)
        self.seeds = episode_seeds(seed, episodes)
        self.waiting: Iterator[int] = iter(range(episodes))
        self.episode = np.full(envs.count, -1)
        """Which one each environment plays; -1 when there are none left."""
        self.reward, self.length = np.zeros(episodes, np.float32), np.zeros(episodes, np.int32)
        self.success = np.zeros(episodes, bool)
        self.ended = 0

    def begin(self, index: int) -> int | None:
        """The seed of the episode that an environment plays next."""
        self.episode[index] = next(self.waiting, -1)
        return self.seeds[self.episode[index]] if self.episode[index] >= 0 else None

    def play(self, show: Show) -> Episodes:
        """All episodes."""
        show("compiling ...", 0, 0)
        envs, count = self.envs, self.envs.spec.actions
        time = np.zeros(envs.count, np.int64)
        seen = envs.reset([self.begin(index) for index in range(envs.count)])
        memory = stack([self.agent.initial_memory()] * envs.count)
        while (self.episode >= 0).any():
            places = np.stack([self.episode, time], axis=1).astype(np.int32)
            how = count, self.greedy, self.thinking
            actions, memory = _act_in_lanes(self.agent, seen, memory, places, self.key, *how)
            playing = self.episode.copy()
            steps = envs.step(np.asarray(actions), self.begin)
            if self.note(steps, playing):
                show("episodes", self.ended, len(self.length))
            time = np.where(steps.done, 0, time + steps.played)
            seen = steps.observation
        return jax.device_get(Episodes(*map(jnp.asarray, (self.reward, self.length, self.success))))

    def note(self, steps: HostSteps, playing: Int[np.ndarray, " envs"]) -> bool:
        """Count a step of the episodes that were being played, and say whether any ended."""
        counted = steps.played & (playing >= 0)
        self.reward[playing[counted]] += steps.reward[counted]
        self.length[playing[counted]] += 1
        ended = counted & steps.done
        self.success[playing[ended]] = steps.success[ended]
        self.ended += int(ended.sum())
        for index in np.flatnonzero(steps.done & (self.episode == playing)).tolist():
            self.begin(index)  # by environments that take no seeds
        return bool(ended.any())


@functools.partial(jax.jit, static_argnums=(5, 6, 7))
def _act_in_lanes(
    agent: Agent,
    seen: Observation,
    memory: Any,
    places: Int[Array, "lanes 2"],
    key: PRNGKeyArray,
    actions: int,
    greedy: bool,
    thinking: int,
) -> tuple[Int[Array, " lanes"], Any]:
    """Each lane's action and memory. `places` are its episode and how far that is played."""

    def think(seen: Observation) -> Any:
        memory = agent.initial_memory()
        return jax.lax.fori_loop(0, thinking, lambda _, memory: agent(seen, memory).memory, memory)

    def one(seen: Observation, memory: Any, place: Int[Array, "2"]) -> tuple[Array, Any]:
        episode, time = place
        here = jax.random.fold_in(jax.random.fold_in(key, episode), time)
        noise = jax.random.gumbel(here, (actions,)) * (0.0 if greedy else 1.0)
        action, output = act(agent, seen, memory, noise)
        return action, output.memory

    begins = places[:, 1] == 0
    if thinking:
        fresh = jax.lax.cond(begins.any(), lambda: jax.vmap(think)(seen), lambda: memory)
        memory = jax.vmap(keep_if)(begins, fresh, memory)
    else:
        memory = jax.vmap(keep_if, (0, None, 0))(begins, agent.initial_memory(), memory)
    return jax.vmap(one)(seen, memory, places)
