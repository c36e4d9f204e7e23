"""Finding, fitting and lengthening agents."""

import dataclasses
import json
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import tiny
from probes import tiny_gru, tiny_wmg
from small_boxoban import small_boxoban  # noqa: F401
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config, registry
from wmg.agents.baselines.settings import DepthSettings, RandomSettings
from wmg.agents.wmg.agent import with_slots
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import checkpoint, models, runfolder, runlog, task, train
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, Observation, ObservationSpec

SPEC = EnvSpec(ObservationSpec(3), actions=2, max_steps=8, metric="reward")
run = eqx.filter_jit(lambda agent, observation, memory: agent(observation, memory))


@pytest.fixture
def folder(tmp_path):
    """A finished run folder of our own."""
    return shutil.copytree(tiny.trained(), tmp_path / "run")


def refusal(call, *args, **options):
    with pytest.raises(BadInput) as caught:
        call(*args, **options)
    return str(caught.value)


def assert_is_run(agent, folder, index):
    saved = tiny.arrays(folder)
    paths, _ = jax.tree_util.tree_flatten_with_path(agent)
    for path, leaf in paths:
        name = "agent." + jax.tree_util.keystr(path, simple=True, separator=".")
        np.testing.assert_array_equal(leaf, saved[name][index])


def test_a_run_folder_gives_its_best_run(folder):
    finals = [log[-1]["score"] for log in tiny.lines(folder)]  # ten reports: a tenth is one
    agent, settings = models.find(str(folder))
    assert_is_run(agent, folder, finals.index(max(finals)))
    assert settings == tiny.settings(runs=2)


@pytest.mark.parametrize("index", [0, 1])
def test_a_run_folder_gives_the_run_that_is_asked_for(folder, index):
    agent, settings = models.find(str(folder), index)
    assert_is_run(agent, folder, index)
    assert settings == tiny.settings(runs=2)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_run_that_a_folder_does_not_have_is_refused(folder, index):
    message = f"--run must be from 0 to 1 in {folder}, got {index}"
    assert refusal(models.find, str(folder), index) == message


def test_a_file_of_the_authors_is_answered_with_the_command_that_converts_it(tmp_path):
    (tmp_path / "model.pth").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"wmg convert .*model\.pth MODEL\.safetensors"):
        models.find(str(tmp_path / "model.pth"))


def test_a_folder_that_has_not_ended_gives_its_best_run_so_far(folder):
    (folder / "best.safetensors").unlink()
    for best in (1, 0):
        for run in (0, 1):
            write_last(folder, run, score=50.0 if run == best else 40.0)
        assert_is_run(models.find(str(folder))[0], folder, best)
    write_last(folder, 0, diverged=True)
    assert_is_run(models.find(str(folder))[0], folder, 1)


def write_last(folder, run, **changes):
    """Change the last line of a log."""
    log = folder / "logs" / f"{run:04d}.jsonl"
    *first, last = log.read_text().splitlines()
    log.write_text("\n".join([*first, json.dumps(json.loads(last) | changes)]) + "\n")


def test_a_folder_that_has_not_ended_before_a_report_gives_what_there_is(folder):
    (folder / "best.safetensors").unlink()
    for log in (folder / "logs").iterdir():
        log.write_text("")
    assert_is_run(models.find(str(folder))[0], folder, 0)


def test_a_folder_that_went_on_after_its_end_gives_what_it_has_now(folder):
    earlier = models.find(str(folder))[0]
    runfolder.update_config(folder, tiny.settings(runs=2, steps=960))
    state = checkpoint.read_header(folder / "state.safetensors", "resume")
    arrays = {name: array + 1 for name, array in tiny.arrays(folder).items() if "agent" in name}
    checkpoint.save(folder / "state.safetensors", arrays, "resume", {"reports": state["reports"]})
    assert not eqx.tree_equal(models.find(str(folder))[0], earlier)
    assert eqx.tree_equal(models.find(str(folder / "best.safetensors"))[0], earlier)


def test_a_folder_that_has_not_ended_still_has_its_runs(folder):
    (folder / "best.safetensors").unlink()
    assert_is_run(models.find(str(folder), 1)[0], folder, 1)


def test_a_run_with_weights_that_are_not_finite_is_refused_and_the_others_are_not(folder):
    state = folder / "state.safetensors"
    header = checkpoint.read_header(state, "resume")
    arrays = tiny.arrays(folder)
    arrays["agent.core_embedding.bias"][1] = np.inf
    checkpoint.save(state, arrays, "resume", {"reports": header["reports"]})
    assert_is_run(models.find(str(folder), 0)[0], folder, 0)
    assert refusal(models.find, str(folder), 1) == (
        f"{state} has weights that are not finite: core_embedding.bias"
    )


def test_a_folder_without_saved_state_is_refused(folder):
    (folder / "state.safetensors").unlink()
    assert refusal(models.find, str(folder), 1) == f"{folder} has no saved state yet"


