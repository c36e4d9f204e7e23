"""`wmg inspect`."""

import json
import types

import jax.numpy as jnp
import pytest
import tiny

from wmg.cli import start
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.envs.pathfinding.env import Pathfinding
from wmg.envs.pathfinding.settings import PathfindingSettings


def test_a_gymnasium_environment_is_shown_with_its_mapping(capsys):
    code, out, _ = tiny.command(capsys, "inspect", "gym:Blackjack-v1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["part", "space", "becomes"]
    assert lines[1].split(maxsplit=2) == ["0", "Discrete(32)", "Core 0-31: one-hot"]
    assert lines[-2:] == ["Core     45 numbers", "actions  2"]


def test_roles_change_the_mapping_and_json_has_it_all(capsys):
    args = ["inspect", "gym:MiniGrid-DoorKey-6x6-v0", "--roles", "image=grid,terrain=,most=20"]
    code, out, _ = tiny.command(capsys, *args, "direction=core numbers=yes", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["observation"] == {
        "core": 1,
        "factors": [{"name": "image", "most": 20, "size": 37}],
        "image": None,
    }
    assert found["actions"] == 7 and found["env"] == "gym:MiniGrid-DoorKey-6x6-v0"
    assert [part["key"] for part in found["parts"]] == ["direction", "image", "mission", "action"]


def test_flattened_factors_are_previewed(capsys):
    name = "gym:MiniGrid-DoorKey-6x6-v0"
    plain, flat = (tiny.command(capsys, "inspect", name, *f)[1] for f in ([], ["--flattened"]))
    assert "Core     102 numbers" in plain and "Factors  image: at most 16, 37 numbers" in plain
    assert "Core 102-709: all Factors, flattened" in flat
    assert f"Core     {102 + 16 * 38} numbers" in flat and "Factors  image" not in flat


@pytest.mark.parametrize("name", ["pathfinding", "pathfinding/wmg"])
def test_environments_of_the_package_are_shown_by_name_and_by_preset(name, capsys):
    code, out, _ = tiny.command(capsys, "inspect", name, "--json")
    found, spec = json.loads(out), Pathfinding(7, 7).spec
    assert code == 0
    assert found["observation"]["core"] == spec.observation.core
    assert (found["actions"], found["max_steps"]) == (spec.actions, spec.max_steps)


class Shown:
    """An environment with gymnax's interface."""

    default_params = None

    def reset(self, key, params):
        return jnp.zeros(3), key

    def step(self, key, state, action, params):
        return jnp.zeros(3), state, 1.0, False, {}

    def action_space(self, params):
        return types.SimpleNamespace(n=5)


def test_an_import_path_names_an_environment_or_a_config(capsys):
    out = tiny.command(capsys, "inspect", f"{__name__}:Shown")[1]
    steps = "steps    at most 10000 in an episode"
    assert out.splitlines() == ["Core     3 numbers", "actions  5", steps]
    out = tiny.command(capsys, "inspect", f"{__name__}:CONFIG", "--json")[1]
    assert json.loads(out)["observation"]["core"] == Pathfinding(3, 7).spec.observation.core


CONFIG = tiny.settings(env=PathfindingSettings(nodes=3))
PAIR = Shown(), None
"""As gymnax.make returns it."""


def test_a_pair_of_an_environment_and_its_parameters_is_inspected_and_trained(capsys):
    name = f"{__name__}:PAIR"
    assert tiny.command(capsys, "inspect", name)[1].startswith("Core     3 numbers")
    assert start.find_config(name, 1000).env == OutsideEnvSettings(name)
    assert [start.names_env(f"{__name__}:{each}") for each in ("PAIR", "CONFIG")] == [True, False]


def test_factors_and_the_limit_of_steps_are_shown(capsys):
    out = tiny.command(capsys, "inspect", "babyai/level4/wmg-factored")[1]
    assert "Factors  objects: at most 8, 29 numbers each" in out
    assert "steps    at most 64 in an episode" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "name an environment: gym:ID"),
        (["frob"], "'frob'"),
        (["gym:Frob-v0"], "Gymnasium cannot make 'Frob-v0': Environment `Frob` doesn't exist"),
        (["gym:frob:Frob-v0"], "No module named 'frob'"),
        (["gym:Pendulum-v1"], "the action space must be Discrete or MultiDiscrete"),
        (["gym:CartPole-v1", "--roles", "x=core"], "roles has 'x'"),
        (["gym:CartPole-v1", "--roles", "frob"], "must be one of core, factors"),
        (
            ["pathfinding", "--roles", "core"],
            "Gymnasium's environments, and pathfinding names none",
        ),
        (["babyai/level1/wmg-factored", "--flattened"], "Gymnasium's environments, and baby"),
        ([f"{__name__}:CONFIG", "--flattened"], "are for Gymnasium's environments, and"),
        ([f"{__name__}:Shown", "--flattened"], "only for Gymnasium's spaces"),
    ],
)
def test_what_cannot_be_inspected_is_refused_in_one_sentence(args, said, capsys):
    code, out, error = tiny.command(capsys, "inspect", *args)
    assert code == 2 and not out and said in error and error.count("\n") == 1
