"""Environments that run on the host: any Gymnasium environment, in plain Python.

The agent is compiled, the environment is not. Environments that take their steps together are one
`HostEnvs`, so that the agent is called once for all: `Lockstep` over single environments,
`Vectorised` over a vector environment of Gymnasium.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.play.check_spec import check_spec
from wmg.play.evaluate import Episodes, act
from wmg.play.streams import TEST_STREAM, test_key
from wmg.tools.errors import BadInput
from wmg.types import Agent, EnvSpec, Factors, Observation, ObservationSpec, keep_if

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

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


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
        return self.observe(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> HostStep:
        """What follows an action."""
        seen, reward, terminated, truncated, info = self.env.step(self.to_action(action))
        success = info.get("success", info.get("is_success", reward > 0))
        ends = bool(terminated), bool(truncated)
        return HostStep(self.observe(seen), float(reward), *ends, bool(success))


def observation(
    core: np.ndarray,
    factors: dict[str, tuple[np.ndarray, np.ndarray]],
    image: np.ndarray | None = None,
) -> Observation:
    """An observation whose arrays stay on the host: (values, present) for each Factor type."""
    names = tuple(sorted(factors))
    rows = [part for name in names for part in factors[name]]
    return from_parts(names, [core, *rows, *([] if image is None else [image])])


def from_parts(names: tuple[str, ...], parts: list[Any]) -> Observation:
    """The observation with these arrays, as `parts_of` lists them."""
    return jax.tree.unflatten(_structure(names, len(parts) == 2 * len(names) + 2), parts)


def parts_of(seen: Observation) -> list[Any]:
    """The arrays of an observation, in the order of its leaves."""
    factors = [seen.factors[name] for name in sorted(seen.factors)]
    rows = [part for each in factors for part in (each.values, each.present)]
    return [seen.core, *rows, *([] if seen.image is None else [seen.image])]


@functools.cache
def _structure(names: tuple[str, ...], image: bool) -> Any:
    rows = Factors(jnp.zeros((1, 1)), jnp.zeros(1, bool))
    seen = Observation(jnp.zeros(1), dict.fromkeys(names, rows))
    if image:
        seen = dataclasses.replace(seen, image=jnp.zeros((1, 1, 1)))
    return jax.tree.structure(seen)


def expected_parts(spec: ObservationSpec) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of each array of an observation, in the order of `parts_of`."""
    rows = [
        part
        for name, count, size in sorted(spec.factors)
        for part in ((f"Factors {name!r}", (count, size)), (f"mask of {name!r}", (count,)))
    ]
    image = [] if spec.image is None else [("image", spec.image)]
    return [("Core", (spec.core,)), *rows, *image]


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
                "EnvSpec promises: raise max_steps"
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


def put(seen: Observation, rows: Any, fresh: Observation) -> Observation:
    """Observations with other rows, in new arrays."""
    changed = []
    for part, new in zip(parts_of(seen), parts_of(fresh), strict=True):
        changed.append(np.array(part))
        changed[-1][rows] = new
    return from_parts(tuple(sorted(seen.factors)), changed)


NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
"""Gymnasium's names for how a vector environment begins the next episode."""


