"""Settings: what goes in comes out, and what is wrong is refused in one sentence."""

import dataclasses
import json
import subprocess
import sys

import pytest

from wmg import config
from wmg.agents.baselines.settings import DepthSettings, RandomSettings
from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config, Hyper
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.tools.errors import BadInput

EVERYTHING = Config(
    env=PathfindingSettings(nodes=13, pattern=5),
    agent=WMGSettings(memory="observations", slots=11, start="empty", shared_heads=True),
    hyper=Hyper(learning_rate=1e-4, anneal=0.98, anneal_after=1e7),
    t_max=6,
    steps=1000,
    runs=2,
    seed=3,
    vary=("learning_rate=1e-3,1e-4", "entropy=0,0.1"),
)


def read(text):
    return config.from_dict(Config, json.loads(text), "run.json")


@pytest.mark.parametrize(
    "given",
    [
        Config(),
        EVERYTHING,
        Config(agent=GRUSettings(size=7)),
        Config(env=BabyAISettings("PickupLoc", "image"), agent=CNNGRUSettings((2, 3, 4))),
        Config(env=BabyAISettings(reward="minigrid"), goal=config.Goal(0.5, 20)),
        Config(env=SokobanSettings("hard", "planes", 12, 80, 240, (-0.1, 1.0, -1.0, 10.0))),
        Config(agent=DepthSettings(depth=3)),
        Config(agent=RandomSettings()),
    ],
)
def test_a_config_survives_being_written_and_read(given):
    assert read(json.dumps(config.to_dict(given))) == given


def test_what_is_written_names_the_kind_of_agent_and_environment():
    data = config.to_dict(EVERYTHING)
    assert (data["agent"]["name"], data["env"]["name"]) == ("wmg", "pathfinding")


def test_settings_left_out_have_their_defaults():
    assert read('{"t_max": 3}') == Config(t_max=3)


def test_a_whole_number_will_do_for_a_real_one():
    rate = read('{"hyper": {"learning_rate": 1}}').hyper.learning_rate
    assert rate == 1.0 and isinstance(rate, float)


def refusal(text):
    with pytest.raises(BadInput) as caught:
        read(text)
    return str(caught.value)


