"""Workers: what they do, and what happens to their runs when something goes wrong."""

import datetime
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("optuna")

import optuna
import postgres
from optuna.trial import TrialState, create_trial

from wmg.tools.errors import BadInput
from wmg.tuner import study, worker
from wmg.tuner.study import Plan

GRID = {"x": [1, 2, 3, 4, 5], "y": [0.1, 0.2, 0.4]}


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A storage without a study: making its tables takes longer than most tests."""
    path = tmp_path_factory.mktemp("tables") / "tune.db"
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    storage.remove_session()
    storage.engine.dispose()
    return path


@pytest.fixture
def storage(tables, tmp_path):
    return str(shutil.copy(tables, tmp_path))


@pytest.fixture(scope="module")
def server():
    with postgres.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request):
    """A storage of either kind, and the name of a study that it has not."""
    if request.param == "sqlite":
        return request.getfixturevalue("storage"), "s"
    return request.getfixturevalue("server").url(), request.node.name


def make(storage, name="s", runs=8, **plan):
    options = {"until_settled": False, "beat": 1, "seed": 0, **plan}
    study.create(storage, name, Plan({"about": "a test"}, runs=runs, **options), GRID, True)


def trials(storage, name="s", *states):
    with study.opened(storage, name) as shared:
        return shared.trials(*states) if states else shared.study.get_trials(deepcopy=False)


def quadratic(task):
    assert task == {"about": "a test"}

    def run(values, seed):
        return [-((v["x"] - 3) ** 2) - v["y"] + (seed + i) % 97 / 1e4 for i, v in enumerate(values)]

    return run


def test_a_worker_does_all_runs_of_a_study(storage):
    make(storage)
    said = []
    done = worker.work(storage, "s", quadratic, say=said.append)
    finished = trials(storage, "s", TrialState.COMPLETE)
    assert done.runs == len(finished) == len(said) == 8 and done.reason == "all 8 runs are done"
    assert len({trial.user_attrs["seed"] for trial in finished}) == 8
    for trial in finished:
        x, y = GRID["x"][trial.params["x"]], GRID["y"][trial.params["y"]]
        noise = trial.user_attrs["seed"] % 97 / 1e4
        assert trial.value == pytest.approx(-((x - 3) ** 2) - y + noise)
        told = next(line for line in said if line.startswith(f"run {trial.number}: "))
        assert told.endswith(f"with x {x}, y {y}")
    assert worker.work(storage, "s", quadratic).runs == 0


def test_a_worker_does_no_more_than_its_limit(storage):
    make(storage)
    done = worker.work(storage, "s", quadratic, limit=5)
    assert done.runs == len(trials(storage, "s", TrialState.COMPLETE)) == 5


def test_a_search_ends_when_it_is_settled(storage):
    make(storage, runs=2000, until_settled=True, n_init=15)
    done = worker.work(storage, "s", quadratic)
    assert done.reason == "the search is settled" and done.runs < 300
    with study.opened(storage, "s") as shared:
        assert shared.stability().settled


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_other_samplers_work_on_the_same_storage(storage, sampler):
    make(storage, sampler=sampler)
    assert worker.work(storage, "s", quadratic).runs == 8


def test_a_seed_repeats_a_search_exactly(tmp_path):
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        make(str(folder / "t.db"))
        worker.work(str(folder / "t.db"), "s", quadratic, limit=5)
        worker.work(str(folder / "t.db"), "s", quadratic)
        found.append([(t.params, t.value) for t in trials(str(folder / "t.db"))])
    assert found[0] == found[1] and len(found[0]) == 8


def test_lanes_are_done_together_if_they_share_shapes(storage):
    make(storage, runs=10, shapes=("x",))
    batches = []

    def objective(task):
        def run(values, seed):
            batches.append(values)
            return quadratic(task)(values, seed)

        return run

    assert worker.work(storage, "s", objective, at_once=4).runs == 10
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert all(len({values["x"] for values in batch}) == 1 for batch in batches)
    assert any(len({values["y"] for values in batch}) > 1 for batch in batches)
    seeds = [trial.user_attrs["seed"] for trial in trials(storage, "s", TrialState.COMPLETE)]
    assert len(set(seeds)) == 10


def test_a_retried_run_of_other_shapes_is_done_apart(storage):
    claim = lambda x: worker.ClaimedTrial(0, 0, "", (), {"x": x, "y": 1})  # noqa: E731
    groups = worker.alike([claim(1), claim(2), claim(1)], ("x",))
    assert [[c.values["x"] for c in group] for group in groups] == [[1, 1], [2]]


def test_a_run_that_raises_is_marked_and_three_in_a_row_stop_the_worker(storage):
    make(storage)

    def broken(task):
        def run(values, seed):
            raise RuntimeError("out of memory")

        return run

    with pytest.raises(worker.Stopped, match=r"3 runs in a row failed, .* out of memory"):
        worker.work(storage, "s", broken)
    failed = trials(storage, "s", TrialState.FAIL)
    assert len(failed) == 3 and failed[0].user_attrs["error"] == "RuntimeError: out of memory"
    assert worker.work(storage, "s", quadratic).runs == 8


@pytest.mark.parametrize("scores", [[float("nan")], [], [1.0, 2.0]])
def test_scores_that_are_none_are_a_failure(storage, scores):
    make(storage)
    with pytest.raises(worker.Stopped, match="1 runs must have as many finite scores"):
        worker.work(storage, "s", lambda task: lambda values, seed: scores)


def test_an_interrupted_run_is_given_back_and_done_by_the_next_worker(storage):
    make(storage)

    def interrupted(task):
        def run(values, seed):
            raise KeyboardInterrupt

        return run

    with pytest.raises(KeyboardInterrupt):
        worker.work(storage, "s", interrupted)
    (waiting,) = trials(storage, "s", TrialState.WAITING)
    worker.work(storage, "s", quadratic, limit=1)
    (finished,) = trials(storage, "s", TrialState.COMPLETE)
    assert finished.number == waiting.number and finished.params == waiting.params


def test_of_an_interrupted_batch_only_what_is_not_done_is_given_back(storage):
    make(storage, shapes=("x",))
    with study.opened(storage, "s") as shared:
        for x in (0, 4):
            shared.study.enqueue_trial({"x": x, "y": 0})
    calls = []

    def interrupted(task):
        def run(values, seed):
            calls.append(values)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return quadratic(task)(values, seed)

        return run

    with pytest.raises(KeyboardInterrupt):
        worker.work(storage, "s", interrupted, at_once=2)
    assert [trial.params["x"] for trial in trials(storage, "s", TrialState.COMPLETE)] == [0]
    assert [trial.params["x"] for trial in trials(storage, "s", TrialState.WAITING)] == [4]


def look(monitor, shared, times):
    for _ in range(times):
        monitor.free_lost_runs(shared)
        time.sleep(1.05 * shared.plan.beat)


def look_at_once(monitor, shared, times):
    """As if a beat had passed before each look, where no run beats."""
    for _ in range(times):
        monitor.last_look = float("-inf")
        monitor.free_lost_runs(shared)


def test_runs_that_wait_for_others_of_their_batch_stay_alive(storage):
    make(storage)
    monitor = worker.Monitor()
    with worker.Desk(storage, "s", 2, 1.0) as desk:
        claims = worker.take(desk.shared, 2)
        with worker.alive(desk, claims):
            look(monitor, desk.shared, worker.MISSED_BEATS + 2)
            assert len(desk.shared.trials(TrialState.RUNNING)) == 2
        look(monitor, desk.shared, worker.MISSED_BEATS + 2)
        assert len(desk.shared.trials(TrialState.WAITING)) == 2


def test_a_run_that_was_given_to_another_is_a_run_of_its_own(storage):
    make(storage)

    def slow(task):
        def run(values, seed):
            with study.opened(storage, "s") as shared:  # as a worker who finds it stale
                number = shared.trials(TrialState.RUNNING)[0].number
                shared.study.tell(number, state=TrialState.FAIL)
            return [7.0]

        return run

    worker.work(storage, "s", slow, limit=1)
    assert [t.value for t in trials(storage, "s", TrialState.COMPLETE)] == [7.0]


def test_a_score_is_delivered_once_however_often(storage):
    make(storage)
    with study.opened(storage, "s") as shared:
        (claim,) = worker.take(shared, 1)
        result = worker.Finished("", "s", claim.number, claim.token, claim.values, 1.5, 3, 0.1)
        for _ in range(3):
            worker.deliver(shared, result)
    assert [t.value for t in trials(storage, "s", TrialState.COMPLETE)] == [1.5]


def add_running(shared, hours=0):
    """A run that a worker has taken and not marked yet; its clock is off by `hours`."""
    space = study.DGDSampler(GRID).space
    trial = create_trial(state=TrialState.RUNNING, params={"x": 4, "y": 2}, distributions=space)
    assert trial.datetime_start is not None
    trial.datetime_start += datetime.timedelta(hours=hours)
    shared.study.add_trial(trial)


HOURS_OFF = pytest.mark.parametrize("hours", [-50, 50])


@HOURS_OFF
def test_a_worker_whose_clock_is_hours_off_keeps_its_run(place, hours):
    make(*place)
    with study.opened(*place) as shared:
        add_running(shared, hours)
    worker.work(*place, make_objective=quadratic, limit=1)
    assert [trial.number for trial in trials(*place, TrialState.RUNNING)] == [0]


@HOURS_OFF
def test_the_run_of_a_lost_worker_whose_clock_is_hours_off_is_done_again(place, hours):
    make(*place, runs=1)
    with study.opened(*place) as shared:
        add_running(shared, hours)
    other = threading.Thread(target=worker.work, args=(*place, quadratic), daemon=True)
    other.start()
    other.join(timeout=60)
    assert not other.is_alive(), "the run is never found lost"
    lost, again = trials(*place)
    assert (lost.state, again.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert lost.params == again.params


def test_a_monitor_that_has_not_looked_for_long_frees_nothing_at_once(storage):
    make(storage)
    with study.opened(storage, "s") as shared:
        add_running(shared)
        monitor = worker.Monitor()
        monitor.free_lost_runs(shared)
        monitor.last_look -= 10_000
        monitor.free_lost_runs(shared)
        assert len(shared.trials(TrialState.RUNNING)) == 1


def test_a_run_lost_before_it_had_all_its_values_is_not_queued_again(storage):
    make(storage)
    with study.opened(storage, "s") as shared:
        shared.study.ask()
        look_at_once(worker.Monitor(), shared, worker.MISSED_BEATS + 1)
        assert len(shared.trials(TrialState.FAIL)) == 1
        assert not shared.trials(TrialState.RUNNING, TrialState.WAITING)


@pytest.mark.parametrize(("error", "queued"), [(None, 1), ("out of memory", 0)])
def test_a_run_freed_by_a_worker_that_was_killed_then_is_queued_once(storage, error, queued):
    make(storage)
    with study.opened(storage, "s") as shared:
        add_running(shared)
        if error:
            (trial,) = shared.trials(TrialState.RUNNING)
            shared.storage.set_trial_user_attr(trial._trial_id, worker.ERROR, error)
        shared.study.tell(0, state=TrialState.FAIL)
        monitor = worker.Monitor()
        look_at_once(monitor, shared, worker.MISSED_BEATS)
        assert not shared.trials(TrialState.WAITING), "its worker may be about to queue it"
        look_at_once(monitor, shared, 5)
        assert len(shared.trials(TrialState.WAITING)) == queued


def test_two_monitors_queue_a_lost_run_once(storage):
    make(storage)
    with study.opened(storage, "s") as shared:
        add_running(shared)
        for _ in range(2):
            worker.free(shared, 0, (4, 2))
        (waiting,) = shared.trials(TrialState.WAITING)
        assert waiting.user_attrs == {worker.RETRY_OF: 0}


def fail_by_another(place, number):
    """As a worker does who finds the run lost."""
    with study.opened(*place) as shared:
        worker.free(shared, number, (4, 2))


def test_a_worker_stalled_while_it_takes_a_run_takes_the_next(place, monkeypatch):
    make(*place)
    ask = optuna.Study.ask

    def stalled(self, *args):
        trial = ask(self, *args)
        if trial.number == 0:
            fail_by_another(place, 0)
        return trial

    monkeypatch.setattr(optuna.Study, "ask", stalled)
    assert worker.work(*place, make_objective=quadratic).runs == 8
    assert [trial.number for trial in trials(*place, TrialState.FAIL)] == [0]
    (again,) = [t for t in trials(*place) if t.user_attrs.get(worker.RETRY_OF) == 0]
    assert again.state == TrialState.COMPLETE and again.params == {"x": 4, "y": 2}


def test_the_result_of_a_stalled_worker_and_its_replacements_count_once_each(place):
    make(*place, runs=2)
    with study.opened(*place) as shared:
        (claim,) = worker.take(shared, 1)
        assert (
            worker.work(*place, make_objective=quadratic).runs == 2
        )  # one of them the run that seems lost
        late = worker.Finished("", place[1], claim.number, claim.token, claim.values, 7.0, 3, 0.1)
        for _ in range(2):
            worker.deliver(shared, late)
    lost, *finished = sorted(trials(*place), key=lambda trial: trial.state == TrialState.COMPLETE)
    assert lost.state == TrialState.FAIL and len(finished) == 3
    assert [t.value for t in finished if t.user_attrs[worker.TOKEN] == claim.token] == [7.0]
    assert len({trial.user_attrs["seed"] for trial in finished}) == 3
    assert sum(trial.params == lost.params for trial in finished) >= 2


def test_a_run_taken_over_while_its_first_worker_delivers_is_not_disturbed(storage):
    make(storage)
    with study.opened(storage, "s") as shared:
        (claim,) = worker.take(shared, 1)
        worker.free(shared, claim.number, claim.point)
        replacement = shared.study.ask()  # its worker has not marked it yet
        late = worker.Finished("", "s", claim.number, claim.token, claim.values, 7.0, 3, 0.1)
        worker.deliver(shared, late)
        assert [t.number for t in shared.trials(TrialState.RUNNING)] == [replacement.number]


def test_workers_never_take_the_same_waiting_run(storage):
    make(storage, runs=100)
    with study.opened(storage, "s") as shared:
        for _ in range(8):
            shared.study.enqueue_trial({"x": 0, "y": 0})
    taken = []

    def take():
        with study.opened(storage, "s") as shared:
            for _ in range(2):
                taken.extend(claim.number for claim in worker.take(shared, 1))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(8))


def removing(storage, action):
    """An objective during whose third run something happens to the storage."""
    calls = []

    def make_objective(task):
        def run(values, seed):
            calls.append(seed)
            if len(calls) == 3:
                action()
            return quadratic(task)(values, seed)

        return run

    return make_objective


def test_a_deleted_file_stops_the_worker_and_its_result_is_delivered_later(storage, tmp_path):
    make(storage)
    aside = tmp_path / "aside.db"
    take_away = removing(storage, lambda: os.rename(storage, aside))
    with pytest.raises(worker.Stopped, match=r"has not answered for 1 s; .* is kept in ") as error:
        worker.work(storage, "s", take_away, patience=1.0)
    assert "\n" not in str(error.value) and not pathlib.Path(storage).exists()
    assert len(list(worker.kept_folder().iterdir())) == 1
    os.rename(aside, storage)
    assert len(trials(storage, "s", TrialState.COMPLETE)) == 2
    said = []
    worker.work(storage, "s", quadratic, say=said.append)
    assert "kept from before" in said[0] and list(worker.kept_folder().iterdir()) == []
    finished = trials(storage, "s", TrialState.COMPLETE)
    assert len(finished) == 8 and [t.number for t in finished] == list(range(8))


def test_a_kept_result_fits_a_new_study_with_the_same_grid_only(storage):
    make(storage)
    with pytest.raises(worker.Stopped):
        worker.work(storage, "s", removing(storage, lambda: os.remove(storage)), patience=0.5)
    plan = Plan({"about": "a test"}, runs=3, until_settled=False)
    study.create(storage, "s", plan, {"x": [8, 9], "y": [1.0]}, True)
    said = []
    worker.work(storage, "s", quadratic, say=said.append)
    assert "does not fit the study and is left alone: x must be one of" in said[0]
    assert len(list(worker.kept_folder().iterdir())) == 1
    os.remove(storage)
    make(storage, runs=3)
    worker.work(storage, "s", quadratic)
    assert len(trials(storage, "s", TrialState.COMPLETE)) == 3
    assert list(worker.kept_folder().iterdir()) == []


def test_a_storage_that_comes_back_in_time_is_gone_on_with(storage, tmp_path):
    make(storage)
    aside = tmp_path / "aside.db"

    def away_for_a_second():
        os.rename(storage, aside)
        threading.Timer(1.0, shutil.move, [aside, storage]).start()

    done = worker.work(storage, "s", removing(storage, away_for_a_second), patience=30.0)
    assert done.runs == len(trials(storage, "s", TrialState.COMPLETE)) == 8
    assert not worker.kept_folder().exists()


@pytest.mark.parametrize("place", ["{tmp}/none.db", "sqlite:///{tmp}/none.db"])
def test_workers_before_create_are_told_so(tmp_path, place):
    with pytest.raises(BadInput, match=r"there is no file .*: make it with wmg tune create"):
        worker.work(place.format(tmp=tmp_path), "s", quadratic)
    assert list(tmp_path.iterdir()) == []


def test_workers_of_another_study_are_told_so(storage):
    make(storage)
    with pytest.raises(BadInput, match=r"no study 'q' in .*: make it with wmg tune create"):
        worker.work(storage, "q", quadratic)


BEAT = 2
"""Seconds between the signs of life of the workers that are killed below."""
SCRIPT = """
import os, pathlib, sys, time
from wmg.tuner import worker

