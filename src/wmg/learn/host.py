"""The learning rules on environments that run on the host.

The agent and its update are compiled, the environments are not. A3C plays and records a window,
then repeats it through `a3c.window` with the actions that were taken: the same loss, gradients and
update as in a compiled environment, and one program for windows of any length. PPO plays a round
with one compiled call for each step of all environments, and learns from it with one more.

The state of a host environment cannot be saved. A run that is resumed begins a new episode.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.config import Hyper
from wmg.learn import a3c, losses
from wmg.learn.a3c import A3C
from wmg.learn.ppo import PPO, Rollout, renew, summariser
from wmg.learn.rule import Rule
from wmg.play.evaluate import act
from wmg.play.host import HostEnvs, HostSteps
from wmg.play.host_arrays import from_parts, parts_of, stack
from wmg.tools.errors import BadInput
from wmg.types import (
    Agent,
    Env,
    EnvSpec,
    Learner,
    Observation,
    Run,
    Scene,
    Step,
    Totals,
    sample,
)


@dataclasses.dataclass(frozen=True)
class HostRule(abc.ABC):
    """A learning rule on environments of the host, which belong to one run."""

    rule: Any
    envs: HostEnvs
    compile: Callable[..., Callable] = jax.jit
    """What compiles the agent and its update."""

    def __post_init__(self):
        if self.envs.count != self.count:
            raise BadInput(f"a run needs {self.count} host environments, got {self.envs.count}")

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many environments a run plays in."""

    @abc.abstractmethod
    def scene(self, seen: Observation, memory: Any) -> tuple[Observation, Any]:
        """Observation and memory of a scene, from the observations of all environments and the
        first memory of an episode."""

    @abc.abstractmethod
    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        """Play, then learn from what was played."""

    def begin(self, run: Run, seed: int) -> Run:
        """The run at the start of a new episode in every environment.

        The steps taken are part of the seeds, so a resumed run does not play the episodes of its
        start once more.
        """
        seeds = np.random.SeedSequence((seed, int(run.steps))).generate_state(self.count).tolist()
        both = self.scene(self.envs.reset(seeds), run.agent.initial_memory())
        scene = Scene(run.scene.state, *jax.tree.map(jnp.asarray, both))
        return eqx.tree_at(lambda run: run.scene, run, scene)

    def advance(self, hyper: Hyper, run: Run, until: int) -> tuple[Run, Totals]:
        """Updates until the first that ends at or after `until` steps, and their sums."""
        totals = jax.device_get(Totals.zeros())
        while int(run.steps) < until and not bool(run.diverged):
            run, more = self.update(hyper, run)
            totals = jax.tree.map(np.add, totals, jax.device_get(more))
        return run, totals


class HostA3C(HostRule):
    """A3C in one environment of the host."""

    rule: A3C

    @property
    def count(self) -> int:
        return 1

    def scene(self, seen: Observation, memory: Any) -> tuple[Observation, Any]:
        return first(seen), memory

    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        learn = _learn_window(self.envs.spec, self.rule, self.compile)
        played = play_window(self.envs, run, self.rule.t_max, _choose(self.compile))
        return learn(played, hyper, run)


class HostPPO(HostRule):
    """PPO in several environments of the host, which step together."""

    rule: PPO

    @property
    def count(self) -> int:
        return self.rule.settings.envs

    def scene(self, seen: Observation, memory: Any) -> tuple[Observation, Any]:
        return seen, stack([memory] * self.count)

    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        played = play_round(self.rule, self.envs, run, self.compile)
        return _learn_round(self.rule, self.compile)(run, played, hyper)


def on_host(rule: Rule, envs: HostEnvs, compile: Callable[..., Callable]) -> HostRule:
    """A learning rule on environments of the host."""
    kind = HostPPO if isinstance(rule, PPO) else HostA3C
    return kind(rule, envs, compile)


def first(seen: Observation) -> Observation:
    """The observation of the only environment."""
    return jax.tree.map(lambda part: part[0], seen)


def play_window(envs: HostEnvs, run: Run, t_max: int, choose: Callable) -> "PlayedWindow":
    """Act for `t_max` steps or to the episode's end."""
    length = min(t_max, envs.spec.max_steps)
    noise = np.asarray(_window_noise(run.key, length, envs.spec.actions))
    seen, memory = [jax.tree.map(np.asarray, run.scene.observation)], run.scene.memory
    actions: list[int] = []
    steps: list[HostSteps] = []
    while len(steps) < length and not (steps and steps[-1].done[0]):
        action, memory = choose(run.agent, seen[-1], memory, noise[len(steps)])
        actions.append(int(action))
        steps.append(envs.step(np.array([action])))
        seen.append(first(steps[-1].final))
    after = steps[-1]
    if after.done[0] and not after.begins[0]:  # one more step begins the next episode
        after = envs.step(np.zeros(1, np.int32))
    start = first(after.observation) if after.begins[0] else seen[0]
    return pad(seen, actions, steps, start, length)


