"""Runs of the suite: ours, and those that another Python does."""

import dataclasses
import json
import signal
import sys

import pytest
from api.suite.made_up import result

from wmg.agents.gru.settings import GRUSettings
from wmg.api import training
from wmg.api.suite import run
from wmg.api.suite.run import SuiteScale
from wmg.api.suite.tasks import CELLS, EPISODES, REPORT, TASKS, SuiteTask
from wmg.config import Config, from_dict
from wmg.runs.progress import Display
from wmg.tools.errors import BadInput

QUIET = Display(lambda: None, lambda progress: None)
STEPS = 2 * REPORT
SET = SuiteTask("Toy", "toy:ToySet", 0.5, "because", STEPS, "toy", "toy", "sets")


@pytest.fixture
def toys(monkeypatch):
    """A small task, with agents small enough to train here."""
    for agent in ("wmg", "gru", "recurrent-ppo"):
        monkeypatch.setitem(CELLS, f"toy-{agent}", ("toy", agent))
    monkeypatch.setitem(TASKS, "toy", SET)
    asked, small = run.settings_for, {"slots": 2, "memo_size": 4, "layers": 1, "heads": 1}

    def smaller(*given):
        settings = asked(*given)
        batched = dataclasses.replace(settings.batched, passes=1, minibatches=1)
        agent = dataclasses.replace(settings.agent, **small, head_size=4, hidden=4, actor_critic=4)
        return dataclasses.replace(settings, agent=agent, batched=batched)

    monkeypatch.setattr(run, "settings_for", smaller)


def stops():
    """A display in which training is stopped after its first report."""
    return Display(lambda: None, lambda progress: signal.raise_signal(signal.SIGTERM))


def test_a_run_that_was_stopped_goes_on_and_leaves_its_result_once(toys, tmp_path, monkeypatch):
    scale = SuiteScale()
    assert not run.run_cell("toy-wmg", 3, scale, tmp_path, stops())
    path = tmp_path / "suite" / "toy-wmg" / "seed-3" / "result.json"
    assert not path.exists()
    with pytest.raises(BadInput, match="train was begun with 8,192 interactions, not 4,096"):
        run.run_cell("toy-wmg", 3, SuiteScale(steps=REPORT), tmp_path, QUIET)
    assert run.run_cell("toy-wmg", 3, scale, tmp_path, QUIET)
    found = run.read(path)
    assert found["steps"] == [REPORT, 2 * REPORT] and len(found["scores"]) == 2
    assert (found["episodes"], found["seed"]) == (EPISODES, 3)
    settings = from_dict(Config, found["config"])
    assert (settings.seed, settings.steps, settings.env.path) == (3, STEPS, "toy:ToySet")
    assert found["command"] == "wmg reproduce suite --cells toy-wmg --runs 4"
    monkeypatch.setattr(run, "train_ours", None)
    assert run.run_cell("toy-wmg", 3, scale, tmp_path, QUIET)
    with pytest.raises(BadInput, match="has 8,192 interactions, not 4,096: choose another --out"):
        run.run_cell("toy-wmg", 3, SuiteScale(steps=REPORT), tmp_path, QUIET)


def test_settings_are_the_defaults_for_the_budget():
    settings = run.settings_for(SET, "wmg", 2, 50_000)
    assert settings.agent == training.experiment(None, SET.env, None)[0].agent
    assert (settings.steps, settings.seed, settings.report_every) == (50_000, 2, REPORT)
    assert settings.hyper.anneal_every == 5_000 and settings.runs == 1


def test_sets_are_flattened_for_an_agent_that_takes_none_and_only_then():
    assert not run.settings_for(SET, "wmg", 0, STEPS).env.flattened
    flat = run.settings_for(SET, "gru", 0, STEPS)
    assert flat.env.flattened and flat.agent == GRUSettings()
    assert not run.settings_for(dataclasses.replace(SET, env="toy:Toy"), "gru", 0, 1).env.flattened


def other_python(tmp_path, script):
    """A program that stands in for the other Python."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_another_python_trains_recurrent_ppo(toys, tmp_path):
    kept = ("steps", "scores", "score", "standard_error", "episodes", "seconds", "diverged")
    told = {name: result("cartpole-wmg")[name] for name in kept} | {"other": {"torch": "2"}}
    says = f"print('hello')\nprint({json.dumps(told)!r})\nprint(sys.argv[2:], file=sys.stderr)"
    scale = SuiteScale(other=other_python(tmp_path, says))
    assert run.run_cell("toy-recurrent-ppo", 1, scale, tmp_path, QUIET)
    found = run.read(run.place_of(tmp_path, "toy-recurrent-ppo", 1) / "result.json")
    assert told.items() <= found.items()
    assert found["command"].endswith("--cells toy-recurrent-ppo --runs 2 --other PYTHON")
    assert found["hardware"]["cores"] >= 1


def test_nothing_is_kept_of_a_run_that_failed_there(toys, tmp_path, capfd):
    scale = SuiteScale(other=other_python(tmp_path, "sys.exit('no torch')"))
    with pytest.raises(BadInput, match=r"suite_recurrent_ppo\.py failed on toy"):
        run.run_cell("toy-recurrent-ppo", 0, scale, tmp_path, QUIET)
    assert "no torch" in capfd.readouterr().err
    assert not (tmp_path / "suite").exists()


def test_missing_packages_are_named_before_anything_is_run(toys, tmp_path, monkeypatch):
    cells = ["toy-wmg", "toy-recurrent-ppo"]
    with pytest.raises(BadInput, match="recurrent-ppo needs --other, a Python in which bench"):
        run.check(cells, SuiteScale())
    fails = other_python(tmp_path, "sys.exit(\"No module named 'sb3_contrib'\")")
    with pytest.raises(BadInput, match=r"cannot import all of .*: No module named 'sb3_contrib'"):
        run.check(cells, SuiteScale(other=fails))
    run.check(cells, SuiteScale(other=other_python(tmp_path, "")))
    gone = dataclasses.replace(SET, module="no_such_module", package="no-such-package")
    monkeypatch.setitem(TASKS, "toy", gone)
    with pytest.raises(BadInput, match="packages that are missing: pip install no-such-package"):
        run.check(["toy-gru"], SuiteScale())
    run.check(["toy-recurrent-ppo"], SuiteScale(other=other_python(tmp_path, "")))
    monkeypatch.setattr(run, "SCRIPT", tmp_path / "gone.py")
    with pytest.raises(BadInput, match=r"the repository's benchmarks: there is no .*gone\.py"):
        run.check(cells[1:], SuiteScale(other=other_python(tmp_path, "")))


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [1.0]},
        {"scores": ["much", 0.0, 0.0]},
        {"steps": [1.5, 2, 3]},
        {"steps": [], "scores": []},
        {"task": "chess"},
        {"agent": "me"},
        {"hardware": {"device": "abacus"}},
        {"score": None},
        {"seed": "0"},
    ],
)
def test_a_damaged_result_is_refused(tmp_path, change):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result("cartpole-wmg")))
    assert run.read(path)["task"] == "cartpole"
    path.write_text(json.dumps(result("cartpole-wmg") | change))
    with pytest.raises(BadInput, match="is damaged"):
        run.read(path)
