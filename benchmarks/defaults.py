"""Do the default settings learn? Trains the same tasks again and again, each with nothing tuned.

    python benchmarks/defaults.py --tasks cartpole shelf --seeds 0 1 2 3 4 --out results/defaults

Each run is `wmg.train(env=..., seed=...)` and nothing else. Afterwards 1,000 fresh episodes are
played. There is one file of JSON for each task and seed; a run that has its file is left out.
The tasks of POPGym need the package `popgym`.
"""

import argparse
import json
import pathlib
import sys
import time

import wmg
from wmg.config import to_dict
from wmg.tools import machine

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

TASKS = {
    "cartpole": ("gym:CartPole-v1", "score", 475.0),
    "memory-s7": ("gym:MiniGrid-MemoryS7-v0", "success", 0.95),
    "repeat-first": ("gym:popgym-RepeatFirstEasy-v0", "score", 0.95),
    "shelf": ("own_environment:four_colours", "success", 0.95),
}
"""The environment, what is measured, and what is asked of it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for task in options.tasks:
            file = options.out / f"{task}-{seed}.json"
            if not file.exists():
                found = measure(task, seed)
                file.write_text(json.dumps(found, indent=1) + "\n")
                print(f"{task}, seed {seed}: {found['reached']}, {found['seconds']} s", flush=True)


def measure(task: str, seed: int) -> dict:
    """One run of a task, and how well it plays afterwards."""
    env, what, asked = TASKS[task]
    began = time.monotonic()
    result = wmg.train(env=env, seed=seed)
    seconds = time.monotonic() - began
    played = result.evaluate(episodes=1000)
    reached = getattr(played, what)
    return {
        "command": f"python benchmarks/defaults.py --tasks {task} --seeds {seed} --out DIR",
        "env": env,
        "seed": seed,
        "measured": what,
        "asked": asked,
        "reached": reached,
        "holds": reached > asked,
        "standard_error_of_score": played.standard_error,
        "episodes": played.episodes,
        "mean_length": played.mean_length,
        "seconds": round(seconds, 1),
        "steps": result.steps.tolist(),
        "scores": [round(score, 4) for score in result.scores[0].tolist()],
        "config": to_dict(result.config),
        "hardware": machine.describe(),
    }


if __name__ == "__main__":
    main()
