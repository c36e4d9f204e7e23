"""Pathfinding (section 4.1): what the paper measures.

Purpose: WMG's shortcut recurrence against a GRU's gated recurrence, with perfect-memory and
    hand-coded baselines.
Expected: 99.6% of reward for WMG and nr-WMG, 94.7% for GRU after 20M steps (Table 12).
Cost: 100 WMG runs of a million steps take about 8 minutes on one H200.
Command: `wmg reproduce pathfinding`; LSTM and GTrXL beside them: `pathfinding-memory-agents`.
"""

import dataclasses

from wmg.agents.baselines.settings import DepthSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.paper.pathfinding import NR_WMG_1M, NR_WMG_20M, WMG_1M, WMG_20M
from wmg.paper.pathfinding_baselines import GRU_1M, GRU_20M, GTRXL_1M, LSTM_1M
from wmg.paper.target import EXACT, Band, Cell, Claim, Target

LONG = PathfindingSettings(nodes=13)


def depth(n: int, env: PathfindingSettings, paper: float | None, label: str = "") -> Cell:
    """The Depth-n baseline on an environment."""
    agent = DepthSettings(depth=n, nodes=env.nodes)
    return Cell(label or f"Depth-{n}", Config(env=env, agent=agent), paper)


def with_memos(config: Config, slots: int) -> Config:
    """The same agent with another number of Memos."""
    assert isinstance(config.agent, WMGSettings)
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, slots=slots))


def on_24_steps(
    label: str, trained: str, config: Config, paper: float | None = None, *, enlarged: bool = False
) -> Cell:
    """The trained agents of a cell, tested on episodes twice as long."""
    longer = dataclasses.replace(config, env=LONG)
    return Cell(label, longer, paper, trained=trained, enlarged=enlarged)


def released(
    label: str,
    file: str,
    env: PathfindingSettings,
    paper: float | None = None,
    *,
    enlarged: bool = False,
) -> Cell:
    """A model that the authors published, on an environment."""
    return Cell(label, Config(env=env), paper, file=file, enlarged=enlarged)


def for_a_million(label: str, config: Config) -> Cell:
    """A cell of this agent for a million steps."""
    return Cell(label, dataclasses.replace(config, steps=1_000_000))


WMG_FILE, NR_WMG_FILE = "wmg_pathfinding.pth", "nr_wmg_pathfinding.pth"
POINTS = Band(
    0.3, "the error that remains, 0.4 points, may differ by three quarters", relative=False
)
LEARNS_ON = Band(1.0, "GRU still gains at 20 million steps", relative=False)
LINES = {"Depth-1": 86.9, "Depth-2": 97.6, "Depth-3": 99.7}

