"""The authors' models: their names of weights, in both directions."""

import pathlib
from typing import Any

import jax
import numpy as np
import pytest
from interop import pth
from interop.small import AGENTS, SMALL

from wmg import config, registry
from wmg.agents.baselines.settings import RandomSettings
from wmg.agents.cnn_gru.settings import CNNGRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.interop import official, official_settings, torch_file
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec, count_parameters

RELEASED = pathlib.Path(__file__).resolve().parents[3] / "shared/data/wmg_pathfinding.pth"


def make_agent(settings, factors=(), core=7, seed=0) -> Any:
    spec = EnvSpec(ObservationSpec(core, factors), 4, 10, "reward")
    return registry.make_agent(settings, spec, jax.random.key(seed))


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
        official.infer_agent({"a.weight": np.zeros((2, 3), np.float32)}, 2)


def test_what_the_authors_code_would_run_differently_is_not_exported():
    settings = WMGSettings(slots=3, memo_size=6, **SMALL, shared_heads=True)
    with pytest.raises(BadInput, match="shared_heads"):
        official.export_weights(make_agent(settings))
    with pytest.raises(BadInput, match="without a memory"):
        official.export_weights(make_agent(WMGSettings(memory="none", **SMALL)))
    with pytest.raises(BadInput, match="no WMG with lifetimes and store"):
        official.export_weights(make_agent(WMGSettings(lifetimes="attention", store=2, **SMALL)))
    two = (("door", 1, 2), ("key", 1, 3))
    with pytest.raises(BadInput, match="door, key"):
        official.export_weights(make_agent(AGENTS["first"], factors=two))
    with pytest.raises(BadInput, match="Random"):
        official.export_weights(make_agent(RandomSettings()))


def test_a_cnn_gru_is_not_exported():
    spec = EnvSpec(ObservationSpec(2, image=(7, 7, 3)), 2, 1, "success")
    settings = CNNGRUSettings((1, 1, 1), 1, 1, 1)
    agent = registry.make_agent(settings, spec, jax.random.key(0))
    with pytest.raises(BadInput, match=r"^the authors' code has no agent like CNNGRU$"):
        official.export_weights(agent)


def test_a_model_that_does_not_fit_its_settings_is_refused_by_name(tmp_path):
    settings = official_settings.settings_from_config(config.Config(agent=AGENTS["first"]))
    (tmp_path / "spec.txt").write_text(official_settings.format_settings(settings))
    pth.write(tmp_path / "model.pth", {"a.weight": np.zeros((2, 3), np.float32)})
    with pytest.raises(BadInput, match=r"model\.pth: the state dict has no"):
        official.load(tmp_path / "model.pth", tmp_path / "spec.txt")


def test_the_released_model_is_imported_whole():
    if not RELEASED.exists():
        pytest.skip("no shared folder beside the repository")
    experiment, agent = official.load(RELEASED, heads=6)
    assert experiment.agent == WMGSettings()
    assert count_parameters(agent) == 132_507
    read = torch_file.read_pth(RELEASED)
    weights = official.export_weights(agent)
    assert set(read) == set(weights)
    assert all((read[name] == weights[name]).all() for name in read)
