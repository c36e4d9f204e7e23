"""Environments of Gymnasium, by ID and by class, from the command line and from Python."""

import dataclasses
import importlib
import json
import sys

import gymnasium
import numpy as np
import own
import pytest
import tiny
import toy
from api.test_training import SMALL
from interop import test_gymnax

import wmg
from wmg.api import defaults
from wmg.cli import main
from wmg.cli.start import split_name
from wmg.cli.train import read_training
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.interop import outside
from wmg.play.source import HostSource
from wmg.runs import runfolder
from wmg.tools.errors import BadInput
from wmg.types import ObservationSpec

FLAGS = [
    *("--agent.slots=2", "--agent.memo-size=4", "--agent.layers=1", "--agent.heads=1"),
    *("--agent.head-size=4", "--agent.hidden=4", "--agent.actor-critic=4", "--t-max=4"),
    *("--batched.envs=2", "--batched.windows=1", "--batched.passes=1", "--batched.minibatches=1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CartPole, trained by its ID from the command line."""
    folder = tmp_path_factory.mktemp("outside") / "cart"
    args = ["train", "--env", "gym:CartPole-v1", *FLAGS, "--steps=200", "--report-every=100"]
    assert main.main([*args, "--out", str(folder)]) == 0
    return folder


def test_an_environment_is_trained_resumed_and_played_by_its_id(folder, capsys):
    env = runfolder.read_config(folder).env
    assert (env.name, env.path, env.label) == ("outside", "gym:CartPole-v1", "CartPole-v1")
    before = len(tiny.lines(folder)[0])
    assert tiny.command(capsys, "train", "--resume", folder, "--steps=300")[0] == 0
    assert len(tiny.lines(folder)[0]) == before + 1
    code, out, _ = tiny.command(capsys, "eval", folder, "--episodes=5", "--json")
    played = json.loads(out)
    assert code == 0 and played["metric"] == "return" and played["score"] == played["mean_length"]
    assert wmg.evaluate(folder, 5).score == played["score"]


@pytest.mark.parametrize("agent", [[], ["--agent", "gru"]])
@pytest.mark.parametrize("first", [["own:make_bag"], ["--env", "own:make_bag"]])
def test_defaults_depend_on_the_steps_however_they_are_written(first, agent):
    name, args = split_name([*first, *agent, "--steps", "2e4"])
    settings = read_training(name, args)[1]
    assert settings.env.path == "own:make_bag"
    assert (settings.steps, settings.hyper.anneal_every) == (20_000, 2_000)
    assert settings.agent.name == ("gru" if agent else "wmg")


def test_it_is_compared_by_returns_and_its_curve_is_drawn(folder, capsys, tmp_path):
    code, out, _ = tiny.command(capsys, "compare", folder, "random", "--episodes=8")
    assert code == 0 and "%" not in out.splitlines()[0] and "points" not in out
    assert tiny.command(capsys, "plot", folder, "--out", tmp_path / "curve.png")[0] == 0


def test_agents_of_two_outside_environments_are_not_compared(folder, capsys, tmp_path):
    wmg.train(env="own:make_bag", **SMALL).save(tmp_path / "bag.safetensors")
    code, out, err = tiny.command(capsys, "compare", folder, tmp_path / "bag.safetensors")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "plays CartPole-v1 and " in err and err.endswith("plays own:make_bag\n")
    code, out, err = tiny.command(capsys, "view", folder, "--versus", tmp_path / "bag.safetensors")
    assert (code, out) == (2, "") and err.endswith("plays another environment than CartPole-v1\n")


def test_it_is_shown(folder, capsys, tmp_path):
    args = ["view", folder, "--run=0", "--episodes=1", "--export", tmp_path / "page.html"]
    assert tiny.command(capsys, *args)[0] == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_a_model_acts_on_what_the_environment_shows(folder):
    model = wmg.load(folder, run=0)
    env = outside.make_by_id("CartPole-v1")
    seen, _ = env.reset(seed=0)
    action, memory = model.act(seen)
    assert int(action) in (0, 1)
    seen, *_ = env.step(int(action))
    assert int(model.act(seen, memory)[0]) in (0, 1)


@pytest.mark.parametrize(
    "given", [toy.Toy, toy.Toy(), lambda: toy.Toy()], ids=["class", "object", "function"]
)
def test_a_class_an_object_and_a_function_are_the_same_environment(given):
    result = wmg.train(env=given, **SMALL)
    assert result.spec.metric == "return" and len(result.steps) == 2


def test_copies_of_an_object_are_environments_of_their_own():
    source = outside.adapt(toy.Toy(), "walk")
    assert isinstance(source, HostSource)
    envs = source.copies(3)
    seen = envs.reset([0, 1, 2])
    assert envs.count == 3 and len(np.unique(seen.core[:, 0])) > 1


def test_rewards_are_scaled_down_until_random_returns_vary_by_one():
    class Rich(toy.Toy):
        def step(self, action):
            seen, reward, *rest = super().step(action)
            return seen, 1000.0 * reward, *rest

    plain, rich = (defaults.reward_scale(outside.adapt(kind, "")) for kind in (toy.Toy, Rich))
    assert plain == 1.0 and 1e-4 < rich < 1e-2


def test_annealing_of_the_defaults_follows_the_steps():
    for steps in (1_000, 500_000):
        made = defaults.config_for(outside.adapt(toy.Toy, "walk"), None, steps)
        assert made.hyper.anneal_every * 10 == made.steps == steps


@pytest.mark.parametrize(
    ("env", "sentence"),
    {
        "no such ID": ("gym:Nothing-v9", "Gymnasium cannot make 'Nothing-v9'"),
        "no module": ("not_there:Env", "env needs the module not_there"),
        "no such name": ("toy:Nothing", "env needs Nothing, which the module toy does not have"),
        "actions": ("gym:Pendulum-v1", "the action space must be Discrete or MultiDiscrete"),
        "no environment": ("toy:SPEC", "toy:SPEC must be an environment"),
    }.values(),
)
def test_what_is_no_environment_is_refused_and_nothing_is_written(env, sentence, tmp_path, capsys):
    code, out, err = tiny.command(capsys, "train", "--env", env, "--out", tmp_path / "run")
    assert (code, out) == (2, "") and err.startswith("wmg: ") and sentence in err
    assert err.count("\n") == 1 and not (tmp_path / "run").exists()


def test_an_option_for_the_environment_of_a_folder_is_refused(folder, capsys):
    code, _, err = tiny.command(capsys, "train", "--resume", folder, "--env", "gym:CartPole-v1")
    assert code == 2 and "has its environment and agent" in err
    code, _, err = tiny.command(capsys, "train", "--env", "gym:A-v0", "--env", "gym:B-v0")
    assert code == 2 and err == "wmg: --env is given twice\n"


def test_what_cannot_be_copied_says_what_to_give():
    class Stuck(toy.Toy):
        def __deepcopy__(self, memo):
            raise TypeError("no")

    with pytest.raises(BadInput, match=r"cannot be copied.*give its class"):
        outside.adapt(Stuck(), "stuck").copies(3)


def test_copies_may_step_as_gymnasiums_own_vector_does():
    plain, vector = (
        wmg.train(env=OutsideEnvSettings("gym:CartPole-v1", vector=mode), **SMALL)
        for mode in ("none", "sync")
    )
    np.testing.assert_array_equal(plain.scores, vector.scores)
    with pytest.raises(BadInput, match="vector = sync is for environments named gym:ID, not toy"):
        wmg.train(env=OutsideEnvSettings("toy:Toy", vector="sync"))


def test_an_agent_without_factors_trains_on_a_flattened_set():
    env, gru = OutsideEnvSettings("toy:ToySet"), wmg.GRUSettings(4, 4, 4)
    few = {**SMALL, "agent": gru}
    with pytest.raises(BadInput, match="the GRU agent takes no Factors"):
        wmg.train(env=env, **few)
    result = wmg.train(env=dataclasses.replace(env, flattened=True), **few)
    assert result.finished and result.model.spec.observation == ObservationSpec(3 + 2 * 3)
    assert result.evaluate(2).episodes == 2
    with pytest.raises(BadInput, match="thinking must be from 0"):
        result.evaluate(2, thinking=-1)


def test_settings_say_how_the_observation_is_shown():
    env = OutsideEnvSettings("gym:A-v0", ("x=core",), flattened=True)
    assert str(env) == "gym:A-v0 x=core flattened"


@pytest.mark.parametrize("given", [{"roles": ("x=core",)}, {"flattened": True}])
@pytest.mark.parametrize(
    ("made", "state"),
    [
        (own.Bag(3), "is compiled"),
        (lambda: own.Bag(3), "is compiled"),
        (test_gymnax.Walk(), "is compiled"),
        (outside.adapt(toy.Toy, "walk"), "has its own mapping"),
    ],
)
def test_the_mapping_of_spaces_is_refused_where_there_are_none(made, state, given):
    said = f"{next(iter(given))}: only for Gymnasium's spaces, and it {state}"
    with pytest.raises(BadInput, match=said):
        outside.adapt(made, "it", **given)


def test_the_scale_of_rewards_is_that_of_discounted_returns_within_an_episode(monkeypatch):
    reward, done = np.full((3, 1), 10.0), np.array([[False], [True], [False]])
    monkeypatch.setattr(defaults, "random_rewards", lambda env: (reward, done))
    source = outside.adapt(toy.Toy, "walk")
    returns = [10 + 0.99 * 10, 10, 10]
    assert defaults.reward_scale(source) == float(f"{1 / np.std(returns):.1g}") == 0.2


class OfNoUse(toy.Toy):
    """A walk with an attribute that has the name of minigrid's limit, but another meaning."""

    max_steps = 2


def test_the_limit_of_steps_is_the_specs_or_minigrids_own():
    assert outside.adapt(OfNoUse, "walk").spec.max_steps == outside.UNLIMITED
    limited = gymnasium.make("CartPole-v1", max_episode_steps=7)
    assert outside.adapt(limited, "cart").spec.max_steps == 7
    empty = importlib.import_module("minigrid.envs").EmptyEnv
    own = type("Own", (empty,), {"__module__": "own"})
    assert outside.adapt(lambda: own(size=5, max_steps=9), "empty").spec.max_steps == 9


def test_the_package_of_an_id_is_imported_where_it_is_installed(tmp_path, monkeypatch):
    (tmp_path / "highway_env.py").write_text("REGISTERED = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "highway_env", raising=False)
    outside.import_plugins("CartPole-v1")
    assert "highway_env" not in sys.modules
    outside.import_plugins("highway-fast-v0")
    assert sys.modules["highway_env"].REGISTERED
    monkeypatch.delitem(sys.modules, "highway_env")
