"""Environments of the suite for agents that know Gymnasium's interface alone."""

import dataclasses
import sys
import types

import toy

from wmg.api.suite import makers
from wmg.api.suite.tasks import TASKS


def test_an_id_is_made_by_gymnasium():
    env = makers.make_gymnasium(TASKS["cartpole"])
    assert env.spec.id == "CartPole-v1" and env.reset(seed=0)[0].shape == (4,)


def test_a_function_at_an_import_path_makes_the_environment():
    task = dataclasses.replace(TASKS["battleship"], env="toy:ToySet")
    assert isinstance(makers.make_gymnasium(task), toy.ToySet)


def test_battleship_and_concentration_show_the_last_action(monkeypatch):
    envs = types.SimpleNamespace(BattleshipEasy=lambda: "ships", ConcentrationEasy=lambda: "cards")
    wrappers = types.SimpleNamespace(PreviousAction=lambda env: f"{env} and the last action")
    monkeypatch.setitem(sys.modules, "popgym.envs", envs)
    monkeypatch.setitem(sys.modules, "popgym.wrappers", wrappers)
    assert makers.battleship() == "ships and the last action"
    assert makers.concentration() == "cards and the last action"
