"""Do the tests notice small errors? Mutants of the code, and the test that fails on each.

    python benchmarks/mutants.py draw --seed 0 --number 30 --out mutants.json
    python benchmarks/mutants.py run mutants.json --at-once 12 --out killed.json

`draw` lists all mutants of learn, play and runs with cosmic-ray (`pip install cosmic-ray`),
shuffles the list and keeps the first ones. `run` needs no cosmic-ray. It first runs every test file
on the code as it is; a test that fails there is left out. Then it applies each mutant to a copy of
the tree and runs tests until one fails: first the test file of the mutated module, then all tests
of learn, play and runs. A mutant that runs past the time limit counts as killed. Each process has
one core. Mutants that `--out` already has are not run again.
"""

import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("learn", "play", "runs")
TESTS = [f"tests/{room}" for room in ROOMS]
COPIED = ("src", "tests", "benchmarks", "examples", "pyproject.toml", "README.md")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="draw mutants")
    draw.add_argument("--seed", type=int, default=0)
    draw.add_argument("--number", type=int, default=30)
    run = commands.add_parser("run", help="run the tests on each mutant")
    run.add_argument("mutants", type=pathlib.Path)
    run.add_argument("--at-once", type=int, default=1)
    run.add_argument("--seconds", type=float, default=1200.0, help="time limit of a mutant")
    run.add_argument("--deselect", nargs="*", default=[], help="tests to leave out")
    run.add_argument("--only", nargs="*", type=int, help="numbers of mutants, instead of all")
    for command in (draw, run):
        command.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


class Cores:
    """Calls functions in threads, each with a core that no other one has, as the last argument."""

    def __init__(self, at_once: int):
        self.free: queue.Queue[int] = queue.Queue()
        for core in sorted(os.sched_getaffinity(0))[:at_once]:
            self.free.put(core)
        self.pool = concurrent.futures.ThreadPoolExecutor(self.free.qsize())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)

    def submit(self, function: Callable, *args) -> concurrent.futures.Future:
        return self.pool.submit(self._call, function, *args)

    def _call(self, function: Callable, *args):
        core = self.free.get()
        try:
            return function(*args, core)
        finally:
            self.free.put(core)


def drawn(seed: int, number: int) -> dict:
    """The first mutants of a shuffled list of all, as changes of lines."""
    from cosmic_ray import plugins
    from cosmic_ray.commands import init
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.work_db import WorkDB, use_db

    files = sorted(path for room in ROOMS for path in (ROOT / "src/wmg" / room).rglob("*.py"))
    with use_db(":memory:", WorkDB.Mode.create) as listed:
        init(files, listed, {})
        found = [item.mutations[0] for item in listed.work_items]
    found.sort(key=lambda m: (m.module_path, m.start_pos, m.operator_name, m.occurrence))
    random.Random(seed).shuffle(found)
    mutants = []
    for one in found[:number]:
        source = one.module_path.read_text()
        mutated = mutate_code(source, plugins.get_operator(one.operator_name)(), one.occurrence)
        file = str(one.module_path.relative_to(ROOT))
        operator = one.operator_name.removeprefix("core/")
        mutants.append({"file": file, "operator": operator, **changed_lines(source, mutated)})
    return {"seed": seed, "listed": len(found), "mutants": mutants}


def changed_lines(source: str, mutated: str) -> dict:
    """The first changed line's number, and the changed lines before and after."""
    before, after = source.splitlines(), mutated.splitlines()
    matched = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changes = [(i, j, k, m) for kind, i, j, k, m in matched if kind != "equal"]
    first, _, first_after, _ = changes[0]
    _, last, _, last_after = changes[-1]
    return {
        "line": first + 1,
        "before": before[first:last],
        "after": after[first_after:last_after],
    }


def apply(mutant: dict, folder: pathlib.Path) -> None:
    """Change the lines of a mutant in a copy of the tree."""
    path, first = folder / mutant["file"], mutant["line"] - 1
    lines = path.read_text().splitlines()
    last = first + len(mutant["before"])
    if lines[first:last] != mutant["before"]:
        sys.exit(f"{mutant['file']} line {mutant['line']} is not as it was when mutants were drawn")
    lines[first:last] = mutant["after"]
    path.write_text("\n".join(lines) + "\n")