TARGETS = {
    "parameter-counts": Target(
        title="Trainable parameters",
        source="Table 12",
        measure="parameters",
        unit="parameters",
        cells={
            "wmg": Cell("WMG", WMG_20M, 132_507),
            "nr-wmg": Cell("nr-WMG, full history", NR_WMG_20M, 204_963),
            "gru": Cell("GRU", GRU_20M, 1_139_459),
        },
        band=EXACT,
    ),
    "training-speed": Target(
        title="Training speed on Pathfinding",
        source="Table 12",
        measure="speed",
        unit="steps/s",
        cells={
            "wmg": Cell("WMG", WMG_20M, 91),
            "nr-wmg": Cell("nr-WMG, full history", NR_WMG_20M, 96),
            "gru": Cell("GRU", GRU_20M, 291),
        },
        band=Band(0.1, "another machine than the paper's: a match would be chance"),
        note="The paper's figures are for one run on eight virtual cores of a 2.6 GHz Xeon E5. On "
        "two cores of a newer machine the authors' code makes 194 / 191 / 552 steps/s.",
    ),
    "depth-baselines": Target(
        title="Hand-coded baselines on Pathfinding",
        source="Table 12; 24 steps: no figures in the paper",
        measure="episodes",
        unit="% of reward",
        cells={
            "depth-1": depth(1, PathfindingSettings(), 86.9),
            "depth-2": depth(2, PathfindingSettings(), 97.6),
            "depth-3": depth(3, PathfindingSettings(), 99.7),
            "depth-6": depth(6, PathfindingSettings(), 100.0, "Depth-(N-1)"),
            "depth-1-24-steps": depth(1, LONG, None, "Depth-1, 24 steps"),
            "depth-2-24-steps": depth(2, LONG, None, "Depth-2, 24 steps"),
            "depth-3-24-steps": depth(3, LONG, None, "Depth-3, 24 steps"),
        },
        band=Band(0.5, "chance of 20,000 episodes, and the paper's rounding", relative=False),
    ),
    "pathfinding": Target(
        title="Pathfinding",
        source="Figure 3 (middle), Table 12",
        measure="curve",
        unit="% of reward",
        runs=100,
        cells={
            "wmg": Cell("WMG", WMG_20M, 99.6),
            "nr-wmg": Cell("nr-WMG", NR_WMG_20M, 99.6),
            "gru": Cell("GRU", GRU_20M, 94.7, LEARNS_ON),
            "wmg-12-memos": Cell("WMG, 12 Memos", with_memos(WMG_20M, 12)),
        },
        claims=(
            Claim("WMG is above GRU", "wmg", "above", "gru"),
            Claim("nr-WMG is above GRU", "nr-wmg", "above", "gru"),
            Claim(
                "12 Memos do as well as 16, within 0.3 points",
                "wmg-12-memos",
                "alike",
                "wmg",
                margin=0.3,
                full_scale=True,
            ),
        ),
        band=POINTS,
        lines=LINES,
    ),
    "pathfinding-6-memos": Target(
        title="Pathfinding with 6 Memos",
        source="Figure 3 (right)",
        measure="curve",
        unit="% of reward",
        runs=100,
        cells={
            "wmg": Cell("WMG, 6 Memos", WMG_1M),
            "nr-wmg": Cell("nr-WMG, last 6 observations", NR_WMG_1M),
            "gru": Cell("GRU", GRU_1M),
        },
        claims=(
            Claim(
                "WMG with 6 Memos is above nr-WMG with 6 observations",
                "wmg",
                "above",
                "nr-wmg",
            ),
            Claim("WMG with 6 Memos is above GRU", "wmg", "above", "gru"),
        ),
        lines=LINES,
        note="The paper gives this figure without numbers.",
    ),
    "pathfinding-memory-agents": Target(
        title="Pathfinding: memory agents that the paper does not have",
        source="not in the paper",
        measure="curve",
        unit="% of reward",
        runs=20,
        cells={
            "wmg": for_a_million("WMG", WMG_20M),
            "nr-wmg": for_a_million("nr-WMG", NR_WMG_20M),
            "gru": for_a_million("GRU", GRU_20M),
            "lstm": for_a_million("LSTM", LSTM_1M),
            "gtrxl": for_a_million("GTrXL", GTRXL_1M),
        },
        lines=LINES,
        note="WMG, nr-WMG and GRU have the paper's tuned settings for 20 million steps. LSTM and "
        "GTrXL are not tuned: the learning rule's numbers are GRU's for LSTM and WMG's for GTrXL. "
        "GRU, LSTM and GTrXL have about 1.14 million parameters; WMG has 0.13 million.",
    ),
    "pathfinding-24-steps": Target(
        title="Trained on 12 steps, tested on 24",
        source="section 4.1",
        measure="transfer",
        unit="% of reward",
        runs=100,
        cells={
            "wmg": on_24_steps("WMG", "wmg", WMG_20M, 93.9, enlarged=True),
            "nr-wmg": on_24_steps("nr-WMG", "nr-wmg", NR_WMG_20M, 95.3, enlarged=True),
            "gru": on_24_steps("GRU", "gru", GRU_20M, 84.4),
            "wmg-as-trained": on_24_steps("WMG, memory as trained", "wmg", WMG_20M),
            "nr-wmg-as-trained": on_24_steps("nr-WMG, memory as trained", "nr-wmg", NR_WMG_20M),
        },
        claims=(
            Claim("WMG is above GRU on 24 steps", "wmg", "above", "gru"),
            Claim("nr-WMG is above GRU on 24 steps", "nr-wmg", "above", "gru"),
        ),
        band=Band(
            1.5,
            "the paper does not say how it enlarged memory, which is worth some points",
            relative=False,
        ),
        models="pathfinding",
        note=(
            "The trained models of `pathfinding` on the same 1,000 episodes each, scored in the "
            "same job. WMG and nr-WMG get 23 slots, all there from the start, and ages above 11 "
            "shown as 11: the paper does not say what it did; docs/deviations.md has the evidence. "
            "As trained, WMG has 16 Memos and nr-WMG 11 observations."
        ),
    ),
    "released-checkpoints": Target(
        title="The authors' released Pathfinding models",
        source="the README of the authors' code",
        measure="checkpoint",
        unit="% of reward",
        cells={
            "wmg": released("WMG, 12 steps", WMG_FILE, PathfindingSettings(), 99.6),
            "wmg-24-steps": released("WMG, 24 steps, as released", WMG_FILE, LONG),
            "wmg-24-steps-enlarged": released(
                "WMG, 24 steps, memory enlarged", WMG_FILE, LONG, enlarged=True
            ),
            "nr-wmg": released("nr-WMG, 12 steps", NR_WMG_FILE, PathfindingSettings(), 99.6),
            "nr-wmg-24-steps": released("nr-WMG, 24 steps, as released", NR_WMG_FILE, LONG),
            "nr-wmg-24-steps-enlarged": released(
                "nr-WMG, 24 steps, memory enlarged", NR_WMG_FILE, LONG, enlarged=True
            ),
        },
        band=Band(0.3, "chance of 1,000 episodes, and the README's rounding", relative=False),
        note="Read with `wmg convert`'s reader and scored on 1,000 episodes. On 24 steps the paper "
        "has means of 100 models, 93.9 and 95.3, not of these two. The authors publish the files "
        "with their code; name their folder with --checkpoints.",
    ),
}
