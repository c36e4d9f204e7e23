"""Pathfinding (section 4.1): the tables of settings, and what the paper measures with them.

Purpose: WMG's shortcut recurrence against a GRU's gated recurrence, with perfect-memory and
    hand-coded baselines.
Expected: 99.6% of reward for WMG and nr-WMG, 94.7% for GRU after 20M steps (Table 12).
Cost: 100 WMG runs of a million steps take about 8 minutes on one H200.
Command: `wmg reproduce pathfinding`.
"""

import dataclasses

from wmg.config import GRU, WMG, Config, Depth, Hyper, Pathfinding
from wmg.experiments.target import Cell, Claim, Target

LONG = Pathfinding(nodes=13)

WMG_20M = Config(
    agent=WMG(slots=16, memo_size=128, layers=4, heads=6, head_size=12, hidden=12),
    hyper=Hyper(
        learning_rate=1.6e-4, discount=0.5, entropy=0.01, adam_eps=1e-6, grad_clip=16.0,
        reward_scale=2.0,
    ),
)  # fmt: skip

NR_WMG_20M = Config(
    agent=WMG(memory="observations", slots=11, layers=4, heads=6, head_size=16, hidden=32),
    hyper=Hyper(
        learning_rate=1.6e-4, discount=0.6, entropy=0.005, adam_eps=1e-8, grad_clip=16.0,
        reward_scale=1.0,
    ),
)  # fmt: skip

GRU_20M = Config(
    agent=GRU(embedding=256, size=384, actor_critic=512),
    hyper=Hyper(
        learning_rate=1e-4, discount=0.5, entropy=0.02, adam_eps=1e-8, grad_clip=4.0,
        reward_scale=0.5,
    ),
)  # fmt: skip

WMG_1M = Config(
    agent=WMG(
        slots=6, memo_size=256, layers=3, heads=4, head_size=90, hidden=8, actor_critic=2880
    ),
    hyper=Hyper(
        learning_rate=4e-5, discount=0.5, entropy=0.005, adam_eps=1e-4, grad_clip=256.0,
        reward_scale=4.0,
    ),
    steps=1_000_000,
)  # fmt: skip

NR_WMG_1M = Config(
    agent=WMG(
        memory="observations", slots=6, layers=5, heads=1, head_size=90, hidden=16,
        actor_critic=256,
    ),
    hyper=Hyper(
        learning_rate=1.6e-4, discount=0.5, entropy=0.05, adam_eps=1e-12, grad_clip=4.0,
        reward_scale=2.0,
    ),
    steps=1_000_000,
)  # fmt: skip

GRU_1M = Config(
    agent=GRU(embedding=1024, size=256, actor_critic=5760),
    hyper=Hyper(
        learning_rate=1e-4, discount=0.5, entropy=0.1, adam_eps=1e-6, grad_clip=32.0,
        reward_scale=2.0,
    ),
    steps=1_000_000,
)  # fmt: skip

PRESETS = {
    "pathfinding/wmg": WMG_20M,
    "pathfinding/nr-wmg": NR_WMG_20M,
    "pathfinding/gru": GRU_20M,
    "pathfinding-6-memos/wmg": WMG_1M,
    "pathfinding-6-memos/nr-wmg": NR_WMG_1M,
    "pathfinding-6-memos/gru": GRU_1M,
}


def depth(n: int, env: Pathfinding, paper: float | None, label: str = "") -> Cell:
    """The Depth-n baseline on an environment."""
    agent = Depth(depth=n, nodes=env.nodes)
    return Cell(label or f"Depth-{n}", Config(env=env, agent=agent), paper)


def on_24_steps(config: Config) -> Config:
    """A trained agent's config, tested on episodes twice as long."""
    return dataclasses.replace(config, env=LONG)


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
        claims=(
            Claim("WMG has 132,507 parameters", "wmg", "equals", 132_507),
            Claim("nr-WMG has 204,963 parameters", "nr-wmg", "equals", 204_963),
            Claim("GRU has 1,139,459 parameters", "gru", "equals", 1_139_459),
        ),
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
        claims=(
            Claim("WMG trains faster than the paper's 91 steps/s", "wmg", "above", 91),
            Claim("GRU trains faster than the paper's 291 steps/s", "gru", "above", 291),
        ),
        note="The paper's figures are for one run on eight virtual cores of a 2.6 GHz Xeon E5.",
    ),
    "depth-baselines": Target(
        title="Hand-coded baselines on Pathfinding",
        source="Table 12; 24 steps: no figures in the paper",
        measure="episodes",
        unit="% of reward",
        cells={
            "depth-1": depth(1, Pathfinding(), 86.9),
            "depth-2": depth(2, Pathfinding(), 97.6),
            "depth-3": depth(3, Pathfinding(), 99.7),
            "depth-6": depth(6, Pathfinding(), 100.0, "Depth-(N-1)"),
            "depth-1-24-steps": depth(1, LONG, None, "Depth-1, 24 steps"),
            "depth-2-24-steps": depth(2, LONG, None, "Depth-2, 24 steps"),
            "depth-3-24-steps": depth(3, LONG, None, "Depth-3, 24 steps"),
        },
        claims=(
            Claim("Depth-1 obtains 86.9%", "depth-1", "equals", 86.9, 0.3),
            Claim("Depth-2 obtains 97.6%", "depth-2", "equals", 97.6, 0.3),
            Claim("Depth-3 obtains 99.7%", "depth-3", "equals", 99.7, 0.3),
            Claim("Depth-(N-1) obtains 100%", "depth-6", "equals", 100.0, 0.0),
        ),
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
            "gru": Cell("GRU", GRU_20M, 94.7),
        },
        claims=(
            Claim("WMG is above GRU", "wmg", "above", "gru"),
            Claim("nr-WMG is above GRU", "nr-wmg", "above", "gru"),
            Claim("WMG obtains 99.6%", "wmg", "equals", 99.6, 0.3, full_scale=True),
            Claim("nr-WMG obtains 99.6%", "nr-wmg", "equals", 99.6, 0.3, full_scale=True),
            Claim("GRU obtains 94.7%", "gru", "equals", 94.7, 1.0, full_scale=True),
        ),
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
    "pathfinding-24-steps": Target(
        title="Trained on 12 steps, tested on 24",
        source="section 4.1",
        measure="transfer",
        unit="% of reward",
        runs=100,
        cells={
            "wmg": Cell("WMG", on_24_steps(WMG_20M), 93.9),
            "nr-wmg": Cell("nr-WMG", on_24_steps(NR_WMG_20M), 95.3),
            "gru": Cell("GRU", on_24_steps(GRU_20M), 84.4),
        },
        claims=(
            Claim("WMG is above GRU on 24 steps", "wmg", "above", "gru"),
            Claim("nr-WMG is above GRU on 24 steps", "nr-wmg", "above", "gru"),
            Claim("WMG obtains 93.9%", "wmg", "equals", 93.9, 1.0, full_scale=True),
            Claim("nr-WMG obtains 95.3%", "nr-wmg", "equals", 95.3, 1.0, full_scale=True),
            Claim("GRU obtains 84.4%", "gru", "equals", 84.4, 1.5, full_scale=True),
        ),
        note=(
            "The trained models of `pathfinding` on the same 1,000 episodes each. WMG and "
            "nr-WMG get 23 slots, all there from the start, and ages above 11 shown as 11: "
            "the paper does not say what it did; docs/deviations.md has the evidence."
        ),
    ),
}