def copy(folder: str) -> pathlib.Path:
    """A copy of the tree."""
    for name in COPIED:
        source, to = ROOT / name, pathlib.Path(folder, name)
        shutil.copytree(source, to) if source.is_dir() else shutil.copy(source, to)
    return pathlib.Path(folder)


def pytest(folder: pathlib.Path, core: int, tests: list[str], left_out: list[str], seconds: float):
    """Exit code (None after the time limit) and output of tests on a core of their own."""
    path = [str(folder / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    variables = {"PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(folder), "JAX_PLATFORMS": "cpu"}
    options = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [f"--deselect={name}" for name in left_out]
    done = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        output, _ = done.communicate(timeout=seconds)
        return done.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, 9)
        return None, done.communicate()[0]


def failing(folder: pathlib.Path, file: str, options: argparse.Namespace, core: int) -> list[str]:
    """Tests of a file that fail on the code as it is."""
    code, output = pytest(folder, core, [file], options.deselect, options.seconds)
    if code in (0, 5):  # 5: all tests of the file are deselected
        return []
    print(f"{file} ends with {code}:\n{output[-2000:]}", flush=True)
    return FAILED.findall(output) or [file]


def judged(
    mutant: dict, left_out: list[str], options: argparse.Namespace, core: int
) -> dict[str, object]:
    """A mutant with the test that kills it, or None."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = copy(name)
        apply(mutant, folder)
        source = pathlib.Path(mutant["file"]).relative_to("src/wmg")
        own = f"tests/{source.with_name(f'test_{source.name}')}"
        for tests in ([own] if (folder / own).exists() else [], TESTS):
            left = options.seconds - (time.monotonic() - started)
            code, output = (
                pytest(folder, core, ["-x", *tests], left_out, left) if tests else (0, "")
            )
            if code not in (0, 5):
                break
    by = None if code in (0, 5) else "time limit" if code is None else first_failure(output)
    return {**mutant, "killed_by": by, "seconds": round(time.monotonic() - started, 1)}


def first_failure(output: str) -> str:
    """The first test that failed, or the end of the output."""
    found = FAILED.search(output)
    return found[1] if found else output[-300:]


def run(options: argparse.Namespace) -> None:
    """Run the tests on the code as it is, then on each mutant."""
    found = json.loads(options.out.read_text()) if options.out.exists() else {"mutants": {}}
    mutants = json.loads(options.mutants.read_text())["mutants"]
    numbers = options.only or range(len(mutants))
    with Cores(options.at_once) as cores:
        if "left_out" not in found:
            found["left_out"] = options.deselect + failing_as_it_is(cores, options)
            save(found, options.out)
        left = [n for n in numbers if str(n) not in found["mutants"]]
        jobs = {cores.submit(judged, mutants[n], found["left_out"], options): n for n in left}
        for job in concurrent.futures.as_completed(jobs):
            found["mutants"][str(jobs[job])] = one = job.result()
            save(found, options.out)
            print(jobs[job], one["killed_by"], one["seconds"], flush=True)


def failing_as_it_is(cores: Cores, options: argparse.Namespace) -> list[str]:
    """Tests that fail on the code as it is."""
    with tempfile.TemporaryDirectory() as name:
        folder = copy(name)
        files = [path for test in TESTS for path in (folder / test).rglob("test_*.py")]
        files.sort(key=lambda path: -path.stat().st_size)
        jobs = [
            cores.submit(failing, folder, str(path.relative_to(folder)), options) for path in files
        ]
        return sorted(test for job in jobs for test in job.result())


def save(found: dict, out: pathlib.Path) -> None:
    """Write what is found so far."""
    out.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    options = parse()
    if options.command == "draw":
        options.out.write_text(json.dumps(drawn(options.seed, options.number), indent=1) + "\n")
    else:
        run(options)


if __name__ == "__main__":
    main()
