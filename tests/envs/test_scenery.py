"""What every environment of the package says of itself."""

import dataclasses
import re

import equinox as eqx
import jax
import numpy as np
import pytest

from wmg import registry
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.settings import EnvSettings
from wmg.viewer import generic
from wmg.viewer.page_files import page_files

OURS = sorted(registry.OWN["env"] - {OutsideEnvSettings.name})
"""Settings of "outside" are no environment by themselves: they name one."""
NAMES = pytest.mark.parametrize("name", OURS)


def make(name):
    settings = registry.settings_class(EnvSettings, name)()
    if settings.data is not None:
        settings = dataclasses.replace(settings, **{settings.data: "embedded-test"})
    return registry.make_env(settings)


@NAMES
def test_it_has_pictures_and_texts(name):
    env = make(name)
    state, _ = eqx.filter_jit(env.reset)(jax.random.key(0))
    assert env.picture(state).dtype == np.uint8 and env.picture(state).std() > 10
    assert env.text(state).count("\n") >= 1


@NAMES
def test_its_scene_has_a_name_and_a_free_key_for_each_action(name):
    env = make(name)
    scenery = env.scene()
    names, keys = zip(*scenery.actions, strict=True)
    assert len(set(names)) == len(set(keys)) == env.spec.actions
    assert set(keys).isdisjoint(page_keys(page_files(scenery.drawing)["app.js"]))


def test_the_generic_scene_has_keys_that_the_page_leaves_free():
    taken = page_keys(page_files(generic.DRAWING)["app.js"])
    assert {"j", "k", "l", " ", "Home"} <= set(taken) and set(generic.KEYS).isdisjoint(taken)


def page_keys(script):
    """The keys that the page itself listens to."""
    _, _, rest = script.partition("\nconst KEYS = {\n")
    return re.findall(r'^  "?([\w ]+)"?: \[', rest.partition("\n};")[0], re.MULTILINE)


@NAMES
def test_its_label_begins_with_its_title(name):
    settings = registry.settings_class(EnvSettings, name)()
    assert settings.label.startswith(settings.title)


@pytest.mark.parametrize(
    ("path", "label"), [("gym:CartPole-v1", "CartPole-v1"), ("own:Bag", "own:Bag")]
)
def test_an_environment_from_outside_is_called_what_it_is_called_there(path, label):
    assert OutsideEnvSettings(path).label == label
