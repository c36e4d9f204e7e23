import json
import random
import shutil
import zlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import own
import pytest
import safetensors.numpy
import tiny
from small_boxoban import small_boxoban  # noqa: F401
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import registry
from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import checkpoint, models, runfolder, task, train
from wmg.tools import files
from wmg.tools.errors import BadInput


def model(settings):
    env = registry.make_env(settings.env)
    return registry.make_agent(settings.agent, env.spec, jax.random.key(3))


@pytest.fixture
def file(tmp_path):
    """A model in release form."""
    some = tiny.settings()
    checkpoint.save_model(tmp_path / "model.safetensors", model(some), some, run=2)
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    "agent",
    [
        tiny.AGENT,
        WMGSettings(memory="observations", slots=2, layers=1, heads=1, head_size=4),
        WMGSettings(memory="none", layers=1, heads=1, age="added", shared_heads=True),
        GRUSettings(embedding=4, size=5, actor_critic=6),
    ],
)
def test_a_model_comes_back_bit_for_bit(tmp_path, agent):
    some = tiny.settings(agent=agent, seed=4, vary=("entropy=0.5",))
    before = model(some)
    checkpoint.save_model(tmp_path / "m.safetensors", before, some)
    after, settings = checkpoint.load_model(tmp_path / "m.safetensors")
    assert settings == some and eqx.tree_equal(after, before)


def test_a_model_of_16_bits_is_half_as_large_and_nearly_the_same(file, tmp_path):
    some, half = tiny.settings(), tmp_path / "half.safetensors"
    before = model(some)
    checkpoint.save_model(half, checkpoint.to_half(before), some)
    after, _ = checkpoint.load_model(half)
    for short, long in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        assert short.dtype == np.float32
        np.testing.assert_allclose(short, long, rtol=1e-3, atol=1e-7)
    stored = safetensors.numpy.load_file(half)
    assert {array.dtype for array in stored.values()} == {np.dtype(np.float16)}


def test_a_weight_too_large_for_16_bits_is_refused():
    large = jax.tree.map(lambda x: x + 1e5, model(tiny.settings()))
    with pytest.raises(BadInput, match="too large"):
        checkpoint.to_half(large)


def test_whole_numbers_of_an_agent_are_not_halved():
    class Counting(own.Gazer):
        weight: jax.Array
        count: jax.Array

    halved = checkpoint.to_half(Counting(jnp.ones(2), jnp.arange(3)))
    assert halved.weight.dtype == np.float16 and halved.count.dtype == np.int32


def test_a_released_model_has_the_runs_weights_and_nothing_else(tmp_path):
    best = safetensors.numpy.load_file(tiny.trained() / runfolder.BEST)
    header = checkpoint.read_header(tiny.trained() / runfolder.BEST, "release")
    whole = {n: x[header["run"]] for n, x in tiny.arrays(tiny.trained()).items()}
    weights = {n.removeprefix("agent."): x for n, x in whole.items() if "agent." in n}
    assert tiny.differing(best, weights) == []


def test_the_whole_of_all_runs_comes_back_bit_for_bit(tmp_path):
    like = shapes_of_runs()
    state = runfolder.load_state(tiny.trained(), like)
    assert state is not None
    runs, header = state
    assert header["reports"] == 10 and len(header["logs"]) == 2
    about = {name: header[name] for name in ("reports", "seconds", "logs")}
    checkpoint.save(tmp_path / "state.safetensors", runs, "resume", about)
    assert tiny.differing(tiny.arrays(tmp_path), tiny.arrays(tiny.trained())) == []
    again, _ = checkpoint.load(tmp_path / "state.safetensors", like, "resume")
    assert again.steps.tolist() == [480, 480] and again.key.dtype == runs.key.dtype


def rewrite(path, change):
    """The file with a changed header and a fitting checksum."""
    with safetensors.safe_open(path, framework="numpy") as data:
        header = json.loads(data.metadata()["wmg"])
    arrays = safetensors.numpy.load_file(path)
    change(header, arrays)
    if "checksum" in header:
        del header["checksum"]
        header["checksum"] = checkpoint._checksum(arrays, header)
    metadata = {"wmg": json.dumps(header)}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=metadata))


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_foreign(path):
    arrays = {"weight": np.ones((2, 3), np.float32)}
    path.write_bytes(safetensors.numpy.save(arrays))


def change_shape(header, arrays):
    arrays["core_embedding.weight"] = np.zeros((8, 14), np.float32)


def change_type(header, arrays):
    arrays["core_embedding.weight"] = arrays["core_embedding.weight"].view(np.int32)


