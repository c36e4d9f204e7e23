"""A vector environment of Gymnasium as environments that step together, in any autoreset mode."""

from typing import Any

import numpy as np

from wmg.play.host import HostEnvs, HostSteps, Mapping, Seeds, call_own
from wmg.play.host_arrays import from_parts, parts_of, put, stack, take
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation

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
        return self._observe(call_own(self.env, "reset", seed=seeds if many else seeds[0])[0])

    def _step(self, actions: np.ndarray, seeds: Seeds | None) -> HostSteps:
        made = call_own(self.env, "step", self.mapping.to_actions(actions))
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
        fresh = call_own(self.env, "reset", seed=seed, options={"reset_mask": done.copy()})[0]
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
