"""What is said of a study."""

import math

import numpy as np
import pytest

pytest.importorskip("optuna")

import tiny

from wmg.tools.errors import BadInput
from wmg.tuner import objective, posterior, report, study, worker

GRID = {"learning_rate": [1e-5, 1e-4, 1e-3], "layers": [1, 2, 3]}
TASK = objective.make_task("pathfinding/wmg", tiny.settings(), None)


def pretend(task):
    """Scores as if the middle of the grid were best."""

    def run(values, seed):
        (one,) = values
        worse = abs(math.log10(one["learning_rate"]) + 4) + abs(one["layers"] - 2)
        return [80.0 - 10 * worse + seed % 31 / 10]

    return run


def make(storage, name="s", runs=20, seed=0, done=True):
    plan = study.Plan(TASK, runs=runs, until_settled=False, shapes=("layers",), seed=seed)
    study.create(storage, name, plan, GRID, True)
    if done:
        worker.work(storage, name, pretend)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("report") / "tune.db")
    make(path)
    make(path, "other", runs=5, seed=1)
    make(path, "fresh", done=False)
    return path


def test_status_counts_runs_and_names_the_best(storage):
    with study.opened(storage, "s") as shared:
        found = report.status(shared)
        scores = shared.scores()
    assert (found["done"], found["of"], found["running"], found["failed"]) == (20, 20, 0, 0)
    assert found["best"]["values"] == {"learning_rate": 1e-4, "layers": 2}
    assert found["configurations"] == len(scores)
    best = posterior.rank(scores)[0]
    assert found["best"]["posterior_mean"] == best.mean and found["best"]["runs"] == best.runs
    text = report.describe(found)
    assert "20 of at most 20 runs done, 0 running" in text and "all 20 runs are done" in text
    assert "learning_rate 0.0001, layers 2" in text


def test_status_of_a_study_without_runs(storage):
    with study.opened(storage, "fresh") as shared:
        found = report.status(shared)
    assert found["best"] is None and found["done"] == 0 and found["ended"] == ""
    assert report.describe(found) == "fresh: 0 of at most 20 runs done, 0 running, 0 failed or lost"


def test_best_pools_studies_and_says_how_to_train(storage):
    one, both = report.best(storage, ["s"]), report.best(storage, ["s", "other"])
    assert both["values"] == one["values"] and both["runs"] > one["runs"]
    assert both["train"] == (
        "wmg train pathfinding/wmg --hyper.learning-rate 0.0001 --agent.layers 2"
    )
    assert both["train"] in report.describe_best(both)


def test_values_are_the_same_in_whatever_order_studies_name_them(storage):
    turned = {name: GRID[name] for name in reversed(GRID)}
    plan = study.Plan(TASK, runs=5, until_settled=False, shapes=("layers",), seed=2)
    study.create(storage, "turned", plan, turned, True)
    worker.work(storage, "turned", pretend)
    one, both = report.best(storage, ["other"]), report.best(storage, ["other", "turned"])
    assert both["values"] == one["values"] and both["runs"] > one["runs"]


def test_a_study_is_not_pooled_with_itself(storage):
    with pytest.raises(BadInput, match="s is named twice: its runs would count twice"):
        report.best(storage, ["s", "s"])


def test_what_is_not_done_is_not_final(storage):
    name = report.prepare_final(storage, ["other"], "best", 2)
    worker.work(storage, name, pretend, limit=1)
    with pytest.raises(BadInput, match="has 1 of its 2 runs: the same command goes on"):
        report.final(storage, name)


def test_final_runs_of_a_study_with_other_names_are_of_its_shapes(storage):
    plan = study.Plan(TASK, runs=1, until_settled=False, shapes=(), seed=3)
    study.create(storage, "narrow", plan, {"learning_rate": [1e-6]}, True)
    worker.work(storage, "narrow", lambda task: lambda values, seed: [0.0] * len(values))
    name = report.prepare_final(storage, ["narrow", "s"], "best", 1)
    with study.opened(storage, name) as shared:
        assert shared.plan.shapes == ("layers",) and "layers" in shared.grid


def test_best_of_nothing_and_of_different_tasks_is_refused(storage):
    with pytest.raises(BadInput, match="fresh has no finished run yet"):
        report.best(storage, ["fresh"])
    plan = study.Plan({**TASK, "preset": "else"}, runs=3)
    study.create(storage, "else", plan, GRID, True)
    with pytest.raises(BadInput, match="s and else are about different tasks"):
        report.best(storage, ["s", "else"])


def test_final_is_a_study_of_one_configuration_with_fresh_seeds(storage):
    name = report.prepare_final(storage, ["s"], "best", 5)
    assert name == "s-final-best" == report.prepare_final(storage, ["s"], "best", 5)
    worker.work(storage, name, pretend)
    found = report.final(storage, name)
    assert found["values"] == {"learning_rate": 1e-4, "layers": 2} and found["count"] == 5
    assert found["mean"] == pytest.approx(np.mean(found["scores"]))
    with study.opened(storage, "s") as shared:
        searched = {trial.user_attrs["seed"] for trial in shared.study.get_trials()}
    assert len(set(found["seeds"])) == 5 and not searched & set(found["seeds"])
    assert "of 5 fresh runs" in report.describe_final(found)
    with pytest.raises(BadInput, match=r"has 5 runs of .* already"):
        report.prepare_final(storage, ["s"], "best", 6)


def test_final_of_the_preset_compares_with_its_own_values(storage):
    name = report.prepare_final(storage, ["s"], "preset", 1)
    worker.work(storage, name, pretend)
    found = report.final(storage, name)
    assert found["values"] == {"learning_rate": 1.6e-4, "layers": 2} and found["count"] == 1
    assert found["standard_error"] is None and "±" not in report.describe_final(found)
