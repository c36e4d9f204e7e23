"""What the paper measures on Sokoban, and what others published."""

import dataclasses

import pytest

from wmg import paper
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.paper import reproduce
from wmg.paper.targets import TARGETS, sokoban

PRESET = paper.PRESETS["sokoban/wmg"]


def test_the_figure_is_of_boxoban_and_of_nothing_else():
    for name, cell in TARGETS["sokoban"].cells.items():
        usual = SokobanSettings("unfiltered-train", cells=57)
        seen = {"observation": "planes", "rewards": (-0.1, 1.0, -1.0, 10.0)}
        changed = seen if name == "drc" else {}
        assert cell.config.env == dataclasses.replace(usual, **changed)
        assert reproduce.held_out_levels(cell.config).levels == "unfiltered-test"


def test_to_20_million_it_is_annealed_as_the_papers_is():
    cell = TARGETS["sokoban"].cells["wmg-batched-20m"].config
    assert (cell.steps, cell.hyper.anneal_after) == (PRESET.steps, PRESET.hyper.anneal_after)
    assert cell.batched == paper.PRESETS["sokoban/wmg-batched"].batched


def test_what_others_reach_grows_with_steps():
    for numbers in sokoban.PUBLISHED.values():
        assert list(numbers) == sorted(numbers)
        assert list(numbers.values()) == sorted(numbers.values())
    assert sokoban.PUBLISHED["DRC(3,3)"][20_000_000] == 80.2


@pytest.mark.parametrize("claim", TARGETS["sokoban"].claims)
def test_its_claims_need_all_of_their_steps(claim):
    steps = TARGETS["sokoban"].cells[claim.cell].config.steps
    assert claim.full_scale if claim.after is None else claim.after <= steps