def test_a_run_is_found_where_the_levels_it_was_trained_on_are_not(
    small_boxoban,  # noqa: F811
    tmp_path,
):
    folder = tmp_path / "run"
    settings = tiny.settings(env=SokobanSettings("unfiltered-train", cells=57), runs=2)
    there = dataclasses.replace(settings, env=SokobanSettings("embedded-test", cells=57))
    runs = task.start_runs(there, registry.make_env(there.env))
    runfolder.create(folder, settings, None)
    logs = runlog.Logs(folder / runfolder.LOGS, 2, [0, 0])
    runfolder.Store(folder, logs).save(runs, 0, 0.0, 0.0)
    agent, found = models.find(str(folder), 1)
    assert_is_run(agent, folder, 1)
    assert found == settings


def test_a_file_gives_the_agent_in_it(folder):
    by_folder = models.find(str(folder))
    by_file = models.find(str(folder / "best.safetensors"))
    assert eqx.tree_equal(by_file[0], by_folder[0]) and by_file[1] == by_folder[1]


@pytest.mark.parametrize("name", ["depth-3", "random"])
def test_only_run_folders_have_runs(name):
    message = f"--run chooses a run of a run folder, and {name} is not one"
    assert refusal(models.find, name, 0) == message


@pytest.fixture
def shelf(folder, tmp_path, monkeypatch):
    """A package that comes with two models and a file that is none."""
    place = tmp_path / "shipped"
    place.mkdir()
    for name in ("b-model", "a-model"):
        shutil.copy(folder / "best.safetensors", place / f"{name}.safetensors")
    (place / "README.md").write_text("")
    monkeypatch.setattr(models, "SHIPPED", place)
    return place


def test_shipped_models_have_the_names_of_their_files(shelf):
    assert list(models.shipped()) == ["a-model", "b-model"]


def test_a_shipped_model_is_found_by_name(shelf, folder):
    agent, settings = models.find("a-model")
    assert eqx.tree_equal(agent, models.find(str(folder))[0])
    assert settings == tiny.settings(runs=2)


def test_a_name_that_nothing_has_is_answered_with_all_names(shelf):
    assert refusal(models.find, "c-model") == (
        "there is no model 'c-model': not a file, not a run folder, and none of "
        "a-model, b-model, random, depth-N"
    )


@pytest.mark.parametrize("n", [1, 12])
def test_depth_n_is_an_agent_of_that_depth(n):
    agent, settings = models.find(f"depth-{n}")
    assert agent.depth == n and settings == config.Config(agent=DepthSettings(depth=n))


@pytest.mark.parametrize("n", [0, 257])
def test_a_depth_that_makes_no_sense_is_refused(n):
    message = f"depth must be a whole number from 1 to 256, got {n}"
    assert refusal(models.find, f"depth-{n}") == message


@pytest.mark.parametrize("name", ["depth-", "depth--1", "depth-x", "Random"])
def test_what_is_almost_a_baseline_is_no_model(name):
    assert refusal(models.find, name).startswith(f"there is no model {name!r}: ")


def test_a_baseline_is_found_even_where_a_folder_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "random").mkdir()
    monkeypatch.chdir(tmp_path)
    assert models.find("random")[1].agent == RandomSettings()


def test_a_depth_agent_is_made_anew_to_remember_a_larger_graph():
    env, agent = models.fit(*models.find("depth-2"), PathfindingSettings(nodes=13))
    assert env.spec.max_steps == 24 and (agent.depth, agent.nodes) == (2, 13)


def test_the_random_agent_is_made_anew_for_the_actions_of_any_environment():
    env, agent = models.fit(*models.find("random"), BabyAISettings("GoToLocal", "image"))
    assert (env.level, env.observation, agent.actions) == ("GoToLocal", "image", 7)


def test_a_depth_agent_is_refused_what_is_not_pathfinding():
    message = "the Depth-n agent only plays Pathfinding"
    assert refusal(models.fit, *models.find("depth-2"), BabyAISettings()) == message


def test_an_agent_of_one_level_plays_another_with_more_things():
    settings = tiny.settings(env=BabyAISettings("GoToObj"))
    env = registry.make_env(settings.env)
    made = registry.make_agent(settings.agent, env.spec, jax.random.key(0))
    other, agent = models.fit(made, settings, BabyAISettings("PickupLoc"))
    assert agent is made and other.level == "PickupLoc"
    flat = BabyAISettings("PickupLoc", "flat")
    assert refusal(models.fit, made, settings, flat).startswith("the model does not fit")
    image = BabyAISettings("PickupLoc", "image")
    assert refusal(models.fit, made, settings, image).startswith("the WMG agent takes no image")


def test_a_trained_agent_stays_what_it_is_on_a_larger_graph(folder):
    found, settings = models.find(str(folder))
    env, agent = models.fit(found, settings, PathfindingSettings(nodes=13))
    assert env.spec.max_steps == 24 and agent is found


