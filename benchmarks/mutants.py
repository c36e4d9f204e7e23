"""Do the tests notice small errors? Mutants of the code, and the test that fails on each.

    python benchmarks/mutants.py draw --seed 0 --number 30 --out mutants.json
    python benchmarks/mutants.py run mutants.json --number 20 --out results/mutants.json \\
        --equivalent 9 "why no test can tell it from the code"

`draw` lists all mutants of learn, play and runs with cosmic-ray (`pip install cosmic-ray`),
shuffles the list and keeps the first ones. `run` needs no cosmic-ray. It takes mutants in the order
of the list until there are `--number` besides those named as equivalent. It applies each one to a
copy of the tree and runs the test files of these three rooms until a test fails: first that of the
mutated module, then those that import it, then the others. The mutant is killed if that test passes
on the code as it is. A file that runs past the time limit counts as a failure. Mutants that `--out`
has for the same commit are not run again.
"""

import argparse
import concurrent.futures
import datetime
import difflib
import json
import os
import pathlib
import queue
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("learn", "play", "runs")
COPIED = ("src", "tests", "benchmarks", "examples", "pyproject.toml", "README.md")
PYTEST = ("-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider")
NO_TESTS = 5
"""Exit code of pytest where all tests of a file are deselected."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="draw mutants")
    draw.add_argument("--seed", type=int, default=0)
    draw.add_argument("--number", type=int, default=30)
    run = commands.add_parser("run", help="run the tests on each mutant")
    run.add_argument("mutants", type=pathlib.Path)
    run.add_argument("--number", type=int, default=20)
    run.add_argument("--equivalent", nargs=2, action="append", default=[], metavar=("N", "WHY"))
    run.add_argument("--at-once", type=int, default=1)
    run.add_argument("--seconds", type=float, default=1200.0, help="time limit of a test file")
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
    """Runs tests in copies of the tree, each on a core that no other one has."""

    def __init__(self, folder: pathlib.Path, at_once: int, seconds: float):
        self.folder, self.seconds = folder, seconds
        self.as_it_is = folder / "as it is"
        self.as_it_is.mkdir()
        for name in COPIED:
            path = ROOT / name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, self.as_it_is / name)
        self.cache = folder / "cache"  # compiled programs: a mutant changes few of them
        self.cache.mkdir()
        self.cores: queue.Queue[int] = queue.Queue()
        for core in sorted(os.sched_getaffinity(0))[:at_once]:
            self.cores.put(core)

    def end(self, number: int, mutant: dict) -> dict:
        """A mutant with the test that kills it, or None, and the number of files that were run."""
        tree = shutil.copytree(self.as_it_is, self.folder / str(number))
        apply(mutant, tree)
        files, not_counted, killed_by, count = test_files(tree, mutant["file"]), [], None, 0
        while killed_by is None and count < len(files):
            failed = self.failure(tree, files[count], not_counted)
            if failed and not self.passes_as_it_is(failed):
                not_counted.append(failed)
                if "::" in failed:  # the file is run again, without that test
                    continue
                failed = None
            killed_by, count = failed, count + 1
        shutil.rmtree(tree)
        print(number, killed_by, flush=True)
        return {**mutant, "killed_by": killed_by, "files_run": count, "not_counted": not_counted}

    def failure(self, tree: pathlib.Path, file: str, left_out: list[str]) -> str | None:
        """The first test of a file that fails; the file, if it is stopped at the time limit."""
        code, output = self.pytest(tree, file, *(f"--deselect={name}" for name in left_out))
        if code in (0, NO_TESTS):
            return None
        found = FAILED.search(output)
        return found.group(1) if found else file

    def passes_as_it_is(self, failed: str) -> bool:
        """Whether a test that fails on a mutant passes on the code; of a file, whether it loads."""
        options = () if "::" in failed else ("--collect-only",)
        return self.pytest(self.as_it_is, failed, *options)[0] == 0

    def pytest(self, tree: pathlib.Path, *options: str) -> tuple[int | None, str]:
        """Exit code and output; no code if the time limit was reached."""
        core = self.cores.get()
        done = subprocess.Popen(
            [sys.executable, *PYTEST, *options],
            cwd=tree,
            env={**os.environ, **variables(tree), "WMG_TEST_CACHE": str(self.cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        try:
            output, _ = done.communicate(timeout=self.seconds)
            return done.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            return None, ""
        finally:
            self.cores.put(core)


def variables(tree: pathlib.Path) -> dict[str, str]:
    """Environment variables of a process that tests a copy of the tree."""
    path = [str(tree / "src"), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(tree), "JAX_PLATFORMS": "cpu"}


def test_files(tree: pathlib.Path, mutated: str) -> list[str]:
    """All test files: the mutated module's, then those that import it, then the longest."""
    path = pathlib.Path(mutated).relative_to("src").with_suffix("")
    package, name = ".".join(path.parent.parts), path.name
    own = "/".join(("tests", *path.parent.parts[1:], f"test_{name}.py"))
    imports = re.compile(rf"\b{package}\.{name}\b|^from {package} import .*\b{name}\b", re.M)

    def order(file: str) -> tuple[bool, bool, int]:
        text = (tree / file).read_text()
        return file != own, not imports.search(text), -len(text)

    files = [path for room in ROOMS for path in (tree / "tests" / room).rglob("test_*.py")]
    return sorted((str(path.relative_to(tree)) for path in files), key=order)


def chosen(count: int, number: int, equivalent: dict[int, str]) -> list[int]:
    """The first mutants of a list: `number` of them, and the equivalent ones among them."""
    counted = [n for n in range(count) if n not in equivalent][:number]
    if len(counted) < number:
        sys.exit(f"{count} mutants were drawn: too few for {number} that are not equivalent")
    return [n for n in range(count) if n <= counted[-1]]


def commit() -> str:
    """The commit that is checked out, and whether files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run(options: argparse.Namespace) -> None:
    """Run the tests on each mutant, and write what killed it."""
    drawn = json.loads(options.mutants.read_text())
    equivalent = {int(number): why for number, why in options.equivalent}
    numbers = chosen(len(drawn["mutants"]), options.number, equivalent)
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    here = commit()
    known = before["mutants"] if before.get("commit") == here else {}
    ended = {str(n): {**drawn["mutants"][n], "equivalent": equivalent[n]} for n in equivalent}
    ended |= {n: one for n, one in known.items() if n not in ended and "killed_by" in one}

    def write() -> None:
        ends = {str(n): ended[str(n)] for n in numbers if str(n) in ended}
        found = {
            "commit": here,
            "date": datetime.date.today().isoformat(),
            "command": shlex.join(["python", *sys.argv]),
            "drawn": {key: value for key, value in drawn.items() if key != "mutants"},
            "run": sum("killed_by" in one for one in ends.values()),
            "killed": sum(bool(one.get("killed_by")) for one in ends.values()),
            "mutants": ends,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n")

    threads = concurrent.futures.ThreadPoolExecutor(options.at_once)
    with tempfile.TemporaryDirectory() as name, threads as pool:
        tests = Tests(pathlib.Path(name), options.at_once, options.seconds)
        left = [n for n in numbers if str(n) not in ended]
        jobs = {pool.submit(tests.end, n, drawn["mutants"][n]): n for n in left}
        for job in concurrent.futures.as_completed(jobs):
            ended[str(jobs[job])] = job.result()
            write()
    write()


def main() -> None:
    options = parse()
    if options.command == "draw":
        options.out.write_text(json.dumps(drawn(options.seed, options.number), indent=1) + "\n")
    else:
        run(options)


if __name__ == "__main__":
    main()
