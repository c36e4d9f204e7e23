"""`wmg convert`: models to the authors' form and back."""

import dataclasses

import equinox as eqx
import jax
import pytest
import safetensors.numpy
import tiny
from interop import pth
from interop.small import SECOND, SMALL
from small_boxoban import small_boxoban  # noqa: F401
from tiny import keys_may_be_split_up  # noqa: F401

import wmg
from wmg import config, paper, registry
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.interop import torch_file
from wmg.runs import checkpoint
from wmg.types import EnvSpec, ObservationSpec


@pytest.fixture(params=["plain", "torch"])
def writer(request, monkeypatch):
    """Files as PyTorch writes them, written with it or without."""
    if request.param == "torch":
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr(torch_file, "write_pth", pth.write)


def save(path, settings):
    """A model as training leaves it."""
    env = registry.make_env(settings.env, shapes_only=True)
    agent = registry.make_agent(settings.agent, env.spec, jax.random.key(0))
    checkpoint.save_model(path, agent, settings)
    return agent


BABYAI = dataclasses.replace(
    paper.PRESETS["babyai/level4/wmg-factored"], agent=WMGSettings(slots=3, memo_size=6, **SMALL)
)
SOKOBAN = dataclasses.replace(
    paper.PRESETS["sokoban/wmg"],
    env=SokobanSettings("unfiltered-train"),
    report_every=100_000,  # the authors anneal when they report
    agent=WMGSettings(slots=3, memo_size=6, **SMALL, **SECOND),
)


@pytest.mark.parametrize("settings", [BABYAI, SOKOBAN], ids=["babyai", "sokoban"])
@pytest.mark.usefixtures("writer", "small_boxoban")
def test_a_model_with_factors_survives_a_round_trip(capsys, tmp_path, settings):
    ours, theirs, text, back = (
        tmp_path / name for name in ("m.safetensors", "m.pth", "settings.txt", "back.safetensors")
    )
    agent = save(ours, settings)
    assert tiny.command(capsys, "convert", ours, theirs, "--settings", text)[::2] == (0, "")
    assert tiny.command(capsys, "convert", theirs, back, "--settings", text)[::2] == (0, "")
    found, experiment = checkpoint.load_model(back)
    assert eqx.tree_equal(found, agent) and experiment == settings


@pytest.mark.usefixtures("writer")
def test_the_authors_files_may_have_the_shorter_ending(capsys, tmp_path):
    ours, theirs, text = (tmp_path / name for name in ("m.safetensors", "m.pth", "settings.txt"))
    agent = save(ours, BABYAI)
    assert tiny.command(capsys, "convert", ours, theirs, "--settings", text)[0] == 0
    short, back = theirs.rename(tmp_path / "m.pt"), tmp_path / "back.safetensors"
    assert tiny.command(capsys, "convert", short, back, "--settings", text)[0] == 0
    assert eqx.tree_equal(checkpoint.load_model(back)[0], agent)


@pytest.mark.usefixtures("writer")
def test_a_model_of_another_environment_needs_its_settings(capsys, tmp_path):
    ours, theirs, back = (tmp_path / name for name in ("m.safetensors", "m.pth", "b.safetensors"))
    save(ours, BABYAI)
    assert tiny.command(capsys, "convert", ours, theirs)[0] == 0
    code, _, err = tiny.command(capsys, "convert", theirs, back, "--heads=2")
    assert code == 2 and err == (
        f"wmg: {theirs} was not trained on Pathfinding: give its settings file with --settings\n"
    )
    assert not back.exists()


@pytest.mark.usefixtures("writer")
def test_settings_that_the_authors_do_not_have_are_refused_before_anything_is_written(
    capsys, tmp_path
):
    ours, theirs, text = (tmp_path / name for name in ("m.safetensors", "m.pth", "settings.txt"))
    save(ours, dataclasses.replace(SOKOBAN, env=SokobanSettings("embedded-train")))
    code, _, err = tiny.command(capsys, "convert", ours, theirs, "--settings", text)
    assert code == 2 and "the authors' code cannot run Sokoban" in err
    for settings in (
        dataclasses.replace(SOKOBAN, batched=config.Batched(envs=4)),
        dataclasses.replace(tiny.settings(), env=PathfindingSettings(pattern=9)),
    ):
        save(ours, settings)
        code, _, err = tiny.command(capsys, "convert", ours, theirs, "--settings", text)
        assert code == 2 and "the authors' code cannot run" in err and not theirs.exists()
    text.write_text("precious")
    code, _, err = tiny.command(capsys, "convert", ours, theirs, "--settings", text)
    assert code == 2 and err == f"wmg: {text} already exists\n"
    assert text.read_text() == "precious" and not theirs.exists()


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("settings", ["m.pth", "nowhere/settings.txt"])
def test_settings_need_a_file_of_their_own(capsys, tmp_path, settings):
    ours, theirs = tmp_path / "m.safetensors", tmp_path / "m.pth"
    save(ours, BABYAI)
    code, _, err = tiny.command(capsys, "convert", ours, theirs, "--settings", tmp_path / settings)
    assert code == 2 and "--settings must name a file of its own in a folder that exists" in err
    assert not theirs.exists()


