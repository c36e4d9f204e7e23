"""The authors' files: models without PyTorch, settings, and the names of weights."""

import dataclasses
import io
import os
import pathlib
import pickle
import struct
import zipfile
from typing import Any

import jax
import numpy as np
import pytest

from wmg import agents, config, experiments
from wmg.config import BadInput
from wmg.interop import official, official_settings, torch_file
from wmg.types import EnvSpec, ObservationSpec, count_parameters

RELEASED = pathlib.Path(__file__).resolve().parents[3] / "shared/data/wmg_pathfinding.pth"
TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.bias": np.array([0.5, -1.0], np.float32),
    "count": np.array([7], np.int64),
}
STORAGE = {np.dtype("f4"): b"FloatStorage", np.dtype("i8"): b"LongStorage"}


def number(value):
    return b"J" + struct.pack("<i", value)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def numbers(values):
    return b"(" + b"".join(number(value) for value in values) + b"t"


def tensor_code(key, array, *, shape=None, strides=None, offset=0):
    """Opcodes that make a tensor, as PyTorch writes them."""
    strides = [s // array.itemsize for s in array.strides] if strides is None else strides
    storage = b"(" + text("storage") + b"ctorch\n" + STORAGE[array.dtype] + b"\n"
    storage += text(key) + text("cpu") + number(array.size) + b"tQ"
    place = number(offset) + numbers(array.shape if shape is None else shape)
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + place + numbers(strides) + hooks + b"tR"
    )


def state_code(entries):
    """A pickled OrderedDict with PyTorch's `_metadata` attribute."""
    body = b"".join(text(name) + code for name, code in entries.items())
    metadata = b"}" + text("_metadata") + b"}sb"
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + body + b"u" + metadata + b"."


def entries(tensors=TENSORS):
    return {name: tensor_code(str(i), a) for i, (name, a) in enumerate(tensors.items())}


def old_form(code, tensors=TENSORS):
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    head = [torch_file.MAGIC, torch_file.PROTOCOL, system]
    keys = [str(i) for i in range(len(tensors))]
    data = b"".join(pickle.dumps(item, 2) for item in head) + code + pickle.dumps(keys, 2)
    for array in tensors.values():
        data += struct.pack("<q", array.size) + array.tobytes()
    return data


def zip_form(code, tensors=TENSORS, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("model/data.pkl", code)
        for i, array in enumerate(tensors.values()):
            archive.writestr(f"model/data/{i}", array.tobytes())
    return file.getvalue()


def read(folder, data):
    path = folder / "model.pth"
    path.write_bytes(data)
    return torch_file.read_pth(path)


def assert_refused(folder, data, reason=""):
    with pytest.raises(BadInput) as error:
        read(folder, data)
    message = str(error.value)
    assert "model.pth" in message and reason in message and "\n" not in message


FORMS = pytest.mark.parametrize("form", [old_form, zip_form])


@FORMS
def test_a_state_dict_is_read(tmp_path, form):
    tensors = read(tmp_path, form(state_code(entries())))
    assert list(tensors) == list(TENSORS)
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(tensors[name], array)


@FORMS
def test_a_transposed_tensor_is_read(tmp_path, form):
    array = TENSORS["a.weight"]
    code = state_code({"t": tensor_code("0", array, shape=(3, 2), strides=(1, 3))})
    tensors = {"t": array}
    np.testing.assert_array_equal(read(tmp_path, form(code, tensors))["t"], array.T)


class Exploit:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@FORMS
@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_an_exploit_is_refused_and_nothing_runs(tmp_path, form, protocol):
    trace = tmp_path / "trace"
    for exploit in (
        Exploit(os.system, f"touch {trace}"),
        Exploit(eval, f"open({str(trace)!r}, 'w')"),
        Exploit(os.mkdir, str(trace)),
    ):
        assert_refused(tmp_path, form(pickle.dumps({"a": exploit}, protocol)))
        assert_refused(tmp_path, pickle.dumps(exploit, protocol))
    assert not trace.exists()


def test_the_refusal_names_what_an_exploit_asks_for(tmp_path):
    code = pickle.dumps({"a": Exploit(eval, "1")}, 2)
    assert_refused(tmp_path, old_form(code), "eval")


@FORMS
@pytest.mark.parametrize(
    "place",
    [
        {"offset": 1},
        {"offset": -1},
        {"shape": (2, 4)},
        {"shape": (2, 3), "strides": (4, 1)},
        {"shape": (2, 3), "strides": (-3, 1)},
        {"shape": (2, 3), "strides": (3,)},
        {"shape": (2**30, 2**30), "strides": (0, 0)},
        {"shape": (0, 3), "strides": (3, 1)},
        {"shape": (1,) * 40, "strides": (1,) * 40},
    ],
)
def test_a_tensor_outside_its_storage_is_refused(tmp_path, form, place):
    array = TENSORS["a.weight"]
    code = state_code({"t": tensor_code("0", array, **place)})
    assert_refused(tmp_path, form(code, {"t": array}))


@FORMS
def test_a_storage_larger_than_the_file_is_refused(tmp_path, form):
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**30,), (0,))
    code = state_code({"t": tensor_code("0", huge)})
    assert_refused(tmp_path, form(code, {"t": np.zeros(4, np.float32)}))