def test_a_trained_agent_is_refused_other_observations(folder):
    env = PathfindingSettings(pattern=3)
    message = f"the model does not fit the observations and actions of {env}"
    assert refusal(models.fit, *models.find(str(folder)), env) == message


@pytest.mark.parametrize(
    ("agent", "slots", "oldest", "message"),
    [
        (tiny_gru(SPEC), 8, None, "only WMG agents have memory slots that can be added to"),
        (
            tiny_wmg(SPEC, memory="none"),
            8,
            None,
            "this agent keeps no memory, so it has no slots to add",
        ),
        (tiny_wmg(SPEC), 2, None, "slots must be at least the 3 of the agent, got 2"),
        (tiny_wmg(SPEC), 65_537, None, "slots must be at most 65,536, got 65537"),
        (tiny_wmg(SPEC), 8, 4, "oldest age must be from 1 to 3, got 4"),
        (tiny_wmg(SPEC), 8, 0, "oldest age must be from 1 to 3, got 0"),
    ],
)
def test_what_cannot_be_lengthened_is_refused(agent, slots, oldest, message):
    assert refusal(models.lengthen, agent, slots, oldest, "as oldest") == message


@pytest.mark.parametrize(
    ("oldest", "older", "shown"),
    [
        (None, "as oldest", (1, 2, 3, 3, 3)),
        (None, "without age", (1, 2, 3, None, None)),
        (2, "as oldest", (1, 2, 2, 2, 2)),
        (2, "without age", (1, 2, None, None, None)),
    ],
)
def test_ages_beyond_the_oldest_are_shown_as_the_oldest_or_not(oldest, older, shown):
    longer = models.lengthen(tiny_wmg(SPEC), 5, oldest, older)
    assert longer.memory_embedding.shown_ages == shown


def test_lengthening_leaves_all_parameters_alone():
    agent = plain.shaken(tiny_wmg(SPEC))
    longer = with_slots(agent, 5)
    for before, after in zip(jax.tree.leaves(agent), jax.tree.leaves(longer), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("start", "there"), [("full", 5), ("empty", 0)])
def test_slots_are_there_from_the_start_as_in_training(start, there):
    memory = with_slots(tiny_wmg(SPEC, start=start), 5).initial_memory()
    assert memory.vectors.shape[0] == 5
    np.testing.assert_array_equal(memory.present, np.arange(5) < there)


def logits(agent, steps=6):
    """What an agent makes of each step of an episode."""
    draw, memory, rows = np.random.default_rng(0), agent.initial_memory(), []
    for _ in range(steps):
        seen = Observation(jnp.asarray(draw.normal(size=3), jnp.float32))
        output = run(agent, seen, memory)
        memory = output.memory
        rows.append(np.asarray(output.logits))
    return np.array(rows)


@pytest.mark.parametrize("memory", ["memos", "observations"])
def test_more_slots_change_nothing_until_they_are_written_to(memory):
    # With three slots the first four steps see all that went before.
    agent = plain.shaken(tiny_wmg(SPEC, memory=memory, start="empty"))
    before, after = logits(agent), logits(with_slots(agent, 6))
    np.testing.assert_allclose(after[:4], before[:4], atol=1e-5)
    assert np.abs(after[4:] - before[4:]).max(axis=1).min() > 1e-4


def test_more_slots_that_are_there_from_the_start_do_change_the_first_step():
    agent = plain.shaken(tiny_wmg(SPEC, start="full"))
    assert np.abs(logits(with_slots(agent, 6), 1) - logits(agent, 1)).max() > 1e-4


def test_a_lengthened_agent_still_fits_its_config(folder):
    found, settings = models.find(str(folder))
    longer = models.lengthen(found, 7, None, "as oldest")
    assert models.fit(longer, settings, PathfindingSettings(nodes=13))[1] is longer


def test_a_model_that_was_saved_comes_back_the_same(tmp_path):
    settings = tiny.settings()
    made = registry.make_agent(
        settings.agent, registry.make_env(settings.env).spec, jax.random.key(3)
    )
    checkpoint.save_model(str(tmp_path / "m.safetensors"), made, settings)
    for path in (tmp_path / "m.safetensors", str(tmp_path / "m.safetensors")):
        assert eqx.tree_equal(models.find(path)[0], made)
        assert eqx.tree_equal(checkpoint.load_model(path)[0], made)


def test_a_run_of_a_sweep_comes_with_its_own_numbers(tmp_path):
    rates = [1e-4, 5e-3]
    sweep = tiny.settings(runs=2, vary=(f"learning_rate={rates[0]},{rates[1]}",), steps=48)
    train.train(sweep, tmp_path / "run")
    found = [models.find(str(tmp_path / "run"), run)[1] for run in (0, 1)]
    assert [settings.hyper.learning_rate for settings in found] == rates
    assert all(settings.vary == () for settings in found)
