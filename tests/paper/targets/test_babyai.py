"""What the paper measures on BabyAI, against its tables."""

import dataclasses

import pytest
from paper.test_babyai import EFFICIENCY, MODELS, PARAMETERS, SENSITIVITY, TUNED, UNTUNED, results

from wmg.config import Goal
from wmg.paper.babyai import PRESETS, REPLICATED
from wmg.paper.targets.babyai import TARGETS

SPEED = """
1 - GoToObj & 38 & 28 & 146 & 111 & 86 & 149
2 - GoToRedBallGrey & 58 & 113 & 147 & 35 & 18 & 88
3 - GoToRedBall & 18 & 32 & 78 & 25 & 20 & 87
4 - GoToLocal & 44 & 48 & 132 & 54 & 134 & -----
5 - PickupLoc & 81 & 84 & ----- & ----- & ----- & -----
"""


@pytest.mark.parametrize("target", ["babyai-table", "babyai-sensitivity"])
def test_runs_are_tested_on_coarser_grids_too_where_the_paper_is_reproduced(target):
    for name, cell in TARGETS[target].cells.items():
        often = "level4" not in name or name == "level4-wmg-factored"
        every, authors = cell.config.report_every, 1000 if often else 10_000
        grids = {4 * every}
        if name.endswith("factored"):
            grids |= {16 * every} | ({authors} if authors > every else set())
        assert set(cell.config.goal.grids) == {grid for grid in grids if grid % every == 0}
    level1 = TARGETS["babyai-table"].cells["level1-wmg-factored"].config
    assert level1.goal.grids == (100, 400, 1000)


def test_dashes_are_claims_about_the_share_of_solved_runs():
    target = TARGETS["babyai-dashes"]
    unsolved = {(4, "cnn-gru")} | {(5, m) for m in MODELS if "wmg-factored" not in m}
    assert target.cells.keys() == {f"level{level}-{model}" for level, model in unsolved}
    assert {claim.cell: (claim.kind, claim.other) for claim in target.claims} == {
        cell: ("unsolved", 0.5) for cell in target.cells
    }
    assert {cell.config.steps for cell in target.cells.values()} == {6_000_000}


def test_the_curves_of_level_5_have_the_settings_of_level_4_and_no_goal():
    cells = TARGETS["babyai-level5-curves"].cells
    assert list(cells) == MODELS[:5]
    for model, cell in cells.items():
        untuned = PRESETS[f"babyai-sensitivity/level5/{model}"]
        changes = {"goal": None, "steps": 1_000_000, "report_every": 10_000}
        assert cell.config == dataclasses.replace(untuned, **changes)


@pytest.mark.parametrize(
    ("target", "table", "unit"),
    [
        ("babyai-table", EFFICIENCY, 1),
        ("babyai-sensitivity", SENSITIVITY, 1),
        ("babyai-parameter-counts", PARAMETERS, 1000),
        ("babyai-training-speed", SPEED, 1),
    ],
)
def test_a_target_has_a_cell_with_the_papers_number_for_each_preset(target, table, unit):
    printed = results(table)
    known = UNTUNED if target == "babyai-sensitivity" else TUNED
    cells = TARGETS[target].cells
    assert len(cells) == len(known)
    for name, (level, model) in known.items():
        cell = cells[f"level{level}-{model}"]
        number = printed.get((level, model))
        assert cell.paper == (number if number is None else number * unit)
        assert dataclasses.replace(cell.config, goal=Goal()) == PRESETS[name]
    solved = {key for key, number in printed.items() if number is not None}
    assert solved <= set(known.values())  # no number of the paper is left out


@pytest.mark.parametrize(
    ("target", "table"), [("babyai-table", EFFICIENCY), ("babyai-sensitivity", SENSITIVITY)]
)
def test_the_papers_own_numbers_bear_out_every_claim(target, table):
    paper = {f"level{level}-{model}": n for (level, model), n in results(table).items() if n}
    claims = TARGETS[target].claims
    assert len(claims) >= 9 and {claim.kind for claim in claims} == {"below"}
    for claim in claims:
        other = paper[claim.other] if isinstance(claim.other, str) else claim.other
        assert paper[claim.cell] < claim.times * other, claim.text


@pytest.mark.parametrize("target", TARGETS)
def test_the_names_of_cells_are_names_of_folders(target):
    for name in TARGETS[target].cells:
        assert name.replace("-", "").isalnum()


TABLE_15 = r"""
1 - GoToObj & ----- & 19 & 333
2 - GoToRedBallGrey & 17 & 16 & 282
3 - GoToRedBall & 297 & 283 & 3,674
4 - GoToLocal & 1008 & 1,064 & 16,422
5 - PickupLoc & 1,545 & 1,557 & 25,574
"""


def test_the_target_of_the_baseline_quotes_its_table():
    target = TARGETS["babyai-baseline"]
    for level, line in enumerate(TABLE_15.strip().splitlines(), start=1):
        _, _, episodes, interactions = line.replace(",", "").split(" & ")
        cell = target.cells[f"level{level}-baseline"]
        assert cell.paper == float(interactions)
        assert REPLICATED["episodes"][f"level{level}"] == float(episodes)
        assert cell.config == PRESETS[f"babyai/level{level}/baseline"]
        assert cell.config.steps >= 5000 * float(interactions)