@FORMS
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path, form):
    whole = form(state_code(entries()))
    for size in range(0, len(whole) - 1, 7):
        assert_refused(tmp_path, whole[:size])


@FORMS
def test_a_damaged_file_is_read_or_refused_but_nothing_else(tmp_path, form):
    whole = form(state_code(entries()))
    draw = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        data[draw.integers(len(data))] = draw.integers(256)
        try:
            read(tmp_path, bytes(data))
        except BadInput as error:
            assert "\n" not in str(error)


def test_foreign_files_are_refused(tmp_path):
    assert_refused(tmp_path, b"")
    assert_refused(tmp_path, b"LEARNING_RATE = 0.1\n")
    assert_refused(tmp_path, pickle.dumps({"a": 1}, 2), "does not begin as one")
    assert_refused(tmp_path, old_form(pickle.dumps({"a": 1}, 2)), "'a' is not a tensor")
    assert_refused(tmp_path, b"\x80\x02" + b")" + b"\x85" * 100_000 + b".")
    assert_refused(
        tmp_path,
        zip_form(state_code(entries()), compression=zipfile.ZIP_DEFLATED),
        "compressed",
    )
    with pytest.raises(BadInput, match=r"nowhere\.pth"):
        torch_file.read_pth(tmp_path / "nowhere.pth")
    with pytest.raises(BadInput):
        torch_file.read_pth(tmp_path)


def test_a_written_file_is_read_back_or_torch_is_asked_for(tmp_path):
    path = tmp_path / "out.pth"
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(BadInput, match=r"needs torch: pip install 'wmg\[official\]'"):
            torch_file.write_pth(path, TENSORS)
        assert not path.exists()
        return
    torch_file.write_pth(path, TENSORS)
    ours, theirs = torch_file.read_pth(path), torch.load(path, weights_only=True)
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(ours[name], array)
        np.testing.assert_array_equal(theirs[name].numpy(), array)
    with pytest.raises(BadInput, match="cannot be written"):
        torch_file.write_pth(tmp_path / "no" / "out.pth", TENSORS)


SMALL: dict[str, Any] = {
    "layers": 2,
    "heads": 2,
    "head_size": 4,
    "hidden": 3,
    "actor_critic": 5,
}
SECOND: dict[str, Any] = {"shared_heads": True, "start": "empty", "age": "added"}
AGENTS = {
    "first": config.WMG(slots=3, memo_size=6, **SMALL),
    "second": config.WMG(slots=3, memo_size=6, **SMALL, **SECOND),
    "history": config.WMG(memory="observations", slots=3, memo_size=0, **SMALL),
    "gru": config.GRU(embedding=4, size=3, actor_critic=5),
}


