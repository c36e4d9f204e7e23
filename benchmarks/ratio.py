"""Training speed of one source tree relative to another, measured in alternation in one process.

NAME is a preset (an untrained agent) or a shipped model (a trained one, whose episodes are
shorter). The learning rate is 1e-9, so both trees train the same agent throughout.

    git worktree add /tmp/old HEAD~1
    python benchmarks/ratio.py /tmp/old/src src pathfinding/wmg --out ratio.json
"""

import argparse
import contextlib
import dataclasses
import importlib
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Tree:
    """The `wmg` package of one `src` folder; two can be loaded side by side."""

    def __init__(self, src: pathlib.Path):
        self.src, self.modules = src.resolve(), {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """A context in which `import wmg` means this tree."""
        sys.path.insert(0, str(self.src))
        sys.modules.update(self.modules)
        try:
            yield
        finally:
            sys.path.remove(str(self.src))
            mine = [name for name in sys.modules if name.split(".")[0] == "wmg"]
            self.modules = {name: sys.modules.pop(name) for name in mine}


class Side:
    """Runs that are trained by one tree."""

    def __init__(self, src: pathlib.Path, name: str, runs: int, precision: str):
        self.tree = Tree(src)
        with self.tree.active():
            self._start(name, runs, precision)

    def _start(self, name: str, runs: int, precision: str) -> None:
        new = (self.tree.src / "wmg" / "runs").exists()  # before, modules were side by side
        load = importlib.import_module
        start, models = load(f"wmg.{'cli' if new else 'commands'}.start"), self._runs("models")
        presets = load("wmg.paper" if new else "wmg.experiments").PRESETS
        agent, settings = (None, presets[name]) if name in presets else models.find(name)
        still = dataclasses.replace(settings.hyper, learning_rate=1e-9)
        changes = {"hyper": still, "goal": None, "runs": runs, "precision": precision}
        settings = dataclasses.replace(settings, **changes)
        start.prepare_jax(start.threads_for(settings))
        if new:
            tasks = load("wmg.runs.task")
            task = load("wmg.runs.train").make_task(settings, None)
            self.runs, self.hyper = task.start(), tasks.stack_hypers(settings)
            self.advance, self.hardware = task.advance(), load("wmg.tools.machine").describe()
        else:
            train, env = load("wmg.train"), load("wmg.checkpoint").make_env(settings.env)
            self.runs, self.hyper = train.start_runs(settings, env), train.stack_hypers(settings)
            over_runs = load("wmg.parallel").over_runs
            self.advance = over_runs(env, settings.t_max, settings.batched, precision)
        if agent is not None:
            stacked = jax.tree.map(lambda x: jnp.stack([x] * runs) if eqx.is_array(x) else x, agent)
            self.runs = eqx.tree_at(lambda r: r.agent, self.runs, stacked)

    def _runs(self, name: str) -> Any:
        """A module that is now in `wmg.runs`."""
        inside = (self.tree.src / "wmg" / "runs").exists()
        return importlib.import_module(f"wmg.runs.{name}" if inside else f"wmg.{name}")

    def rate(self, steps: int) -> tuple[float, float]:
        """Steps of all runs per second and per CPU second, over `steps` more steps of each."""
        clocks = time.perf_counter, time.process_time
        with self.tree.active():
            until, began = int(np.max(self.runs.steps)) + steps, [clock() for clock in clocks]
            self.runs, totals = jax.block_until_ready(self.advance(self.hyper, self.runs, until))
            taken, ended = int(np.sum(totals.steps)), [clock() for clock in clocks]
        wall, cpu = (round(taken / (b - a), 1) for a, b in zip(began, ended, strict=True))
        return wall, cpu


def compare(given: argparse.Namespace) -> dict[str, Any]:
    """The rates of both trees in turns, and the medians of their ratios."""
    old, new = (Side(src, given.name, given.runs, given.precision) for src in given.src)
    for side in (old, new):
        side.rate(1)  # compiles
    chunk = max(1, int(given.seconds * old.rate(100)[0] / given.runs))
    turns = []
    for turn in range(given.pairs):
        rates = {side: side.rate(chunk) for side in ((old, new) if turn % 2 else (new, old))}
        turns.append((rates[old], rates[new]))
    found: dict[str, Any] = {"name": given.name, "runs": given.runs, "precision": given.precision}
    for index, clock in enumerate(("second", "cpu_second")):
        pairs = [(old[index], new[index]) for old, new in turns]
        ratio = statistics.median(new / old for old, new in pairs)
        found |= {f"ratio_per_{clock}": round(ratio, 4), f"steps_per_{clock}_old_new": pairs}
    return {**found, "hardware": new.hardware}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("src", nargs=2, type=pathlib.Path, metavar="SRC", help="old, then new")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    command = " ".join(["python", "benchmarks/ratio.py", *sys.argv[1:]])
    text = json.dumps({"command": command, **compare(given)})
    print(text)
    if given.out:
        given.out.write_text(text + "\n")