REFUSED = {
    '{"t_maximum": 3}': ("run.json", "t_maximum"),
    '{"hyper": {"learningrate": 1}}': ("run.json.hyper", "learningrate"),
    '{"agent": {"name": "wmg", "slot": 1}}': ("run.json.agent", "slot"),
    '{"agent": {"name": "perceptron"}}': ("run.json.agent", "perceptron"),
    '{"agent": {"name": ["wmg"]}}': ("run.json.agent", "['wmg']"),
    '{"agent": "wmg"}': ("run.json.agent", "wmg"),
    '{"agent": 3}': ("run.json.agent", "3"),
    '{"agent": {}}': ("run.json.agent", "None"),
    '{"env": {"name": "tetris"}}': ("run.json.env", "tetris"),
    '{"env": {"name": "babyai", "level": "GoToSeq"}}': ("run.json.env.level", "'GoToSeq'"),
    '{"env": {"name": "babyai", "observation": 3}}': ("run.json.env.observation", "3"),
    '{"env": {"name": "babyai", "nodes": 7}}': ("run.json.env", "nodes"),
    '{"env": {"name": "sokoban", "levels": 3}}': ("run.json.env.levels", "3"),
    '{"env": {"name": "sokoban", "observation": "image"}}': ("observation", "'image'"),
    '{"env": {"name": "sokoban", "bound": 3}}': ("bound", "3"),
    '{"env": {"name": "sokoban", "bound": 65}}': ("bound", "65"),
    '{"env": {"name": "sokoban", "cells": 65}}': ("cells", "65"),
    '{"env": {"name": "sokoban", "cells": 0}}': ("cells", "0"),
    '{"env": {"name": "sokoban", "max_steps": 0}}': ("max_steps", "0"),
    '{"env": {"name": "sokoban", "rewards": [1, 2]}}': ("run.json.env.rewards", "[1, 2]"),
    '{"env": {"name": "sokoban", "rewards": [0, 1, NaN, 2]}}': ("rewards", "nan"),
    '{"agent": {"name": "cnn-gru", "channels": [1, 2]}}': ("run.json.agent.channels", "[1, 2]"),
    '{"agent": {"name": "cnn-gru", "channels": [1, 2, 0]}}': ("channels", "0"),
    '{"t_max": "16"}': ("run.json.t_max", "'16'"),
    '{"t_max": 1.5}': ("run.json.t_max", "1.5"),
    '{"t_max": true}': ("run.json.t_max", "True"),
    '{"hyper": {"discount": true}}': ("run.json.hyper.discount", "True"),
    '{"hyper": {"discount": null}}': ("run.json.hyper.discount", "None"),
    '{"agent": {"name": "wmg", "shared_heads": 1}}': ("run.json.agent.shared_heads", "1"),
    '{"agent": {"name": "wmg", "memory": "memo"}}': ("run.json.agent.memory", "'memo'"),
    '{"hyper": [1]}': ("run.json.hyper", "[1]"),
    "[]": ("run.json", "[]"),
    '{"vary": 1}': ("run.json.vary", "1"),
    '{"vary": ["entropy"]}': ("vary", "'entropy'"),
    '{"vary": ["entropy=x"]}': ("vary", "'entropy=x'"),
    '{"vary": [["entropy", [1]]]}': ("run.json.vary", "['entropy', [1]]"),
    '{"t_max": 0}': ("t_max", "0"),
    '{"steps": 0}': ("steps", "0"),
    '{"steps": 3000000000}': ("steps", "3000000000"),
    '{"seed": -1}': ("seed", "-1"),
    '{"env": {"name": "pathfinding", "nodes": 1}}': ("nodes", "1"),
    '{"agent": {"name": "wmg", "slots": 0}}': ("slots", "0"),
    '{"agent": {"name": "wmg", "memo_size": 0}}': ("memo_size", "0"),
    '{"agent": {"name": "gru", "size": -4}}': ("size", "-4"),
    '{"hyper": {"discount": 1.5}}': ("discount", "1.5"),
    '{"hyper": {"learning_rate": 0}}': ("learning_rate", "0.0"),
    '{"hyper": {"entropy": -0.1}}': ("entropy", "-0.1"),
    '{"hyper": {"entropy": NaN}}': ("entropy", "nan"),
    '{"hyper": {"grad_clip": Infinity}}': ("grad_clip", "inf"),
    '{"vary": ["entropy=0.1,0.2"]}': ("vary", "'entropy=0.1,0.2'"),
    '{"vary": ["t_max=3"]}': ("vary", "'t_max=3'"),
    '{"vary": ["learning_rate=-1"]}': ("learning_rate", "-1.0"),
    '{"vary": ["entropy=nan"]}': ("entropy", "nan"),
    '{"goal": {"success": 0}}': ("success", "0.0"),
    '{"goal": {"success": 1.01}}': ("success", "1.01"),
    '{"goal": {"success": NaN}}': ("success", "nan"),
    '{"goal": {"episodes": 0}}': ("episodes", "0"),
    '{"goal": {"rate": 0.9}}': ("run.json.goal", "rate"),
    '{"goal": 0.99}': ("run.json.goal", "0.99"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_refused_by_setting_and_value(text):
    setting, value = REFUSED[text]
    message = refusal(text)
    assert setting in message and value in message


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_is_one_sentence(text):
    message = refusal(text)
    assert "\n" not in message and not message.endswith(".") and len(message) < 250


def test_no_memory_needs_no_slots():
    assert WMGSettings(memory="none", slots=0, memo_size=0).slots == 0


def test_each_run_has_its_own_numbers_where_they_vary():
    first, second = EVERYTHING.hypers()
    assert first == dataclasses.replace(EVERYTHING.hyper, learning_rate=1e-3, entropy=0.0)
    assert second == dataclasses.replace(EVERYTHING.hyper, learning_rate=1e-4, entropy=0.1)


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().steps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("folder", "kind", "setting"),
    [
        *(("agents.wmg", "WMG", setting) for setting in ("memory", "start", "age")),
        *(("envs.babyai", "BabyAI", setting) for setting in ("level", "observation", "reward")),
        ("envs.sokoban", "Sokoban", "observation"),
    ],
)
def test_a_misspelt_choice_is_refused_in_python_too(folder, kind, setting):
    # In a process of its own, without the type checks that these tests run under.
    code = f"from wmg.{folder}.settings import *; {kind}Settings({setting}='memo')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"wmg.tools.errors.BadInput: {setting} must be one of '")
    assert last.endswith("got 'memo'")


def test_a_truth_value_is_not_a_size():
    with pytest.raises(BadInput, match=r"pattern must be a whole number .* got True"):
        PathfindingSettings(pattern=True)


def test_all_episodes_may_be_asked_for():
    assert read('{"goal": {"success": 1}}').goal == config.Goal(1.0)
    assert read('{"goal": null}').goal is None


def test_a_truth_value_is_not_a_share():
    # In a process of its own, without the type checks that these tests run under.
    code = "from wmg.config import Goal; Goal(1); Goal(True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "wmg.tools.errors.BadInput: success must be a number above 0 and at most 1, got True"
    )


