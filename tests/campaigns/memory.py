"""A long run whose memory is looked at every second: it must not grow.

A case is one look, once a minute is over: the first one is for compiling and filling buffers.
"""

import pathlib
import resource
import signal
import time

import tiny

from campaigns.tally import Tally

MINUTE = 60
MOST = 1 << 20
"""Bytes that the process may grow."""
REPORTS = 1000
"""Least reports of a run in each minute."""
COMMAND = [
    *("train", "pathfinding/wmg", *tiny.FLAGS[:-2], "--runs=2"),
    *("--steps=100000000", "--report-every=6", "--save-seconds=5"),
]


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Train for a minute, and for one second more per case."""
    process = tiny.start(*COMMAND, f"--seed={seed}", "--out", folder / "run")
    try:
        looks = look(process.pid, MINUTE + cases)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    reports = min(map(len, tiny.lines(folder / "run")))
    grown = [bytes_ - looks[MINUTE - 1] for bytes_ in looks[MINUTE:]]
    tally = Tally()
    for second, more in enumerate(grown, MINUTE + 1):
        fault = f"after {second} s it has {more:,} bytes more" if more > MOST else ""
        tally.add("wrong" if fault else "accepted", fault=fault)
    if reports < REPORTS * len(looks) / MINUTE:
        tally.faults.append(f"only {reports:,} reports of each run in {len(looks):,} s")
    tally.note = f"{reports:,} reports of each run; at most {max(grown) >> 10:,} KiB more"
    return {"training": tally}


def look(process: int, seconds: int) -> list[int]:
    """The bytes that a process has in memory, second after second."""
    looks, began = [], time.monotonic()
    while len(looks) < seconds:
        time.sleep(max(0.0, began + len(looks) + 1 - time.monotonic()))
        pages = pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]
        looks.append(int(pages) * resource.getpagesize())
    return looks