def make_agent(settings, factors=(), core=7, seed=0) -> Any:
    spec = EnvSpec(ObservationSpec(core, factors), 4, 10, "reward")
    values = {k: v for k, v in config.to_dict(settings).items() if k != "name"}
    return agents.make(settings.name, values, spec, jax.random.key(seed))


@pytest.mark.parametrize("name", AGENTS)
def test_export_and_import_are_inverse(name):
    agent, other = make_agent(AGENTS[name]), make_agent(AGENTS[name], seed=1)
    weights = official.export_weights(agent)
    assert sum(array.size for array in weights.values()) == count_parameters(agent)
    back = official.import_weights(other, weights)
    assert jax.tree.structure(back) == jax.tree.structure(agent)
    for mine, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(agent), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", AGENTS)
def test_shapes_tell_the_agent(name):
    weights = official.export_weights(make_agent(AGENTS[name]))
    assert official.infer_agent(weights, heads=2) == AGENTS[name]


@pytest.mark.parametrize("name", ["first", "second"])
def test_factors_are_found_in_the_weights(name):
    agent = make_agent(AGENTS[name], factors=(("factor", 2, 9),))
    weights = official.export_weights(agent)
    assert official.observation_spec(weights) == ObservationSpec(7, (("factor", 1, 9),))
    built: Any = official.build_agent(AGENTS[name], weights)
    np.testing.assert_array_equal(
        built.factor_embeddings["factor"].weight, agent.factor_embeddings["factor"].weight
    )


def test_wrong_weights_are_refused_by_name():
    agent = make_agent(AGENTS["first"])
    weights = official.export_weights(agent)
    name = "tfm.layers.1.attention.key.layer.weight"
    with pytest.raises(BadInput, match=rf"{name} has shape \(8, 9\), expected \(8, 8\)"):
        official.import_weights(agent, weights | {name: np.zeros((8, 9), np.float32)})
    with pytest.raises(BadInput, match=f"{name} must hold real numbers"):
        official.import_weights(agent, weights | {name: np.zeros((8, 8), np.int64)})
    with pytest.raises(BadInput, match=r"more\.bias"):
        official.import_weights(agent, weights | {"more.bias": np.zeros(1)})
    del weights[name]
    with pytest.raises(BadInput, match=rf"no {name}, expected of shape \(8, 8\)"):
        official.import_weights(agent, weights)


def test_heads_must_be_given_and_fit():
    weights = official.export_weights(make_agent(AGENTS["first"]))
    for heads in (None, 0, 3):
        with pytest.raises(BadInput, match="heads"):
            official.infer_agent(weights, heads)


def test_foreign_weights_are_refused():
    with pytest.raises(BadInput, match="not a model of the authors"):
        official.infer_agent(TENSORS, 2)


def test_what_the_authors_code_would_run_differently_is_not_exported():
    settings = config.WMG(slots=3, memo_size=6, **SMALL, shared_heads=True)
    with pytest.raises(BadInput, match="shared_heads"):
        official.export_weights(make_agent(settings))
    with pytest.raises(BadInput, match="without a memory"):
        official.export_weights(make_agent(config.WMG(memory="none", **SMALL)))
    two = (("door", 1, 2), ("key", 1, 3))
    with pytest.raises(BadInput, match="door, key"):
        official.export_weights(make_agent(AGENTS["first"], factors=two))
    with pytest.raises(BadInput, match="Random"):
        official.export_weights(make_agent(config.Random()))


TEXT = """# What to do
TYPE_OF_RUN = train  # train, test
ENV = Pathfinding_Env
NUM_PATTERNS = 13
AGENT_NET = WMG_Network
WEIGHT_DECAY = 0.

A3C_T_MAX = 8
LEARNING_RATE = 0.00016
DISCOUNT_FACTOR = 0.5
GRADIENT_CLIP = 16
ENTROPY_TERM_STRENGTH = 0.01
ADAM_EPS = 1e-06
REWARD_SCALE = 2.0
WMG_MAX_OBS = 0
WMG_MAX_MEMOS = 3
WMG_MEMO_SIZE = 6
WMG_NUM_LAYERS = 2
WMG_NUM_ATTENTION_HEADS = 2
WMG_ATTENTION_HEAD_SIZE = 4
WMG_HIDDEN_SIZE = 3
AC_HIDDEN_LAYER_SIZE = 5
"""


