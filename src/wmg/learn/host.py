"""The learning rules on environments that run on the host.

The agent and its update are compiled, the environment is not. A3C plays and records a window, then
repeats it through `a3c.window` with the actions that were taken: the same loss, gradients and
update as in a compiled environment, and one program for windows of any length. PPO plays a round in
lockstep and learns from it as from any other.

The state of a host environment cannot be saved. A run that is resumed begins a new episode.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.config import Hyper
from wmg.learn import a3c, losses
from wmg.learn.a3c import A3C
from wmg.learn.ppo import PPO, Rollout, renew
from wmg.learn.rule import Rule
from wmg.play.host import Host, HostStep, stack
from wmg.tools.errors import BadInput
from wmg.types import (
    Agent,
    Env,
    EnvSpec,
    Factors,
    Learner,
    Observation,
    Run,
    Scene,
    Step,
    Totals,
    act,
    sample,
)


@dataclasses.dataclass(frozen=True)
class HostRule(abc.ABC):
    """A learning rule on environments of the host, which belong to one run."""

    rule: Any
    hosts: Sequence[Host]
    compile: Callable[..., Callable] = jax.jit
    """What compiles the agent and its update."""

    def __post_init__(self):
        if len(self.hosts) != self.count:
            raise BadInput(f"a run needs {self.count} host environments, got {len(self.hosts)}")

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many environments a run plays in."""

    @abc.abstractmethod
    def scene(self, seen: list[Observation], memory: Any) -> tuple[Observation, Any]:
        """Observation and memory of a scene: one of each environment, and of each the memory."""

    @abc.abstractmethod
    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        """Play, then learn from what was played."""

    def begin(self, run: Run, seed: int) -> Run:
        """The run at the start of a new episode in every environment."""
        seeds = [seed + i for i in range(self.count)]
        if taken := int(run.steps):  # not the episodes of the start once more
            seeds = np.random.SeedSequence((seed, taken)).generate_state(self.count).tolist()
        seen = [host.reset(each) for host, each in zip(self.hosts, seeds, strict=True)]
        both = self.scene(seen, run.agent.initial_memory())
        scene = Scene(run.scene.state, *jax.tree.map(jnp.asarray, both))
        return eqx.tree_at(lambda run: run.scene, run, scene)

    def advance(self, hyper: Hyper, run: Run, until: int) -> tuple[Run, Totals]:
        """Updates until the first that ends at or after `until` steps, and their sums."""
        totals = Totals.zeros()
        while int(run.steps) < until and not bool(run.diverged):
            run, more = self.update(hyper, run)
            totals = jax.tree.map(jnp.add, totals, more)
        return run, totals


class HostA3C(HostRule):
    """A3C in one environment of the host."""

    rule: A3C

    @property
    def count(self) -> int:
        return 1

    def scene(self, seen: list[Observation], memory: Any) -> tuple[Observation, Any]:
        return seen[0], memory

    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        (host,), t_max = self.hosts, self.rule.t_max
        learn = _learn_window(host.spec, t_max, self.compile)
        return learn(play_window(host, run, t_max, _choose(self.compile)), hyper, run)


class HostPPO(HostRule):
    """PPO in several environments of the host, in lockstep."""

    rule: PPO

    @property
    def count(self) -> int:
        return self.rule.settings.envs

    def scene(self, seen: list[Observation], memory: Any) -> tuple[Observation, Any]:
        return stack(seen), stack([memory] * self.count)

    def update(self, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        lkey, pkey, key = jax.random.split(run.key, 3)
        played = play_round(self.rule, self.hosts, run, pkey, _choose_all(self.compile))
        return _learn_round(self.rule, self.compile)(run, *played, hyper, lkey, key)


def on_host(rule: Rule, hosts: Sequence[Host], compile: Callable[..., Callable]) -> HostRule:
    """A learning rule on environments of the host."""
    kind = HostPPO if isinstance(rule, PPO) else HostA3C
    return kind(rule, hosts, compile)


def play_window(host: Host, run: Run, t_max: int, choose: Callable) -> "PlayedWindow":
    """Act for `t_max` steps or to the episode's end."""
    length = min(t_max, host.spec.max_steps)
    noise = np.asarray(_window_noise(run.key, length, host.spec.actions))
    seen, memory = [run.scene.observation], run.scene.memory
    actions: list[int] = []
    steps: list[HostStep] = []
    while len(steps) < length and not (steps and steps[-1].done):
        action, memory = choose(run.agent, seen[-1], memory, noise[len(steps)])
        actions.append(int(action))
        steps.append(host.step(actions[-1]))
        seen.append(steps[-1].observation)
    start = host.reset() if steps[-1].done else seen[0]
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
            success=reward > 0,
        )


