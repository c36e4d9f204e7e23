"""Agents on environments that run on the host: any Gymnasium environment, in plain Python.

The agent and its update are compiled, the environment is not. Playing, several copies of the
environment take their steps together, so that the agent is called once for all. Training, a
window is first played and recorded, then replayed through `a3c.window` with the actions that
were taken: the same loss, the same gradients and the same update as in a compiled environment,
and one program for windows of any length.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg import registry
from wmg.config import Batched, Config, Hyper
from wmg.learn import a3c
from wmg.learn.a3c import Run, Totals
from wmg.play.evaluate import TEST_STREAM, Episodes
from wmg.runs.hardware import cpu_options, products, stack
from wmg.runs.result import Progress, Result, record
from wmg.settings import AgentSettings
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, EnvSpec, Factors, Observation, Step


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
    key = jax.random.fold_in(jax.random.key(TEST_STREAM), seed)
    seeds = np.random.SeedSequence((TEST_STREAM, seed)).generate_state(episodes).tolist()
    reward, length = np.zeros(episodes, np.float32), np.zeros(episodes, np.int32)
    success = np.zeros(episodes, bool)
    lanes = [Lane(host, i, host.reset(seeds[i])) for i, host in enumerate(hosts[:episodes])]
    waiting = iter(range(len(lanes), episodes))
    memory = _stack([agent.initial_memory()] * len(lanes))
    while any(lane.episode >= 0 for lane in lanes):
        places = np.array([(lane.episode, lane.time) for lane in lanes], np.int32)
        seen = _stack([lane.observation for lane in lanes])
        actions, memory = _act_in_lanes(agent, seen, memory, places, key, greedy)
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


@functools.partial(jax.jit, static_argnums=5)
def _act_in_lanes(
    agent: Agent,
    seen: Observation,
    memory: Any,
    places: Int[Array, "lanes 2"],
    key: PRNGKeyArray,
    greedy: bool,
) -> tuple[Int[Array, " lanes"], Any]:
    """Each lane's action and memory. `places` are its episode and how far that is played."""

    def act(seen: Observation, memory: Any, place: Int[Array, "2"]) -> tuple[Array, Any]:
        episode, time = place
        memory = a3c.keep_if(time == 0, agent.initial_memory(), memory)
        output = agent(seen, memory)
        here = jax.random.fold_in(jax.random.fold_in(key, episode), time)
        noise = jax.random.gumbel(here, output.logits.shape) * (0.0 if greedy else 1.0)
        return a3c.sample(output.logits, noise), output.memory

    return jax.vmap(act)(seen, memory, places)


class Played(NamedTuple):
    """A window that was played. What lies behind an episode's end is padding."""

    observations: Observation
    """With a leading axis: one more than there are steps."""
    rewards: Float[Array | np.ndarray, " time"]
    terminated: Bool[Array | np.ndarray, " time"]
    truncated: Bool[Array | np.ndarray, " time"]
    next_episode: Observation
    """What the next episode starts with, if this one ended."""
    actions: Int[Array | np.ndarray, " time"]


class Replay(Env[Int[Array, ""]]):
    """An environment that goes through a window again, whatever the agent does.

    Its state is the time within the window, which starts again at the window's end.
    """

    played: Played
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


