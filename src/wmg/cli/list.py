"""`wmg list`: presets, targets and models."""

import dataclasses
import json as jsonlib

from wmg import paper
from wmg.cli.options import parse


@dataclasses.dataclass(frozen=True)
class ListOptions:
    """Show presets with their parameter counts, targets, and shipped models."""

    json: bool = False
    """Print as JSON."""


def run(args: list[str]) -> int:
    """`wmg list`"""
    options = parse(ListOptions, args, "wmg list")
    from wmg.paper import reproduce as library
    from wmg.paper.target import Cell
    from wmg.paper.targets import TARGETS
    from wmg.runs import models

    presets = {
        name: {
            "env": settings.env.name if settings.env else None,
            "agent": settings.agent.name,
            "parameters": library.count(Cell(name, settings))["value"],
            "steps": settings.steps,
            "goal": settings.goal and settings.goal.success,
        }
        for name, settings in paper.PRESETS.items()
    }
    targets = {name: target.title for name, target in TARGETS.items()}
    if options.json:
        listing = {"presets": presets, "targets": targets, "models": list(models.shipped())}
        print(jsonlib.dumps(listing, indent=2))
        return 0
    groups: dict[str, list[str]] = {}
    for name in presets:
        groups.setdefault(name.partition("/")[0], []).append(name)
    width = max(map(len, presets))
    for group, names in groups.items():
        print(f"presets of {group} (wmg train NAME)")
        for name in names:
            row = presets[name]
            until = f" at most, to {row['goal']:.0%}" if row["goal"] else ""
            sizes = f"{row['parameters']:>10,} parameters {row['steps']:>10,} steps"
            print(f"  {name:{width}} {sizes}{until}")
    print("targets (wmg reproduce NAME)")
    width = max(map(len, targets))
    for name, target in TARGETS.items():
        print(f"  {name:{width}} {target.title} ({target.source})")
    print(f"  {'suite':{width}} Tasks of other people, with other agents beside WMG")
    print("models (wmg eval NAME)")
    for name in [*models.shipped(), "depth-N", "random"]:
        print(f"  {name}")
    return 0
