"""Training that is killed at random moments and resumed: it must end as if it was not.

A case is one kill. Each kind of training is killed several times on its way; then its state and
logs are compared, bit for bit, with those of a run that was not killed.
"""

import pathlib
import random
import time

import tiny

from campaigns.tally import Tally
from wmg.runs import runfolder

LONG = [*tiny.FLAGS[:-2], "--steps=20000", "--report-every=100", "--save-seconds=0"]
KINDS = {
    "A3C": ["pathfinding/wmg", *LONG, "--runs=2"],
    "PPO": ["pathfinding/wmg", *LONG, "--batched.envs=4", "--t-max=4"],
    "goal": [
        *("babyai/level1/wmg-factored", *LONG, "--runs=2"),
        *("--goal.success=0.9", "--goal.episodes=20"),
    ],
    "GRU": ["pathfinding/gru", *("--agent.embedding=8", "--agent.size=8"), *LONG[7:]],
}
ON_HOST = """
import pathlib, sys
import numpy as np
from wmg.agents.gru.settings import GRUSettings
from wmg.config import Config
from wmg.play.host import Host
from wmg.runs import train
from wmg.types import EnvSpec, Observation, ObservationSpec

class Fours:
    def reset(self, *, seed=None):
        self.time = 0
        return self.time, {}

    def step(self, action):
        self.time += 1
        return self.time, float(action == self.time % 2), self.time == 4, False, {}

def observe(time):
    return Observation(np.eye(5, dtype=np.float32)[time])

agent = GRUSettings(embedding=4, size=4, actor_critic=4)
settings = Config(env=None, agent=agent, t_max=4, steps=4000, report_every=40, seed=7, runs=2)
hosts = [Host(Fours(), observe, EnvSpec(ObservationSpec(5), 2, 4, "reward")) for _ in range(2)]
folder = pathlib.Path(sys.argv[1])
train.train(settings, folder, env=hosts, resume=folder.exists(), save_seconds=0.0)
"""
"""Episodes have 4 steps, and reports come at their ends: a resumed run misses none of any."""
KILLS = 10
"""Kills of one training."""
SECONDS = 120.0


def campaign(
    cases: int, seed: int, folder: pathlib.Path, kinds: dict[str, list[str]] = KINDS
) -> dict[str, Tally]:
    """Kill each kind of training equally often."""
    draw, tallies = random.Random(seed), {}
    for kind, args in kinds.items():
        tallies[kind] = tally = Tally()
        whole = folder / f"{kind}-whole"
        finish(args, whole)
        left = -(-cases // len(kinds))
        while left > 0:
            killed = folder / f"{kind}-{left}"
            count = kill_often(args, killed, draw, min(left, KILLS))
            finish(args, killed)
            fault = difference(whole, killed)
            for _ in range(count):
                tally.add("wrong" if fault else "accepted", fault=fault or "")
            left -= max(count, 1)
    return tallies


def on_host(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Kill training in environments of Python."""
    return campaign(cases, seed, folder, {"host": []})


def kill_often(args: list[str], folder: pathlib.Path, draw: random.Random, kills: int) -> int:
    """Start, wait for a new checkpoint, kill; how often that was done before the run ended."""
    for done in range(kills):
        process = start(args, folder)
        before, ends = written(folder), time.monotonic() + SECONDS
        while process.poll() is None and written(folder) == before and time.monotonic() < ends:
            time.sleep(0.005)
        time.sleep(draw.uniform(0.0, 0.3))
        if process.poll() is not None:
            return done
        process.kill()
        process.communicate()
    return kills


def start(args: list[str], folder: pathlib.Path):
    """A new training, or the next part of one; without a preset, of the experiment `ON_HOST`."""
    if not args:
        return tiny.start_python("-c", ON_HOST, folder)
    if written(folder):
        return tiny.start("train", "--resume", folder)
    return tiny.start("train", *args, "--seed=7", "--out", folder)


def finish(args: list[str], folder: pathlib.Path) -> None:
    """Train to the end."""
    process = start(args, folder)
    _, said = process.communicate(timeout=10 * SECONDS)
    assert process.returncode == 0, said


def written(folder: pathlib.Path) -> int:
    """When the state was saved last."""
    state = folder / runfolder.STATE
    return state.stat().st_mtime_ns if state.exists() else 0


def difference(one: pathlib.Path, other: pathlib.Path) -> str | None:
    """How the ends of two trainings differ, if they do."""
    if names := tiny.differing(tiny.arrays(one), tiny.arrays(other)):
        return f"{other.name}: {names[0]} differs"
    return f"{other.name}: the logs differ" if tiny.lines(one) != tiny.lines(other) else None