def test_settings_are_understood():
    experiment = official_settings.config_from_settings(official_settings.parse_settings(TEXT))
    assert experiment == config.Config(
        env=config.Pathfinding(nodes=13),
        agent=AGENTS["first"],
        hyper=config.Hyper(learning_rate=1.6e-4, grad_clip=16.0, adam_eps=1e-6),
        t_max=8,
    )


BABYAI = """
ENV = BabyAI_Env
REPORTING_INTERVAL = 1000
TOTAL_STEPS = 80000
AGENT_NET = WMG_Network
V2 = False
BABYAI_ENV_LEVEL = BabyAI-GoToLocal-v0
USE_SUCCESS_RATE = True
SUCCESS_RATE_THRESHOLD = 0.99
HELDOUT_TESTING = True
NUM_TEST_EPISODES = 10000
OBS_ENCODER = Factored
BINARY_REWARD = True
A3C_T_MAX = 6
LEARNING_RATE = 6.3e-05
DISCOUNT_FACTOR = 0.5
GRADIENT_CLIP = 512.0
ENTROPY_TERM_STRENGTH = 0.1
ADAM_EPS = 1e-12
REWARD_SCALE = 32.0
WMG_MAX_OBS = 0
WMG_MAX_MEMOS = 8
WMG_MEMO_SIZE = 32
WMG_NUM_LAYERS = 4
WMG_NUM_ATTENTION_HEADS = 2
WMG_ATTENTION_HEAD_SIZE = 128
WMG_HIDDEN_SIZE = 32
AC_HIDDEN_LAYER_SIZE = 2048
"""


def read_babyai(*change):
    text = BABYAI.replace(*change) if change else BABYAI
    return official_settings.config_from_settings(official_settings.parse_settings(text))


def test_the_released_settings_of_level_4_are_the_papers():
    preset = experiments.PRESETS["babyai/level4/wmg-factored"]
    assert read_babyai() == dataclasses.replace(preset, steps=80_000)


def test_settings_for_testing_alone_have_no_goal():
    assert read_babyai("HELDOUT_TESTING = True", "HELDOUT_TESTING = False").goal is None


def test_the_authors_level_2_is_the_one_with_boxes():
    env = read_babyai("GoToLocal", "GoToRedBallGrey").env
    assert env == config.BabyAI("GoToRedBallGreyBoxes")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("GoToLocal", "GoToSeq"), "BABYAI_ENV_LEVEL must be one of BabyAI-GoToObj-v0,"),
        (("= Factored", "= Raw"), "OBS_ENCODER must be one of Factored, Flat,"),
        (("OBS_ENCODER = Factored", ""), "OBS_ENCODER must be one of"),
        (("BINARY_REWARD = True", "BINARY_REWARD = 1"), "BINARY_REWARD must be True or False"),
        (("THRESHOLD = 0.99", "THRESHOLD = 99.0"), "success must be a number above 0"),
        (("NUM_TEST_EPISODES = 10000", ""), "the settings have no NUM_TEST_EPISODES"),
    ],
)
def test_settings_of_babyai_that_cannot_be_used_are_refused(change, reason):
    with pytest.raises(BadInput) as error:
        read_babyai(*change)
    assert reason in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("model", ["wmg-factored", "gru-factored", "wmg-flat", "gru-flat"])
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_presets_of_babyai_survive_a_round_trip(level, model):
    preset = experiments.PRESETS[f"babyai/level{level}/{model}"]
    settings = official_settings.settings_from_config(preset)
    assert official_settings.config_from_settings(settings) == preset


