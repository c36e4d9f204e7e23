import dataclasses
import os

import pytest
import tiny

from wmg import config, paper
from wmg.cli import start
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import train
from wmg.tools.errors import BadInput


def test_what_is_tested_on_is_not_what_was_trained_on():
    trained = SokobanSettings(levels="unfiltered-train", max_steps=240)
    assert trained.held_out() == SokobanSettings(levels="test", max_steps=240)
    assert PathfindingSettings(5).held_out() == PathfindingSettings(5)


@pytest.mark.parametrize("small", [{"bound": 5}, {"cells": 20}])
def test_levels_that_boxobans_do_not_fit_are_their_own_test(small):
    mine = SokobanSettings(levels="mine.txt", **small)
    assert mine.held_out() == mine


def test_only_embedded_levels_are_remarked_on(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    start.remark_on(SokobanSettings())
    said = capsys.readouterr().err
    assert "the levels embedded-train" in said and "wmg data boxoban" in said
    for env in (SokobanSettings(levels="unfiltered-train"), BabyAISettings(), None):
        start.remark_on(env)
    assert capsys.readouterr().err == ""


def test_training_on_embedded_levels_begins_with_the_remark(capsys, monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise BadInput("no time")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(train, "train", refuse)
    code, out, err = tiny.command(capsys, "train", "sokoban/wmg", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    remark, complaint = err.splitlines()
    assert "embedded-train" in remark and complaint == "wmg: no time"


@pytest.mark.parametrize(("plugin", "threads"), [(None, "1"), ("a plugin", None)])
def test_xla_has_no_more_threads_than_asked_for_unless_it_compiles_for_an_accelerator(
    plugin, threads, monkeypatch
):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "anywhere")
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setattr(start.importlib.util, "find_spec", {"jax_plugins": plugin}.get)
    start.prepare_jax(1)
    assert os.environ.pop("PJRT_NPROC", None) == threads


@pytest.mark.parametrize(
    ("preset", "changes", "threads"),
    [
        ("pathfinding/wmg", {}, 1),
        ("pathfinding/wmg", {"runs": 3}, 3),
        ("pathfinding/wmg", {"batched": config.Batched(envs=8)}, 2),
        ("babyai/level4/wmg-factored", {}, 2),
        ("babyai/level4/wmg-factored", {"runs": 3}, 3),
        ("babyai/level1/wmg-factored", {}, 1),
    ],
)
def test_a_run_has_a_thread_and_a_single_large_one_two(preset, changes, threads):
    settings = dataclasses.replace(paper.find_preset(preset), **changes)
    assert start.threads_for(settings) == threads
