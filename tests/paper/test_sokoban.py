"""The preset against the paper's table, and what is published about others."""

import pytest
from paper.test_pathfinding import WHERE, column

from wmg import paper
from wmg.paper import reproduce
from wmg.paper.target import Cell
from wmg.paper.targets import TARGETS
from wmg.paper.targets.sokoban import PUBLISHED

TABLE = r"""
Reward per step & 0
Reward on success & 2
Actor-critic hidden layer size & 2880
A3C $t_{max}$ & 4
Adam eps & 1e-10
Discount factor $\gamma$ & 0.995
Entropy term strength $\beta$ & 0.02
Gradient clipping threshold & 512.0
Learning rate & 1.6e-5
Learning rate annealing $\gamma$ & 0.98
Reward scale factor & 4
WMG attention head size & 32
WMG attention heads & 8
WMG Memos & 1
WMG Memo size & 2048
WMG hidden layer size & 8
WMG layers & 10
"""
ROWS = WHERE | {
    "Reward per step": lambda c: c.env.rewards[0],
    "Reward on success": lambda c: c.env.rewards[3],
    r"Learning rate annealing $\gamma$": lambda c: c.hyper.anneal,
}
PRESET = paper.PRESETS["sokoban/wmg"]


def test_the_preset_has_the_settings_of_its_table():
    printed = column(TABLE, 1)
    assert len(printed) == 17
    assert {row: ROWS[row](PRESET) for row in printed} == printed


def test_it_is_annealed_at_every_hundred_thousand_steps_after_ten_million():
    hyper = PRESET.hyper
    assert (hyper.anneal_after, hyper.anneal_every) == (10_000_000, 100_000)
    assert PRESET.steps == 20_000_000


def test_its_environment_is_the_papers():
    env = PRESET.env
    assert (env.observation, env.bound, env.max_steps) == ("factored", 10, 120)
    assert env.rewards == (0.0, 1.0, -1.0, 2.0)
    assert env.cells == 57  # the largest of Boxoban's levels


def test_its_agent_is_the_second_form_of_the_authors():
    agent = PRESET.agent
    assert (agent.shared_heads, agent.start, agent.age) == (True, "empty", "added")


def test_it_has_the_papers_number_of_parameters_and_needs_no_levels_for_that():
    assert reproduce.count(Cell("WMG", PRESET), reproduce.Scale())["value"] == 4_508_182
    target = TARGETS["sokoban-parameter-count"]
    assert [cell.paper for cell in target.cells.values()] == [4_508_182]


def test_in_the_batched_trainer_agent_and_environment_are_the_same():
    batched = paper.PRESETS["sokoban/wmg-batched"]
    assert (batched.agent, batched.env, batched.t_max) == (PRESET.agent, PRESET.env, PRESET.t_max)
    assert batched.batched.envs > 1 and PRESET.batched.envs == 1


def test_drc_has_the_published_network_but_for_a_plane_and_an_action():
    preset = paper.PRESETS["sokoban/drc"]
    assert reproduce.count(Cell("DRC", preset), reproduce.Scale())["value"] == 1_285_894
    assert 1_285_894 - 1_285_125 == 4 * 4 * 32 + 257  # a fourth plane, and to stay


def test_drc_learns_as_published_from_windows_that_are_summed_not_averaged():
    preset, window = paper.PRESETS["sokoban/drc"], 20
    published = {"learning_rate": 4e-4, "discount": 0.97, "entropy": 0.01}
    assert {name: getattr(preset.hyper, name) for name in published} == published
    assert preset.hyper.grad_clip == pytest.approx(window * 2.5e-4)
    assert preset.hyper.adam_eps == pytest.approx(window * 1.5625e-7)
    batched = preset.batched
    assert (preset.t_max, batched.envs, batched.minibatches, batched.trace) == (window, 256, 8, 0.5)
    assert TARGETS["sokoban"].cells["drc"].config.steps in PUBLISHED["DRC(3,3)"]
