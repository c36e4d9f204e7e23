"""Sample efficiency, by the paper's protocol: steps of training until a goal is met.

At every report each run plays fresh episodes. Its test ends as soon as the goal, 99% of 10,000
episodes, is out of reach, or all but out of reach (`allowed_failures`); the run ends as soon as the
goal is met. The steps it needed are
interpolated between its last two tests, as the authors do. A run that never meets the goal is
*censored*: known to need more steps than it took, and never left out.

The interval between tests is part of the result: with more tests a run passes one earlier. A goal
may name coarser *grids*. A run then goes on, tested on those alone, until it has passed a test on
each; `crossing_on_grid` says what it would have needed if it had been tested on that grid only.
"""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg.config import Goal, Precision
from wmg.play.evaluate import FAILED, SOLVED
from wmg.runs import hardware
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env

GOAL_STREAM = 20_200_713
"""Episodes of these tests come from a key that no training run starts from."""
UNLIKELY = 1e-2
"""How seldom an agent that just meets the goal may be taken for one that does not, at any one
number of episodes. Over all 10,000, three tests of 1,000 are stopped that would have passed; such
a run is tested again at its next report."""
FIRST = 64
"""With fewer episodes a test only ends if the goal is out of reach; many end just then."""
LANES, LANES_ON_CPU = 64, 16
"""How many episodes of a stretch are played at once. On a CPU the idle ones at its end cost more
than larger products gain."""
STRETCH, PARTS = 500, 56
"""Where tests are one program: how many episodes of a test are a stretch of it, at least `FIRST`,
and how many stretches at most are played at once, of whichever tests. Longer ones wait less for
their last episodes, and play more that no test needs."""


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

    def is_on(self, grid: int, every: int) -> bool:
        """Whether a run tested every `grid` steps has this test, of a run tested every `every`."""
        return self.steps // every * every % grid == 0

    def meets(self, goal: Goal) -> bool:
        """Whether the whole test was played, and the goal met in it."""
        return self.episodes == goal.episodes and self.episodes - self.solved <= spare(goal)


def spare(goal: Goal) -> int:
    """How many episodes may fail; never all of them."""
    return goal.episodes - max(1, math.ceil(goal.success * goal.episodes - 1e-9))


def allowed_failures(goal: Goal) -> np.ndarray:
    """Up to how many failures among the first 0, 1, 2, ... episodes a test goes on.

    Never more than leave the goal within reach; and from `FIRST` episodes on no more than an agent
    that just meets it would have (by Chernoff's bound), but seldom.
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
    """Steps until the first passed test, None if there is none: interpolated from the test before,
    or from nothing solved at the `start`."""
    before, rate = start, 0.0
    for test in tests:
        if test.meets(goal):
            # A test that fails has a lower rate than any that passes, also where it was cut short.
            share = (goal.success - rate) / (test.rate - rate)
            return before + (test.steps - before) * share
        before, rate = test.steps, test.rate
    return None


def unmet(tests: list[Trial], goal: Goal, every: int) -> set[int]:
    """The test intervals, of `every` and the goal's grids, on which no test was passed yet."""
    passed = [test for test in tests if test.meets(goal)]
    grids = {every, *goal.grids}
    return {grid for grid in grids if not any(test.is_on(grid, every) for test in passed)}


def crossing_on_grid(
    tests: list[Trial], goal: Goal, every: int, grid: int, start: int = 0
) -> float | None:
    """Steps a run tested every `every` steps would have needed if tested every `grid` steps.

    None if it never met the goal; NaN if it was not tested at every point of the grid until it
    passed, which happens only on grids that the goal does not name.
    """
    if grid == every:
        return crossing(tests, goal, start)
    kept = [test for test in tests if test.is_on(grid, every)]
    found = crossing(kept, goal, start)
    if grid in goal.grids:
        return found
    ended_early = found is None and any(test.meets(goal) for test in tests)
    return math.nan if ended_early or _has_gap(kept, goal, every, grid, start) else found


def _has_gap(kept: list[Trial], goal: Goal, every: int, grid: int, start: int) -> bool:
    """Whether a test on the grid is missing before the first one that was passed."""
    until = next((place for place, test in enumerate(kept) if test.meets(goal)), -1)
    first = start // grid + 1
    return any(
        test.steps // every * every != grid * (first + place)
        for place, test in enumerate(kept[: until + 1])
    )