NEVER = -1
storage, folder, block_after = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
log = folder / f"{os.getpid()}.log"

def make_objective(task):
    calls = []
    def run(values, seed):
        calls.append(seed)
        if len(calls) > block_after != NEVER:
            (folder / f"{os.getpid()}.blocked").touch()
            time.sleep(1000)
        while block_after == NEVER and not (folder / "go").exists():
            time.sleep(0.1)
        with open(log, "a") as file:
            file.write(f"{seed}\\n")
        return [float(seed)]
    return run

worker.work(storage, sys.argv[4], make_objective)
"""


def start_workers(storage, folder, blocks, name="s"):
    """Processes, one for each block: it does that number of runs and hangs in the next. None: it
    waits until the hanging ones have been killed, and does all runs that are left."""
    return [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, storage, folder, str(-1 if n is None else n), name]
        )
        for n in blocks
    ]


def wait_for(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.5)  # to open a storage costs more than the workers do


def check_killed(storage, folder, processes, killed):
    """Kill those that hang, let the others finish, and check every run."""
    wait_for(lambda: len(list(folder.glob("*.blocked"))) == killed)
    for path in folder.glob("*.blocked"):
        os.kill(int(path.stem), signal.SIGKILL)
    # The others hold a run each until the killed ones count as lost. Let go before, two of them
    # that begin a run too many could finish the search without anyone having looked for losses.
    wait_for(lambda: len(trials(storage, "s", TrialState.FAIL)) >= killed)
    (folder / "go").touch()
    for process in processes:
        process.wait(timeout=120)
    assert sorted(p.returncode for p in processes) == [-9] * killed + [0] * (
        len(processes) - killed
    )
    check_runs(storage, "s", folder, processes, killed)


def check_runs(storage, name, folder, processes, lost_at_least):
    """What the processes have done is in the study, once, and what was lost is done again."""
    every = trials(storage, name=name)
    with study.opened(storage, name) as shared:
        plan = shared.plan
    finished = [trial for trial in every if trial.state == TrialState.COMPLETE]
    failed = [trial for trial in every if trial.state == TrialState.FAIL]
    lost = [trial for trial in failed if len(trial.params) == len(GRID)]  # not while it was drawn
    assert plan.runs <= len(finished) < plan.runs + len(processes)
    seeds = [int(line) for path in folder.glob("*.log") for line in path.read_text().split()]
    assert sorted(trial.value for trial in finished) == sorted(seeds), "lost or counted twice"
    # A worker that this machine keeps waiting for long may be taken for lost too; and what is
    # found lost after enough runs have finished is left waiting for its second try.
    rest = {trial.state for trial in every} - {TrialState.COMPLETE, TrialState.FAIL}
    assert len(lost) >= lost_at_least and rest <= {TrialState.WAITING}
    for trial in lost:
        again = [t for t in every if t.user_attrs.get(worker.RETRY_OF) == trial.number]
        assert len(again) == 1 and again[0].params == trial.params


def test_a_worker_that_is_stopped_for_long_and_goes_on_delivers_its_result(place, tmp_path):
    make(*place, runs=6, beat=BEAT)
    storage, name = place
    processes = start_workers(storage, tmp_path, [None, None], name)
    wait_for(lambda: len(trials(storage, name, TrialState.RUNNING)) == 2)
    with study.opened(storage, name) as shared, shared.storage.engine.begin():
        # SQLite's lock is ours now: a worker that is stopped while it has it would stop all.
        processes[0].send_signal(signal.SIGSTOP)
    wait_for(lambda: trials(storage, name, TrialState.FAIL))
    (tmp_path / "go").touch()
    wait_for(lambda: len(trials(storage, name, TrialState.COMPLETE)) >= 3)
    processes[0].send_signal(signal.SIGCONT)
    for process in processes:
        assert process.wait(timeout=120) == 0
    check_runs(storage, name, tmp_path, processes, lost_at_least=1)


def test_of_four_workers_two_are_killed_and_nothing_is_lost(storage, tmp_path):
    make(storage, runs=12, beat=BEAT)
    processes = start_workers(storage, tmp_path, [1, 0, None, None])
    check_killed(storage, tmp_path, processes, killed=2)


def test_on_postgresql_three_workers_finish_though_one_is_killed(server, tmp_path):
    make(server.url(), runs=8, beat=BEAT)
    processes = start_workers(server.url(), tmp_path, [1, None, None])
    check_killed(server.url(), tmp_path, processes, killed=1)


def test_a_wrong_password_is_one_sentence_without_the_password(server):
    with pytest.raises(BadInput, match=r"cannot be opened: .*password authentication failed") as e:
        make(server.url("secret-and-wrong"), "t")
    assert "secret" not in str(e.value) and "\n" not in str(e.value)


def test_workers_before_create_on_postgresql_are_told_so(server):
    make(server.url(), "other")  # there is at least one study, whichever test came first
    with pytest.raises(BadInput, match=r"there is no study 'none' in .*: make it with wmg tune"):
        worker.work(server.url(), "none", quadratic)
    with pytest.raises(BadInput, match=r"there are no studies in .*: make one with wmg tune"):
        worker.work(server.url(database="template1"), "none", quadratic)


def test_a_server_that_stops_is_waited_for_and_then_its_result_kept(server):
    make(server.url(), "u")
    stop = removing(server.url(), server.stop)
    with pytest.raises(worker.Stopped, match=r"has not answered for 1 s; .* is kept in"):
        worker.work(server.url(), "u", stop, patience=1.0)
    server.start()
    assert len(trials(server.url(), "u", TrialState.COMPLETE)) == 2
    worker.work(server.url(), "u", quadratic)
    assert len(trials(server.url(), "u", TrialState.COMPLETE)) == 8


@pytest.mark.slow
def test_workers_finish_though_postgresql_is_stopped_and_started_while_they_work(server, tmp_path):
    make(server.url(), "v", runs=150, beat=BEAT)
    (tmp_path / "go").touch()
    processes = start_workers(server.url(), tmp_path, [None, None, None], "v")
    for done in (20, 60, 100):
        wait_for(lambda done=done: len(trials(server.url(), "v", TrialState.COMPLETE)) >= done)
        server.stop()
        working = [process.poll() is None for process in processes]
        time.sleep(4 * BEAT)
        server.start()
        assert all(working), "the server was stopped only after the search"
    for process in processes:
        assert process.wait(timeout=120) == 0
    check_runs(server.url(), "v", tmp_path, processes, lost_at_least=0)
