"""Training as an objective: scores, and at_once that are trained together."""

import dataclasses

import numpy as np
import own
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

pytest.importorskip("optuna")

from wmg import paper, registry
from wmg.agents.gru.settings import GRUSettings
from wmg.config import Goal
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.play.goal_test import GoalTest
from wmg.runs import train
from wmg.tools.errors import BadInput
from wmg.tuner import objective, study, worker

SMALL = tiny.settings(agent=GRUSettings(embedding=4, size=4, actor_critic=4), steps=96)
"""The quickest to compile."""
VALUES = [
    {"learning_rate": 1e-4, "discount": 0.5, "layers": 2},
    {"learning_rate": 1e-3, "discount": 0.9, "layers": 2},
]


def test_the_score_is_the_mean_of_the_last_tenth():
    run = [[*[0.0] * 18, 50.0, 60.0]]
    assert objective.score(tiny.result(run), "score", 0) == 55.0
    assert objective.score(tiny.result([[40.0, 80.0]]), "score", 0) == 80.0


def test_a_diverged_run_has_its_last_finite_score_and_never_none():
    nan = np.nan
    some = tiny.result([[70.0, 30.0, nan, nan], [nan, nan, nan, nan]], [True, True])
    assert objective.score(some, "score", 0) == 30.0
    assert objective.score(some, "score", 1) == 0.0


def test_reports_in_which_no_episode_ended_do_not_count():
    runs = [[np.nan, *[98.0] * 18, 50.0, 60.0], [*[98.0] * 18, 50.0, 60.0, np.nan]]
    some = tiny.result(runs)
    assert [objective.score(some, "score", row) for row in (0, 1)] == [55.0, 60.0]


def test_a_run_that_never_meets_its_goal_took_all_steps():
    met = [GoalTest(100, 9_800, 10_000), GoalTest(200, 9_950, 10_000)]
    some = tiny.result([[1.0], [1.0]], goal=Goal(), tests=[met, met[:1]])
    assert objective.score(some, "steps", 0) == pytest.approx(100 + 100 * 2 / 3)
    assert objective.score(some, "steps", 1) == some.config.steps


def test_the_metric_follows_the_goal_unless_given():
    goal, none = paper.find_preset("babyai/level1/wmg-factored"), tiny.settings()
    assert objective.make_task("x", goal, None)["metric"] == "steps"
    assert objective.make_task("x", none, None)["metric"] == "score"
    scored = objective.make_task("x", goal, "score")
    assert scored["metric"] == "score" and objective.read_task(scored).goal is None


class Till(own.Bag):
    """A bag whose scores are returns."""

    @property
    def spec(self):
        return dataclasses.replace(super().spec, metric="return")


def till():
    """One with three coins."""
    return Till(3)


RETURNS = tiny.settings(env=OutsideEnvSettings(registry.remember(till)))


@pytest.mark.parametrize("some, metric, said", [
    (tiny.settings(), "speed", "metric must be one of score, return, steps, got 'speed'"),
    (tiny.settings(), "steps", "x has no goal, so its runs do not report steps: use metric score"),
    (tiny.settings(), "return", "runs of x do not report a return: use metric score"),
    (RETURNS, "score", "runs of x do not report a score: use metric return"),
    (RETURNS, "steps", "x has no goal, so its runs do not report steps: use metric return"),
])  # fmt: skip
def test_a_metric_that_runs_do_not_report_is_refused(some, metric, said):
    with pytest.raises(BadInput, match=said):
        objective.make_task("x", some, metric)


def test_an_environment_with_returns_reports_them():
    assert objective.make_task("x", RETURNS, None)["metric"] == "return"
    assert objective.score(tiny.result([[-20.0, -10.0]]), "return", 0) == -10.0


def test_a_run_without_a_return_is_a_failure_and_not_a_return_of_zero():
    with pytest.raises(BadInput, match="no episode ended in this run, so it has no return"):
        objective.score(tiny.result([[np.nan, np.nan]]), "return", 0)


def test_lanes_have_their_own_numbers_and_seeds():
    together = objective.batch(tiny.settings(), VALUES, seed=7)
    assert together.runs == 2 and together.seed == 7 and together.agent.layers == 2
    assert [h.learning_rate for h in together.hypers()] == [1e-4, 1e-3]
    assert [h.discount for h in together.hypers()] == [0.5, 0.9]


def test_lanes_of_a_worker_score_as_they_would_alone(tmp_path):
    storage = str(tmp_path / "t.db")
    grid = {"learning_rate": [1e-4, 1e-3], "size": [4], "discount": [0.5, 0.9]}
    task = objective.make_task("x", SMALL, None)
    plan = study.Plan(task, runs=3, until_settled=False, shapes=("size",), seed=0)
    study.create(storage, "s", plan, grid, True)
    assert worker.work(storage, "s", objective.make_objective, at_once=3).runs == 3
    with study.opened(storage, "s") as shared:
        trials = shared.study.get_trials()
    assert len({trial.value for trial in trials}) > 1
    last = {name: grid[name][index] for name, index in trials[2].params.items()}
    run = objective.make_objective(task)
    assert run([last], trials[2].user_attrs["seed"]) == [trials[2].value]


def test_a_run_that_diverges_is_a_result(tmp_path, monkeypatch):
    results, real = [], train.train
    monkeypatch.setattr(train, "train", lambda some: results.append(real(some)) or results[-1])
    storage = str(tmp_path / "t.db")
    task = objective.make_task("x", SMALL, None)
    plan = study.Plan(task, runs=1, until_settled=False)
    study.create(storage, "s", plan, {"learning_rate": [1e30], "grad_clip": [1e30]}, True)
    assert worker.work(storage, "s", objective.make_objective).runs == 1
    assert results[0].runs.diverged.all()
    with study.opened(storage, "s") as shared:
        ((value,),) = shared.scores().values()
    assert 0 <= value <= 100


def test_a_signal_during_training_is_an_interruption(monkeypatch):
    stopped = dataclasses.replace(tiny.result([[50.0]]), stopped=True)  # in its last report
    monkeypatch.setattr(train, "train", lambda settings: stopped)
    run = objective.make_objective(objective.make_task("x", tiny.settings(), None))
    with pytest.raises(KeyboardInterrupt):
        run(VALUES, 0)
