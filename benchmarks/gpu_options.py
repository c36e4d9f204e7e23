"""Training speed on a GPU with and without `xla_options.for_gpu`, in alternation in one process.

    python benchmarks/gpu_options.py pathfinding/wmg babyai/level1/wmg-factored --out FOLDER

Each preset has a process of its own. All compile side by side; then each is timed alone. With
--again the default is compiled twice, so that the difference in weights between default and options
can be compared with the difference between two compilations of the default (products are tuned anew
each time).
"""

import argparse
import dataclasses
import fcntl
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wmg import registry
from wmg.paper import find_preset
from wmg.runs import hardware, xla_options
from wmg.runs.task import CompiledTask, stack_hypers
from wmg.tools import machine

SAME_WINDOWS = 40
"""Windows after which weights are compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.8, help="of one measurement")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--wait", type=float, default=600, help="at most, for others to compile")
    parser.add_argument("--again", nargs="*", default=[], help="presets to compile once more")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        compare(given)
        return
    shared = sys.argv[1 + len(given.presets) :]
    (given.out / "count").write_text(str(len(given.presets)))
    commands = [[sys.executable, __file__, name, *shared, "--one"] for name in given.presets]
    started = [subprocess.Popen(command) for command in commands]
    print([process.wait() for process in started])


def compare(given: argparse.Namespace) -> None:
    """Both programs of one preset: how much weights differ, and how fast they are."""
    (name,) = given.presets
    settings = find_preset(name)
    changes = {"runs": given.runs, "precision": given.precision, "goal": None, "kernel": "off"}
    settings = dataclasses.replace(settings, **changes)
    task = CompiledTask(settings, registry.make_env(settings.env))
    hyper, options = stack_hypers(settings), xla_options.for_gpu()
    advances = {"default": {}, "options": options}
    if name in given.again:
        advances["default again"] = {}
    after, seconds = {}, {}
    for kind, each in advances.items():
        xla_options.for_gpu = lambda each=each: each
        jax.clear_caches()
        # Not `task.advance`, whose programs are kept: each kind is compiled by itself.
        one = hardware.over_runs(task.rule, task.env, settings.precision)
        advances[kind], began = one, time.perf_counter()
        runs = task.start()
        after[kind] = advances[kind](hyper, runs, SAME_WINDOWS * settings.t_max)[0]
        jax.block_until_ready(after[kind])
        seconds[kind] = round(time.perf_counter() - began, 1)
    found = {
        "name": name,
        "runs": given.runs,
        "precision": given.precision,
        "options": options,
        "seconds_to_compile": seconds,
        "weights_differ": {k: difference(after["default"], runs) for k, runs in after.items()},
    }
    wait_for_others(given.out, name, given.wait)
    with open(given.out / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found |= alternate(advances, hyper, after, given)
    command = f"python benchmarks/gpu_options.py {name} --runs {given.runs}"
    found |= {"command": f"{command} --precision {given.precision}", "hardware": machine.describe()}
    path = given.out / f"gpu-options-{name.replace('/', '-')}.json"
    path.write_text(json.dumps(found) + "\n")
    print(json.dumps({key: found[key] for key in ("name", "ratio", "weights_differ")}))


def difference(one: Any, other: Any) -> float:
    """Norm of the difference of all weights, as a share of the norm of the weights."""
    pairs = [jax.tree.leaves(eqx.filter(r.agent, eqx.is_inexact_array)) for r in (one, other)]
    apart = sum(jnp.square(a - b).sum() for a, b in zip(*pairs, strict=True))
    return float(jnp.sqrt(apart / sum(jnp.square(a).sum() for a in pairs[0])))


def wait_for_others(folder: pathlib.Path, name: str, seconds: float) -> None:
    """Until every process has compiled, or these seconds have passed."""
    (folder / f"ready-{name.replace('/', '-')}").touch()
    ends = time.monotonic() + seconds
    count = int((folder / "count").read_text())
    while len(list(folder.glob("ready-*"))) < count and time.monotonic() < ends:
        time.sleep(0.5)


def alternate(advances: dict, hyper: Any, after: dict, given: argparse.Namespace) -> dict[str, Any]:
    """Steps per second of the default and of the options, in turns."""
    kinds = ("default", "options")

    def rate(kind: str, steps: int) -> float:
        advance: Callable = advances[kind]
        until, began = int(np.max(after[kind].steps)) + steps, time.perf_counter()
        after[kind], totals = jax.block_until_ready(advance(hyper, after[kind], until))
        return int(np.sum(totals.steps)) / (time.perf_counter() - began)

    chunk = max(1, int(given.seconds * rate("default", 200) / given.runs))
    turns = []
    for turn in range(given.pairs):
        rates = {kind: round(rate(kind, chunk), 1) for kind in (kinds if turn % 2 else kinds[::-1])}
        turns.append([rates[kind] for kind in kinds])
    ratio = statistics.median(new / old for old, new in turns)
    return {"ratio": round(ratio, 4), "steps_per_second_default_options": turns}


if __name__ == "__main__":
    main()
