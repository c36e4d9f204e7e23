"""Tests of a goal while runs are trained: who is tested when, and on which hardware."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from wmg.config import Config, Goal, Precision
from wmg.play import evaluate, goal_test
from wmg.play.goal_test import GoalTest, GoalTester
from wmg.play.streams import goal_keys
from wmg.runs import devices, hardware, xla_options
from wmg.runs.active_runs import ActiveRuns
from wmg.types import Agent, Env

Player = Callable[[Env, Agent, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""`goal_test.Play` in any environment: one program for all that have the same shapes."""


class Goals:
    """The tests of all runs of a session, and which runs have met their goal."""

    def __init__(self, settings: Config, tester: GoalTester, logs: list[list[dict[str, Any]]]):
        """`logs` tell of the tests of earlier sessions."""
        self.settings, self.tester = settings, tester
        self.recall([goal_test.read_tests(log) for log in logs])

    def recall(self, tests: list[list[GoalTest]]) -> None:
        """Go on from these tests of each run."""
        self.tests, self.unmet = tests, [self._unmet(each) for each in tests]

    def _unmet(self, tests: list[GoalTest]) -> set[int]:
        return goal_test.unmet(tests, self.tester.goal, self.settings.report_every)

    def met(self) -> np.ndarray:
        """Whether each run has met its goal, on every grid that the goal has."""
        return np.array([not grids for grids in self.unmet])

    def test(self, batch: ActiveRuns, active: np.ndarray, report: int) -> dict[int, GoalTest]:
        """Test the active rows that are due at a report, all together: the tests by run.

        A run is due if it has not yet passed a test on some grid that the report is on.
        """
        now = report * self.settings.report_every
        due = [any(now % grid == 0 for grid in self.unmet[name]) for name in batch.names]
        rows = np.flatnonzero(active & due)
        if not len(rows):
            return {}
        names = batch.names[rows].tolist()
        seeds = self.settings.seed + np.arange(self.settings.runs)
        keys = goal_keys(seeds, report, len(self.tester.blocks))[names]
        counts = self.tester(batch.runs.agent, rows, keys)
        steps = np.asarray(batch.runs.steps)[rows].tolist()
        found = [GoalTest(taken, *count) for taken, count in zip(steps, counts, strict=True)]
        for name, test in zip(names, found, strict=True):
            self.tests[name].append(test)
            self.unmet[name] &= self._unmet([test])
        return dict(zip(names, found, strict=True))

    def scores(self) -> list[float]:
        """The last score of each run, NaN if it has not been tested."""
        return [100 * tests[-1].rate if tests else float("nan") for tests in self.tests]

    def keep_last(self, scores: np.ndarray) -> None:
        """Let runs that have met their goal keep their last score until the last report."""
        for run in np.flatnonzero(self.met()):
            ended = np.flatnonzero(np.isfinite(scores[run]))[-1]
            scores[run, ended:] = scores[run, ended]


def goal_tester(play: Player, env: Env, goal: Goal, runs: int) -> GoalTester:
    """What tests the runs of a batch, in the form that suits the hardware."""
    together = not hardware.on_cpu()
    return GoalTester(goal, runs, functools.partial(play, env), together, jax.device_count())


def player(precision: Precision) -> Player:
    """The function that plays a block of episodes with each of some agents of a batch, in the
    environment it is given."""
    cpu = hardware.on_cpu()
    lanes = goal_test.LANES_ON_CPU if cpu else goal_test.LANES

    def play(
        env: Env, agent: Agent, key: Array, allowed: Int[Array, " episodes_and_none"]
    ) -> Int[Array, " episodes"]:
        key, width = jax.random.wrap_key_data(key), min(lanes, len(allowed) - 1)
        with hardware.products(precision):
            return evaluate.play_block(env, agent, key, allowed, width, ahead=not cpu)

    if cpu:
        one = jax.jit(play, compiler_options=xla_options.for_cpu())

        def each(
            env: Env, agents: Agent, rows: np.ndarray, keys: np.ndarray, allowed: np.ndarray
        ) -> np.ndarray:
            def play_row(index: int) -> np.ndarray:
                mine = hardware.take_rows(agents, rows[index])
                return np.asarray(one(env, mine, *map(jnp.asarray, (keys[index], allowed[index]))))

            return np.stack(hardware.map_over_cores(play_row, len(rows)))

        return each

    batch = jax.jit(jax.vmap(play, (None, 0, 0, 0)))

    def together(
        env: Env, agents: Agent, rows: np.ndarray, keys: np.ndarray, allowed: np.ndarray
    ) -> np.ndarray:
        # Taken and placed beforehand: otherwise each size of a batch would have its own program.
        some = hardware.take_rows(agents, rows), keys, allowed
        return np.asarray(batch(env, *jax.device_put(some, devices.sharding_for(len(rows)))))

    return together
