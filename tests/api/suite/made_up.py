"""Results of the suite that nobody ran."""

import json

from wmg.api.suite.tasks import CELLS, REPORT, TASKS

HARDWARE = {"device": "abacus", "date": "2020-07-08", "cores": 1, "commit": "abc"}


def result(cell, seed=0, scores=(0.0, 0.0, 0.0), **changes):
    """What a run of a cell may have left."""
    task, agent = CELLS[cell]
    return {
        "task": task,
        "agent": agent,
        "seed": seed,
        "interactions": TASKS[task].budget,
        "steps": [REPORT * (i + 1) for i in range(len(scores))],
        "scores": list(scores),
        "score": 0.5,
        "standard_error": 0.01,
        "episodes": 200,
        "seconds": 10.0 * (seed + 1),
        "diverged": False,
        "command": f"wmg reproduce suite --cells {cell} --runs {seed + 1}",
        "hardware": HARDWARE,
        **changes,
    }


def write(out, cell, seed=0, **changes):
    """A run's file."""
    place = out / "suite" / cell / f"seed-{seed}"
    place.mkdir(parents=True)
    path = place / "result.json"
    path.write_text(json.dumps(result(cell, seed, **changes)))
    return path
