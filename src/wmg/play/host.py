"""Environments that run on the host: any Gymnasium environment, in plain Python.

The agent is compiled, the environment is not. Environments that take their steps together are one
`HostEnvs`, so that the agent is called once for all: `Lockstep` over single environments,
`wmg.play.vectorised.Vectorised` over a vector environment of Gymnasium.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from wmg.play.check_spec import check_spec
from wmg.play.host_arrays import expected_parts, from_parts, parts_of, put, stack
from wmg.play.own_code import run_own
from wmg.play.streams import TEST_STREAM
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation, ObservationSpec

Seeds = Callable[[int], int | None]
"""The seed of the next episode of an environment, by its index."""


@runtime_checkable
class Gymnasium(Protocol):
    """The two functions of a `gymnasium.Env` that are used here."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]: ...


@runtime_checkable
class Mapping(Protocol):
    """How an agent sees an environment's spaces."""

    @property
    def observation(self) -> ObservationSpec: ...

    def observe(self, seen: Any) -> Observation:
        """One observation."""
        ...

    def observe_all(self, batch: Any) -> Observation:
        """The observations of all environments, as a vector environment gives them."""
        ...

    def to_action(self, index: int) -> Any:
        """What an environment takes for an agent's action."""
        ...

    def to_actions(self, actions: np.ndarray) -> Any:
        """The actions that a vector environment takes."""
        ...


@dataclasses.dataclass(frozen=True)
class HostStep:
    """The outcome of one action. `success` is meaningful where the episode ended."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    success: bool


@dataclasses.dataclass(frozen=True)
class Host:
    """A Gymnasium environment, and how an agent sees it.

    An episode is a success if the last `info` says so (`success` or `is_success`). Where it says
    nothing, it is one if the last step pays more than 0.
    """

    env: Gymnasium
    observe: Callable[[Any], Observation]
    """From the environment's observation to the agent's."""
    spec: EnvSpec
    to_action: Callable[[int], Any] = int
    """From the agent's action to the environment's."""

    def reset(self, seed: int | None = None) -> Observation:
        """The start of a new episode."""
        return self.observe(call_own(self.env, "reset", seed=seed)[0])

    def step(self, action: int) -> HostStep:
        """What follows an action."""
        made = call_own(self.env, "step", self.to_action(action))
        seen, reward, terminated, truncated, info = made
        success = info.get("success", info.get("is_success", reward > 0))
        ends = bool(terminated), bool(truncated)
        return HostStep(self.observe(seen), float(reward), *ends, bool(success))


def call_own(env: Any, function: str, *args: Any, **options: Any) -> Any:
    """What a function of a user's environment returns; its own error is shown whole."""
    name = type(getattr(env, "unwrapped", env)).__name__
    return run_own(f"{name}.{function}", lambda: getattr(env, function)(*args, **options))


@dataclasses.dataclass(frozen=True)
class HostSteps:
    """The outcome of one action in each environment: everything has a first axis.

    `success` is meaningful where an episode ended.
    """

    observation: Observation
    """What to act on next: where an episode ended, mostly the start of the next one."""
    final: Observation
    """What the actions led to: where an episode ended, its last observation."""
    reward: Float[np.ndarray, " envs"]
    terminated: Bool[np.ndarray, " envs"]
    truncated: Bool[np.ndarray, " envs"]
    success: Bool[np.ndarray, " envs"]
    begins: Bool[np.ndarray, " envs"]
    """Where `observation` is the first of an episode."""
    played: Bool[np.ndarray, " envs"]
    """False where no action was taken, since the environment only began its next episode."""
    total: Float[np.ndarray, " envs"]
    """The whole reward of each episode so far, this step's included."""

    @property
    def done(self) -> Bool[np.ndarray, " envs"]:
        return self.terminated | self.truncated


