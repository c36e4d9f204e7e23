"""The sampler in Optuna studies of any kind."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from wmg.tuner import dgd, sampler  # noqa: E402
from wmg.tuner.sampler import DGDSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
GRID = {"rate": [0.1, 0.2, 0.4, 0.8], "layers": [1, 2, 3], "age": ["one", "two"]}


def score(trial, search):
    values = search.values(trial)
    return -abs(values["rate"] - 0.4) - abs(values["layers"] - 2) - (values["age"] == "one")


def run(trials, storage=None, seed=3, direction="maximize", name="s", **options):
    search = DGDSampler(GRID, seed=seed, **options)
    study = optuna.create_study(
        storage=storage, sampler=search, direction=direction, study_name=name, load_if_exists=True
    )
    sign = 1 if direction == "maximize" else -1
    study.optimize(lambda trial: sign * score(trial, search), n_trials=trials)
    return study


def params(study):
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_it_finds_the_best_point_in_either_direction(direction):
    study = run(80, direction=direction)
    search = DGDSampler(GRID)
    assert search.point(study.best_trial) == search.locate({"rate": 0.4, "layers": 2, "age": "two"})
    assert study.user_attrs[sampler.GRID] == GRID


def test_a_seed_gives_the_same_search_also_over_restarts(tmp_path):
    storage = f"sqlite:///{tmp_path}/s.db"
    run(5, storage)
    broken = run(7, storage)
    assert params(broken) == params(run(12)) != params(run(12, seed=4))


def test_proposals_follow_the_algorithm():
    study = run(30)
    search = DGDSampler(GRID)
    for trial in study.trials[1:]:
        before = dgd.Runs()
        for other in study.trials[: trial.number]:
            before.scores.setdefault(search.point(other), []).append(other.value)
        chances = dgd.distribution(dgd.Search((4, 3, 2)), before)
        assert search.point(trial) in chances


def test_running_and_waiting_trials_count_and_failed_ones_do_not():
    study = run(1)
    search = DGDSampler(GRID)
    space = search.space
    study.sampler = search
    study.enqueue_trial({"rate": 3, "layers": 2, "age": 1})
    study.enqueue_trial({"rate": 3, "layers": 2, "age": 1})
    running = study.ask(space)
    study.tell(study.ask(space), state=optuna.trial.TrialState.FAIL)
    runs = search.read_runs(study)
    assert runs.pending == {(3, 2, 1): 1} and runs.total() == 2
    assert search.read_runs(study, own=running.number).total() == 1


def test_a_parameter_that_is_not_in_the_grid_is_refused():
    study = optuna.create_study(sampler=DGDSampler(GRID))
    with pytest.raises(ValueError, match="'extra' is not a hyperparameter of the grid"):
        study.ask().suggest_float("extra", 0.0, 1.0)


def test_another_grid_than_the_studys_is_refused():
    study = run(2)
    study.sampler = DGDSampler(GRID | {"layers": [1, 2, 4]})
    with pytest.raises(ValueError, match="has another grid"):
        study.ask(study.sampler.space)


@pytest.mark.parametrize("grid", [{}, {"a": []}])
def test_an_empty_grid_is_refused(grid):
    with pytest.raises(ValueError, match="at least one"):
        DGDSampler(grid)


@pytest.mark.parametrize("start, said", [
    ({"rate": 0.3, "layers": 1, "age": "one"}, "rate must be one of"),
    ({"rate": 0.1}, "a point has values of"),
])  # fmt: skip
def test_a_start_outside_the_grid_is_refused(start, said):
    with pytest.raises(ValueError, match=said):
        DGDSampler(GRID, start=start)


def test_lanes_share_shapes():
    search = DGDSampler(GRID, lanes=4, shapes=["layers", "age"], seed=0)
    study = optuna.create_study(sampler=search)
    for _ in range(10):
        first = study.ask(search.space)
        lanes = [first]
        with search.beside(search.point(first)):
            lanes += [study.ask(search.space) for _ in range(3)]
        assert len({(t.params["layers"], t.params["age"]) for t in lanes}) == 1
        for trial in lanes:
            study.tell(trial, np.random.default_rng(trial.number).normal())


def test_other_samplers_go_on_with_the_same_study():
    study = run(12)
    study.sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=5)
    study.optimize(lambda trial: score(trial, DGDSampler(GRID)), n_trials=8)
    assert len(study.trials) == 20 and study.best_value <= 0


def test_the_two_files_work_without_this_project(tmp_path):
    package = tmp_path / "elsewhere"
    package.mkdir()
    (package / "__init__.py").write_text("from .sampler import DGDSampler\n")
    for name in ("dgd.py", "sampler.py"):
        shutil.copy(pathlib.Path(sampler.__file__).with_name(name), package)
    script = """
import sys
sys.modules["wmg"] = None
import elsewhere, optuna
sampler = elsewhere.DGDSampler({"x": [1, 2, 3, 4, 5]}, seed=0)
study = optuna.create_study(sampler=sampler)
study.optimize(lambda trial: (sampler.values(trial)["x"] - 4) ** 2, n_trials=20)
assert study.best_value == 0, study.best_value
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