class PlayedWindow(NamedTuple):
    """A window that was played, padded after the end of an episode."""

    observations: Observation
    """Of each step, and one more: what the last step led to."""
    rewards: Float[Array | np.ndarray, " time"]
    terminated: Bool[Array | np.ndarray, " time"]
    truncated: Bool[Array | np.ndarray, " time"]
    next_episode: Observation
    """The first observation of the next episode, if this one ended."""
    actions: Int[Array | np.ndarray, " time"]
    successes: Bool[Array | np.ndarray, " time"]
    totals: Float[Array | np.ndarray, " time"]
    """The whole reward of the episode, up to each step."""


class Replay(Env[Int[Array, ""]]):
    """An environment that repeats a window that was played, whatever the agent does.

    Its state is the time within the window, which starts again at the window's end.
    """

    played: PlayedWindow
    shapes: EnvSpec = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        return self.shapes

    def reset(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Observation]:
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.asarray, self.played.next_episode)

    def step(
        self, state: Int[Array, ""], action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[Int[Array, ""]]:
        reward = self.played.rewards[state]
        return Step(
            state=(state + 1) % len(self.played.rewards),
            observation=jax.tree.map(lambda leaf: leaf[state + 1], self.played.observations),
            reward=reward,
            terminated=self.played.terminated[state],
            truncated=self.played.truncated[state],
            success=self.played.successes[state],
            total=self.played.totals[state],
        )


def pad(
    seen: list[Observation],
    actions: list[int],
    steps: list[HostSteps],
    start: Observation,
    length: int,
) -> PlayedWindow:
    """Steps as arrays of a fixed length."""
    missing = length - len(steps)

    def told(name: str, kind: Any) -> np.ndarray:
        return np.array([*(getattr(step, name)[0] for step in steps), *[0] * missing], kind)

    return PlayedWindow(
        observations=stack([*seen, *[seen[-1]] * missing]),
        rewards=told("reward", np.float32),
        terminated=told("terminated", bool),
        truncated=told("truncated", bool),
        next_episode=start,
        actions=np.array([*actions, *[0] * missing], np.int32),
        successes=told("success", bool),
        totals=told("total", np.float32),
    )


def empty_env(spec: EnvSpec) -> "Replay":
    """An environment of that spec that shows zeros: enough to start a run."""
    seen = spec.observation.zeros()
    return Replay(pad([seen], [], [], seen, 1), spec)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _window_noise(key: PRNGKeyArray, time: int, actions: int) -> Float[Array, "time actions"]:
    """The noise that `a3c.window` would draw, so that a run does not depend on where it runs."""
    nkey, *_ = a3c.window_keys(jax.random.clone(key))
    return jax.random.gumbel(nkey, (time, actions))


@functools.cache
def _choose(compile: Callable) -> Callable:
    def choose(agent: Agent, seen: Observation, memory: Any, noise: Array) -> tuple[Array, Any]:
        action, output = act(agent, seen, memory, noise)
        return action, output.memory

    return compile(choose)


@functools.cache
def _learn_window(spec: EnvSpec, rule: A3C, compile: Callable) -> Callable:
    def learn(played: PlayedWindow, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        taken = jax.nn.one_hot(played.actions, spec.actions, dtype=bool)
        only_those = jnp.where(taken, 0.0, -jnp.inf)
        return a3c.window(Replay(played, spec), hyper, run, rule, noise=only_those)

    return compile(learn)


class PlayedRound(NamedTuple):
    """A round that was played. Memories are as they were before episodes that begin then."""

    rollout: dict[str, Any]
    """The fields of a `Rollout`, with two first axes: windows and time."""
    memories: list[Any]
    """At the start of each window."""
    begins: Any
    """Where an episode begins with a window."""
    last: Observation
    """What to act on next."""
    last_memory: Any
    last_begins: Any


def play_round(
    rule: PPO, envs: HostEnvs, run: Run, compile: Callable[..., Callable]
) -> PlayedRound:
    """Act for a round."""
    weights, structure = jax.tree.flatten(run.agent)
    memory, remembered = jax.tree.flatten(run.scene.memory)
    names = tuple(sorted(run.scene.observation.factors))
    actor = _actor(rule, structure, remembered, names, compile)
    noise = np.asarray(_round_noise(run.key, rule, envs.spec.actions))
    windows, time = noise.shape[:2]
    book = _Book(windows * time, envs.count, rule.bootstrap_truncated)
    seen = [np.asarray(part) for part in parts_of(run.scene.observation)]
    begins, memories, starts = np.zeros(envs.count, bool), [], []
    for t, gumbel in enumerate(noise.reshape(windows * time, *noise.shape[2:])):
        if t % time == 0:
            memories.append(memory)
            starts.append(begins)
        told, memory = actor.act(weights, seen, memory, begins, gumbel)
        chosen = np.asarray(told)
        steps = envs.step(chosen[0].astype(np.int32))
        book.note(t, seen, chosen, steps)
        if rule.bootstrap_truncated and (cut := steps.truncated & ~steps.terminated).any():
            last = parts_of(steps.final)
            values = np.asarray(actor.value(weights, last, memory))
            book.beyond[t] = np.where(cut, values, 0.0)
        seen, begins = parts_of(steps.observation), steps.begins
    return PlayedRound(
        rollout=book.rollout(names, windows),
        memories=[jax.tree.unflatten(remembered, each) for each in memories],
        begins=np.stack(starts),
        last=from_parts(names, seen),
        last_memory=jax.tree.unflatten(remembered, memory),
        last_begins=begins,
    )


class _Book:
    """What acting leaves for learning, step by step, in arrays of the host."""

    def __init__(self, steps: int, envs: int, beyond: bool):
        self.seen: list[list[np.ndarray]] = []
        self.told = np.zeros((3, steps, envs), np.float32)
        """Action, its log-probability, and the value."""
        self.reward, self.total = np.zeros((2, steps, envs), np.float32)
        self.done, self.success, self.played = np.zeros((3, steps, envs), bool)
        self.beyond = np.zeros((steps if beyond else 0, envs), np.float32)

    def note(self, t: int, seen: list[Any], told: np.ndarray, steps: HostSteps) -> None:
        """Write a step down."""
        self.seen.append(seen)
        self.told[:, t], self.reward[t], self.total[t] = told, steps.reward, steps.total
        self.done[t] = steps.done | ~steps.played
        self.success[t], self.played[t] = steps.success, steps.played

    def rollout(self, names: tuple[str, ...], windows: int) -> dict[str, Any]:
        """The fields of a `Rollout`, with two first axes: windows and time."""

        def split(x: np.ndarray) -> np.ndarray:
            return x.reshape(windows, -1, *x.shape[1:])

        seen = [split(np.stack(part)) for part in zip(*self.seen, strict=True)]
        action, log_probability, value = (split(x) for x in self.told)
        return dict(
            observation=from_parts(names, seen),
            action=action.astype(np.int32),
            log_probability=log_probability,
            value=value,
            reward=split(self.reward),
            done=split(self.done),
            success=split(self.success),
            total=split(self.total),
            value_beyond=split(self.beyond) if len(self.beyond) else None,
            valid=None if self.played.all() else split(self.played),
        )


class _Actor(NamedTuple):
    """Two compiled functions of the arrays of an agent, its observations and its memories.

    Lists of arrays take less time to hand over than modules.
    """

    act: Callable[..., tuple[Array, list[Array]]]
    """Action, log-probability and value in one array, and the memories."""
    value: Callable[..., Array]


@functools.cache
def _actor(
    rule: PPO, structure: Any, remembered: Any, names: tuple[str, ...], compile: Callable
) -> _Actor:
    def summarise(weights: list, seen: list, memory: Any) -> tuple[Learner, Any]:
        agent, observation = jax.tree.unflatten(structure, weights), from_parts(names, seen)
        return agent, summariser(agent, observation, rule.precision)(observation, memory)

    def choose(
        weights: list, seen: list, memory: list, begins: Array, noise: Array
    ) -> tuple[Array, list[Array]]:
        agent = jax.tree.unflatten(structure, weights)
        kept = renew(agent, begins, jax.tree.unflatten(remembered, memory))
        agent, summary = summarise(weights, seen, kept)
        logits, value = losses.decide_all(agent, summary.vector)
        action = jax.vmap(sample)(logits, noise)
        chosen = losses.log_probability(logits, action)
        return jnp.stack([action.astype(value.dtype), chosen, value]), jax.tree.leaves(
            summary.memory
        )

    def value(weights: list, seen: list, memory: list) -> Array:
        agent, summary = summarise(weights, seen, jax.tree.unflatten(remembered, memory))
        return losses.decide_all(agent, summary.vector)[1]

    return _Actor(compile(choose), compile(value))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _round_noise(
    key: PRNGKeyArray, rule: PPO, actions: int
) -> Float[Array, "windows time envs actions"]:
    """The noise of the policy in all steps of a round."""
    _, pkey, _ = _round_keys(key)
    shape = rule.settings.envs, actions
    keys = jax.vmap(lambda key: jax.random.split(key, rule.t_max))(
        jax.random.split(pkey, rule.settings.windows)
    )
    return jax.vmap(jax.vmap(lambda key: jax.random.gumbel(key, shape)))(keys)


def _round_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    """Keys of a round: learning, acting, and what follows."""
    lkey, pkey, key = jax.random.split(jax.random.clone(key), 3)
    return lkey, pkey, key


@functools.cache
def _learn_round(rule: PPO, compile: Callable) -> Callable:
    def learn(run: Run, played: PlayedRound, hyper: Hyper) -> tuple[Run, Totals]:
        lkey, _, key = _round_keys(run.key)
        memory = jax.tree.map(lambda *each: jnp.stack(each), *played.memories)
        memory = jax.vmap(functools.partial(renew, run.agent))(played.begins, memory)
        last = renew(run.agent, played.last_begins, played.last_memory)
        scene = Scene(run.scene.state, played.last, last)
        rollout = Rollout(**played.rollout)
        return rule.learn_from(run, scene, memory, rollout, hyper, lkey, key)

    return compile(learn)