def test_rewards_and_missing_goals_survive_a_round_trip():
    changed = dataclasses.replace(
        read_babyai(), env=config.BabyAI("PickupLoc", "flat", "minigrid"), goal=None
    )
    settings = official_settings.settings_from_config(changed)
    assert official_settings.config_from_settings(settings) == changed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"env": config.BabyAI("GoToRedBallGrey")}, "cannot run GoToRedBallGrey as it is today"),
        ({"agent": config.CNNGRU()}, "has only the GRU and the WMG agent with a memory"),
        ({"agent": config.WMG("none", 0, 0)}, "has only the GRU and the WMG agent with a memory"),
    ],
)
def test_experiments_that_the_authors_code_cannot_run_are_refused(changes, reason):
    with pytest.raises(BadInput, match=reason):
        official_settings.settings_from_config(dataclasses.replace(read_babyai(), **changes))


SOKOBAN = """
ENV = Sokoban_Env
REPORTING_INTERVAL = 100000
TOTAL_STEPS = 20000000
ANNEAL_LR = True
ANNEALING_START = 10000000
LR_GAMMA = 0.98
AGENT_NET = WMG_Network
V2 = True
SOKOBAN_MAX_STEPS = 120
SOKOBAN_DIFFICULTY = unfiltered
SOKOBAN_SPLIT = train
SOKOBAN_ROOM_OVERRIDE = None
SOKOBAN_BOXES_REQUIRED = 4
SOKOBAN_OBSERVATION_FORMAT = factored
SOKOBAN_REWARD_PER_STEP = 0.
SOKOBAN_REWARD_SUCCESS = 2.
A3C_T_MAX = 4
LEARNING_RATE = 1.6e-05
DISCOUNT_FACTOR = 0.995
GRADIENT_CLIP = 512.0
ENTROPY_TERM_STRENGTH = 0.02
ADAM_EPS = 1e-10
REWARD_SCALE = 4.
WEIGHT_DECAY = 0.
WMG_MAX_OBS = 0
WMG_MAX_MEMOS = 1
WMG_MEMO_SIZE = 2048
WMG_NUM_LAYERS = 10
WMG_NUM_ATTENTION_HEADS = 8
WMG_ATTENTION_HEAD_SIZE = 32
WMG_HIDDEN_SIZE = 8
AC_HIDDEN_LAYER_SIZE = 2880
"""


def read_sokoban(*change):
    text = SOKOBAN.replace(*change) if change else SOKOBAN
    return official_settings.config_from_settings(official_settings.parse_settings(text))


def test_the_released_settings_of_sokoban_are_the_papers():
    preset = experiments.PRESETS["sokoban/wmg"]
    env = dataclasses.replace(preset.env, levels="unfiltered-train", cells=None)
    assert read_sokoban() == dataclasses.replace(preset, env=env)


def test_settings_of_sokoban_survive_a_round_trip():
    paid = (-0.01, 1.0, -1.0, 5.0)
    change = config.Sokoban("medium-valid", "planes", max_steps=240, rewards=paid)
    for env in (read_sokoban().env, change):
        experiment = dataclasses.replace(read_sokoban(), env=env)
        settings = official_settings.settings_from_config(experiment)
        assert official_settings.config_from_settings(settings) == experiment


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("= unfiltered", "= hard"), "must be one of unfiltered train, .*, got hard train"),
        (("OVERRIDE = None", "OVERRIDE = 3"), "SOKOBAN_ROOM_OVERRIDE must be None, got 3"),
        (("REQUIRED = 4", "REQUIRED = 3"), "SOKOBAN_BOXES_REQUIRED must be 4, got 3"),
        (("= factored", "= pixels"), "SOKOBAN_OBSERVATION_FORMAT must be one of factored, grid"),
        (("SOKOBAN_MAX_STEPS = 120", ""), "the settings have no SOKOBAN_MAX_STEPS"),
    ],
)
def test_settings_of_sokoban_that_cannot_be_used_are_refused(change, reason):
    with pytest.raises(BadInput, match=reason):
        read_sokoban(*change)


