"""Grids: the paper's, and those of users."""

import dataclasses
import json
import math

import pytest
from tiny import time_limit

from wmg import paper
from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.cli.options import parse
from wmg.cli.train import TrainOptions
from wmg.config import Config
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.tools.errors import BadInput
from wmg.tuner import space

SETTINGS = Config()
SHARED = {
    "t_max", "actor_critic", "adam_eps", "discount", "entropy", "grad_clip", "learning_rate",
    "reward_scale",
}  # fmt: skip
OF_WMG = {"head_size", "heads", "hidden", "layers"}


@pytest.mark.parametrize("agent, own", [
    (WMGSettings(), OF_WMG | {"slots", "memo_size"}),
    (WMGSettings("none", 0, 0), OF_WMG),
    (WMGSettings("observations"), OF_WMG),
    (GRUSettings(), {"embedding", "size"}),
    (CNNGRUSettings(), {"embedding", "size", "channels.1", "channels.2", "channels.3"}),
])  # fmt: skip
def test_each_agent_has_the_papers_hyperparameters(agent, own):
    assert space.paper_grid(Config(env=BabyAISettings(), agent=agent)).keys() == SHARED | own


def test_sokoban_has_its_rewards_too():
    grid = space.paper_grid(Config(env=SokobanSettings()))
    assert grid["rewards.1"] == [-0.02, -0.01, 0.0] and grid["rewards.4"] == [2, 5, 10, 15, 20]
    changed = space.apply(Config(env=SokobanSettings()), {"rewards.1": -0.01, "rewards.4": 5.0})
    assert changed.env == SokobanSettings(rewards=(-0.01, 1.0, -1.0, 5.0))


def test_the_paper_counts_of_values_are_complete():
    counts = {name: len(values) for name, values in space.PAPER.items()}
    assert counts == {
        "t_max": 19, "actor_critic": 14, "adam_eps": 6, "channels.1": 3, "channels.2": 3,
        "channels.3": 3, "discount": 10, "entropy": 8, "grad_clip": 11, "embedding": 6, "size": 9,
        "learning_rate": 11, "anneal": 10, "rewards.1": 3, "rewards.4": 5, "reward_scale": 10,
        "head_size": 13, "heads": 10, "memo_size": 13, "slots": 10, "hidden": 14, "layers": 13,
    }  # fmt: skip
    assert all(values == sorted(values) for values in space.PAPER.values())


PRESETS = {
    name: settings
    for name, settings in paper.PRESETS.items()
    if not name.startswith("babyai-sensitivity")
}


OTHERS = ("sokoban/drc", *(f"babyai/level{level}/baseline" for level in range(1, 6)))
"""Of agents whose settings others published."""


KINDS = {
    (type(settings.env), settings.agent.name, getattr(settings.agent, "memory", None)): preset
    for preset, settings in PRESETS.items()
}


@pytest.mark.parametrize("preset", KINDS.values())
def test_every_value_of_the_papers_grid_is_a_setting_of_that_agent(preset):
    space.check(PRESETS[preset], space.paper_grid(PRESETS[preset]))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name not in OTHERS])
def test_the_settings_that_the_paper_found_are_on_its_grid(preset):
    grid = space.paper_grid(PRESETS[preset])
    for name, value in space.current(PRESETS[preset], list(grid)).items():
        assert value in grid[name], f"{name} {value}"


def test_values_are_applied_and_read_back():
    values = {"t_max": 8, "heads": 3, "learning_rate": 1e-5, "discount": 1}
    changed = space.apply(SETTINGS, values)
    assert (changed.t_max, changed.agent.heads, changed.hyper.learning_rate) == (8, 3, 1e-5)
    assert isinstance(changed.hyper.discount, float)
    assert space.current(changed, list(values)) == values
    same = dataclasses.replace(changed, t_max=16, agent=SETTINGS.agent, hyper=SETTINGS.hyper)
    assert same == SETTINGS


def test_options_name_every_value_once():
    cnn = Config(env=BabyAISettings(observation="image"), agent=CNNGRUSettings())
    changed = space.apply(cnn, {"channels.1": 12, "channels.3": 64, "entropy": 0.1})
    words = space.options(changed, ["channels.1", "channels.3", "entropy", "t_max"])
    assert words == [
        "--agent.channels", "12", "40", "64", "--hyper.entropy", "0.1", "--t-max", "16",
    ]  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_the_command_line_reads_the_options_of_a_setting_that_is_true_or_false(shared):
    changed = space.apply(SETTINGS, {"shared_heads": shared, "learning_rate": 1e-5})
    words = space.options(changed, ["shared_heads", "learning_rate"])
    other = space.apply(SETTINGS, {"shared_heads": not shared})
    assert parse(TrainOptions, words, "wmg train", config=other) == TrainOptions(changed)


