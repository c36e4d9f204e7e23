"""Sample efficiency, by the paper's protocol: steps of training until a goal is met.

At every report each run plays fresh episodes. Its test ends as soon as the goal, 99% of 10,000
episodes, is out of reach, or very unlikely to be reached (`allowed_failures`); the run ends as soon
as the goal is met. The steps it needed are interpolated between its last two tests, as the authors
do. A run that never meets the goal is
*censored*: known to need more steps than it took, and never left out.

The interval between tests is part of the result: with more tests a run passes one earlier. A goal
may name coarser *grids*. A run then goes on, tested on those alone, until it has passed a test on
each; `crossing_on_grid` says what it would have needed if it had been tested on that grid only.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wmg.config import Goal
from wmg.play.evaluate import FAILED, SOLVED
from wmg.tools.errors import BadInput
from wmg.types import Agent

FALSE_STOP = 1e-2
"""False-stop probability at each episode count: that of ending the test of an agent that just meets
the goal. Over all 10,000 episodes, 3 of 1,000 tests are ended that would have passed; such a run is
tested again at its next report."""
FIRST = 64
"""With fewer episodes a test only ends if the goal is out of reach; many end just then."""
LANES, LANES_ON_CPU = 64, 16
"""Episodes of a block that are played at once. On a CPU the idle lanes at its end cost more than
larger products gain."""
BLOCK, BLOCKS_PER_CALL = 500, 56
"""Where tests are one program: episodes of a block, at least `FIRST`, and the most blocks that are
played at once, of whichever tests. Longer blocks wait less for their last episodes, and play more
episodes that no test needs."""
Play = Callable[[Agent, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Plays blocks of episodes. It takes a batch of agents and, for each block, the agent's row, key
data and allowed failures, and returns the outcome of each episode of each block."""


@dataclasses.dataclass(frozen=True)
class GoalTest:
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
        """Whether this test, of a run tested every `every` steps, is also a point of the coarser
        `grid`."""
        return self.steps // every * every % grid == 0

    def meets(self, goal: Goal) -> bool:
        """Whether the whole test was played, and the goal met in it."""
        return self.episodes == goal.episodes and self.episodes - self.solved <= spare(goal)


def spare(goal: Goal) -> int:
    """How many episodes may fail; never all of them."""
    return goal.episodes - max(1, math.ceil(goal.success * goal.episodes - 1e-9))


def allowed_failures(goal: Goal) -> np.ndarray:
    """Largest number of failures with which a test continues, by episodes played.

    Never more than leave the goal within reach. From `FIRST` episodes on, an agent that just meets
    the goal has more failures with a probability of at most `FALSE_STOP` (Chernoff's bound).
    """
    most, chance, count = spare(goal), 1 - goal.success, 0
    allowed = np.minimum(np.arange(goal.episodes + 1, dtype=np.int32), most)
    for episodes in range(FIRST, goal.episodes + 1):
        while count < min(most, episodes) and not _unlikely(count + 1, episodes, chance):
            count += 1
        allowed[episodes] = count
    return allowed


def _unlikely(failures: int, episodes: int, chance: float) -> bool:
    """Whether this many failures are improbable if each episode fails with `chance`."""
    share = failures / episodes
    if share <= chance:
        return False
    solved = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return episodes * (share * math.log(share / chance) + solved) > -math.log(FALSE_STOP)


def crossing(tests: list[GoalTest], goal: Goal, start: int = 0) -> float | None:
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


def unmet(tests: list[GoalTest], goal: Goal, every: int) -> set[int]:
    """The test intervals, of `every` and the goal's grids, on which no test was passed yet."""
    passed = [test for test in tests if test.meets(goal)]
    grids = {every, *goal.grids}
    return {grid for grid in grids if not any(test.is_on(grid, every) for test in passed)}


def crossing_on_grid(tests: list[GoalTest], goal: Goal, every: int, grid: int) -> float | None:
    """Steps a run tested every `every` steps would have needed if tested every `grid` steps.

    None if it never met the goal; NaN if it was not tested at every point of the grid until it
    passed, which happens only on grids that the goal does not name.
    """
    if grid == every:
        return crossing(tests, goal)
    kept = [test for test in tests if test.is_on(grid, every)]
    found = crossing(kept, goal)
    if grid in goal.grids:
        return found
    ended_early = found is None and any(test.meets(goal) for test in tests)
    return math.nan if ended_early or _has_gap(kept, goal, every, grid) else found


def _has_gap(kept: list[GoalTest], goal: Goal, every: int, grid: int) -> bool:
    """Whether a test on the grid is missing before the first one that was passed."""
    until = next((place for place, test in enumerate(kept) if test.meets(goal)), -1)
    return any(
        test.steps // every * every != grid * (1 + place)
        for place, test in enumerate(kept[: until + 1])
    )


