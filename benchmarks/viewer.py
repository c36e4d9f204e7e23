"""How long a live step of the viewer takes, and how large exported pages are.

Each step is a message over HTTP, as the page sends it; the first, which compiles, is told apart.
The paper's Sokoban agent is measured as it is before training.

    python benchmarks/viewer.py --out results/viewer.json
"""

import argparse
import datetime
import gc
import http.client
import json
import pathlib
import statistics
import time
import urllib.parse
from typing import Any

import jax

from wmg import checkpoint, experiments, models, runfolder
from wmg.commands.view import make_player
from wmg.viewer import export, recording, server, session
from wmg.viewer.page_files import page_files
from wmg.viewer.play import Player

EPISODES, MOST_STEPS = 8, 60
UNTRAINED = ("sokoban/wmg",)


def shipped(name: str) -> Player:
    """A model of the package."""
    agent, settings = models.find(name)
    assert settings.env is not None
    return make_player(name, agent, settings, settings.env, greedy=False)


def untrained(preset: str) -> Player:
    """The agent of a preset before training."""
    settings = experiments.find_preset(preset)
    env = checkpoint.make_env(settings.env)
    agent = checkpoint.make_agent(settings.agent, env, jax.random.key(0))
    return Player(preset, agent, env, settings)


def time_steps(player: Player) -> list[float]:
    """Milliseconds of each step of some episodes."""
    playing = session.Session([player])
    with server.serving(playing) as place:
        address, times = urllib.parse.urlsplit(place), []
        headers = {"Origin": f"http://{address.netloc}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        for seed in range(EPISODES):
            playing.handle({"do": "begin", "choice": "seed", "value": seed})
            while not playing.tracks[0].over and len(playing.tracks[0].steps) <= MOST_STEPS:
                at = len(playing.tracks[0].steps) - 1
                message = json.dumps({"do": "act", "time": at, "action": None, "off": [[]]})
                began = time.perf_counter()
                connection.request("POST", f"{address.path}message", message, headers)
                assert json.loads(connection.getresponse().read())["tracks"]
                times.append(1000 * (time.perf_counter() - began))
        connection.close()
    return times


def measure(player: Player, solved: bool) -> dict[str, Any]:
    """What is published of one agent."""
    gc.collect()  # what others left behind would be counted among its steps
    first, *rest = time_steps(player)
    episodes = [episode for episode, _ in session.record([player], 0, 10, solved)]
    file = recording.to_json(session.about([player]), episodes, "sqrt8")
    return {
        "steps": len(rest),
        "first_step_ms": round(first, 1),
        "median_step_ms": round(statistics.median(rest), 2),
        "slowest_step_ms": round(max(rest), 1),
        "ten_episodes": "solved" if solved else "of 120 steps, or solved",
        "ten_episodes_bytes": len(export.export(file).encode()),
    }


def main() -> None:
    """Measure all, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    found = {name: measure(shipped(name), True) for name in models.shipped()}
    found |= {f"{name}, untrained": measure(untrained(name), False) for name in UNTRAINED}
    data = {
        "command": f"python benchmarks/viewer.py --out {out}",
        "date": datetime.date.today().isoformat(),
        "hardware": f"{runfolder.cores()}-core CPU",
        "page_bytes": sum(len(text.encode()) for text in page_files().values()),
        "models": found,
    }
    out.write_text(json.dumps(data, indent=2) + "\n")
    print(json.dumps(data, indent=2))


if __name__ == "__main__":
    main()
