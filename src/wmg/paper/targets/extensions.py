"""Extensions of WMG, which the paper names as future work: plain against extended.

Purpose: for each extension a task where it should help and one where it should not.
Expected: unknown; docs/extensions.md says what each should do.
Cost: estimated at an evening on one H200, most of it for Sokoban.
Command: `wmg reproduce extensions-pathfinding`, `extensions-pathfinding-24`, `extensions-babyai`,
    `extensions-sokoban`. MemoryChain, which gymnax has: `benchmarks/extensions.py`.
"""

import dataclasses
from typing import Any

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.paper.babyai import TUNED
from wmg.paper.pathfinding import WMG_1M
from wmg.paper.target import Cell, Claim, Target
from wmg.paper.targets.pathfinding import LINES, with_memos
from wmg.paper.targets.sokoban import on_boxoban

LIFETIMES: dict[str, Any] = {"lifetimes": "attention"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("WMG", {}),
    "lifetimes": ("WMG, flexible lifetimes", LIFETIMES),
    "dropping": ("WMG, flexible lifetimes, drops below 0.05", {**LIFETIMES, "drop_below": 0.05}),
    "memo-edges": ("WMG, edges between Memos", {"edges": "memos"}),
    "factor-edges": ("WMG, edges between Factors", {"edges": "factors"}),
    "edges": ("WMG, edges between Memos and between Factors", {"edges": "both"}),
    "store": ("WMG, memory vectors", {"store": 64}),
}
"""A label, and what differs from the plain agent."""


def cells(prefix: str, config: Config, *names: str, label: str = "") -> dict[str, Cell]:
    """The plain agent, and the same with some of the extensions."""
    assert isinstance(config.agent, WMGSettings)
    made = {}
    for name in ("plain", *names):
        what, changes = VARIANTS[name]
        agent = dataclasses.replace(config.agent, **changes)
        extended = dataclasses.replace(config, agent=agent)
        made[f"{prefix}{name}"] = Cell(label + what, extended)
    return made


def with_few_memos(slots: int) -> dict[str, Cell]:
    """Episodes of 12 steps for an agent with fewer Memos than that."""
    config = with_memos(WMG_1M, slots)
    names = ("lifetimes", "dropping", "memo-edges", "store")
    return cells(f"{slots}-memos-", config, *names, label=f"{slots} Memos: ")


def on_level(number: int) -> dict[str, Cell]:
    """A level of BabyAI with the paper's settings for it."""
    config = TUNED[f"level{number}", "wmg-factored"]
    return cells(
        f"level{number}-", config, "lifetimes", "edges", "store", label=f"Level {number}, "
    )


TWICE_AS_LONG = dataclasses.replace(WMG_1M, env=PathfindingSettings(nodes=13), t_max=24)
BOXOBAN = dataclasses.replace(on_boxoban("sokoban/wmg-batched"), steps=5_000_000)
OURS = "not in the paper: its last section names the extensions as future work"

TARGETS = {
    "extensions-pathfinding": Target(
        title="Extensions of WMG: Pathfinding with fewer Memos than steps",
        source=OURS,
        measure="curve",
        unit="% of reward",
        runs=20,
        cells={**with_few_memos(6), **with_few_memos(3)},
        claims=tuple(
            Claim(
                f"With {slots} Memos flexible lifetimes do better",
                f"{slots}-memos-lifetimes",
                "above",
                f"{slots}-memos-plain",
            )
            for slots in (6, 3)
        ),
        lines=LINES,
        note="The settings were tuned for plain WMG with 6 Memos.",
    ),
    "extensions-pathfinding-24": Target(
        title="Extensions of WMG: Pathfinding, trained on 24 steps with 6 Memos",
        source=OURS,
        measure="curve",
        unit="% of reward",
        runs=20,
        cells=cells("", TWICE_AS_LONG, "lifetimes", "memo-edges", "store"),
        note="Windows are whole episodes (t_max = 24).",
    ),
    "extensions-babyai": Target(
        title="Extensions of WMG: BabyAI",
        source=OURS,
        measure="efficiency",
        unit="thousand interactions",
        runs=20,
        cells={**on_level(4), **on_level(5)},
        note="The settings are the paper's, tuned for plain WMG.",
    ),
    "extensions-sokoban": Target(
        title="Extensions of WMG: Sokoban, 5 million interactions",
        source=OURS,
        measure="levels",
        unit="% of levels",
        runs=2,
        cells=cells("", BOXOBAN, "factor-edges", "store"),
        note="Of the batched trainer. The agent has one Memo, so its lifetime is not varied.",
    ),
}
