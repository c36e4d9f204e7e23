"""Sample efficiency, by the paper's protocol: steps of training until a goal is met.

At every report each run plays fresh episodes. Its test ends as soon as the goal, 99% of 10,000
episodes, is out of reach, or all but out of reach (`allowed_failures`); the run ends as soon as the
goal is met. The steps it needed are
interpolated between its last two tests, as the authors do. A run that never meets the goal is
*censored*: known to need more steps than it took, and never left out.
"""

import dataclasses
import math
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg import parallel
from wmg.config import BadInput, Goal
from wmg.evaluate import FAILED, SOLVED
from wmg.types import Agent, Env

GOAL_STREAM = 20_200_713
"""Episodes of these tests come from a key that no training run starts from."""
UNLIKELY = 1e-2
"""How seldom an agent that just meets the goal may be taken for one that does not, at any one
number of episodes. Over all 10,000, three tests of 1,000 are stopped that would have passed; such
a run is tested again at its next report."""
FIRST = 64
"""Episodes that a test begins at once; many tests end with them."""


class Stretch(NamedTuple):
    """A part of a test, played by those runs whose test has not ended before it."""

    episodes: int
    lanes: int
    """Episodes that each run plays at once."""
    runs: int
    """Runs that are one program, on an accelerator."""


EVERYONE, THE_REST = sys.maxsize, sys.maxsize
ONE_BY_ONE = (Stretch(FIRST, FIRST, 1), Stretch(THE_REST, 64, 1))
"""On a CPU, where each run is tested alone."""
TOGETHER = (Stretch(FIRST, FIRST, EVERYONE), Stretch(936, 128, 16), Stretch(THE_REST, 512, 8))
"""Where runs are tested in one program: it lasts as long as the longest test in it."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """How one run did in one test: episodes as if played one after the other."""

    steps: int
    """Steps of training that the run had taken."""
    solved: int
    episodes: int
    """As many as it took to know that the goal is not met, or all of them."""

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


def allowed_failures(goal: Goal) -> np.ndarray:
    """Up to how many failures among the first 0, 1, 2, ... episodes a test goes on.

    Never more than leave the goal within reach; and from `FIRST` episodes on, which are begun at
    once, no more than an agent that just meets it would have (by Chernoff's bound), but seldom.
    """
    most, chance, count = spare(goal), 1 - goal.success, 0
    allowed = np.minimum(np.arange(goal.episodes + 1, dtype=np.int32), most)
    for episodes in range(FIRST, goal.episodes + 1):
        while count < min(most, episodes) and not _unlikely(count + 1, episodes, chance):
            count += 1
        allowed[episodes] = count
    return allowed


def _unlikely(failures: int, episodes: int, chance: float) -> bool:
    """Whether so many failures, or more, tell that their chance is above `chance`."""
    share = failures / episodes
    if share <= chance:
        return False
    solved = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return episodes * (share * math.log(share / chance) + solved) > -math.log(UNLIKELY)


def crossing(tests: list[Trial], goal: Goal, start: int = 0) -> float | None:
    """Steps until the goal was met, None if it never was: interpolated from the test before, or
    from nothing solved at the `start`."""
    if not tests or not tests[-1].meets(goal):
        return None
    last = tests[-1]
    steps, rate = (tests[-2].steps, tests[-2].rate) if len(tests) > 1 else (start, 0.0)
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
    names = ("steps", "test_solved", "test_episodes")
    found = (line for line in log if line.get("test_episodes"))
    tested: list[list[Any]] = [[line.get(name) for name in names] for line in found]
    if bad := [test for test in tested if [type(number) for number in test] != [int] * 3]:
        raise BadInput(f"a log is damaged: {names} of a test are {bad[0]}")
    return [Trial(*test) for test in tested]


def tally(outcomes: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Episodes solved and played, in order, up to the failure that is one too many."""
    played = _end(outcomes, allowed) or int((outcomes != 0).sum())
    return int((outcomes[:played] == SOLVED).sum()), played


def _end(outcomes: np.ndarray, allowed: np.ndarray) -> int | None:
    """With how many episodes a test ended early, None if it did not."""
    beyond = np.cumsum(outcomes == FAILED) > allowed[1 : len(outcomes) + 1]
    return int(beyond.argmax()) + 1 if beyond.any() else None


class Trials:
    """Tests the runs of a batch together.

    Most tests end soon: all runs play a first stretch of episodes, and only those whose test has
    not ended in it go on. Where runs are one program, they do so in ever smaller groups, with ever
    more lanes each.
    """

    def __init__(self, env: Env, goal: Goal, backend: str | None = None):
        self.allowed, self.together = allowed_failures(goal), not parallel.on_cpu(backend)
        self.stretches, left = [], goal.episodes
        for stretch in TOGETHER if self.together else ONE_BY_ONE:
            if left:
                episodes = min(left, stretch.episodes)
                lanes = min(episodes, stretch.lanes)
                self.stretches.append(Stretch(episodes, lanes, stretch.runs))
                left -= episodes
        self.play = [
            parallel.over_agents(env, stretch.lanes, backend) for stretch in self.stretches
        ]

    def __call__(self, agents: Agent, rows: np.ndarray, keys: np.ndarray) -> list[tuple[int, int]]:
        """Episodes solved and played by the agents in some rows, each with its own keys."""
        outcomes = [np.zeros(0, np.int32)] * len(rows)
        begun = 0
        for number, stretch in enumerate(self.stretches):
            failed = np.array([(outcome == FAILED).sum() for outcome in outcomes], np.int32)
            goes_on = np.array([_end(outcome, self.allowed) is None for outcome in outcomes])
            # Those that fail alike need as many episodes, and do not wait for each other.
            left = np.argsort(failed, kind="stable")
            left = left[goes_on[left]]
            if left.size:
                allowed = self.allowed[begun : begun + stretch.episodes + 1] - failed[left, None]
                played = self._play(number, agents, rows[left], keys[left, number], allowed)
                for i, more in zip(left, played, strict=True):
                    outcomes[i] = np.concatenate([outcomes[i], more])
            begun += stretch.episodes
        return [tally(outcome, self.allowed) for outcome in outcomes]

    def _play(
        self, number: int, agents: Agent, rows: np.ndarray, keys: np.ndarray, allowed: np.ndarray
    ) -> np.ndarray:
        """The outcomes of a stretch, a row of them for each agent."""
        count = size = len(rows)
        if self.together:  # always as many, some of them repeated: each number is a program
            size = min(jax.tree.leaves(agents)[0].shape[0], self.stretches[number].runs)
        groups = [np.arange(i, min(i + size, count)) for i in range(0, count, size)]
        padded = [np.resize(group, size) for group in groups]
        parts = [self.play[number](agents, rows[g], keys[g], allowed[g]) for g in padded]
        return np.concatenate([p[: len(g)] for p, g in zip(parts, groups, strict=True)])


@jax.jit
def _trial_keys(seeds: Int[Array, " runs"], report: Int[Array, ""]) -> Array:
    stream = jax.random.fold_in(jax.random.key(GOAL_STREAM), report)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(stream, seeds)
    return jax.random.key_data(jax.vmap(lambda key: jax.random.split(key, len(TOGETHER)))(keys))


def trial_keys(seeds: np.ndarray, report: int) -> np.ndarray:
    """Keys for the stretches of each run's test at a report, the same in any company.

    Their data, as numpy arrays: of those any rows can be taken without compiling for so many.
    """
    return np.asarray(_trial_keys(jnp.asarray(seeds), jnp.int32(report)))
