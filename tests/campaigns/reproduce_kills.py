"""`wmg reproduce` that is killed at random moments and started again ends with the same results.

A case is one kill.
"""

import json
import pathlib
import random
import subprocess

import tiny

from campaigns.tally import Tally

COMMAND = [
    *("reproduce", "pathfinding", "--cells", "gru"),
    *("--runs=4", "--group-size=1", "--steps=4000"),
]
CHANGING = ("started", "ended", "seconds", "hardware")
"""What differs between two runs of the same command."""
KILLS = 10
"""Kills before a command is left to end."""
LONGEST = 20.0
"""Seconds to a kill, at most."""
SECONDS = 300.0


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Kill the command again and again, then let it end."""
    draw, tally = random.Random(seed), Tally()
    whole = finish(folder / "whole")
    while tally.tried < cases:
        out, kills = folder / f"killed-{tally.tried}", 0
        while kills < min(KILLS, cases - tally.tried) and kill(out, draw.uniform(0.0, LONGEST)):
            kills += 1
        same = finish(out) == whole
        for _ in range(kills):
            tally.add("accepted" if same else "wrong", fault="" if same else f"{out.name} differs")
    return {"reproduce": tally}


def kill(out: pathlib.Path, seconds: float) -> bool:
    """Start the command and kill it after some seconds. False if it ends before."""
    process = tiny.start(*COMMAND, "--out", out)
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True


def finish(out: pathlib.Path) -> dict[str, dict]:
    """Let the command end; its results without what changes from one time to the next."""
    process = tiny.start(*COMMAND, "--out", out)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    files = sorted(out.rglob("result.json"))
    return {str(file.relative_to(out)): steady(json.loads(file.read_text())) for file in files}


def steady(value):
    """A result without what changes."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in CHANGING}
    return value
