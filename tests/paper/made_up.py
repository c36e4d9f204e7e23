"""Targets that nobody ran, and their results as some machine may have left them."""

import json

from wmg import config
from wmg.config import Config
from wmg.paper.target import Band, Cell, Claim, Target

HERE = {"device": "abacus", "date": "2020-07-08"}
THERE = {"device": "slide rule", "date": "2020-07-09"}
CONFIG = Config(steps=1200, report_every=100)
TARGET = Target(
    title="Made up",
    source="nowhere",
    measure="curve",
    unit="% of reward",
    runs=100,
    cells={"wmg": Cell("WMG", CONFIG, 99.6), "gru": Cell("GRU", CONFIG)},
    claims=(
        Claim("WMG is above GRU", "wmg", "above", "gru"),
        Claim("WMG is above 95%", "wmg", "above", 95.0, full_scale=True),
    ),
    band=Band(1.0, "because", relative=False),
    lines={"Depth-1": 86.9},
    note="A note.",
)


def flat(value, points=12):
    return [float(value)] * points


def write(out, cell, group, scores, seed, hardware=HERE, series="", **changes):
    """A group's result as version 0.1 may have left it on another machine."""
    settings = config.to_dict(CONFIG) | {"seed": seed, "runs": len(scores)} | changes
    points = max(len(row) for row in scores)
    data = {
        "config": settings,
        "steps": [100.0 * (i + 1) for i in range(points)],
        "scores": scores,
        "seconds": 2.5,
        "hardware": hardware,
        "command": f"wmg reproduce made-up --cells {cell} --groups {group}",
    }
    place = out / "made-up" / cell / series / f"group-{group:03d}"
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(data))
    return place / "result.json"


SOLVE = Config(steps=8000, report_every=25, goal=config.Goal())
RACE = Target(
    title="Race",
    source="nowhere",
    measure="efficiency",
    unit="thousand interactions",
    runs=4,
    cells={
        "wmg": Cell("WMG", SOLVE, 1.6),
        "gru": Cell("GRU", SOLVE, 1.7),
        "cnn": Cell("CNN+GRU", SOLVE),
    },
    claims=(
        Claim("WMG needs fewer than 2 thousand", "wmg", "below", 2.0),
        Claim("WMG needs fewer than GRU", "wmg", "below", "gru"),
    ),
)


def write_race(out, cell, group, crossings, seed, diverged=0, series="", about=None, **changes):
    settings = config.to_dict(SOLVE) | {"seed": seed, "runs": len(crossings)} | changes
    data = {
        "config": settings,
        "crossings": crossings,
        "diverged": diverged,
        "seconds": 40.0,
        "testing_seconds": 10.0 * (group + 1),
        "hardware": HERE,
        "command": f"wmg reproduce race --cells {cell} --groups {group}",
        **(about or {}),
    }
    place = out / "race" / cell / series / f"group-{group:03d}"
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(data))
    return place / "result.json"
