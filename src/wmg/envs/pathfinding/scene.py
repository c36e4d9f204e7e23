"""Pathfinding in the viewer: the graph so far, what is shown, and the path that answers."""

import pathlib
from typing import Any

from wmg.envs.pathfinding.state import PathfindingState
from wmg.envs.scenery import Scenery
from wmg.types import Observation

Link = tuple[int, int]


def describe(state: PathfindingState, observation: Observation) -> dict[str, Any]:
    """The graph at the step that is shown; after the end, at the last."""
    del observation  # it has no Factors
    time = min(int(state.time), len(state.source) - 1)
    pairs = list(zip(state.source.tolist(), state.target.tolist(), strict=True))
    links, shown, quiz = pairs[: time + 1 : 2], pairs[time], time % 2 == 1
    arrow = f"{shown[0]}→{shown[1]}"
    patterns = state.patterns[: len(links) + 1].tolist()
    says = f"Is there a path from {shown[0]} to {shown[1]}?" if quiz else f"A new link: {arrow}."
    if state.time == len(state.source):
        says = "That was the last question."
    return {
        "says": f"{says} {int(state.right)} of {int(state.time) // 2} answers were right.",
        "brief": f"{arrow}?" if quiz else arrow,
        "places": [],
        "size": len(state.patterns),
        "patterns": [[round(x, 3) for x in row] for row in patterns],
        "links": links,
        "shown": shown,
        "quiz": quiz,
        "asks": quiz,
        "path": find_path(links, *shown) if quiz else None,
    }


def find_path(links: list[Link], start: int, end: int) -> list[int] | None:
    """The nodes on the way from one to the other. In a polytree there is at most one way."""
    if start == end:
        return [end]
    for source, target in links:
        if source == start and (rest := find_path(links, target, end)):
            return [start, *rest]
    return None


SCENERY = Scenery(
    drawing=pathlib.Path(__file__).with_name("scene.js"),
    actions=(("no", "ArrowLeft"), ("yes", "ArrowRight")),
    describe=describe,
)