@dataclasses.dataclass(frozen=True)
class Needy:
    """Settings with one field that has no default."""

    wanted: int
    other: int = 2


def test_what_has_no_default_must_be_there():
    assert config.from_dict(Needy, {"wanted": 1}) == Needy(1)
    with pytest.raises(BadInput, match="needy lacks wanted"):
        config.from_dict(Needy, {"other": 3}, "needy")


def test_precision_in_the_form_of_version_0_1_means_what_it_meant():
    """There, float32 was left to JAX, whose default on GPUs is TF32."""
    for old, new in (("float32", "tf32"), ("bfloat16", "bfloat16")):
        data = config.to_dict(Config(batched=config.Batched(envs=4)))
        data["batched"]["precision"] = old
        del data["precision"]
        found = config.from_dict(Config, data)
        assert found == Config(batched=config.Batched(envs=4), precision=new)
    assert config.from_dict(Config, {}).precision == "float32"


def test_a_precision_that_is_given_wins_over_the_old_form_and_a_wrong_one_is_refused():
    data = {"precision": "float32", "batched": {"envs": 4, "precision": "bfloat16"}}
    assert config.from_dict(Config, data).precision == "float32"
    with pytest.raises(BadInput, match=r"precision must be one of 'float32', 'tf32', 'bfloat16'"):
        config.from_dict(Config, {"batched": {"envs": 4, "precision": "float64"}})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"precision": "bfloat16"}, "batched.envs must be more than 1 for bfloat16, got 1"),
        (
            {"goal": config.Goal(grids=(30,)), "report_every": 25},
            r"goal.grids must be multiples of report_every = 25, got \(30,\)",
        ),
        ({"goal": config.Goal(grids=(25,)), "report_every": 25}, "goal.grids must be multiples"),
        (
            {"goal": config.Goal(grids=(30,)), "report_every": 15},
            "report_every must be at least 16, the steps of an update, for a goal with grids",
        ),
        (
            {
                "goal": config.Goal(grids=(200,)),
                "report_every": 100,
                "batched": config.Batched(envs=16, windows=2),
            },
            "report_every must be at least 512, the steps of an update",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, complaint):
    with pytest.raises(BadInput, match=complaint):
        Config(**changes)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("goal", True, "goal must be of type wmg.config.Goal | None, got True"),
        ("env", "pathfinding", "env must be of type wmg.settings.EnvSettings | None, got 'path"),
        ("agent", "wmg", "agent must be of type AgentSettings, got 'wmg'"),
        ("batched", 16, "batched must be of type Batched, got 16"),
        ("hyper", {}, "hyper must be of type Hyper, got {}"),
    ],
)
def test_what_is_no_settings_is_refused(name, value, complaint):
    some = Config()
    object.__setattr__(some, name, value)  # the tests check the types of arguments
    with pytest.raises(BadInput) as refused:
        some.__post_init__()
    assert complaint in str(refused.value)


@pytest.mark.parametrize("where", ["hyper", "batched", "goal"])
def test_a_number_that_no_float_can_hold_is_refused(where):
    name = {"hyper": "discount", "batched": "clip", "goal": "success"}[where]
    with pytest.raises(BadInput, match=f"config.{where}.{name} must be a finite number, got 1000"):
        config.from_dict(Config, {where: {name: 10**400}})