def train(
    settings: Config,
    host: Host,
    *,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Train one run on a host environment, in memory: what it has learned is in the result.

    There is no run folder to resume from: the state of a host environment cannot be saved.
    """
    if settings.env is not None or settings.runs != 1 or settings.goal is not None:
        raise BadInput(
            "training on a host environment takes settings whose env and goal are None, "
            f"and 1 run, got env = {settings.env!r}, goal = {settings.goal!r}, "
            f"runs = {settings.runs}"
        )
    if settings.batched != Batched():
        raise BadInput(f"a host environment is one alone: batched must be {Batched()}")
    (hyper,) = settings.hypers()
    began = time.monotonic()
    run, steps, scores = start_run(settings, host), [], []
    while len(steps) * settings.report_every < settings.steps and not run.diverged:
        since, before = time.monotonic(), int(run.steps)
        until = min((len(steps) + 1) * settings.report_every, settings.steps)
        with products(settings.precision):
            run, totals = train_until(host, hyper, run, until, settings.t_max)
        rate = float(a3c.learning_rate(hyper, run.steps))
        log = record(host.spec, totals, int(run.steps), rate, bool(run.diverged))
        steps.append(log["steps"])
        scores.append(log["score"])
        now = time.monotonic()
        speed = (log["steps"] - before) / (now - since)
        show(
            Progress(
                steps=until,
                total=settings.steps,
                rate=speed,
                scores=[] if log["diverged"] else [log["score"]],
                solved=None,
                diverged=int(log["diverged"]),
                seconds=now - began,
                finished=until == settings.steps or log["diverged"],
            )
        )
    return Result(
        config=settings,
        runs=stack([run]),
        steps=np.array(steps),
        scores=np.array([scores]),
        seconds=time.monotonic() - began,
        finished=True,
    )


def start_run(settings: Config, host: Host) -> Run:
    """A run that has not taken a step, and the host at the start of an episode."""
    first = host.reset(settings.seed)
    nothing = pad([first], [], [], first, 1)
    return _start(settings.agent, nothing, host.spec, settings.seed)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _start(agent: AgentSettings, played: Played, spec: EnvSpec, seed: Int[Array, ""]) -> Run:
    akey, rkey = jax.random.split(jax.random.key(seed))
    env = Replay(played, spec)
    return a3c.start_run(env, registry.make_agent(agent, env.spec, akey), rkey)


def train_until(host: Host, hyper: Hyper, run: Run, steps: int, t_max: int) -> tuple[Run, Totals]:
    """Windows until the first that ends at or after `steps`, and their sums."""
    totals = Totals.zeros()
    learn = _learn(jax.default_backend())
    while int(run.steps) < steps and not bool(run.diverged):
        played = play_window(host, run, t_max)
        run, totals = learn(played, hyper, run, totals, host.spec, t_max)
    return run, totals


def play_window(host: Host, run: Run, t_max: int) -> Played:
    """Act for `t_max` steps or to the episode's end."""
    length = min(t_max, host.spec.max_steps)
    noise = np.asarray(_window_noise(run.key, length, host.spec.actions))
    act = _act(jax.default_backend())
    seen, memory = [run.scene.observation], run.scene.memory
    actions: list[int] = []
    steps: list[HostStep] = []
    while len(steps) < length and not (steps and steps[-1].done):
        action, memory = act(run.agent, seen[-1], memory, noise[len(steps)])
        actions.append(int(action))
        steps.append(host.step(actions[-1]))
        seen.append(steps[-1].observation)
    start = host.reset() if steps[-1].done else seen[0]
    return pad(seen, actions, steps, start, length)


def pad(
    seen: list[Observation],
    actions: list[int],
    steps: list[HostStep],
    start: Observation,
    length: int,
) -> Played:
    """Steps as arrays of a fixed length."""
    missing = length - len(steps)
    told = [(step.reward, step.terminated, step.truncated) for step in steps]
    rewards, terminated, truncated = np.array([*told, *[(0.0, False, False)] * missing]).T
    return Played(
        observations=_stack([*seen, *[seen[-1]] * missing]),
        rewards=rewards.astype(np.float32),
        terminated=terminated.astype(bool),
        truncated=truncated.astype(bool),
        next_episode=start,
        actions=np.array([*actions, *[0] * missing], np.int32),
    )


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _window_noise(key: PRNGKeyArray, time: int, actions: int) -> Float[Array, "time actions"]:
    """The noise that `a3c.window` would draw, so that a run does not depend on where it runs."""
    nkey, *_ = jax.random.split(jax.random.clone(key), 4)
    return jax.random.gumbel(nkey, (time, actions))


def _options(backend: str) -> dict[str, Any]:
    return {"compiler_options": cpu_options()} if backend == "cpu" else {}


@functools.cache
def _act(backend: str) -> Callable:
    def act(agent: Agent, seen: Observation, memory: Any, noise: Array) -> tuple[Array, Any]:
        output = agent(seen, memory)
        return a3c.sample(output.logits, noise), output.memory

    return jax.jit(act, **_options(backend))


@functools.cache
def _learn(backend: str) -> Callable:
    def learn(
        played: Played, hyper: Hyper, run: Run, totals: Totals, spec: EnvSpec, t_max: int
    ) -> tuple[Run, Totals]:
        taken = jax.nn.one_hot(played.actions, spec.actions, dtype=bool)
        only_those = jnp.where(taken, 0.0, -jnp.inf)
        run, more = a3c.window(Replay(played, spec), hyper, run, t_max, 1, only_those)
        return run, jax.tree.map(jnp.add, totals, more)

    return jax.jit(learn, static_argnums=(4, 5), **_options(backend))
