"""Do the tests notice small errors? Mutants of the code, and the test that fails on each.

    python benchmarks/mutants.py draw --seed 0 --number 30 --out mutants.json
    python benchmarks/mutants.py run mutants.json --at-once 12 --out killed.json

`draw` lists all mutants of learn, play and runs with cosmic-ray (`pip install cosmic-ray`),
shuffles the list and keeps the first ones. `run` needs no cosmic-ray. It first runs every test file
of learn, play and runs on the code as it is; a test that fails there is left out. Then it applies
each mutant to a copy of the tree and runs the test files, that of the mutated module first, until a
test fails. A file that runs past the time limit counts as a failure. Each process has one core.
Mutants whose end `--out` already has are not run again.
"""

import argparse
import concurrent.futures
import difflib
import functools
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("learn", "play", "runs")
COPIED = ("src", "tests", "benchmarks", "examples", "pyproject.toml", "README.md")
NO_TESTS = 5
"""Exit code of pytest where all tests of a file are deselected."""
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
    run.add_argument("--seconds", type=float, default=1200.0, help="time limit of a test file")
    run.add_argument("--only", nargs="*", type=int, help="numbers of mutants, instead of all")
    for command in (draw, run):
        command.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


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


class Tests:
    """Runs files of tests in copies of the tree, each on a core that no other one has."""

    def __init__(self, at_once: int, seconds: float):
        self.seconds = seconds
        self.cores: queue.Queue[int] = queue.Queue()
        for core in sorted(os.sched_getaffinity(0))[:at_once]:
            self.cores.put(core)
        self.pool = concurrent.futures.ThreadPoolExecutor(self.cores.qsize())

    def failures(self, tree: pathlib.Path, options: list[str], file: str) -> list[str]:
        """Tests of a file that fail; the file itself if it is stopped at the time limit."""
        core = self.cores.get()
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
        done = subprocess.Popen(
            [*command, *options, file],
            cwd=tree,
            env={**os.environ, **variables(tree)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        try:
            output, _ = done.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            return [file]
        finally:
            self.cores.put(core)
        passed = done.returncode in (0, NO_TESTS)
        return [] if passed else FAILED.findall(output) or [file]


def variables(tree: pathlib.Path) -> dict[str, str]:
    """Environment variables of a process that tests a copy of the tree."""
    path = [str(tree / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(tree), "JAX_PLATFORMS": "cpu"}


def copy(tree: pathlib.Path) -> pathlib.Path:
    """A copy of the tree."""
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    return tree


def test_files(mutated: str = "") -> list[str]:
    """All files of tests: that of the mutated file first, then long ones."""
    files = [path for room in ROOMS for path in (ROOT / "tests" / room).rglob("test_*.py")]
    files.sort(key=lambda path: -path.stat().st_size)
    source = pathlib.Path(mutated)
    own = f"{source.parent}/test_{source.name}".replace("src/wmg", "tests")
    return sorted((str(path.relative_to(ROOT)) for path in files), key=lambda name: name != own)


def judge(number: int, mutant: dict, tests: Tests, found: dict, trees: pathlib.Path) -> list:
    """Jobs that test a mutant: one for each file, which does nothing after a failure."""
    tree = copy(trees / str(number))
    apply(mutant, tree)
    files = test_files(mutant["file"])
    options = ["-x", *(f"--deselect={name}" for name in found["left_out"])]
    result = {**mutant, "killed_by": None, "files_left": len(files)}

    def job(file: str) -> None:
        if result["killed_by"] is None:
            failures = tests.failures(tree, options, file)
            if failures and result["killed_by"] is None:
                result["killed_by"] = failures[0]
                print(number, failures[0], flush=True)
        result["files_left"] -= 1

    found["mutants"][str(number)] = result
    return [functools.partial(job, file) for file in files]


def run(options: argparse.Namespace) -> None:
    """Run the tests on the code as it is, then on each mutant."""
    found = json.loads(options.out.read_text()) if options.out.exists() else {"mutants": {}}
    mutants = json.loads(options.mutants.read_text())["mutants"]
    ended = [n for n, one in found["mutants"].items() if one["killed_by"] or not one["files_left"]]
    left = [n for n in options.only or range(len(mutants)) if str(n) not in ended]
    tests = Tests(options.at_once, options.seconds)
    with tempfile.TemporaryDirectory() as name, tests.pool as pool:
        trees = pathlib.Path(name)
        if "left_out" not in found:
            check = functools.partial(tests.failures, copy(trees / "as it is"), [])
            found["left_out"] = [test for some in pool.map(check, test_files()) for test in some]
            print("left out:", *found["left_out"], flush=True)
        jobs = [judge(n, mutants[n], tests, found, trees) for n in left]
        turns = zip(*jobs, strict=True)  # the first file of all mutants, then the second
        started = [pool.submit(job) for turn in turns for job in turn]
        for job in concurrent.futures.as_completed(started):
            job.result()
            options.out.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    options = parse()
    if options.command == "draw":
        options.out.write_text(json.dumps(drawn(options.seed, options.number), indent=1) + "\n")
    else:
        run(options)


if __name__ == "__main__":
    main()
