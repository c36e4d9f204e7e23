"""Sokoban (section 4.3): what the paper's one agent and others were measured to do.

Purpose: how many of the 1,000 unfiltered Boxoban test levels WMG solves after 5, 10, 15 and 20
    million interactions with the 900,000 training levels.
Expected: about 84% after 20 million, which is what the authors' README says of the one model they
    released (Figure 6 shows 20 runs without numbers); DRC, with recurrence made for planning,
    solves 80%.
Command: `wmg data boxoban` for the levels, then `wmg reproduce sokoban`; of the batched trainer
    alone, `wmg reproduce sokoban --cells wmg-batched --runs 1`; of DRC in it,
    `wmg reproduce sokoban --cells drc --runs 2 --group-size 1`.
"""

import dataclasses

from wmg.config import Config
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.paper.sokoban import PAPERS, PRESETS
from wmg.paper.target import EXACT, Band, Cell, Claim, Target

WMG_PARAMETERS = 4_508_182


def on_boxoban(name: str) -> Config:
    """A preset on the paper's levels and on no others."""
    preset = PRESETS[name]
    assert isinstance(preset.env, SokobanSettings)
    return dataclasses.replace(
        preset, env=dataclasses.replace(preset.env, levels="unfiltered-train")
    )


def with_a_curve() -> Config:
    """The paper's preset with 800 reports: a result keeps all of them, for each run."""
    return dataclasses.replace(on_boxoban("sokoban/wmg"), report_every=25_000)


def batched_to_20_million() -> Config:
    """The batched preset for as many steps as the paper's, with the paper's annealing."""
    preset = on_boxoban("sokoban/wmg-batched")
    hyper = dataclasses.replace(preset.hyper, anneal_after=PAPERS.hyper.anneal_after)
    return dataclasses.replace(preset, hyper=hyper, steps=PAPERS.steps)


def drc_to_10_million() -> Config:
    """DRC for as many steps as its first published point."""
    return dataclasses.replace(on_boxoban("sokoban/drc"), steps=10_000_000)


PUBLISHED = {
    "DRC(3,3)": {
        10_000_000: 34.4,
        20_000_000: 80.2,
        50_000_000: 93.4,
        100_000_000: 96.1,
        2_000_000_000: 98.9,
    },
    "ResNet": {
        10_000_000: 6.7,
        20_000_000: 46.5,
        50_000_000: 79.4,
        100_000_000: 87.4,
        2_000_000_000: 97.3,
    },
}
"""Solved shares of the test levels with 120 steps a level, from the data that Taufeeque et al.
(2024, arXiv:2407.15421) published with their replication: means of 5 seeds of DRC, 4 of ResNet."""

TARGETS = {
    "sokoban-parameter-count": Target(
        title="Trainable parameters on Sokoban",
        source="Table 11",
        measure="parameters",
        unit="parameters",
        cells={"wmg": Cell("WMG", PRESETS["sokoban/wmg"], WMG_PARAMETERS)},
        band=EXACT,
    ),
    "sokoban": Target(
        title="Boxoban test levels solved",
        source="Figure 6",
        measure="levels",
        unit="% of levels",
        runs=20,
        cells={
            "wmg": Cell("WMG", with_a_curve(), 84.0),
            "wmg-batched-20m": Cell("WMG, batched trainer, 20M", batched_to_20_million()),
            "wmg-batched": Cell("WMG, batched trainer, 50M", on_boxoban("sokoban/wmg-batched")),
            "drc": Cell("DRC(3,3), batched trainer, 10M", drc_to_10_million()),
        },
        claims=(
            Claim(
                "WMG solves more than DRC's 80.2% after 20 million interactions",
                "wmg",
                "above",
                80.2,
                full_scale=True,
            ),
            Claim(
                "With clipped ratios in 256 environments WMG solves more than 84% after 20 million",
                "wmg-batched",
                "above",
                84.0,
                after=20_000_000,
            ),
            Claim(
                "Annealed at the paper's times, it solves more than 84% after 20 million",
                "wmg-batched-20m",
                "above",
                84.0,
                after=20_000_000,
            ),
            Claim(
                "It solves more than DRC's 93.4% after 50 million",
                "wmg-batched",
                "above",
                93.4,
                after=50_000_000,
            ),
        ),
        band=Band(
            2.0, "84 is the figure of one model of 20, on 1,000 levels: 2.2 points", relative=False
        ),
        lines={"WMG, the authors' model": 84.0},
        published=PUBLISHED,
        note="Models are tested after every 5 million interactions and where runs end, on the "
        "1,000 unfiltered test levels, once each, with sampled actions and 120 steps, and once "
        "more with 240; DRC and ResNet had 120. The paper shows a figure and no "
        "numbers: 84 is what the authors' README says of the model they released, one of 20. The "
        "batched cells are the paper's network with another learning rule (clipped ratios, "
        "generalised advantages, 256 environments, bfloat16) and other numbers. The schedule of "
        "the 20M cell was chosen after a miss on the test levels. DRC(3,3) in our trainer is to be "
        "compared with the published DRC(3,3): 34.4% after 10 million.",
    ),
}
