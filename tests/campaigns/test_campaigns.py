"""The short form of each campaign, and that a campaign finds what it looks for."""

import functools
import json
import pathlib
import random
import tomllib
from unittest import mock

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401
from viewer import players

from campaigns import browser, commands, damage, requests
from campaigns.__main__ import CAMPAIGNS
from campaigns.tally import Tally, row
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.runs import checkpoint
from wmg.tools.errors import BadInput

ROOT = pathlib.Path(__file__).parents[2]


def faults(tallies):
    return [fault for tally in tallies.values() for fault in tally.faults]


def test_damaged_files_are_refused_or_are_what_was_written(tmp_path):
    tallies = damage.campaign(900, 1, tmp_path)
    assert not faults(tallies)
    assert all(tally.refused > 10 for tally in tallies.values())


def test_odd_command_lines_are_refused_in_one_sentence(tmp_path):
    tallies = commands.campaign(300, 1, tmp_path)
    assert not faults(tallies)
    assert sum(tally.refused for tally in tallies.values()) > 100
    assert sum(tally.accepted for tally in tallies.values()) > 10


def test_odd_requests_are_answered_or_refused(tmp_path):
    pytest.importorskip("starlette")
    tallies = requests.campaign(200, 1, tmp_path)
    assert not faults(tallies)
    assert all(tally.accepted and tally.refused for tally in tallies.values())


needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="there is no chromium here")
QUIZ = (lambda: [players.random(PathfindingSettings(nodes=3))],)
ODD = {
    "a script fails": "void Promise.reject(new Error('odd'))",
    "the server fails": "void fetch('fails').then(() => 0)",
    "the server is gone": "document.body.lastElementChild.hidden = false",
    "the page waits for ever": "document.body.dataset.busy = true",
}


@needs_chromium
def test_odd_things_done_in_a_browser_are_carried_out_or_refused(tmp_path):
    pytest.importorskip("playwright")
    tallies = browser.campaign(10, 3, tmp_path, QUIZ)
    assert not faults(tallies)
    assert sum(tally.refused for tally in tallies.values()) > 0
    assert sum(tally.accepted for tally in tallies.values()) > 4


@needs_chromium
def test_what_is_wrong_in_a_browser_is_found(monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.setattr(browser, "PATIENCE", 1500)
    page = "<body data-ready data-busy=false><p id=error hidden>wmg view does not answer"
    tally = Tally()
    with browser.browsing() as launched:
        context = launched.new_context()
        context.route("**/*", lambda route: route.fulfill(content_type="text/html", body=page))
        context.route("**/fails", lambda route: route.fulfill(status=500))
        for case, script in {"nothing": "1", **ODD}.items():
            tab = browser.Tab(context, "http://localhost/")
            does = {"odd": lambda _, page, script=script: page.evaluate(script)}
            monkeypatch.setattr(browser, "DOES", does)
            tally.attempt(case, functools.partial(browser.attempt, None, tab, None, "odd"))
    assert (tally.accepted, tally.wrong, tally.hung) == (1, 3, 1), tally.faults


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kills", "host-kills", "tuner-kills", "reproduce-kills"])
def test_what_is_killed_ends_as_if_it_was_not(name, tmp_path):
    tallies = CAMPAIGNS[name](4, 1, tmp_path)
    assert not faults(tallies) and sum(tally.tried for tally in tallies.values()) >= 4


def test_the_page_has_the_counts_of_the_last_campaigns():
    page = (ROOT / "docs" / "reliability.md").read_text()
    written = [json.loads(path.read_text()) for path in ROOT.glob("results/campaigns/*.json")]
    assert len(written) == len(CAMPAIGNS)
    for data in written:
        assert row(data) in page and f"`{data['command']}`" in page
        assert not any(kind["wrong"] or kind["hung"] for kind in data["counts"].values())


def test_the_page_has_what_was_tested_with_which_versions():
    page = (ROOT / "docs" / "reliability.md").read_text()
    tested = [json.loads(path.read_text()) for path in ROOT.glob("results/versions/*.json")]
    for data in tested:
        versions = ", ".join(f"{name} {one}" for name, one in data["versions"].items())
        failed = data["failures"] + data["errors"]
        passed = data["tests"] - data["skipped"] - failed
        counts = f"{passed:,} | {data['skipped']} | {failed}"
        what = " ".join(data["files"])
        assert (
            f"| {data['dependencies']} | {data['python']} | {versions} | {what} | {counts} |"
            in page
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for data in tested:
        python = data["python"].rpartition(".")[0]
        assert f"Programming Language :: Python :: {python}" in project["classifiers"]


def test_a_model_whose_checksum_is_not_looked_at_is_found(tmp_path, monkeypatch):
    model = damage.Subject(
        (tiny.trained() / "best.safetensors").read_bytes(),
        lambda path: damage.fingerprint(checkpoint.load_model(path)[0]),
        "best.safetensors",
        damage.damage_bytes,
    )
    monkeypatch.setattr(checkpoint, "_checksum", lambda *_: mock.ANY)
    assert damage.try_subject(model, 100, random.Random(1), tmp_path).wrong


@pytest.mark.parametrize(
    ("do", "outcome"),
    [
        (lambda: None, "accepted"),
        (lambda: "is odd", "wrong"),
        (lambda: 1 / 0, "wrong"),
        (lambda: refuse("one sentence"), "refused"),
        (lambda: refuse("two\nlines"), "wrong"),
        (lambda: loop(), "hung"),
    ],
)
def test_outcomes_are_told_apart(do, outcome):
    tally = Tally()
    tally.attempt("case", do, limit=0.1)
    assert getattr(tally, outcome) == tally.tried == 1
    assert bool(tally.faults) == (outcome in ("wrong", "hung"))


def refuse(sentence):
    raise BadInput(sentence)


def loop():
    while True:
        pass