def test_numbers_of_the_learning_rule_are_no_shapes():
    names = list(space.paper_grid(SETTINGS))
    assert set(space.shapes(names)) == {"t_max", "actor_critic", "slots", "memo_size"} | OF_WMG


def test_a_subset_is_chosen_by_name_and_keeps_that_order():
    grid = space.choose(SETTINGS, ["layers", "entropy", "anneal"], None)
    assert list(grid) == ["layers", "entropy", "anneal"] and grid["layers"] == list(range(1, 14))


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_grid_of_ones_own_is_read_from_a_file(tmp_path, suffix):
    path = tmp_path / f"grid{suffix}"
    grid = {"learning_rate": [0.0001, 0.001], "layers": [1, 2], "start": ["full", "empty"]}
    lines = [f"{name} = {json.dumps(values)}" for name, values in grid.items()]
    path.write_text(json.dumps(grid) if suffix == ".json" else "\n".join(lines))
    assert space.choose(SETTINGS, [], path) == grid
    assert space.choose(SETTINGS, ["layers"], path) == {"layers": [1, 2]}


BAD = {
    "unordered": ({"layers": [1, 3, 2]}, "the values of layers must ascend, got [1, 3, 2]"),
    "twice": ({"layers": [1, 1]}, "the values of layers must ascend, got [1, 1]"),
    "same words": ({"start": ["full", "full"]}, "the values of start must all be different"),
    "empty": ({"layers": []}, "layers needs a list of at least one value, got []"),
    "no list": ({"layers": 3}, "layers needs a list of at least one value, got 3"),
    "mixed": ({"layers": [1, "two"]}, "the values of layers must be of one type"),
    "truth among numbers": ({"layers": [True, 2]}, "the values of layers must be of one type"),
    "wrong type": (
        {"layers": ["one", "two"]},
        "'one' is no value for layers: config.agent.layers",
    ),
    "half a layer": (
        {"layers": [1, 1.5]},
        "1.5 is no value for layers: config.agent.layers",
    ),
    "too low": ({"layers": [0, 1]}, "0 is no value for layers: layers must be a whole number"),
    "too high": ({"discount": [0.9, 1.1]}, "1.1 is no value for discount: discount must be at"),
    "infinite": ({"entropy": [0.1, math.inf]}, "inf is no value for entropy"),
    "choice": (
        {"start": ["fill"]},
        "'fill' is no value for start: config.agent.start must",
    ),
    "name": ({"layer": [1]}, "'layer' is no setting of wmg, of its environment or of training"),
    "another agent's": ({"embedding": [8]}, "'embedding' is no setting of wmg"),
    "place": ({"layers.1": [1]}, "'layers.1' is no setting of wmg"),
    "nothing": ({}, "must hold a list of values for each hyperparameter"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_grid_is_one_sentence(what, tmp_path):
    grid, sentence = BAD[what]
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(grid))
    with pytest.raises(BadInput) as error:
        space.choose(SETTINGS, [], path)
    assert sentence in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name, text, sentence", [
    ("grid.json", "{", "is not JSON"), ("grid.toml", "a = [", "is not TOML"),
    ("grid.toml", b"\xff\xfe", "is not TOML"), ("none.toml", None, "there is no grid file"),
])  # fmt: skip
def test_a_file_that_is_no_grid_is_one_sentence(tmp_path, name, text, sentence):
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadInput, match=sentence):
        space.choose(SETTINGS, [], tmp_path / name)


def test_names_that_the_grid_has_not_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"the grid has no 'wings'; it has t_max, actor_critic,"):
        space.choose(SETTINGS, ["wings"], None)
    path = tmp_path / "grid.json"
    path.write_text('{"layers": [1, 2]}')
    with pytest.raises(BadInput, match="the grid has no 'heads'; it has layers"):
        space.choose(SETTINGS, ["heads"], path)


def test_a_grid_file_is_not_read_beyond_a_megabyte(tmp_path):
    with open(tmp_path / "grid.toml", "wb") as file:
        file.truncate(1 << 40)
    with time_limit(5), pytest.raises(BadInput, match="more than 1,000,000 bytes"):
        space.choose(SETTINGS, [], tmp_path / "grid.toml")


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_value_that_no_float_can_hold_is_refused(tmp_path, suffix):
    path, values = tmp_path / f"grid{suffix}", f"[0.1, 1{'0' * 400}]"
    path.write_text(f'{{"entropy": {values}}}' if suffix == ".json" else f"entropy = {values}")
    with pytest.raises(BadInput, match=r"more than 19 digits|must be a finite number"):
        space.choose(SETTINGS, [], path)
