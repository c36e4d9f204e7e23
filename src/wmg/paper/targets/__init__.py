"""The tables and figures of the paper: what to run, and the paper's numbers and claims."""

from wmg.paper.target import Target
from wmg.paper.targets import babyai, pathfinding, sokoban
from wmg.tools.errors import BadInput, did_you_mean

TARGETS: dict[str, Target] = pathfinding.TARGETS | babyai.TARGETS | sokoban.TARGETS


def find_target(name: str) -> Target:
    """The target of that name."""
    if name not in TARGETS:
        hint = did_you_mean(name, TARGETS, "wmg list shows them")
        raise BadInput(f"there is no target {name!r}; {hint}")
    return TARGETS[name]


def scored_after(name: str, cell: str) -> list[tuple[str, str]]:
    """(target, cell) of every transfer that scores the models of a trained cell."""
    return [
        (other, each)
        for other, target in TARGETS.items()
        if target.models == name
        for each, of in target.cells.items()
        if of.trained == cell
    ]
