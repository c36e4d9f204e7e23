"""Lines of logs, scores, and which run is the best."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import registry
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.runs import result as results
from wmg.types import Totals


def test_a_log_line_holds_means_and_counts():
    env = registry.make_env(PathfindingSettings())
    totals = Totals(
        *[jnp.int32(n) for n in (24, 2, 2, 1)], *[jnp.float32(x) for x in (9, 4, 6, 12, 8, 7)]
    )
    line = results.record(env.spec, totals, 48, 1e-4, False)
    assert line["steps"] == 48 and line["learning_rate"] == 1e-4
    assert line["score"] == 75.0 and line["success"] == 0.5 and line["episodes"] == 2
    assert line["policy_loss"] == 2.0 and line["value_loss"] == 3.0
    assert line["entropy"] == 0.5 and line["gradient_norm"] == 4.0
    assert line["reward"] == 9.0 and not line["diverged"]


@pytest.mark.parametrize("metric", ["reward", "success", "return"])
def test_nothing_played_has_no_score(metric):
    spec = dataclasses.replace(registry.make_env(PathfindingSettings()).spec, metric=metric)
    assert math.isnan(results.score(spec, Totals.zeros()))


def test_a_return_is_the_mean_of_the_episodes_that_ended_and_no_percentage():
    spec = dataclasses.replace(registry.make_env(PathfindingSettings()).spec, metric="return")
    totals = dataclasses.replace(
        Totals.zeros(), episodes=jnp.int32(2), returns=jnp.float32(87), reward=jnp.float32(120)
    )
    line = results.record(spec, totals, 48, 1e-4, False)
    assert line["score"] == 43.5 and line["metric"] == "return" and line["reward"] == 120


def test_the_best_run_is_that_of_the_last_tenth_of_reports():
    scores = np.array([[99.0] * 18 + [50, 50], [50.0] * 18 + [60, 60], [90.0] * 19 + [np.nan]])
    assert tiny.result(scores, [False, False, True]).best == 1


def test_a_report_in_which_no_episode_ended_does_not_count():
    nan = float("nan")
    result = tiny.result([[10.0] * 20, [90.0] * 19 + [nan], [99.0, nan] + [nan] * 18], [False] * 3)
    assert [result.final_score(run) for run in range(3)] == [10.0, 90.0, 99.0]
    assert result.best == 2


def test_the_final_score_of_a_run_that_diverged_is_its_last_one():
    nan = float("nan")
    result = tiny.result([[10.0] * 19 + [12.0], [nan] * 20], [True, True])
    assert result.final_score(0) == 12.0 and math.isnan(result.final_score(1))
    assert result.best == 0
