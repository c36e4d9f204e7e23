"""Sample efficiency, by the paper's protocol: steps of training until a goal is met.

At every report each run plays fresh episodes. Its test ends as soon as the goal, 99% of 10,000
episodes, is out of reach; the run ends as soon as the goal is met. The steps it needed are
interpolated between its last two tests, as the authors do. A run that never meets the goal is
*censored*: known to need more steps than it took, and never left out.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg import parallel
from wmg.config import Goal
from wmg.evaluate import FAILED, SOLVED
from wmg.types import Agent, Env

GOAL_STREAM = 20_200_713
"""Episodes of these tests come from a key that no training run starts from."""
TOGETHER = 16
"""Runs that are tested together for long, on an accelerator."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """How one run did in one test: episodes as if played one after the other."""

    steps: int
    """Steps of training that the run had taken."""
    solved: int
    episodes: int
    """As many as it took to know that the goal is out of reach, or all of them."""

    @property
    def rate(self) -> float:
        """The share of episodes that were solved."""
        return self.solved / self.episodes

    def meets(self, goal: Goal) -> bool:
        """Whether the whole test was played, and the goal met in it."""
        return self.episodes == goal.episodes and self.episodes - self.solved <= spare(goal)


def spare(goal: Goal) -> int:
    """How many episodes may fail; never all of them."""
    return goal.episodes - max(1, math.ceil(goal.success * goal.episodes - 1e-9))


def crossing(tests: list[Trial], goal: Goal) -> float | None:
    """Steps until the goal was met, None if it never was: interpolated from the test before."""
    if not tests or not tests[-1].meets(goal):
        return None
    last = tests[-1]
    steps, rate = (tests[-2].steps, tests[-2].rate) if len(tests) > 1 else (0, 0.0)
    # A test that fails has a lower rate than any that passes, also where it was cut short.
    share = (goal.success - rate) / (last.rate - rate)
    return steps + (last.steps - steps) * share


def log_entry(trial: Trial | None) -> dict[str, Any]:
    """What a run's log says of a test; None for a run that could not be tested."""
    if trial is None:
        return {"score": math.nan, "test_solved": None, "test_episodes": None}
    score = 100 * trial.rate
    return {"score": score, "test_solved": trial.solved, "test_episodes": trial.episodes}


def read_trials(log: list[dict[str, Any]]) -> list[Trial]:
    """The tests that a run's log tells of."""
    tested = [line for line in log if line.get("test_episodes")]
    return [Trial(line["steps"], line["test_solved"], line["test_episodes"]) for line in tested]


def tally(outcomes: np.ndarray, spare: int) -> tuple[int, int]:
    """Episodes solved and played, in order, up to the failure that is one too many."""
    failures = np.cumsum(outcomes == FAILED)
    beyond = np.flatnonzero(failures > spare)
    played = int(beyond[0]) + 1 if beyond.size else int((outcomes != 0).sum())
    return int((outcomes[:played] == SOLVED).sum()), played


class Trials:
    """Tests the runs of a batch together.

    Most tests end soon: all runs play a first stretch of episodes, and only those whose goal is
    still within reach go on. Where a batch is one program, it lasts as long as its longest test:
    so there the first stretch is a tenth of the whole, and those that go on do so in small groups
    with many lanes each.
    """

    def __init__(self, env: Env, goal: Goal, backend: str | None = None):
        self.spare, self.together = spare(goal), not parallel.on_cpu(backend)
        first = min(goal.episodes, (8 * (self.spare + 1) + 4) // 5)
        widths = (first, 64)
        if self.together:
            first, widths = max(first, goal.episodes // 10), (64, 256)
        self.stretches = [
            parallel.over_agents(env, episodes, min(episodes, lanes), backend)
            for episodes, lanes in zip((first, goal.episodes - first), widths, strict=True)
            if episodes
        ]

    def __call__(self, agents: Agent, rows: np.ndarray, keys: np.ndarray) -> list[tuple[int, int]]:
        """Episodes solved and played by the agents in some rows, each with its own keys."""
        outcomes = [np.zeros(0, np.int32)] * len(rows)
        for number in range(len(self.stretches)):
            failed = np.array([(outcome == FAILED).sum() for outcome in outcomes], np.int32)
            # Those that fail alike need as many episodes, and do not wait for each other.
            left = np.argsort(failed, kind="stable")
            left = left[failed[left] <= self.spare]
            if left.size:
                mine = keys[left, number]
                played = self._play(number, agents, rows[left], mine, self.spare - failed[left])
                for i, more in zip(left, played, strict=True):
                    outcomes[i] = np.concatenate([outcomes[i], more])
        return [tally(outcome, self.spare) for outcome in outcomes]

    def _play(
        self, number: int, agents: Agent, rows: np.ndarray, keys: np.ndarray, spare: np.ndarray
    ) -> np.ndarray:
        """The outcomes of a stretch, a row of them for each agent."""
        count = len(rows)
        size = count
        if self.together:  # always as many, some of them repeated: each number is a program
            batch = jax.tree.leaves(agents)[0].shape[0]
            size = min(batch, TOGETHER) if number else batch
        groups = [np.arange(i, min(i + size, count)) for i in range(0, count, size)]
        padded = [np.resize(group, size) for group in groups]
        parts = [self.stretches[number](agents, rows[g], keys[g], spare[g]) for g in padded]
        return np.concatenate([p[: len(g)] for p, g in zip(parts, groups, strict=True)])


@jax.jit
def _trial_keys(seeds: Int[Array, " runs"], report: Int[Array, ""]) -> Array:
    stream = jax.random.fold_in(jax.random.key(GOAL_STREAM), report)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(stream, seeds)
    return jax.random.key_data(jax.vmap(jax.random.split)(keys))


def trial_keys(seeds: np.ndarray, report: int) -> np.ndarray:
    """Keys for both stretches of each run's test at a report, the same in any company.

    Their data, as numpy arrays: of those any rows can be taken without compiling for so many.
    """
    return np.asarray(_trial_keys(jnp.asarray(seeds), jnp.int32(report)))
