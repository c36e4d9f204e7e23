"""How long a live step of the viewer takes, and how large exported pages are.

Each step is a message over HTTP, as the page sends it; the first, which compiles, is told apart.

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

from wmg.cli.view import make_player
from wmg.runs import models
from wmg.tools import machine
from wmg.viewer import export, generic, recording, server, session
from wmg.viewer.page_files import page_files
from wmg.viewer.play import Player

EPISODES, MOST_STEPS = 8, 60


def shipped(name: str) -> Player:
    """A model of the package."""
    agent, settings = models.find(name)
    assert settings.env is not None
    return make_player(name, agent, settings, settings.env, greedy=False)


def time_steps(player: Player) -> list[float]:
    """Milliseconds of each step of some episodes."""
    playing = session.ViewerSession([player])
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


def page_of_ten(player: Player, solved: bool) -> int:
    """Bytes of an exported page of ten episodes, of all or of solved ones."""
    episodes = [episode for episode, _ in session.record([player], 0, 10, solved)]
    file = recording.to_json(session.about([player]), episodes, "sqrt8")
    return len(export.export(file, player.scenery.drawing).encode())


def measure(player: Player) -> dict[str, Any]:
    """What is published of one agent."""
    gc.collect()  # what others left behind would be counted among its steps
    first, *rest = time_steps(player)
    return {
        "steps": len(rest),
        "first_step_ms": round(first, 1),
        "median_step_ms": round(statistics.median(rest), 2),
        "slowest_step_ms": round(max(rest), 1),
        "ten_solved_episodes_bytes": page_of_ten(player, True),
        "any_ten_episodes_bytes": page_of_ten(player, False),
    }


def main() -> None:
    """Measure all, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    found = {name: measure(shipped(name)) for name in models.shipped()}
    data = {
        "command": f"python benchmarks/viewer.py --out {out}",
        "date": datetime.date.today().isoformat(),
        "hardware": f"{machine.cores()}-core CPU",
        "page_bytes": sum(len(text.encode()) for text in page_files(generic.DRAWING).values()),
        "models": found,
    }
    out.write_text(json.dumps(data, indent=2) + "\n")
    print(json.dumps(data, indent=2))


if __name__ == "__main__":
    main()