class Vectorised(HostEnvs):
    """A vector environment of Gymnasium, or another one with its functions.

    With `SAME_STEP`, the environments begin the next episode by themselves. With `DISABLED`, only
    those whose episode ended are reset, and so are Gymnasium's own vector environments with
    `NEXT_STEP`. Others with `NEXT_STEP` take one more step to begin the next episode, in which
    nothing is `played`.
    """

    def __init__(self, env: Any, mapping: Mapping, spec: EnvSpec):
        super().__init__(spec, env.num_envs)
        self.env, self.mapping = env, mapping
        mode = env.metadata.get("autoreset_mode")
        self.mode = getattr(mode, "value", mode)
        if self.mode not in (NEXT_STEP, SAME_STEP, DISABLED):
            raise BadInput(
                "a vector environment must name its autoreset mode: metadata['autoreset_mode'] "
                f"must be a gymnasium.vector.AutoresetMode, got {mode!r}"
            )
        refuse_forks(env.unwrapped)
        known = is_gymnasiums(env.unwrapped)
        self.takes_seeds = known or self.mode == DISABLED
        """Whether each environment can be seeded, and reset alone."""
        self.masked = self.mode == DISABLED or (self.mode == NEXT_STEP and known)
        self._ended = np.zeros(self.count, bool)

    def _reset(self, seeds: list[int | None]) -> Observation:
        self._ended = np.zeros(self.count, bool)
        many = is_gymnasiums(self.env.unwrapped) and any(seed is not None for seed in seeds)
        return self._observe(self.env.reset(seed=seeds if many else seeds[0])[0])

    def _step(self, actions: np.ndarray, seeds: Seeds | None) -> HostSteps:
        made = self.env.step(self.mapping.to_actions(actions))
        seen, info, began = self._observe(made[0]), made[4], self._ended
        reward, terminated, truncated = (np.asarray(flags) for flags in made[1:4])
        terminated, truncated = (flags.astype(bool) & ~began for flags in (terminated, truncated))
        reward = np.where(began, 0.0, reward).astype(np.float32)
        done = terminated | truncated
        final, begins = seen, done
        if self.mode == SAME_STEP and done.any():
            final, info = self._last(seen, info, done), info.get("final_info", {})
            if seeds is not None and self.takes_seeds:
                seen = self._begin(seen, done, seeds)
        elif self.masked and done.any():
            seen = self._begin(seen, done, seeds)
        elif self.mode == NEXT_STEP and not self.masked:
            begins, self._ended = began, done
        success = successes(info, reward) & done
        return HostSteps(
            seen, final, reward, terminated, truncated, success, begins, ~began, reward
        )

    def _begin(self, seen: Observation, done: np.ndarray, seeds: Seeds | None) -> Observation:
        """New episodes where one ended."""
        rows = np.flatnonzero(done)
        each: list[int | None] = [None] * self.count
        for row in rows.tolist():
            each[row] = None if seeds is None else seeds(row)
        seed = each if any(one is not None for one in each) else None
        fresh = self.env.reset(seed=seed, options={"reset_mask": done.copy()})[0]
        return put(seen, rows, take(self._observe(fresh), rows))

    def _last(self, seen: Observation, info: dict, done: np.ndarray) -> Observation:
        """The last observations where an episode ended."""
        rows = np.flatnonzero(done)
        if "final_obs" not in info:
            raise BadInput("a vector environment with SAME_STEP must give info['final_obs']")
        last = [self.mapping.observe(info["final_obs"][row]) for row in rows.tolist()]
        return put(seen, rows, stack(last))

    def _observe(self, seen: Any) -> Observation:
        # Copied: a vector environment may write the next observation to the same arrays.
        mapped = self.mapping.observe_all(seen)
        parts = [np.array(part) for part in parts_of(mapped)]
        return from_parts(tuple(sorted(mapped.factors)), parts)


def successes(info: dict[str, Any], reward: np.ndarray) -> np.ndarray:
    """Whether each episode that ended was a success, by a vector environment's `info`."""
    for name in ("success", "is_success"):
        if name in info:
            told = np.asarray(info.get(f"_{name}", np.ones(len(reward), bool)))
            return np.where(told, np.asarray(info[name]).astype(bool), reward > 0)
    return reward > 0


def is_gymnasiums(env: Any) -> bool:
    """Whether it is one of Gymnasium's vector environments that can reset some by a mask, whatever
    its mode. The asynchronous one can if it shares memory."""
    kind = type(env)
    if kind.__name__ == "AsyncVectorEnv":
        return kind.__module__.startswith("gymnasium.") and bool(env.shared_memory)
    return kind.__name__ == "SyncVectorEnv" and kind.__module__.startswith("gymnasium.")


