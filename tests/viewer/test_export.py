"""One file with everything in it. That it works is tested in a browser, in test_page."""

import base64
import dataclasses
import gzip
import hashlib
import json
import re

import numpy as np
import pytest
from viewer import players

from wmg.runs import models
from wmg.viewer import export, generic, recording, session
from wmg.viewer.page_files import page_files


def exported(recorded, by):
    episodes = [episode for episode, _ in recorded]
    file = recording.to_json(session.about(by), episodes, "sqrt8")
    return export.export(file, by[0].scenery.drawing)


@pytest.fixture(scope="module")
def page():
    by = [players.random()]
    return exported(session.record(by, 0, 2), by)


def test_the_episodes_inside_are_those_recorded(page):
    (packed,) = re.findall(r'<script type="text/plain" id="episodes">([^<]*)</script>', page)
    file = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert (file["format"], file["version"]) == (recording.FORMAT, recording.VERSION)
    assert [episode["seed"] for episode in file["episodes"]] == [0, 1]


def test_nothing_is_loaded_and_only_its_own_script_and_style_are_allowed(page):
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=\"(?!data:,)", page)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none';") and "connect-src" not in policy
    for kind, tag in (("script", 'script type="module"'), ("style", "style")):
        (body,) = re.findall(rf"<{tag}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_every_module_is_inside_once(page):
    for name in page_files(players.random().scenery.drawing):
        if name.endswith(".js"):
            assert page.count(f'modules["{name}"] = ') == 1
    assert "\nimport " not in page and "\nexport " not in page


def test_the_same_episodes_make_the_same_page(page):
    by = [players.random()]
    assert exported(session.record(by, 0, 2), by) == page


def test_markup_in_a_name_is_not_in_the_page():
    by = [dataclasses.replace(players.random(), name="</script><b>")]
    page = exported(session.record(by, 0, 1), by)
    assert page.count("</script>") == 2 and "<b>" not in page


def test_ten_long_episodes_of_a_large_agent_are_under_6_megabytes():
    """As large as the paper's Sokoban agent: 10 layers, 8 heads, 59 nodes, 33 of them present
    in a level of the mean size; 120 steps; attention as uneven as makes it hardest to compress."""
    chance = np.random.default_rng(0)
    scene = {"board": ["##########"] * 10}

    def step():
        weights = np.exp(1.5 * chance.normal(size=(10, 8, 59))) * (np.arange(59) < 33)
        attention = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
        thought = recording.Thought(np.full(5, 0.2), 0.5, 1, attention, np.arange(59) < 33, ())
        return recording.RecordedStep(scene, thought, 1)

    episode = recording.Episode(0, "", [[step() for _ in range(120)]])
    file = recording.to_json({}, [episode], "sqrt8")
    assert 10 * len(export.export(file, generic.DRAWING)) < 6_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", models.shipped())
def test_ten_solved_episodes_of_a_shipped_model_are_under_3_megabytes(name):
    by = [players.shipped(name)]
    assert len(exported(session.record(by, 0, 10, solved=True), by)) < 3_000_000
