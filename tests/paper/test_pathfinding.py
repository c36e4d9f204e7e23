"""The presets against the paper's tables, row by row as printed."""

import dataclasses
import subprocess
import sys

import jax
import pytest

from wmg import paper, registry
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.paper import pathfinding, pathfinding_baselines
from wmg.paper.targets import find_target
from wmg.tools.errors import BadInput
from wmg.types import count_parameters

TABLE_20M = r"""
Actor-critic hidden layer size & 128 & 128 & 512
A3C $t_{max}$ & 16 & 16 & 16
Adam eps & 1e-06 & 1e-08 & 1e-08
Discount factor $\gamma$ & 0.5 & 0.6 & 0.5
Entropy term strength $\beta$ & 0.01 & 0.005 & 0.02
Gradient clipping threshold & 16.0 & 16.0 & 4.
GRU observation embedding size & - & - & 256
GRU size & - & - & 384
Learning rate & 0.00016 & 0.00016 & 0.0001
Reward scale factor & 2.0 & 1.0 & 0.5
WMG attention head size & 12 & 16 & -
WMG attention heads & 6 & 6 & -
WMG Memos & 16 & 0 & -
WMG Memo size & 128 & - & -
WMG hidden layer size & 12 & 32 & -
WMG layers & 4 & 4 & -
"""

TABLE_1M = r"""
Actor-critic hidden layer size & 2880 & 256 & 5760
A3C $t_{max}$ & 16 & 16 & 16
Adam eps & 1e-04 & 1e-12 & 1e-06
Discount factor $\gamma$ & 0.5 & 0.5 & 0.5
Entropy term strength $\beta$ & 0.005 & 0.05 & 0.1
Gradient clipping threshold & 256.0 & 4.0 & 32.
GRU observation embedding size & - & - & 1024
GRU size & - & - & 256
Learning rate & 0.00004 & 0.00016 & 0.0001
Reward scale factor & 4.0 & 2.0 & 2.0
WMG attention head size & 90 & 90 & -
WMG attention heads & 4 & 1 & -
WMG Memos & 6 & 0 & -
WMG Memo size & 256 & - & -
WMG hidden layer size & 8 & 16 & -
WMG layers & 3 & 5 & -
"""

WHERE = {
    "Actor-critic hidden layer size": lambda c: c.agent.actor_critic,
    "A3C $t_{max}$": lambda c: c.t_max,
    "Adam eps": lambda c: c.hyper.adam_eps,
    r"Discount factor $\gamma$": lambda c: c.hyper.discount,
    r"Entropy term strength $\beta$": lambda c: c.hyper.entropy,
    "Gradient clipping threshold": lambda c: c.hyper.grad_clip,
    "GRU observation embedding size": lambda c: c.agent.embedding,
    "GRU size": lambda c: c.agent.size,
    "Learning rate": lambda c: c.hyper.learning_rate,
    "Reward scale factor": lambda c: c.hyper.reward_scale,
    "WMG attention head size": lambda c: c.agent.head_size,
    "WMG attention heads": lambda c: c.agent.heads,
    "WMG Memos": lambda c: c.agent.slots if c.agent.memory == "memos" else 0,
    "WMG Memo size": lambda c: c.agent.memo_size,
    "WMG hidden layer size": lambda c: c.agent.hidden,
    "WMG layers": lambda c: c.agent.layers,
}


def column(table, number):
    """The settings a table prints for one model, as numbers."""
    rows = [line.split(" & ") for line in table.strip().splitlines()]
    return {row[0]: float(row[number]) for row in rows if row[number] != "-"}


COLUMNS = {
    "pathfinding/wmg": (TABLE_20M, 1),
    "pathfinding/nr-wmg": (TABLE_20M, 2),
    "pathfinding/gru": (TABLE_20M, 3),
    "pathfinding-6-memos/wmg": (TABLE_1M, 1),
    "pathfinding-6-memos/nr-wmg": (TABLE_1M, 2),
    "pathfinding-6-memos/gru": (TABLE_1M, 3),
}


NOT_IN_THE_PAPER = {"pathfinding/lstm": "gru", "pathfinding/gtrxl": "wmg"}
"""And the agent whose learning rule they have."""


def test_there_is_a_preset_for_each_column_of_the_papers_tables():
    presets = pathfinding.PRESETS | pathfinding_baselines.PRESETS
    assert presets.keys() == COLUMNS.keys() | NOT_IN_THE_PAPER.keys()
    assert paper.PRESETS.items() >= presets.items()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_preset_has_the_settings_of_its_column(name):
    printed = column(*COLUMNS[name])
    assert {row: WHERE[row](paper.PRESETS[name]) for row in printed} == printed


@pytest.mark.parametrize("name", COLUMNS)
def test_a_preset_trains_as_long_as_its_table_says(name):
    steps = 20_000_000 if COLUMNS[name][0] is TABLE_20M else 1_000_000
    assert paper.PRESETS[name].steps == steps