def refuse_forks(env: Any) -> None:
    """Refuse workers that were forked: after JAX was used, they can wait for ever."""
    for process in getattr(env, "processes", []):
        if getattr(process, "_start_method", None) == "fork":
            raise BadInput(
                "the workers of an AsyncVectorEnv must not be forked, which can hang after JAX was "
                "used: make it with context='spawn' (make_vec: vector_kwargs={'context': 'spawn'})"
            )


def take(seen: Observation, rows: Any) -> Observation:
    """Some rows of observations."""
    return from_parts(tuple(sorted(seen.factors)), [part[rows] for part in parts_of(seen)])


def as_envs(given: Host | HostEnvs | Sequence[Host]) -> HostEnvs:
    """One host environment, or several, as environments that step together."""
    if isinstance(given, HostEnvs):
        return given
    return Lockstep([given] if isinstance(given, Host) else given)


def evaluate(
    hosts: Host | HostEnvs | Sequence[Host],
    agent: Agent,
    seed: int,
    episodes: int,
    greedy: bool = False,
) -> Episodes:
    """The episodes of a test seed, played in environments that step together.

    Each episode has its own seed, where the environments take one for each, and its own chance. So
    it does not depend on how many environments there are.
    """
    few = hosts[:episodes] if isinstance(hosts, Sequence) else hosts
    return _Test(as_envs(few), agent, seed, episodes, greedy).play()


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """What the first episodes of a test seed are reset with."""
    return np.random.SeedSequence((TEST_STREAM, seed)).generate_state(episodes).tolist()


class _Test:
    """Held-out episodes in progress. Each environment plays one, then the next nobody has begun."""

    def __init__(self, envs: HostEnvs, agent: Agent, seed: int, episodes: int, greedy: bool):
        self.envs, self.agent, self.greedy = envs, agent, greedy
        self.key = test_key(seed)
        self.seeds = episode_seeds(seed, episodes)
        self.waiting: Iterator[int] = iter(range(episodes))
        self.episode = np.full(envs.count, -1)
        """Which one each environment plays; -1 when there are none left."""
        self.reward, self.length = np.zeros(episodes, np.float32), np.zeros(episodes, np.int32)
        self.success = np.zeros(episodes, bool)

    def begin(self, index: int) -> int | None:
        """The seed of the episode that an environment plays next."""
        self.episode[index] = next(self.waiting, -1)
        return self.seeds[self.episode[index]] if self.episode[index] >= 0 else None

    def play(self) -> Episodes:
        """All episodes."""
        envs, count = self.envs, self.envs.spec.actions
        time = np.zeros(envs.count, np.int64)
        seen = envs.reset([self.begin(index) for index in range(envs.count)])
        memory = stack([self.agent.initial_memory()] * envs.count)
        while (self.episode >= 0).any():
            places = np.stack([self.episode, time], axis=1).astype(np.int32)
            actions, memory = _act_in_lanes(
                self.agent, seen, memory, places, self.key, count, self.greedy
            )
            playing = self.episode.copy()
            steps = envs.step(np.asarray(actions), self.begin)
            self.note(steps, playing)
            time = np.where(steps.done, 0, time + steps.played)
            seen = steps.observation
        return jax.device_get(Episodes(*map(jnp.asarray, (self.reward, self.length, self.success))))

    def note(self, steps: HostSteps, playing: Int[np.ndarray, " envs"]) -> None:
        """Count a step of the episodes that were being played."""
        counted = steps.played & (playing >= 0)
        self.reward[playing[counted]] += steps.reward[counted]
        self.length[playing[counted]] += 1
        ended = counted & steps.done
        self.success[playing[ended]] = steps.success[ended]
        for index in np.flatnonzero(steps.done & (self.episode == playing)).tolist():
            self.begin(index)  # by environments that take no seeds


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