@pytest.mark.parametrize(
    "change",
    [
        {"levels": "mine.txt"},
        {"observation": "rgb"},
        {"bound": 12},
        {"rewards": (0.0, 2.0, -1.0, 2.0)},
    ],
)
def test_sokoban_as_the_authors_code_cannot_run_it_is_refused(change):
    env = dataclasses.replace(read_sokoban().env, **change)
    with pytest.raises(BadInput, match="the authors' code cannot run Sokoban"):
        official_settings.settings_from_config(dataclasses.replace(read_sokoban(), env=env))


def test_a_cnn_gru_is_not_exported():
    spec = EnvSpec(ObservationSpec(2, image=(7, 7, 3)), 2, 1, "success")
    settings = config.CNNGRU((1, 1, 1), 1, 1, 1)
    agent = agents.make("cnn-gru", dataclasses.asdict(settings), spec, jax.random.key(0))
    with pytest.raises(BadInput, match=r"^the authors' code has no agent like CNNGRU$"):
        official.export_weights(agent)


@pytest.mark.parametrize("name", AGENTS)
def test_settings_survive_a_round_trip(name, tmp_path):
    hyper = config.Hyper(learning_rate=3.7e-5, anneal=0.9, anneal_every=500.0)
    experiment = config.Config(
        agent=AGENTS[name], hyper=hyper, t_max=3, steps=700, report_every=500
    )
    settings = official_settings.settings_from_config(experiment)
    path = tmp_path / "spec.txt"
    path.write_text(official_settings.format_settings(settings))
    read = official_settings.read_settings(path)
    assert official_settings.config_from_settings(read) == experiment


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("A3C_T_MAX = 8", "A3C_T_MAX = soon"), "A3C_T_MAX must be a whole number"),
        (("A3C_T_MAX = 8", "A3C_T_MAX = 8.5"), "A3C_T_MAX must be a whole number"),
        (("A3C_T_MAX = 8", ""), "no A3C_T_MAX"),
        (("A3C_T_MAX = 8", "A3C_T_MAX"), "is not NAME = value"),
        (("A3C_T_MAX = 8", "A3C_T_MAX = 8\nA3C_T_MAX = 9"), "a second time"),
        (("WEIGHT_DECAY = 0.", "WEIGHT_DECAY = 0.1"), "WEIGHT_DECAY must be off"),
        (("WMG_MAX_OBS = 0", "WMG_MAX_OBS = 4"), "must not both"),
        (("WMG_MAX_OBS = 0", "WMG_MAX_PLANS = 4"), "WMG_MAX_PLANS is not known"),
        (("WMG_MAX_OBS = 0", "V2 = 1"), "V2 must be True or False"),
        (("Pathfinding_Env", "Atari_Env"), "ENV must be"),
        (("WMG_Network", "LSTM_Network"), "AGENT_NET must be"),
        (("DISCOUNT_FACTOR = 0.5", "DISCOUNT_FACTOR = 5"), "discount must be at most 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(change, reason):
    with pytest.raises(BadInput) as error:
        text = TEXT.replace(*change)
        official_settings.config_from_settings(official_settings.parse_settings(text))
    assert reason in str(error.value) and "\n" not in str(error.value)


def test_a_model_that_does_not_fit_its_settings_is_refused_by_name(tmp_path):
    (tmp_path / "model.pth").write_bytes(old_form(state_code(entries())))
    (tmp_path / "spec.txt").write_text(TEXT)
    with pytest.raises(BadInput, match=r"model\.pth: the state dict has no"):
        official.load(tmp_path / "model.pth", tmp_path / "spec.txt")


def test_the_released_model_is_imported_whole():
    if not RELEASED.exists():
        pytest.skip("no shared folder beside the repository")
    experiment, agent = official.load(RELEASED, heads=6)
    assert experiment.agent == config.WMG()
    assert count_parameters(agent) == 132_507
    read = torch_file.read_pth(RELEASED)
    weights = official.export_weights(agent)
    assert set(read) == set(weights)
    assert all((read[name] == weights[name]).all() for name in read)
