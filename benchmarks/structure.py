"""How much there is to read: a table of figures of source trees, one column for each.

    python benchmarks/structure.py before=OLD/src after=src --out results/structure.json

Some figures come from the text. Three come from running the code with a profile function
(`sys.setprofile`), which sees every function that is called:

- *one step*: one run of the preset pathfinding/wmg is trained. From the call of `Session.report` to
  the first return of the optimizer's `update`, every file of the package in which a function runs
  counts, whole; those of environments and agents do not. It is the first report, so JAX traces the
  training step in that time. Functions that Python makes for dataclasses are in no file.
- *wmg train*: `wmg train pathfinding/wmg --steps 100 --report-every 50`, from the command line to
  the last line it prints. Every file of the package in which a function runs counts, whole.
- *functions*: how many functions ran in one step, and how many lines those are, each once.

Lines are lines of the file: code, docstrings, comments and blank ones.
"""

import argparse
import ast
import collections
import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import types
from typing import Any

COMMANDS = ("wmg.cli.main:main", "wmg.cli:main")
LOOPS = ("wmg.runs.session:Session.report", "wmg.train:Session.report")
UPDATES = ("wmg.learn.optimizer:update", "wmg.a3c:update")
"""The command, and where the measured part begins and ends: in one tree or the other."""
SUPPRESSION = re.compile(r"#\s*(type: ignore|noqa|fmt: (skip|off)|pyright: ignore)")
BY_HAND = {
    "before": {"environment": 5, "agent": 2},
    "after": {"environment": 1, "agent": 1},
}
"""Existing files that a new environment (with picture, scene and Gymnasium) or a new agent of the
package changes, counted by hand. Before: config.py, envs/__init__.py, render/__init__.py,
interop/gymnasium.py and viewer/scenes/__init__.py; config.py and agents/__init__.py. After:
registry.py. One of one's own, outside of the package, changes none."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    trees = dict(tree.split("=", 1) for tree in options.trees)
    found = {name: measure(pathlib.Path(folder).resolve(), name) for name, folder in trees.items()}
    text = json.dumps(found, indent=1) + "\n"
    if options.out:
        options.out.write_text(text)
    print(text, end="")


def measure(source: pathlib.Path, name: str) -> dict:
    """All figures of the tree that `wmg` is in."""
    package = source / "wmg"
    sizes = {path: len(path.read_text().splitlines()) for path in sorted(package.rglob("*.py"))}
    traced = run_traced(source)
    about = {"commit": commit(source), **read(package, sizes)}
    for what, files in traced["files"].items():
        about[what] = {
            "files": len(files),
            "lines": sum(sizes[pathlib.Path(file)] for file in files),
            "names": [str(pathlib.Path(file).relative_to(package)) for file in files],
        }
    about["one step"]["functions"] = traced["functions"]
    about["one step"]["lines of functions"] = traced["lines"]
    return {**about, "changed by hand": BY_HAND.get(name)}


def commit(source: pathlib.Path) -> str:
    """The commit that is checked out, and whether files differ from it."""
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def read(package: pathlib.Path, sizes: dict[pathlib.Path, int]) -> dict:
    """The figures that come from the text."""
    functions: list[tuple[int, str]] = []
    classes: collections.Counter[str] = collections.Counter()
    suppressions = 0
    for path in sizes:
        text = path.read_text()
        suppressions += len(SUPPRESSION.findall(text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(
                    ((node.end_lineno or 0) - node.lineno + 1, f"{path.stem}.{node.name}")
                )
            elif isinstance(node, ast.ClassDef):
                classes[node.name] += 1
    own = [path for path in package.iterdir() if not path.name.startswith("_")]
    return {
        "modules": sum(path.suffix == ".py" for path in own),
        "folders": sum(path.is_dir() and any(path.glob("*.py")) for path in own),
        "files": len(sizes),
        "lines": sum(sizes.values()),
        "longest function": max(functions),
        "class names twice": sorted(name for name, count in classes.items() if count > 1),
        "suppressions": suppressions,
    }


def run_traced(source: pathlib.Path) -> dict:
    """What runs, by the code in that tree: in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--trace", str(source / "wmg")],
            env={**os.environ, "PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class Profile:
    """Notes the functions of a package that are called."""

    def __init__(self, package: str, begin: types.CodeType, end: types.CodeType):
        self.package, self.begin, self.end = package, begin, end
        self.all: set[types.CodeType] = set()
        self.step: set[types.CodeType] = set()
        self.stage = "before"

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "return" and code is self.end:
            self.stage = "after"
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # not a module, not a class
        if event != "call" or not is_function or not code.co_filename.startswith(self.package):
            return
        self.all.add(code)
        if code is self.begin and self.stage == "before":
            self.stage = "step"
        if self.stage == "step":
            self.step.add(code)


def trace(package: str) -> None:
    """Train with a profile, and print what it saw as JSON."""
    profile = Profile(package + os.sep, find(LOOPS).__code__, find(UPDATES).__code__)
    threading.setprofile(profile)
    sys.setprofile(profile)
    find(COMMANDS)(
        ["train", "pathfinding/wmg", "--steps=100", "--report-every=50", "--out=run", "--json"]
    )
    sys.setprofile(None)
    learning = [code for code in profile.step if not is_player(package, code)]
    lines = {(code.co_filename, line) for code in learning for line in lines_of(code)}
    files = {
        "one step": sorted({code.co_filename for code in learning}),
        "wmg train": sorted({code.co_filename for code in profile.all}),
    }
    print(json.dumps({"files": files, "functions": len(learning), "lines": len(lines)}))


def find(paths: tuple[str, ...]) -> Any:
    """The first function that is there."""
    for path in paths:
        module, _, names = path.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        for name in names.split("."):
            found = getattr(found, name)
        return found
    raise LookupError(paths)


def is_player(package: str, code: types.CodeType) -> bool:
    """Whether it is code of an environment or an agent."""
    folder = pathlib.Path(code.co_filename).relative_to(package).parts[0]
    return folder in ("envs", "agents")


def lines_of(code: types.CodeType) -> range:
    """The lines of a function, with its decorators."""
    text, first = inspect.getsourcelines(code)
    return range(first, first + len(text))


if __name__ == "__main__":
    trace(sys.argv[2]) if sys.argv[1] == "--trace" else main()