def pad(
    seen: list[Observation],
    actions: list[int],
    steps: list[HostStep],
    start: Observation,
    length: int,
) -> PlayedWindow:
    """Steps as arrays of a fixed length."""
    missing = length - len(steps)
    told = [(step.reward, step.terminated, step.truncated) for step in steps]
    rewards, terminated, truncated = np.array([*told, *[(0.0, False, False)] * missing]).T
    return PlayedWindow(
        observations=stack([*seen, *[seen[-1]] * missing]),
        rewards=rewards.astype(np.float32),
        terminated=terminated.astype(bool),
        truncated=truncated.astype(bool),
        next_episode=start,
        actions=np.array([*actions, *[0] * missing], np.int32),
    )


def empty_env(spec: EnvSpec) -> "Replay":
    """An environment of that spec that shows zeros: enough to start a run."""
    core = np.zeros(spec.observation.core, np.float32)
    factors = {
        name: Factors(jnp.zeros((count, size)), jnp.zeros(count, bool))
        for name, count, size in spec.observation.factors
    }
    image = None if spec.observation.image is None else jnp.zeros(spec.observation.image)
    seen = Observation(jnp.asarray(core), factors, image)
    return Replay(pad([seen], [], [], seen, 1), spec)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _window_noise(key: PRNGKeyArray, time: int, actions: int) -> Float[Array, "time actions"]:
    """The noise that `a3c.window` would draw, so that a run does not depend on where it runs."""
    nkey, *_ = jax.random.split(jax.random.clone(key), 4)
    return jax.random.gumbel(nkey, (time, actions))


@functools.cache
def _choose(compile: Callable) -> Callable:
    def choose(agent: Agent, seen: Observation, memory: Any, noise: Array) -> tuple[Array, Any]:
        action, output = act(agent, seen, memory, noise)
        return action, output.memory

    return compile(choose)


@functools.cache
def _learn_window(spec: EnvSpec, t_max: int, compile: Callable) -> Callable:
    def learn(played: PlayedWindow, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        taken = jax.nn.one_hot(played.actions, spec.actions, dtype=bool)
        only_those = jnp.where(taken, 0.0, -jnp.inf)
        return a3c.window(Replay(played, spec), hyper, run, t_max, 1, only_those)

    return compile(learn)


def play_round(
    rule: PPO, hosts: Sequence[Host], run: Run, key: PRNGKeyArray, choose: Callable
) -> tuple[Scene, Any, Rollout]:
    """The scene after a round; the memory at the start of each window, and its steps."""
    observation, memory, windows = run.scene.observation, run.scene.memory, []
    for wkey in jax.random.split(key, rule.settings.windows):
        first, steps = memory, []
        for skey in jax.random.split(wkey, rule.t_max):
            chosen, kept = choose(run.agent, observation, memory, skey)
            made = [host.step(int(a)) for host, a in zip(hosts, chosen["action"], strict=True)]
            done = np.array([one.done for one in made])
            reward = np.array([one.reward for one in made], np.float32)
            told = {"reward": reward, "done": done, "success": done & (reward > 0)}
            steps.append(Rollout(observation, **chosen, **jax.tree.map(jnp.asarray, told)))
            each = zip(hosts, made, strict=True)
            seen = [host.reset() if one.done else one.observation for host, one in each]
            observation = jax.tree.map(jnp.asarray, stack(seen))
            memory = renew(run.agent, jnp.asarray(done), kept)
        windows.append((first, stack(steps)))
    return Scene(run.scene.state, observation, memory), *stack(windows)


@functools.cache
def _choose_all(compile: Callable) -> Callable:
    def choose_all(
        agent: Learner, seen: Observation, memory: Any, key: PRNGKeyArray
    ) -> tuple[dict[str, Array], Any]:
        summary = agent.summarise_all(seen, memory)
        logits, value = losses.decide_all(agent, summary.vector)
        action = jax.vmap(sample)(logits, jax.random.gumbel(key, logits.shape))
        chosen = losses.log_probability(logits, action)
        return {"action": action, "log_probability": chosen, "value": value}, summary.memory

    return compile(choose_all)


@functools.cache
def _learn_round(rule: PPO, compile: Callable) -> Callable:
    return compile(rule.learn_from)