BAD_FILES = {
    "cut in half": (cut_in_half, "damaged"),
    "empty": (lambda p: p.write_bytes(b""), "damaged or not a wmg file"),
    "text": (lambda p: p.write_text("weights\nand more\n" * 99), "damaged or not a wmg file"),
    "foreign": (make_foreign, "was not written by wmg"),
    "metadata of others": (
        lambda p: p.write_bytes(safetensors.numpy.save({}, metadata={"wmg": "[1]"})),
        "was not written by wmg",
    ),
    "newer": (
        lambda p: rewrite(p, lambda h, _: h.update(version=3)),
        "has format version 3; this wmg reads 1 to 2",
    ),
    "a version that never was": (
        lambda p: rewrite(p, lambda h, _: h.update(version=0)),
        "has format version 0; this wmg reads 1 to 2",
    ),
    "another form": (
        lambda p: shutil.copy(tiny.trained() / runfolder.STATE, p),
        "holds the state of runs, not one model",
    ),
    "other shapes": (
        lambda p: rewrite(p, change_shape),
        "core_embedding.weight has shape (8, 14), expected (8, 15)",
    ),
    "other types": (
        lambda p: rewrite(p, change_type),
        "core_embedding.weight has type int32, expected float32",
    ),
    "a weight that is no number": (
        lambda p: rewrite(p, lambda _, a: a["core_embedding.bias"].fill(np.nan)),
        "has weights that are not finite: core_embedding.bias",
    ),
    "an infinite weight": (
        lambda p: rewrite(p, lambda _, a: a["core_embedding.bias"].fill(-np.inf)),
        "has weights that are not finite: core_embedding.bias",
    ),
    "another array": (
        lambda p: rewrite(p, lambda _, a: a.update(extra=np.zeros(1, np.float32))),
        "extra is missing or not expected",
    ),
    "a missing array": (
        lambda p: rewrite(p, lambda _, a: a.pop("core_embedding.bias")),
        "core_embedding.bias is missing or not expected",
    ),
    "no config": (lambda p: rewrite(p, lambda h, _: h.pop("config")), "must be a JSON object"),
    "absurd config": (
        lambda p: rewrite(p, lambda h, _: h["config"]["agent"].update(heads=-1)),
        "heads must be a whole number",
    ),
    "no checksum": (lambda p: rewrite(p, lambda h, _: h.pop("checksum")), "checksum"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence(file, capsys, kind):
    harm, sentence = BAD_FILES[kind]
    harm(file)
    with pytest.raises(BadInput, match=r"^[^\n]*$") as caught:
        checkpoint.load_model(file)
    assert sentence in str(caught.value) and str(file) in str(caught.value)
    code, out, err = tiny.command(capsys, "eval", file)
    assert (code, out, err) == (2, "", f"wmg: {caught.value}\n")


def test_every_flipped_bit_is_noticed(file):
    whole = file.read_bytes()
    draw = random.Random(5)
    places = [*range(8), *(draw.randrange(8, len(whole)) for _ in range(150))]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << draw.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(BadInput, match=str(file)):
            checkpoint.load_model(file)


OLD_FORM = models.shipped()["pathfinding-wmg"]
"""A file of format version 1, of 32 bits."""
OLD_HALF = models.shipped()["babyai-level1-wmg"]
"""A file of format version 1, of 16 bits."""


def rewrite_table(path, change):
    """The file with another table of arrays: names, types, shapes and places."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    table = json.loads(data[8:start])
    change(table)
    text = json.dumps(table).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[start:])


@pytest.mark.parametrize(
    "source, kinds",
    [(None, ("I32", "U32")), (OLD_FORM, ("I32", "U32")), (OLD_HALF, ("I16", "U16", "BF16"))],
)
def test_a_changed_type_is_noticed(file, capsys, source, kinds):
    whole = (source or file).read_bytes()
    for name in sorted(safetensors.numpy.load(whole))[::6]:
        for kind in kinds:
            file.write_bytes(whole)
            rewrite_table(file, lambda table, n=name, k=kind: table[n].update(dtype=k))
            wrong = f"{name} has type .*, expected float32" if source else "checksum does not match"
            with pytest.raises(BadInput, match=wrong):
                checkpoint.load_model(file)
    code, out, err = tiny.command(capsys, "eval", file)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("old", [False, True])
def test_a_changed_type_of_a_saved_run_is_noticed(tmp_path, old):
    folder = shutil.copytree(tiny.trained(), tmp_path / "run")
    if old:
        to_old_form(folder / runfolder.STATE)
    names = ["agent.core_embedding.weight", "steps", "key"]
    for name, kind in zip(names, ["I32", "U32", "F32"], strict=True):
        shutil.copy(folder / runfolder.STATE, tmp_path / "state")
        rewrite_table(tmp_path / "state", lambda table, n=name, k=kind: table[n].update(dtype=k))
        wrong = f"{name} has type" if old else "checksum does not match"
        with pytest.raises(BadInput, match=wrong):
            checkpoint.load(tmp_path / "state", shapes_of_runs(), "resume")


def shapes_of_runs():
    """What the state of the trained folder must look like."""
    some = tiny.settings(runs=2)
    return jax.eval_shape(lambda: task.start_runs(some, registry.make_env(some.env)))


def test_a_changed_shape_is_noticed_by_the_checksum(file):
    rewrite_table(file, lambda table: table["core_embedding.weight"]["shape"].reverse())
    with pytest.raises(BadInput, match="its checksum does not match its contents"):
        checkpoint.load_model(file)


def old_checksum(header, arrays):
    """As format version 1 had it."""
    contents = [json.dumps(header).encode()]
    for name in sorted(arrays):
        contents += [name.encode(), arrays[name].tobytes()]
    return zlib.crc32(b"".join(contents))


def to_old_form(path):
    """The file as format version 1 had it."""
    with safetensors.safe_open(path, framework="numpy") as data:
        header = json.loads(data.metadata()["wmg"])
    arrays = safetensors.numpy.load_file(path)
    del header["checksum"]
    header["version"] = 1
    header["checksum"] = old_checksum(header, arrays)
    path.write_bytes(safetensors.numpy.save(arrays, metadata={"wmg": json.dumps(header)}))


@pytest.mark.parametrize("path", models.shipped().values(), ids=models.shipped())
def test_shipped_models_of_the_old_form_load_unchanged(path):
    assert checkpoint.read_header(path, "release")["version"] == 1
    agent, _ = checkpoint.load_model(path)
    stored = safetensors.numpy.load_file(path)
    paths, _ = jax.tree_util.tree_flatten_with_path(agent)
    assert len(paths) == len(stored)
    for place, leaf in paths:
        array = stored[jax.tree_util.keystr(place, simple=True, separator=".")]
        assert leaf.dtype == np.float32
        np.testing.assert_array_equal(leaf, array.astype(np.float32))


def test_a_model_of_the_old_form_loads_and_its_damage_is_noticed(file):
    before, _ = checkpoint.load_model(file)
    to_old_form(file)
    assert eqx.tree_equal(checkpoint.load_model(file)[0], before)
    whole = bytearray(file.read_bytes())
    whole[-3] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BadInput, match="its checksum does not match its contents"):
        checkpoint.load_model(file)


def test_runs_saved_in_the_old_form_go_on_exactly_and_are_saved_in_the_new_one(tmp_path):
    state = tmp_path / "run" / runfolder.STATE
    tiny.stop_after(tiny.settings(runs=2), tmp_path / "run", 3)
    to_old_form(state)
    train.train(tiny.settings(runs=2), tmp_path / "run", resume=True)
    assert tiny.differing(tiny.arrays(tmp_path / "run"), tiny.arrays(tiny.trained())) == []
    assert checkpoint.read_header(state, "resume")["version"] == 2


def test_a_file_has_the_version_of_the_code_that_wrote_it(tmp_path):
    about = checkpoint.read_header(OLD_FORM, "release")
    checkpoint.save(tmp_path / "file", {"x": np.ones(3)}, "resume", about)
    assert checkpoint.read_header(tmp_path / "file", "resume")["version"] == 2


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write_atomically(path, b"first")

    def stop(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, b"second")
    assert tiny.contents(tmp_path) == {"file": b"first"}


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        checkpoint.load_model(tmp_path / "nothing.safetensors")


def test_an_agent_that_cannot_play_an_environment_is_bad_input():
    env = registry.make_env(PathfindingSettings())
    with pytest.raises(BadInput, match="needs an image"):
        registry.make_agent(CNNGRUSettings(), env.spec, jax.random.key(0))


def test_settled_settings_name_the_very_levels(small_boxoban, tmp_path):  # noqa: F811
    settled = SokobanSettings().pinned()
    assert settled == SokobanSettings(levels="embedded-train")
    assert settled.pinned() == settled
    assert PathfindingSettings().pinned() == PathfindingSettings()
    with pytest.raises(BadInput, match="levels must be a text file or one of"):
        SokobanSettings(levels="none").pinned()


def test_a_model_loads_where_the_levels_it_was_trained_on_are_not(small_boxoban, tmp_path):  # noqa: F811
    some = tiny.settings(env=SokobanSettings("unfiltered-train", cells=57))
    shapes = registry.make_env(some.env, shapes_only=True)
    before = registry.make_agent(some.agent, shapes.spec, jax.random.key(3))
    checkpoint.save_model(tmp_path / "m.safetensors", before, some)
    with pytest.raises(BadInput, match="the levels unfiltered-train are not here yet"):
        registry.make_env(some.env)
    after, settings = checkpoint.load_model(tmp_path / "m.safetensors")
    assert settings == some and eqx.tree_equal(after, before)


def test_a_model_of_another_bound_is_refused(tmp_path):
    some = tiny.settings(env=SokobanSettings("embedded-test"))
    agent = model(some)
    models.fit(agent, some, some.env)
    with pytest.raises(BadInput, match="the model does not fit the observations and actions of"):
        models.fit(agent, some, SokobanSettings("embedded-test", bound=12))
