"""The sampler in Optuna studies of any kind."""

import collections
import pickle
import warnings

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from optuna.distributions import (  # noqa: E402
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from wmg.tuner import dgd, sampler  # noqa: E402
from wmg.tuner.sampler import DGDSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
GRID = {"rate": [0.1, 0.2, 0.4, 0.8], "layers": [1, 2, 3], "age": ["one", "two"]}


@pytest.fixture
def database(tmp_path):
    """Opens one file as a storage, again and again; all are closed at the end."""
    opened = []

    def database():
        opened.append(optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/s.db"))
        return opened[-1]

    yield database
    for storage in opened:
        storage.remove_session()
        storage.engine.dispose()


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


def test_a_seed_gives_the_same_search_also_over_restarts(database):
    run(5, database())
    broken = run(7, database())
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
    search = DGDSampler(GRID, at_once=4, shapes=["layers", "age"], seed=0)
    study = optuna.create_study(sampler=search)
    for _ in range(10):
        first = study.ask(search.space)
        at_once = [first]
        with search.beside(search.point(first)):
            at_once += [study.ask(search.space) for _ in range(3)]
        assert len({(t.params["layers"], t.params["age"]) for t in at_once}) == 1
        for trial in at_once:
            study.tell(trial, np.random.default_rng(trial.number).normal())


def test_other_samplers_go_on_with_the_same_study():
    study = run(12)
    study.sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=5)
    study.optimize(lambda trial: score(trial, DGDSampler(GRID)), n_trials=8)
    assert len(study.trials) == 20 and study.best_value <= 0


RECORDED = {
    "plain": "300 200 200 100 201 201 301 211 311 210 221 221",
    "options": "010 001 000 001 001 011 111 111 121 101 101 101",
    "at_once": "220 021 321 320 120 221 111 311 210 201 200 100",
}
"""Points proposed before values could be suggested: searches of this package must not change."""


def proposed(study):
    search = DGDSampler(GRID)
    return " ".join("".join(map(str, search.point(trial))) for trial in study.trials)


def test_searches_by_index_are_those_that_were_recorded():
    assert proposed(run(12)) == RECORDED["plain"]
    start = {"rate": 0.1, "layers": 1, "age": "one"}
    study = run(12, seed=0, n_init=5, average="median", start=start)
    assert proposed(study) == RECORDED["options"]


def test_lanes_by_index_are_those_that_were_recorded():
    search = DGDSampler(GRID, at_once=3, shapes=["layers"], n_init=4, seed=5)
    study = optuna.create_study(sampler=search)
    for _ in range(4):
        at_once = [study.ask(search.space)]
        with search.beside(search.point(at_once[0])):
            at_once += [study.ask(search.space) for _ in range(2)]
        for trial in at_once:
            study.tell(trial, np.random.default_rng(trial.number).normal())
    assert proposed(study) == RECORDED["at_once"]


@pytest.mark.parametrize("values", [
    [(1, 2), (3, 4), (5, 6)],
    np.arange(3),
    np.linspace(0, 1, 3),
    np.array([[1, 2], [3, 4]]),
])  # fmt: skip
def test_tuples_and_numpy_values_survive_a_database(values, database):
    grid = {"x": values, "y": [1, 2]}

    def three_more():
        search = DGDSampler(grid, seed=0)
        study = optuna.create_study(
            storage=database(), sampler=search, study_name="s", load_if_exists=True
        )
        study.optimize(lambda trial: float(np.sum(search.values(trial)["x"])), n_trials=3)
        return search, study

    three_more()
    search, study = three_more()
    assert len(study.trials) == 6 == search.read_runs(study).total()
    assert search.locate({"x": values[1], "y": 2}) == (1, 1)


def by_value(trial):
    return {
        "rate": trial.suggest_float("rate", 0.1, 0.8),
        "layers": trial.suggest_int("layers", 1, 3),
        "age": trial.suggest_categorical("age", ["one", "two"]),
    }


def all_by_choice(trial):
    return {name: trial.suggest_categorical(name, values) for name, values in GRID.items()}


def with_steps(trial):
    return {
        "rate": trial.suggest_float("rate", 0.1, 0.8, step=0.1),
        "layers": trial.suggest_int("layers", 1, 3, log=True),
        "age": trial.suggest_categorical("age", ["two", "one"]),  # in another order
    }


@pytest.mark.parametrize("suggest", [by_value, all_by_choice, with_steps])
@pytest.mark.parametrize("in_file", [False, True])
def test_suggested_values_are_proposed_as_indices_are(suggest, in_file, database):
    search = DGDSampler(GRID, seed=3)
    storage = database() if in_file else None
    study = optuna.create_study(storage=storage, sampler=search, direction="maximize")

    def objective(trial):
        values = suggest(trial)
        return -abs(values["rate"] - 0.4) - abs(values["layers"] - 2) - (values["age"] == "one")

    study.optimize(objective, n_trials=12)
    assert proposed(study) == RECORDED["plain"]
    for trial in study.trials:
        assert all(value in GRID[name] for name, value in trial.params.items())


def test_values_outside_a_distribution_are_replaced_by_the_nearest_inside():
    study = optuna.create_study(sampler=DGDSampler({"x": [1, 2, 4, 8, 16]}, seed=0))
    study.optimize(lambda trial: -trial.suggest_int("x", 3, 10), n_trials=20)
    assert {trial.params["x"] for trial in study.trials} == {4, 8}


@pytest.mark.parametrize("suggest", [
    lambda trial: trial.suggest_float("x", 0.5, 0.9),
    lambda trial: trial.suggest_categorical("x", ["a", "b"]),
])  # fmt: skip
def test_a_distribution_without_values_of_the_grid_is_refused(suggest):
    study = optuna.create_study(sampler=DGDSampler({"x": [1, 2, 3]}))
    with pytest.raises(ValueError, match="none of the values of x in the grid"):
        study.optimize(suggest, n_trials=1)


def test_rounding_errors_do_not_put_a_trial_off_the_grid():
    search = DGDSampler({"x": [0.0, 0.1, 0.2, 0.3]})
    study = optuna.create_study(sampler=search)
    for value in (0.1 + 0.2, 1e-17):
        study.add_trial(added({"x": value}, {"x": FloatDistribution(0, 1)}, 0.0))
    assert [search.point(trial) for trial in study.trials] == [(3,), (0,)]


def added(params, distributions, value):
    return optuna.create_trial(params=params, distributions=distributions, value=value)


def test_the_first_parameters_of_a_study_are_of_one_point_while_others_begin_runs():
    grid = {f"h{i}": [0, 1, 2] for i in range(6)}
    start, centre = dict.fromkeys(grid, 1), (1,) * 6
    for _ in range(20):
        search = DGDSampler(grid, start=start)
        study = optuna.create_study(sampler=search)
        trial = study.ask()
        for name in grid:
            trial.suggest_categorical(name, [0, 1, 2])
            study.enqueue_trial(start)
        assert sum(a != b for a, b in zip(search.point(trial), centre, strict=True)) <= 1


def test_only_parameters_of_the_search_space_are_proposed():
    search = DGDSampler(GRID, seed=0)
    study = optuna.create_study(sampler=search)
    space = {name: search.space[name] for name in ("rate", "age")}
    for number in range(10):
        trial = study.ask(search.space)
        proposal = search.sample_relative(study, study.trials[-1], space)
        assert proposal.keys() == space.keys()
        study.tell(trial, number)


FIXED = {"x": [*range(8)], "y": [*range(8)]}


def fix(study, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.sampler = optuna.samplers.PartialFixedSampler(params, study.sampler)


def valley(trial):
    """The best x is y; the best of all is (7, 7), with 0."""
    x, y = trial.suggest_int("x", 0, 7), trial.suggest_int("y", 0, 7)
    return 10 * (7 - y) + abs(x - y)


def test_the_other_parameters_are_searched_at_a_fixed_value():
    study = optuna.create_study(sampler=DGDSampler(FIXED, seed=0))
    study.optimize(valley, n_trials=100)
    assert study.best_params == {"x": 7, "y": 7}
    fix(study, y=1)
    study.optimize(valley, n_trials=60)
    later = study.trials[100:]
    assert {trial.params["y"] for trial in later} == {1}
    assert min(later, key=lambda trial: trial.value).params["x"] == 1


def test_with_a_fixed_parameter_the_neighbourhood_is_still_levelled_out():
    study = optuna.create_study(sampler=DGDSampler(FIXED, seed=0))
    fix(study, y=7)
    study.optimize(valley, n_trials=80)
    counts = collections.Counter(trial.params["x"] for trial in study.trials[40:])
    assert counts[6] >= 10


STRANGERS = [
    ({"rate": 99, "layers": 0, "age": 0}, dict.fromkeys(GRID, IntDistribution(0, 99))),
    ({"rate": 0.3, "layers": 2, "age": "one"}, {
        "rate": FloatDistribution(0, 1), "layers": IntDistribution(1, 3),
        "age": CategoricalDistribution(["one", "two"]),
    }),
    ({"rate": 0}, {"rate": IntDistribution(0, 3)}),
]  # fmt: skip


@pytest.mark.parametrize("params, distributions", STRANGERS)
def test_trials_off_the_grid_are_ignored(params, distributions):
    search = DGDSampler(GRID, seed=3)
    study = optuna.create_study(sampler=search, direction="maximize")
    study.add_trial(added(params, distributions, 1000.0))
    assert search.point(study.trials[0]) is None and search.read_runs(study).total() == 0
    if all(isinstance(each, IntDistribution) for each in distributions.values()):
        study.optimize(lambda trial: score(trial, search), n_trials=20)
        assert all(search.point(trial) is not None for trial in study.trials[1:])


def test_a_queued_trial_out_of_range_is_ignored():
    study = run(1)
    study.enqueue_trial({"rate": 99, "layers": 0, "age": 0})
    with pytest.warns(UserWarning, match="out of range"):
        study.ask(DGDSampler(GRID).space)
    assert DGDSampler(GRID).read_runs(study).total() == 1
    study.ask(DGDSampler(GRID).space)


def test_queued_trials_may_have_values():
    study = run(1)
    study.enqueue_trial({"rate": 0.8, "layers": 2, "age": "two"})
    assert DGDSampler(GRID).read_runs(study).pending == {(3, 1, 1): 1}


def test_infinite_scores_do_not_stop_the_search():
    search = DGDSampler({"x": [1, 2, 3]}, seed=0)
    study = optuna.create_study(sampler=search, direction="maximize")
    for value in (np.inf, -np.inf):
        study.add_trial(added({"x": 0}, search.space, value))
    study.optimize(lambda trial: search.values(trial)["x"], n_trials=20)
    assert study.trials[-1].params["x"] > 0


def test_studies_with_several_objectives_are_refused():
    study = optuna.create_study(sampler=DGDSampler(GRID), directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="one objective"):
        study.ask(study.sampler.space)


def test_pruned_trials_count():
    search = DGDSampler({"x": [1, 2, 3]}, seed=0)
    study = optuna.create_study(sampler=search, direction="maximize")
    study.add_trial(added({"x": 1}, search.space, 1.0))

    def objective(trial):
        if trial.suggest_int("x", 0, 2) != 1:
            raise optuna.TrialPruned
        return 1.0

    study.optimize(objective, n_trials=60)
    runs = search.read_runs(study)
    assert runs.total() == 61 and sum(map(len, runs.scores.values())) + runs.pruned.total() == 61
    # By the paper's weights a neighbourhood of three is levelled out: about 20 runs each.
    assert [14 < runs.count((x,)) < 27 for x in range(3)] == [True] * 3


def test_the_hyperband_pruner_works():
    search = DGDSampler(GRID, seed=0)
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9)
    study = optuna.create_study(sampler=search, pruner=pruner, direction="maximize")

    def objective(trial):
        final = score(trial, search)
        for step in range(9):
            trial.report(final * step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return final

    study.optimize(objective, n_trials=60)
    assert study.best_value > -0.5


def test_a_sampler_survives_pickling():
    study = run(5)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(lambda trial: score(trial, DGDSampler(GRID)), n_trials=7)
    assert proposed(study) == RECORDED["plain"]
