"""`wmg tune` from the command line."""

import contextlib
import json
import pathlib
import shlex
import signal
import sqlite3
import sys
import time

import jax
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

pytest.importorskip("optuna")

from wmg.cli import main as cli
from wmg.cli import tune

CREATE = ["tune", "create", "pathfinding/gru"]
GRID = """
learning_rate = [1e-4, 1e-3]
discount = [0.5, 0.6]
embedding = [4]
size = [4]
actor_critic = [4]
"""

SMALL_GRID = {
    **{"learning_rate": [1e-4, 1e-3], "t_max": [4], "slots": [2], "memo_size": [4], "layers": [1]},
    **{"heads": [1], "head_size": [4], "hidden": [4], "actor_critic": [4]},
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # Leave compiled programs where the other tests have theirs.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(jax.config.jax_compilation_cache_dir))
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def test_a_search_from_create_to_final(here, capsys):
    flags = ["--grid=grid.toml", "--steps=96", "--report-every=48", "--runs=2", "--beat=60"]
    code, out, _ = tiny.command(capsys, *CREATE, *flags, "--study=s", "--seed=0")
    assert code == 0 and "5 hyperparameters, 4 configurations" in out
    assert "wmg tune worker s" in out
    code, _, err = tiny.command(capsys, "tune", "worker", "s", "--at-once=2")
    assert code == 0 and "did 2 runs of s in " in err and "all 2 runs are done" in err
    code, out, err = tiny.command(capsys, "tune", "status", "s", "--plot=s.png", "--json")
    assert code == 0 and json.loads(out)["done"] == 2 and (here / "s.png").exists()
    code, out, _ = tiny.command(capsys, "tune", "best", "s", "--json")
    best = json.loads(out)
    assert code == 0 and best["train"].startswith("wmg train pathfinding/gru --hyper.learning-rate")
    assert tiny.command(capsys, "tune", "best", "s")[1].endswith("runs: wmg tune final s\n")
    code, out, _ = tiny.command(
        capsys, "tune", "final", "s", "--runs=1", "--json", "--out=results/f.json"
    )
    final = json.loads(out)
    assert code == 0 and final["count"] == 1 and final["values"] == best["values"]
    assert json.loads((here / "results" / "f.json").read_text()) == final
    for flags in (["final", "s", "--out=results/f.json"], ["status", "s", "--plot=s.png"]):
        code, _, err = tiny.command(capsys, "tune", *flags)
        assert code == 2 and err.endswith(" already exists\n")
    assert "of at most 2 runs done" in tiny.command(capsys, "tune", "status", "s")[1]


def test_the_return_of_an_outside_environment_is_maximised(here, capsys, monkeypatch):
    monkeypatch.setattr("wmg.cli.start.prepare_jax", lambda threads: None)
    (here / "small.json").write_text(json.dumps(SMALL_GRID))
    flags = ["--grid=small.json", "--steps=256", "--report-every=128", "--runs=3", "--seed=0"]
    args = ["gym:CartPole-v1", *flags, "--storage=other.db", "--no-until-settled"]
    code, out, _ = tiny.command(capsys, "tune", "create", *args)
    assert code == 0 and "wmg tune worker gym-CartPole-v1 --storage other.db" in out
    store = ["gym-CartPole-v1", "--storage=other.db"]
    assert tiny.command(capsys, "tune", "worker", *store)[0] == 0
    found = json.loads(tiny.command(capsys, "tune", "status", *store, "--json")[1])
    from wmg.tuner import study

    with study.opened("other.db", "gym-CartPole-v1") as shared:
        means = [sum(scores) / len(scores) for scores in shared.scores().values()]
    assert found["metric"] == "return" and found["done"] == 3
    assert min(means) > 8 and found["best"]["raw_mean"] == pytest.approx(max(means))
    _, out, _ = tiny.command(capsys, "tune", "best", *store)
    assert "mean return over the last tenth of a run; higher is better" in out
    best = json.loads(tiny.command(capsys, "tune", "best", *store, "--json")[1])
    settings = trained_by(best["train"])
    assert best["train"].endswith(" --steps 256") and settings.hyper.anneal_every == 25.6
    assert settings.hyper.learning_rate == best["values"]["learning_rate"]
    assert out.endswith("fresh runs: wmg tune final gym-CartPole-v1 --storage other.db\n")


def trained_by(command):
    """The settings of a printed command."""
    from wmg.cli.train import read_training

    before, (name, *args) = shlex.split(command)[:2], shlex.split(command)[2:]
    assert before == ["wmg", "train"]
    return read_training(name, args)[1]


def test_what_best_says_can_be_trained(here, monkeypatch):
    from wmg.tuner import objective, report, study, worker

    task = objective.make_task("pathfinding/wmg", tiny.settings(), None)
    grid = {"t_max": [3], "slots": [3], "heads": [2], "learning_rate": [1e-5]}
    study.create("best.db", "s", study.Plan(task, 1, until_settled=False), grid, True)
    worker.work("best.db", "s", lambda task: lambda values, seed: [50.0] * len(values))
    read = trained_by(report.best("best.db", ["s"])["train"])
    assert (read.t_max, read.agent.slots, read.agent.heads) == (3, 3, 2)
    assert read.hyper.learning_rate == 1e-5


BAD = {
    "no command": (["tune"], "wmg tune has create, worker, workers, status, best, final, got None"),
    "command": (["tune", "frob"], "wmg tune has create, worker, workers, status, best, final"),
    "no preset": (["tune", "create"], "name a preset to tune; wmg list shows them"),
    "preset": (["tune", "create", "pathfinding/wgm"], "did you mean 'pathfinding/wmg'?"),
    "metric": (
        [*CREATE, "--metric=speed"],
        "metric must be one of score, return, steps, got 'speed'",
    ),
    "metric not reported": ([*CREATE, "--metric=steps"], "pathfinding/gru has no goal, so its"),
    "names": ([*CREATE, "--names", "wings"], "the grid has no 'wings'; it has t_max,"),
    "grid": ([*CREATE, "--grid=none.toml"], "there is no grid file none.toml"),
    "start": (
        [*CREATE, "--grid=grid.toml", "--start=preset"],
        "the search cannot start at the preset: embedding must be one of [4], got 256",
    ),
    "episodes": ([*CREATE, "--episodes=5"], "--episodes is for presets with a goal"),
    "runs": ([*CREATE, "--runs=0"], "runs must be from 1 to 1,000,000,000, got 0"),
    "n_init": ([*CREATE, "--n-init=-1"], "n_init must be from 0 to 1,000,000,000, got -1"),
    "seed": ([*CREATE, "--seed=-1"], "seed must be from 0 to 1,000,000,000, got -1"),
    "steps": ([*CREATE, "--steps=0"], "steps must be a whole number from 1"),
    "folder": ([*CREATE, "--storage=none/t.db"], "/none for t.db"),
    "scheme": ([*CREATE, "--storage=foo://x"], "foo://x cannot be opened: Can't load plugin"),
    "url": ([*CREATE, "--storage=://"], "cannot be opened"),
    "server": (
        [*CREATE, "--storage=postgresql://u:secret@127.0.0.1:1/d"],
        "postgresql+psycopg://u:***@127.0.0.1:1/d cannot be opened: ",
    ),
    "worker too early": (["tune", "worker", "s"], "tune.db: make it with wmg tune create"),
    "no study": (["tune", "worker"], "name a study: wmg tune worker STUDY"),
    "at_once": (["tune", "worker", "s", "--at-once=0"], "at_once must be from 1 to 1,000,000,000"),
    "patience": (["tune", "worker", "s", "--patience=nan"], "patience must be from 0 to"),
    "beat": ([*CREATE, "--beat=99999999999"], "beat must be from 1 to 1,000,000,000"),
    "twice": (["tune", "best", "s", "s"], "s is named twice: its runs would count twice"),
    "a picture": (
        ["tune", "status", "s", "--plot=s.pdf"],
        "a figure's name must end in .png or .svg, got 's.pdf'",
    ),
    "status too early": (["tune", "status", "s"], "tune.db: make it with wmg tune create"),
    "best too early": (["tune", "best", "s"], "tune.db: make it with wmg tune create"),
    "final too early": (["tune", "final", "s"], "tune.db: make it with wmg tune create"),
    "option": (["tune", "worker", "s", "--at-one=2"], "there is no option --at-one; did you mean"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_made(what, here, capsys):
    args, sentence = BAD[what]
    before = sorted(here.rglob("*"))
    code, out, err = tiny.command(capsys, *args)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("wmg: ") and sentence in err and "secret" not in err
    assert sorted(here.rglob("*")) == before


def dump(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_a_study_that_exists_is_not_touched(here, capsys):
    assert tiny.command(capsys, *CREATE, "--study=s", "--seed=1")[0] == 0
    before = dump("tune.db")
    code, _, err = tiny.command(capsys, *CREATE, "--study=s", "--seed=2")
    assert code == 2 and "there is a study 's' in " in err and err.count("\n") == 1
    assert dump("tune.db") == before


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be read as one" * 40, b""]
)
def test_a_file_that_is_no_database_is_one_sentence(here, capsys, content):
    pathlib.Path("tune.db").write_bytes(content)
    code, _, err = tiny.command(capsys, "tune", "worker", "s")
    assert code == 2 and err.count("\n") == 1 and pathlib.Path("tune.db").read_bytes() == content


def test_a_study_of_another_program_is_refused(here, capsys):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage("sqlite:///tune.db")
    optuna.create_study(study_name="s", storage=storage)
    storage.engine.dispose()
    code, _, err = tiny.command(capsys, "tune", "worker", "s")
    assert code == 2 and "was not made by wmg tune create" in err


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = tiny.command(capsys, *CREATE)
    assert code == 2 and "wmg tune needs Optuna: pip install 'wmg[tune]'" in err


def test_ray_is_named_where_it_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = tiny.command(capsys, "tune", "workers", "s", "--storage=tune.db")
    assert code == 2 and "pip install 'wmg[ray]'" in err


@pytest.mark.parametrize("command", ["create", "worker", "workers", "status", "best", "final"])
def test_each_has_help_with_defaults(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["tune", command, "--help"])
    out = capsys.readouterr().out
    assert not end.value.code and f"wmg tune {command}" in out and "default" in out


def test_a_worker_that_cannot_go_on_fails_with_one_sentence(here, capsys, monkeypatch):
    from wmg.tuner import worker

    def stop(*args, **options):
        raise worker.Stopped("the storage has not answered")

    monkeypatch.setattr(worker, "work", stop)
    code, _, err = tiny.command(capsys, "tune", "worker", "s")
    assert code == 1 and err == "wmg: the storage has not answered\n"


def test_watching_ends_when_the_search_does(here, capsys, monkeypatch):
    tiny.command(capsys, *CREATE, "--study=s", "--runs=2", "--grid=grid.toml")
    from wmg.tuner import study

    def finish_one(seconds):
        with study.opened("tune.db", "s") as shared:
            trial = shared.study.ask(study.DGDSampler(shared.grid).space)
            shared.study.tell(trial, 50.0)

    monkeypatch.setattr(tune.time, "sleep", finish_one)
    code, out, _ = tiny.command(capsys, "tune", "status", "s", "--watch=1", "--json")
    assert code == 0 and [json.loads(line)["done"] for line in out.splitlines()] == [0, 1, 2]


@pytest.mark.slow
def test_ctrl_c_gives_the_run_back(here, capsys):
    tiny.command(capsys, *CREATE, "--study=s", "--grid=grid.toml", "--steps=2000000")
    process = tiny.start("tune", "worker", "s")
    time.sleep(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "was given back" in err
    found = json.loads(tiny.command(capsys, "tune", "status", "s", "--json")[1])
    assert (found["running"], found["waiting"], found["failed"]) == (0, 1, 1)