@pytest.mark.usefixtures("writer")
def test_settings_that_do_not_fit_the_weights_are_refused(capsys, tmp_path):
    ours, theirs, text = (tmp_path / name for name in ("m.safetensors", "m.pth", "settings.txt"))
    save(ours, BABYAI)
    assert tiny.command(capsys, "convert", ours, theirs, "--settings", text)[0] == 0
    lines = text.read_text().splitlines()
    text.write_text(
        "\n".join("OBS_ENCODER = CnnFlat" if x.startswith("OBS_ENCODER") else x for x in lines)
    )
    code, _, err = tiny.command(
        capsys, "convert", theirs, tmp_path / "b.safetensors", "--settings", text
    )
    assert code == 2 and err.startswith(f"wmg: {theirs}: the WMG agent takes no image")


@pytest.mark.parametrize(
    ("source", "target", "option", "says"),
    [
        ("m.pth", "m.safetensors", "--run=1", "a .pth file holds one model"),
        ("m.pth", "m.safetensors", "--heads=2 --settings=s", "comes without settings"),
        ("pathfinding-wmg", "m.safetensors", "--heads=2", "comes without settings"),
        ("pathfinding-wmg", "m.safetensors", "--settings=s", "none is read or written here"),
    ],
)
def test_options_that_a_conversion_has_no_use_for_are_refused(
    capsys, tmp_path, source, target, option, says
):
    code, _, err = tiny.command(capsys, "convert", source, tmp_path / target, *option.split())
    assert code == 2 and says in err and not (tmp_path / target).exists()


def test_a_model_is_converted_to_one_of_half_the_size(tmp_path, capsys):
    sizes = []
    for name, flags in (("whole", []), ("half", ["--half"])):
        file = tmp_path / f"{name}.safetensors"
        assert tiny.command(capsys, "convert", tiny.trained(), file, "--run=1", *flags)[0] == 0
        weights = safetensors.numpy.load_file(file)
        sizes.append(sum(array.nbytes for array in weights.values()))
    assert sizes[1] * 2 == sizes[0]
    code, _, err = tiny.command(capsys, "convert", tiny.trained(), tmp_path / "x.pth", "--half")
    assert code == 2 and "--half" in err and not (tmp_path / "x.pth").exists()


def test_a_run_is_converted_to_a_model_of_its_own(tmp_path, capsys):
    file = tmp_path / "model.safetensors"
    code, out, _ = tiny.command(capsys, "convert", tiny.trained(), file, "--run=1")
    assert code == 0 and out == f"wrote {file}\n"
    weights = {
        name.removeprefix("agent."): array[1]
        for name, array in tiny.arrays(tiny.trained()).items()
        if name.startswith("agent.")
    }
    assert tiny.differing(safetensors.numpy.load_file(file), weights) == []


def test_a_folder_in_which_training_has_not_ended_gives_its_model(capsys, tmp_path):
    folder, model = tmp_path / "run", tmp_path / "m.safetensors"
    tiny.stop_after(tiny.settings(), folder, 1)
    code, out, err = tiny.command(capsys, "convert", folder, model)
    assert (code, out) == (0, f"wrote {model}\n")
    assert err == f"training in {folder} has not ended: its last saved weights\n"
    assert eqx.tree_equal(wmg.load(model).agent, wmg.load(folder).agent)
    for args in (["eval", folder, "--episodes=2"], ["inspect", folder], ["inspect", model]):
        assert tiny.command(capsys, *args)[0] == 0


def test_a_model_of_an_outside_environment_keeps_what_its_environment_shows(capsys, tmp_path):
    spec = EnvSpec(ObservationSpec(2), actions=2, max_steps=5, metric="return")
    settings = tiny.settings(env=OutsideEnvSettings("nowhere:Env"), agent=GRUSettings(size=4))
    agent = registry.make_agent(settings.agent, spec, jax.random.key(0))
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    checkpoint.save_model(one, agent, settings, spec)
    assert tiny.command(capsys, "convert", one, other, "--half")[0] == 0
    assert wmg.load(other).spec == spec
