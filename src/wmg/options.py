"""The options of each `wmg` command, and reading them from the command line.

A class's docstring and the strings under its fields are what `--help` prints.
"""

import contextlib
import dataclasses
import io
import pathlib
import re
from typing import Annotated, Any, Literal, TypeVar, cast

import tyro

from wmg.config import BadInput, Config, Env

Options = TypeVar("Options")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train one or more runs and write a run folder."""

    config: Annotated[tyro.conf.AvoidSubcommands[Config], tyro.conf.arg(name="")]
    goal: bool = False
    """Whether runs are tested at every report and stop once they meet the goal."""
    out: pathlib.Path | None = None
    """Run folder (default: runs/PRESET-TIME). One that exists is never overwritten."""
    resume: pathlib.Path | None = None
    """Go on with this run folder, exactly where its last checkpoint left it."""
    from_: Annotated[pathlib.Path | None, tyro.conf.arg(name="from")] = None
    """Start from the state of this run folder, with changed numbers, in a new folder."""
    mirror: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Also log to these (extras of the same names)."""
    save_seconds: float = 60.0
    """Least time between checkpoints."""
    json: bool = False
    """Print the result as JSON."""


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play held-out episodes with a model: a file, a run folder, a shipped name, random or
    depth-N. Sokoban plays every level of --levels once, test if not given: a split, a bank or a
    file, as --env.levels."""

    env: tyro.conf.AvoidSubcommands[Env]
    episodes: int | None = None
    """How many (default: 1000; of Sokoban, all levels)."""
    test_seed: int = 1
    """Which held-out episodes; the same seed gives the same episodes to every model."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""
    run: int | None = None
    """Which run of a run folder (default: the best)."""
    slots: int | None = None
    """Give the agent more memory slots than it was trained with."""
    oldest_age: int | None = None
    """With --slots: the highest age that is shown as it is (default: as trained)."""
    older: Literal["as oldest", "without age"] = "as oldest"
    """With --slots: how ages above that are shown."""
    thinking: int = 0
    """Sokoban: steps to stay in place first, beyond the limit of steps."""
    out: pathlib.Path | None = None
    """Sokoban: write the outcome of every level to this file."""
    against: pathlib.Path | None = None
    """Sokoban: compare, level by level, with a file that --out wrote."""
    json: bool = False
    """Print the result as JSON."""


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run a table or figure of the paper, or what is missing of it, and write a report."""

    cells: tuple[str, ...] = ()
    """Which cells (default: all)."""
    runs: int | None = None
    """Runs of each cell (default: as in the paper)."""
    steps: int | None = None
    """Steps of each run (default: as in the paper)."""
    group_size: int = 100
    """Runs that are trained at once."""
    groups: tuple[int, ...] | None = None
    """Which groups of runs to do here (default: all)."""
    out: pathlib.Path = pathlib.Path("reproduce")
    report_only: bool = False
    """Run nothing; report what is there."""
    json: bool = False
    """Print the report as JSON."""


@dataclasses.dataclass(frozen=True)
class List:
    """Show presets with their parameter counts, targets, and shipped models."""

    json: bool = False
    """Print as JSON."""


@dataclasses.dataclass(frozen=True)
class Convert:
    """Convert a model: .pth to .safetensors, .safetensors to .pth, or a run folder to either."""

    settings: pathlib.Path | None = None
    """The authors' settings file that belongs to a .pth file."""
    heads: int | None = None
    """Attention heads of a .pth file without settings, which shapes do not tell (the released
    Pathfinding models have 6)."""
    run: int | None = None
    """Which run of a run folder (default: the best)."""
    half: bool = False
    """Write a .safetensors file with numbers of 16 bits, half the size."""


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure training speed of a preset, or of its environment alone."""

    config: Annotated[tyro.conf.AvoidSubcommands[Config], tyro.conf.arg(name="")]
    seconds: float = 20.0
    """How long to measure, after compiling."""
    env_only: bool = False
    """Measure the environment alone, under random actions."""
    at_once: int | None = None
    """With --env-only: how many environments take a step together (default: by device)."""
    out: pathlib.Path | None = None
    """Also write the JSON here."""
    json: bool = False
    """Print as JSON."""


def parse(kind: type[Options], args: list[str], usage: str, **defaults: Any) -> Options:
    """Options from the command line; anything wrong with them is one sentence."""
    default = kind(**defaults) if defaults else None
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return cast(Options, tyro.cli(kind, args=args, prog=usage, default=default))
    except SystemExit as end:
        if not end.code:
            raise
        raise BadInput(one_sentence(errors.getvalue())) from None


def one_sentence(message: str) -> str:
    """What a boxed, many-lined complaint says."""
    box = r"\x1b\[[0-9;]*m|[╭╮╰╯│─]|-{4,}|^[+|]-? |[+|]$"  # in ASCII where the locale is
    text = " ".join(re.sub(box, " ", message, flags=re.MULTILINE).split())
    meant = re.search(r"Perhaps you meant: (--[\w.-]+)", text)
    text = re.split(r"For full helptext|Perhaps you meant|Argument helptext", text)[0].strip()
    if unknown := re.search(r"Unrecognized options: (-[^\s,=]+)", text):
        hint = f"did you mean {meant[1]}?" if meant else "--help lists them all"
        return f"there is no option {unknown[1]}; {hint}"
    if extra := re.search(r"Unrecognized options: (.*)", text):
        return f"{extra[1]!r} belongs to no option; --help lists them all"
    if choice := re.search(r"invalid choice '(.*)' for argument '(.*)'.*\((.*)\)", text):
        return f"{choice[2]} must be one of {choice[3].rstrip(',')}, got {choice[1]!r}"
    if missing := re.search(r"Missing value for argument '(.*?)'(?:\. Expected (\d+))?", text):
        several = missing[2] not in (None, "1")
        return f"{missing[1]} needs {f'{missing[2]} values' if several else 'a value'}"
    if wrong := re.search(r"Error parsing (--[\w.-]+): .* arguments \[('.*', '.*')\]", text):
        return f"{wrong[1]} must be numbers, got {wrong[2]}"
    if wrong := re.search(r"Error parsing (--[\w.-]+): (.*)", text):
        given = re.findall(r"'[^']*'", wrong[2])[:1] or ["that"]
        whole = re.search(r"int\(\)|\bint\b", wrong[2])
        return f"{wrong[1]} must be a {'whole ' if whole else ''}number, got {given[0]}"
    text = re.sub(r"^(Value error )?Error parsing [\w.]+: ", "", text)
    return text or "the options cannot be understood"