@pytest.mark.parametrize("name", COLUMNS)
def test_a_preset_plays_twelve_steps_with_a_constant_learning_rate(name):
    preset = paper.PRESETS[name]
    assert preset.env == PathfindingSettings(nodes=7, pattern=7) and preset.hyper.anneal == 1.0


@pytest.mark.parametrize(("table", "kept"), [("pathfinding", 11), ("pathfinding-6-memos", 6)])
def test_nr_wmg_keeps_all_earlier_observations_or_the_last_six(table, kept):
    agent = paper.PRESETS[f"{table}/nr-wmg"].agent
    assert (agent.memory, agent.slots) == ("observations", kept)


def linear(inputs, outputs):
    return (inputs + 1) * outputs


def heads(inputs, hidden):
    """Two hidden layers, a policy over two actions, a value."""
    return 2 * linear(inputs, hidden) + linear(hidden, 2) + linear(hidden, 1)


def wmg_size(vector, slots, layers, size, hidden, actor_critic, memo=0):
    norms = 2 * 2 * size
    attention = 4 * linear(size, size)
    layer = attention + linear(size, hidden) + linear(hidden, size) + norms
    embeddings = linear(15, size) + linear(vector + slots, size)
    return embeddings + layers * layer + (memo and linear(size, memo)) + heads(size, actor_critic)


def gru_size(embedding, size, actor_critic):
    gates = 3 * (linear(embedding, size) + linear(size, size))
    return linear(15, embedding) + gates + heads(size, actor_critic)


PRINTED = {  # Table 12
    "pathfinding/wmg": 132_507,
    "pathfinding/nr-wmg": 204_963,
    "pathfinding/gru": 1_139_459,
}
COUNTED = {  # by the formulas of section 3, with the numbers of the tables
    "pathfinding/wmg": wmg_size(128, 16, 4, 6 * 12, 12, 128, memo=128),
    "pathfinding/nr-wmg": wmg_size(15, 11, 4, 6 * 16, 32, 128),
    "pathfinding/gru": gru_size(256, 384, 512),
    "pathfinding-6-memos/wmg": wmg_size(256, 6, 3, 4 * 90, 8, 2880, memo=256),
    "pathfinding-6-memos/nr-wmg": wmg_size(15, 6, 5, 1 * 90, 16, 256),
    "pathfinding-6-memos/gru": gru_size(1024, 256, 5760),
}


def test_the_formulas_used_here_give_the_papers_counts():
    assert {name: COUNTED[name] for name in PRINTED} == PRINTED


@pytest.mark.parametrize("name", COLUMNS)
def test_a_preset_has_as_many_parameters_as_its_formula_says(name):
    preset = paper.PRESETS[name]
    env = registry.make_env(preset.env)
    made = jax.eval_shape(lambda: registry.make_agent(preset.agent, env.spec, jax.random.key(0)))
    assert count_parameters(made) == COUNTED[name]


@pytest.mark.parametrize(("name", "like"), NOT_IN_THE_PAPER.items())
def test_memory_agents_have_the_size_of_the_gru_and_the_learning_rule_of_their_like(name, like):
    mine, theirs = paper.PRESETS[name], paper.PRESETS[f"pathfinding/{like}"]
    agent, steps = theirs.agent, 1_000_000
    assert dataclasses.replace(mine, agent=agent) == dataclasses.replace(theirs, steps=steps)
    env = registry.make_env(mine.env)
    made = jax.eval_shape(lambda: registry.make_agent(mine.agent, env.spec, jax.random.key(0)))
    assert count_parameters(made) == pytest.approx(COUNTED["pathfinding/gru"], rel=0.05)


@pytest.mark.parametrize(
    ("find", "name", "message"),
    [
        (
            paper.find_preset,
            "pathfinding/wgm",
            "there is no preset 'pathfinding/wgm'; did you mean 'pathfinding/wmg'?",
        ),
        (
            find_target,
            "parameter-count",
            "there is no target 'parameter-count'; did you mean 'parameter-counts'?",
        ),
        (paper.find_preset, "zzz", "there is no preset 'zzz'; wmg list shows them"),
        (
            find_target,
            "zzz",
            "there is no target 'zzz'; wmg list shows them",
        ),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_or_with_all(find, name, message):
    with pytest.raises(BadInput) as refusal:
        find(name)
    assert str(refusal.value) == message


def test_every_preset_is_found_by_its_name():
    for name, preset in paper.PRESETS.items():
        assert paper.find_preset(name) is preset


def test_a_preset_loads_no_other_file_of_the_paper():
    code = (
        "import sys; from wmg import paper; paper.find_preset('pathfinding/wmg'); "
        "names = 'babyai', 'sokoban', 'pathfinding_baselines', 'targets'; "
        "others = {f'wmg.paper.{name}' for name in names}; "
        "sys.exit(bool(others & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_paper_has_no_other_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'CELLS'"):
        _ = paper.CELLS
