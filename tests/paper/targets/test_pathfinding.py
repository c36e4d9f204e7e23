"""What the paper measures on Pathfinding, and claims of all targets."""

import dataclasses

import pytest

from wmg import paper
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.paper.targets import TARGETS, pathfinding


def test_memory_agents_are_in_one_figure_with_the_papers_three():
    cells = TARGETS["pathfinding-memory-agents"].cells
    assert list(cells) == ["wmg", "nr-wmg", "gru", "lstm", "gtrxl"]
    for name, cell in cells.items():
        preset = paper.PRESETS[f"pathfinding/{name}"]
        assert cell.config == dataclasses.replace(preset, steps=1_000_000)


def test_the_targets_quote_the_papers_numbers():
    quoted = {
        name: {cell.label: cell.paper for cell in target.cells.values() if cell.paper is not None}
        for name, target in pathfinding.TARGETS.items()
    }
    assert quoted == {
        "parameter-counts": {"WMG": 132507, "nr-WMG, full history": 204963, "GRU": 1139459},
        "training-speed": {"WMG": 91, "nr-WMG, full history": 96, "GRU": 291},
        "depth-baselines": {
            "Depth-1": 86.9, "Depth-2": 97.6, "Depth-3": 99.7, "Depth-(N-1)": 100.0,
        },
        "pathfinding": {"WMG": 99.6, "nr-WMG": 99.6, "GRU": 94.7},
        "pathfinding-6-memos": {},
        "pathfinding-memory-agents": {},
        "pathfinding-24-steps": {"WMG": 93.9, "nr-WMG": 95.3, "GRU": 84.4},
        "released-checkpoints": {"WMG, 12 steps": 99.6, "nr-WMG, 12 steps": 99.6},
    }  # fmt: skip


def test_a_claim_names_only_cells_of_its_own_target():
    for target in TARGETS.values():
        named = {name for c in target.claims for name in (c.cell, c.other) if isinstance(name, str)}
        assert named <= target.cells.keys()


@pytest.mark.parametrize("name", ["parameter-counts", "training-speed", "pathfinding"])
def test_the_cells_of_a_long_target_are_the_presets_of_the_20m_table(name):
    cells = TARGETS[name].cells
    for cell in ("wmg", "nr-wmg", "gru"):
        assert cells[cell].config == paper.PRESETS[f"pathfinding/{cell}"]


def test_the_test_on_24_steps_changes_nothing_but_the_number_of_nodes():
    for cell, shown in TARGETS["pathfinding-24-steps"].cells.items():
        trained = paper.PRESETS[f"pathfinding/{shown.trained}"]
        assert cell.removesuffix("-as-trained") == shown.trained
        assert shown.enlarged == (cell in ("wmg", "nr-wmg"))
        assert shown.config.env == PathfindingSettings(nodes=13)
        assert (shown.config.agent, shown.config.hyper) == (trained.agent, trained.hyper)
