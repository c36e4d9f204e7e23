"""Run `wmg` commands, several at a time, until a deadline: for a GPU that is lent by the minute.

    python benchmarks/job_queue.py jobs.txt --minutes 9 --at-once 4

Each line of the file is a command without `wmg`, such as `reproduce babyai-table --cells
level1-wmg-factored --out results`. A line that has ended well is not run again by the same file:
after the deadline what is left is asked to stop, saves, and goes on with the next call. Output goes
to `jobs.txt.logs/`.
"""

import argparse
import pathlib
import shlex
import signal
import subprocess
import sys
import time

PATIENCE = 45.0
"""Seconds that a command has to save after it was asked to stop."""


def parse(args: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--at-once", type=int, default=4)
    return parser.parse_args(args)


class Queue:
    """The lines of a file, and the processes that run some of them."""

    def __init__(self, jobs: pathlib.Path):
        self.logs = jobs.with_name(f"{jobs.name}.logs")
        self.logs.mkdir(exist_ok=True)
        lines = [line.strip() for line in jobs.read_text().splitlines()]
        named = {number: line for number, line in enumerate(lines) if line and line[0] != "#"}
        self.left = {number: line for number, line in named.items() if not self.done(number)}
        self.running: dict[int, subprocess.Popen] = {}

    def done(self, number: int) -> bool:
        """Whether a line has ended well."""
        return (self.logs / f"{number:03d}.done").exists()

    def start(self) -> None:
        """Start the next line."""
        number, line = next(iter(self.left.items()))
        del self.left[number]
        with open(self.logs / f"{number:03d}.log", "ab") as log:
            command = [sys.executable, "-m", "wmg", *shlex.split(line)]
            self.running[number] = subprocess.Popen(command, stdout=log, stderr=log)
        print(f"{number:03d} started: {line}", flush=True)

    def collect(self) -> None:
        """Note which commands have ended."""
        for number, process in list(self.running.items()):
            if (code := process.poll()) is not None:
                del self.running[number]
                print(f"{number:03d} ended with {code}", flush=True)
                if code == 0:
                    (self.logs / f"{number:03d}.done").touch()

    def stop(self) -> None:
        """Ask what is running to save and stop."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for number, process in self.running.items():
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            print(f"{number:03d} stopped", flush=True)


def main(args: list[str] | None = None) -> int:
    """Run the queue; the number of lines that have not ended well."""
    options = parse(args)
    queue, ends = Queue(options.jobs), time.monotonic() + 60 * options.minutes
    while (queue.left or queue.running) and time.monotonic() < ends:
        if queue.left and len(queue.running) < options.at_once:
            queue.start()
        queue.collect()
        time.sleep(0.2)
    queue.stop()
    left = len(queue.left) + len(queue.running)
    print(f"{left} left", flush=True)
    return left


if __name__ == "__main__":
    main()