class HostEnvs(abc.ABC):
    """Environments on the host that take their steps together.

    Where an episode ends, the next one begins by itself.
    """

    def __init__(self, spec: EnvSpec, count: int):
        check_spec(spec)
        self.spec, self.count = spec, count
        self._expected = expected_parts(spec.observation)
        self._names = tuple(sorted(name for name, *_ in spec.observation.factors))
        self._time = np.zeros(count, np.int64)
        self._total = np.zeros(count)

    @abc.abstractmethod
    def _reset(self, seeds: list[int | None]) -> Observation:
        """The start of a new episode everywhere."""

    @abc.abstractmethod
    def _step(self, actions: np.ndarray, seeds: Seeds | None) -> HostSteps:
        """What the actions lead to; `total` is ignored."""

    def reset(self, seeds: Sequence[int | None] | None = None) -> Observation:
        """The start of a new episode everywhere."""
        seen = self._reset([None] * self.count if seeds is None else list(seeds))
        self._check(seen)
        self._time[:], self._total[:] = 0, 0.0
        return seen

    def step(self, actions: np.ndarray, seeds: Seeds | None = None) -> HostSteps:
        """What the actions lead to. `seeds` are those of episodes that begin now, where the
        environments take them."""
        steps = self._step(actions, seeds)
        self._check(steps.final)
        if steps.observation is not steps.final:
            self._check(steps.observation)
        if not np.isfinite(steps.reward).all():
            bad = int(np.argmin(np.isfinite(steps.reward)))
            raise BadInput(f"the reward of environment {bad} is not finite: {steps.reward[bad]}")
        self._time += steps.played
        self._total += steps.reward
        late = (self._time >= self.spec.max_steps) & ~steps.done & steps.played
        if late.any():
            raise BadInput(
                f"an episode goes on after {self.spec.max_steps:,} steps, the most that its "
                "EnvSpec promises: raise max_steps (Gymnasium's is max_episode_steps)"
            )
        steps = dataclasses.replace(steps, total=self._total.copy())
        self._time[steps.begins], self._total[steps.begins] = 0, 0.0
        return steps

    def _check(self, seen: Observation) -> None:
        """Refuse observations that are not of the spec's shapes, or not finite."""
        parts = parts_of(seen)
        if tuple(sorted(seen.factors)) != self._names or len(parts) != len(self._expected):
            raise BadInput(
                f"an observation must have the parts {', '.join(n for n, _ in self._expected)}, "
                f"got the Factors {sorted(seen.factors)}"
                f"{' and no image' if seen.image is None else ' and an image'}"
            )
        for (name, shape), part in zip(self._expected, parts, strict=True):
            if part.shape[1:] != shape:
                raise BadInput(f"the {name} must have the shape {shape}, got {part.shape[1:]}")
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                finite = np.isfinite(part).reshape(len(part), -1).all(axis=1)
                bad = int(np.argmin(finite))
                values = part[bad][~np.isfinite(part[bad])]
                raise BadInput(f"the {name} of environment {bad} is not finite: {values[0]}")


class Lockstep(HostEnvs):
    """Single environments, stepped one after the other."""

    def __init__(self, hosts: Sequence[Host]):
        super().__init__(hosts[0].spec, len(hosts))
        self.hosts = list(hosts)

    def _reset(self, seeds: list[int | None]) -> Observation:
        each = zip(self.hosts, seeds, strict=True)
        return self._stack([host.reset(seed) for host, seed in each])

    def _step(self, actions: np.ndarray, seeds: Seeds | None) -> HostSteps:
        each = zip(self.hosts, actions.tolist(), strict=True)
        steps = [host.step(action) for host, action in each]
        final = seen = self._stack([step.observation for step in steps])
        flags = [(step.terminated, step.truncated, step.success) for step in steps]
        terminated, truncated, success = np.array(flags).T
        done = terminated | truncated
        if ended := np.flatnonzero(done).tolist():
            fresh = [self.hosts[i].reset(seeds(i) if seeds else None) for i in ended]
            seen = put(final, ended, self._stack(fresh))
        reward = np.array([step.reward for step in steps], np.float32)
        ends = terminated, truncated, success & done
        return HostSteps(seen, final, reward, *ends, done, np.ones_like(done), reward)

    def _stack(self, seen: list[Observation]) -> Observation:
        try:
            parts = [np.stack(part) for part in zip(*map(parts_of, seen), strict=True)]
        except ValueError:  # parts or shapes differ: find out which one is wrong
            for one in seen:
                self._check(stack([one]))
            raise
        names = tuple(sorted(seen[0].factors))
        return from_parts(names, parts)


def as_envs(given: Host | HostEnvs | Sequence[Host]) -> HostEnvs:
    """One host environment, or several, as environments that step together."""
    if isinstance(given, HostEnvs):
        return given
    return Lockstep([given] if isinstance(given, Host) else given)


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """What the first episodes of a test seed are reset with."""
    return np.random.SeedSequence((TEST_STREAM, seed)).generate_state(episodes).tolist()