def log_entry(trial: Trial | None) -> dict[str, Any]:
    """What a run's log says of a test; None for a report without one."""
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
    """Tests the runs of a batch together, in stretches of episodes.

    On a CPU agents are tested one by one, and most tests end with a first, short stretch. On an
    accelerator a fixed number of stretches, all alike, are one program, which is compiled once,
    however many runs are left: first those that every test begins with, then the next ones of tests
    that have not ended. Where these are few, stretches further on are played with them, unasked.
    """

    def __init__(
        self,
        env: Env,
        goal: Goal,
        runs: int,
        precision: Precision = "float32",
        backend: str | None = None,
    ):
        self.allowed, self.together = allowed_failures(goal), not hardware.on_cpu(backend)
        self.runs = runs
        if self.together:
            count = math.ceil(goal.episodes / STRETCH)
            self.stretches = [math.ceil(goal.episodes / count)] * count
        else:
            first = min(FIRST, goal.episodes)
            self.stretches = [length for length in (first, goal.episodes - first) if length]
        self.starts = np.cumsum([0, *self.stretches])
        lanes = LANES if self.together else LANES_ON_CPU
        self.play = hardware.over_agents(env, lanes, precision, backend)

    @property
    def parts(self) -> int:
        """How many stretches are one program: of few runs one for each, or a whole test of one,
        and as many more as give each device the same."""
        devices = jax.device_count()
        few = max(self.runs, len(self.stretches))
        return min(PARTS, math.ceil(few / devices) * devices)

    def __call__(self, agents: Agent, rows: np.ndarray, keys: np.ndarray) -> list[tuple[int, int]]:
        """Episodes solved and played by the agents in some rows, each with its own keys."""
        outcomes = np.zeros((len(rows), len(self.allowed) - 1), np.int8)
        played = np.zeros(len(rows), np.int32)
        while parts := self._next(outcomes, played):
            # Always as many where they are one program, if need be some of them again.
            tests, numbers = np.resize(parts, (self.parts if self.together else len(parts), 2)).T
            allowed = self._allowed(outcomes, tests, numbers)
            found = self.play(agents, rows[tests], keys[tests, numbers], allowed)
            for (test, number), part in zip(parts, found[: len(parts)], strict=True):
                # Stretches that are all alike may have some episodes more than the test.
                mine = outcomes[test, self.starts[number] : self.starts[number + 1]]
                mine[:] = part[: len(mine)]
                played[test] = number + 1
        return [tally(outcome, self.allowed) for outcome in outcomes]

    def _next(self, outcomes: np.ndarray, played: np.ndarray) -> list[tuple[int, int]]:
        """What to play now: of which test, and which of its stretches."""
        count, left = len(self.stretches), []
        for test, (outcome, number) in enumerate(zip(outcomes, played.tolist(), strict=True)):
            if number < count and _end(outcome[: self.starts[number]], self.allowed) is None:
                left.append([(further, test) for further in range(number, count)])
        waiting = sorted(itertools.chain.from_iterable(left))
        most = self.parts if self.together else len(left)
        return [(test, number) for number, test in waiting[:most]]

    def _allowed(self, outcomes: np.ndarray, tests: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """How many failures some stretches may have, by what is known of those before."""
        beyond = self.starts[-1] + 1 - len(self.allowed)
        allowed = np.pad(self.allowed, (0, beyond), mode="edge")
        parts = [allowed[self.starts[n] : self.starts[n + 1] + 1] for n in numbers]
        return np.stack(parts) - (outcomes[tests] == FAILED).sum(1, dtype=np.int32)[:, None]


@functools.partial(jax.jit, static_argnums=2)
def _trial_keys(seeds: Int[Array, " runs"], report: Int[Array, ""], count: int) -> Array:
    stream = jax.random.fold_in(jax.random.key(GOAL_STREAM), report)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(stream, seeds)
    return jax.random.key_data(jax.vmap(lambda key: jax.random.split(key, count))(keys))


def trial_keys(seeds: np.ndarray, report: int, stretches: int) -> np.ndarray:
    """Keys for the stretches of each run's test at a report, the same in any company.

    Their data, as numpy arrays: of those any rows can be taken without compiling for so many.
    """
    return np.asarray(_trial_keys(jnp.asarray(seeds), jnp.int32(report), stretches))
