"""`wmg.train`, `wmg.load` and `wmg.evaluate`, as somebody writes them who has read the README."""

import dataclasses
import pathlib
import shutil
import signal
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import own
import pytest
import tiny
from own import Bag

import wmg
from wmg import registry
from wmg.api import training
from wmg.config import Config, Goal
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.runs import models, runfolder
from wmg.tools.errors import BadInput

SMALL = {
    "agent": wmg.WMGSettings(
        slots=2, memo_size=4, layers=1, heads=1, head_size=4, hidden=4, actor_critic=4
    ),
    "t_max": 4,
    "batched": {"envs": 2, "windows": 1, "passes": 1, "minibatches": 1},
    "report_every": 200,
    "steps": 400,
}
SOURCE = str(pathlib.Path(wmg.__file__).parents[1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An agent trained on an object, in a folder, and the folder."""
    folder = tmp_path_factory.mktemp("api") / "bag"
    return wmg.train(folder=folder, env=Bag(3), **SMALL), folder


def test_importing_the_package_loads_nothing():
    code = (
        "import sys, wmg; dir(wmg); sys.exit(bool({'jax', 'equinox', 'numpy'} & set(sys.modules)))"
    )
    environment = {"PYTHONPATH": SOURCE}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_every_public_name_is_there_and_described():
    for name in wmg.PLACES:
        assert getattr(wmg, name).__doc__, name
        assert name in dir(wmg)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = wmg.trian


def test_a_preset_is_trained_with_some_settings_changed():
    result = wmg.train(
        "pathfinding/wmg", agent=SMALL["agent"], steps=48, report_every=24, hyper={"entropy": 0.5}
    )
    assert result.config.hyper.entropy == 0.5 and result.config.hyper.grad_clip == 16.0
    assert result.steps.tolist() == [24, 48] and result.finished


def test_settings_of_the_agent_may_be_given_as_a_dictionary():
    base, _ = training.experiment("pathfinding/wmg", None, None)
    some, _ = training.experiment("pathfinding/wmg", None, {"slots": 3})
    assert some == dataclasses.replace(base, agent=dataclasses.replace(base.agent, slots=3))


def test_a_goal_may_be_given_as_a_dictionary_where_there_is_none():
    given = {"goal": {"episodes": 10}, "hyper": {"entropy": 0.5}}
    settings = training.changed(Config(), given)
    assert settings.goal == Goal(episodes=10) and settings.hyper.entropy == 0.5
    again = training.changed(settings, {"goal": {"success": 0.9}})
    assert again.goal == Goal(0.9, 10) and training.changed(again, {"goal": None}).goal is None


def test_an_environment_of_ones_own_needs_no_settings(trained):
    result, _ = trained
    assert result.config.env is None and result.config.batched.envs == 2
    played = result.evaluate(episodes=50)
    assert played.episodes == 50 and 0 <= played.success <= 1
    assert str(played).endswith(f"over 50 episodes of {played.mean_length:.0f} steps")
    with pytest.raises(BadInput, match="thinking must be from 0 to 10,000, got -1"):
        wmg.evaluate(result, 50, thinking=-1)


def test_a_model_is_saved_and_loaded_without_its_environment(trained, tmp_path):
    result, folder = trained
    result.save(tmp_path / "mine.safetensors")
    for name in (tmp_path / "mine.safetensors", str(folder)):
        model = wmg.load(name)
        assert model.spec == Bag(3).spec
        assert all(map(np.array_equal, jax.tree.leaves(model.agent), jax.tree.leaves(result.agent)))
        with pytest.raises(BadInput, match="do not name the environment, an object: give it again"):
            model.evaluate(episodes=2)
        played = wmg.evaluate(model, 50, env=Bag(3))
        assert played == result.evaluate(episodes=50)


def test_a_model_plays_step_by_step(trained):
    model = trained[0].model
    _, observation = Bag(3).reset(jax.random.key(0))
    first, memory = model.act(observation)
    again, _ = model.act(observation, model.initial_memory())
    assert int(first) == int(again)
    chosen = {int(model.act(observation, memory, jax.random.key(i))[0]) for i in range(50)}
    assert len(chosen) > 1
    with pytest.raises(BadInput, match=r"seen must be a wmg\.Observation, got list"):
        model.act([1.0])


def test_a_model_is_not_played_on_what_it_does_not_fit(trained):
    with pytest.raises(BadInput, match=r"the model takes .*coins.*3.* and the environment has"):
        wmg.evaluate(trained[0], 2, env=Bag(4))


def test_a_class_is_remembered_by_its_import_path(tmp_path, capsys):
    result = wmg.train(folder=tmp_path / "run", env=own.make_bag, **SMALL)
    assert result.config.env == OutsideEnvSettings("own:make_bag")
    resumed = wmg.train(folder=tmp_path / "run", resume=True)
    assert resumed.finished and resumed.config == result.config
    code, out, _ = tiny.command(capsys, "eval", tmp_path / "run", "--episodes=50")
    played = result.evaluate(50)
    assert code == 0 and f"{played.score:.2f}%" in out


def test_an_agent_of_ones_own_is_a_class():
    result = wmg.train(env=Bag(3), **{**SMALL, "agent": own.Sums, "steps": 200})
    assert result.config.agent.path == "own:Sums" and isinstance(result.agent, own.Sums)
    with pytest.raises(BadInput, match="give Sums, not an object of it"):
        training.find_agent(result.agent)


@pytest.mark.parametrize(
    ("given", "sentence"),
    {
        "nothing": ({}, "name a preset (wmg.presets() lists them) or give an environment"),
        "an unknown preset": ({"preset": "pathfinding/wgm"}, "did you mean 'pathfinding/wmg'?"),
        "an unknown setting": (
            {"preset": "pathfinding/wmg", "step": 3},
            "train has no setting 'step'; it has env, agent",
        ),
        "an unknown number": (
            {"preset": "pathfinding/wmg", "hyper": {"lr": 3}},
            "hyper has no setting 'lr'; it has learning_rate",
        ),
        "no environment": ({"env": 3}, "int must be an environment: one that derives from wmg.Env"),
        "a module that is not there": (
            {"env": "not_there:Env"},
            "env needs the module not_there, which cannot be imported",
        ),
        "an environment without a module": ({"env": "patfinding"}, "env must be one of babyai"),
        "steps in words": ({"env": "pathfinding", "steps": "5"}, "steps must be a positive whole"),
        "no folder to go on with": ({"resume": True}, "resume goes on with a run folder: give it"),
        "an unknown setting of the agent": (
            {"preset": "pathfinding/wmg", "agent": {"memos": 3}},
            "agent has no setting 'memos'; it has memory, slots",
        ),
        "no agent": ({"preset": "pathfinding/wmg", "agent": 3}, "agent must be a name, settings"),
    }.values(),
)
def test_what_cannot_be_trained_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(BadInput) as refused:
        wmg.train(**given)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


def agent_of_size(size):
    """A class with a name that others have, too."""

    class Local(own.Sums):
        def __init__(self, observation, actions, *, key):
            super().__init__(observation, actions, key=key)
            self.size = size

        size: int = eqx.field(static=True)

    return Local


@pytest.mark.parametrize("name", ["Again", "agent_of_size.<locals>.Local"])
def test_a_class_that_is_defined_again_is_the_one_that_is_trained(name):
    for size in (2, 3):
        kind = agent_of_size(size)
        kind.__qualname__ = name
        result = wmg.train(env=Bag(3), **{**SMALL, "agent": kind, "steps": 200})
        assert result.agent.size == size


def test_functions_without_a_name_of_their_own_are_told_apart():
    first, second = (wmg.train(env=lambda n=n: Bag(n), **SMALL) for n in (2, 3))
    assert (first.model.env.coins, second.model.env.coins) == (2, 3)


def test_a_model_plays_the_levels_it_is_given():
    model = wmg.load("sokoban-wmg")
    given = dataclasses.replace(model.config.env, levels="embedded-valid")
    assert eqx.tree_equal(model.on(given).env, registry.make_env(given))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"seed": -1}, "seed must be a whole number from 0 to 2,147,483,647, got -1"),
        ({"seed": 2**40}, "seed must be a whole number from 0"),
        ({"episodes": 1}, "episodes must be a whole number from 2 to 10,000,000, got 1"),
    ],
)
def test_episodes_and_seeds_that_cannot_be_are_refused(trained, given, sentence):
    with pytest.raises(BadInput, match=sentence):
        trained[0].evaluate(**given)


def test_the_error_of_a_users_agent_names_its_line():
    class Broken(own.Sums):
        def __init__(self, observation, actions, *, key):
            self.heads = np.zeros(2) + np.zeros(3)

    with pytest.raises(BadInput, match=r"Broken raises ValueError in line \d+ of test_training"):
        wmg.train(env=Bag(3), **{**SMALL, "agent": Broken})


def test_the_error_of_a_users_constructor_is_shown_whole():
    def broken():
        raise KeyError("the user's own mistake")

    with pytest.raises(BadInput, match="raises KeyError in line") as error:
        wmg.train(env=broken)
    assert isinstance(error.value.__cause__, KeyError)


def test_ctrl_c_saves_and_is_raised(tmp_path):
    def interrupt(progress):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        wmg.train(folder=tmp_path / "run", env=own.make_bag, show=interrupt, **SMALL)
    whole = wmg.train(folder=tmp_path / "run", resume=True)
    assert whole.finished and len(whole.steps) == 2


def gym_object():
    return pytest.importorskip("gymnasium").make("CartPole-v1")


@pytest.mark.parametrize("make", [lambda: own.make_bag, lambda: Bag(3), gym_object])
def test_what_ctrl_c_left_is_loaded_played_and_saved(tmp_path, make):
    def interrupt(progress):
        signal.raise_signal(signal.SIGINT)

    env = make()
    with pytest.raises(KeyboardInterrupt):
        wmg.train(folder=tmp_path / "run", env=env, show=interrupt, **SMALL)
    again = None if env is own.make_bag else env  # which settings cannot name
    model = wmg.load(tmp_path / "run", env=again)
    played = model.evaluate(5)
    model.save(tmp_path / "model.safetensors")
    assert wmg.load(tmp_path / "model.safetensors", env=again).evaluate(5) == played


def test_another_environment_is_refused_for_a_model_that_names_its_own(tmp_path):
    result = wmg.train(folder=tmp_path / "run", env=own.make_bag, **SMALL)
    result.save(tmp_path / "model.safetensors")
    unfinished = shutil.copytree(tmp_path / "run", tmp_path / "unfinished")
    (unfinished / runfolder.BEST).unlink()
    for name in (tmp_path / "run", unfinished, tmp_path / "model.safetensors", "pathfinding-wmg"):
        with pytest.raises(BadInput) as refusal:
            wmg.load(name, env=Bag(3))
        said = "names its environment: leave env out, or give it to wmg.evaluate"
        assert str(refusal.value) == f"{name} {said}"


def test_training_shows_what_it_is_told_to(capsys):
    wmg.train("pathfinding/wmg", agent=SMALL["agent"], steps=24, report_every=24)
    assert capsys.readouterr().err == ""
    wmg.train("pathfinding/wmg", agent=SMALL["agent"], steps=24, report_every=24, show=True)
    assert "24 of 24 steps" in capsys.readouterr().err


def test_shipped_models_are_loaded_by_name():
    model = wmg.load("pathfinding-wmg")
    assert isinstance(model.config, Config) and model.spec.actions == 2
    assert set(models.shipped()) >= {"pathfinding-wmg", "sokoban-wmg"}