def log_entry(test: GoalTest | None) -> dict[str, Any]:
    """What a run's log says of a test; None for a report without one."""
    if test is None:
        return {"score": math.nan, "test_solved": None, "test_episodes": None}
    score = 100 * test.rate
    return {"score": score, "test_solved": test.solved, "test_episodes": test.episodes}


def read_tests(log: list[dict[str, Any]]) -> list[GoalTest]:
    """The tests that a run's log tells of."""
    names = ("steps", "test_solved", "test_episodes")
    found = (line for line in log if line.get("test_episodes"))
    tested: list[list[Any]] = [[line.get(name) for name in names] for line in found]
    if bad := [test for test in tested if [type(number) for number in test] != [int] * 3]:
        raise BadInput(f"a log is damaged: {names} of a test are {bad[0]}")
    return [GoalTest(*test) for test in tested]


def tally(outcomes: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Episodes solved and played, in order, up to the failure that is one too many."""
    played = _end(outcomes, allowed) or int((outcomes != 0).sum())
    return int((outcomes[:played] == SOLVED).sum()), played


def _end(outcomes: np.ndarray, allowed: np.ndarray) -> int | None:
    """With how many episodes a test ended early, None if it did not."""
    beyond = np.cumsum(outcomes == FAILED) > allowed[1 : len(outcomes) + 1]
    return int(beyond.argmax()) + 1 if beyond.any() else None


class GoalTester:
    """Tests the runs of a batch together, in blocks of episodes.

    On a CPU agents are tested one by one, and most tests end with a first, short block. On an
    accelerator a fixed number of blocks, all alike, are one program that is compiled once, however
    many runs are left: first the blocks that every test begins with, then the next ones of tests
    that have not ended. Where these are few, later blocks are played with them in advance.
    """

    def __init__(self, goal: Goal, runs: int, play: Play, together: bool, devices: int = 1):
        """`together`: whether blocks are one program, split over the `devices`."""
        self.goal, self.allowed = goal, allowed_failures(goal)
        self.together, self.play = together, play
        if together:
            count = math.ceil(goal.episodes / BLOCK)
            self.blocks = [math.ceil(goal.episodes / count)] * count
        else:
            first = min(FIRST, goal.episodes)
            self.blocks = [length for length in (first, goal.episodes - first) if length]
        self.starts = np.cumsum([0, *self.blocks])
        self.runs, self.devices = runs, devices

    @property
    def at_once(self) -> int:
        """How many blocks are one program: one for each of few runs, or a whole test of one run,
        and as many more as give each device the same."""
        few = max(self.runs, len(self.blocks))
        return min(BLOCKS_PER_CALL, math.ceil(few / self.devices) * self.devices)

    def __call__(self, agents: Agent, rows: np.ndarray, keys: np.ndarray) -> list[tuple[int, int]]:
        """Episodes solved and played by the agents in some rows, each with its own keys."""
        outcomes = np.zeros((len(rows), len(self.allowed) - 1), np.int8)
        played = np.zeros(len(rows), np.int32)
        while chosen := self._next(outcomes, played):
            # Always the same number where they are one program, if need be some of them again.
            count = self.at_once if self.together else len(chosen)
            tests, numbers = np.resize(chosen, (count, 2)).T
            allowed = self._allowed(outcomes, tests, numbers)
            found = self.play(agents, rows[tests], keys[tests, numbers], allowed)
            for (test, number), block in zip(chosen, found[: len(chosen)], strict=True):
                # Blocks that are all alike may have some episodes more than the test.
                mine = outcomes[test, self.starts[number] : self.starts[number + 1]]
                mine[:] = block[: len(mine)]
                played[test] = number + 1
        return [tally(outcome, self.allowed) for outcome in outcomes]

    def _next(self, outcomes: np.ndarray, played: np.ndarray) -> list[tuple[int, int]]:
        """What to play now: (test, block) pairs."""
        count, left = len(self.blocks), []
        for test, (outcome, number) in enumerate(zip(outcomes, played.tolist(), strict=True)):
            if number < count and _end(outcome[: self.starts[number]], self.allowed) is None:
                left.append([(further, test) for further in range(number, count)])
        waiting = sorted(itertools.chain.from_iterable(left))
        most = self.at_once if self.together else len(left)
        return [(test, number) for number, test in waiting[:most]]

    def _allowed(self, outcomes: np.ndarray, tests: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """How many failures some blocks may have, given the outcomes of earlier blocks."""
        beyond = self.starts[-1] + 1 - len(self.allowed)
        allowed = np.pad(self.allowed, (0, beyond), mode="edge")
        parts = [allowed[self.starts[n] : self.starts[n + 1] + 1] for n in numbers]
        return np.stack(parts) - (outcomes[tests] == FAILED).sum(1, dtype=np.int32)[:, None]
