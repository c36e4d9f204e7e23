"""Command lines put together at random: real commands, options and names with odd values.

The work itself (training, playing, serving) is replaced, so that a line that is accepted ends where
the work would begin. A line must be accepted, or be refused in one sentence with exit code 2.
"""

import contextlib
import io
import json
import pathlib
import random
import re

import pytest

from campaigns.tally import Tally
from wmg import paper
from wmg.cli import main as cli
from wmg.paper.targets import TARGETS
from wmg.tools.errors import BadInput

WORK = (
    *("wmg.runs.train.train", "wmg.runs.bench.measure", "wmg.runs.bench.measure_env"),
    *("wmg.play.evaluate.evaluate", "wmg.play.level_test.play_levels"),
    *("wmg.paper.reproduce.run_cell", "wmg.viewer.server.serve", "wmg.viewer.export.export"),
    *("wmg.viewer.video.write", "wmg.envs.sokoban.boxoban.import_boxoban"),
    "wmg.tuner.worker.work",
)
"""What takes long, or leaves this machine."""
VALUES = (
    *("", "0", "1", "-1", "2", "1.5", "1e6", "1e400", "nan", "inf", "9" * 400, "x", "X" * 3000),
    *(
        "none",
        "None",
        "true",
        "[]",
        "{}",
        "a,b",
        "=",
        "--",
        "-",
        "..",
        "/",
        "/dev/null",
        "é",
        "\x01",
    ),
    *("float32", "tf32", "learning_rate=1,2", "learning_rate=", "pathfinding/wmg", "random"),
)


class Reached(Exception):
    """The work would begin now."""


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Try random lines of every command."""
    draw, tallies = random.Random(seed), {name: Tally() for name in [*cli.COMMANDS, "other"]}
    flags = {name: flags_of(name) for name in cli.COMMANDS}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in WORK:
            patch.setattr(name, reach, raising=False)
        for _ in range(cases):
            line = make_line(draw, flags)
            kind = line[0] if line and line[0] in cli.COMMANDS else "other"
            tallies[kind].attempt(json.dumps(line)[:300], lambda line=line: run(line))
    return tallies


def reach(*args: object, **options: object) -> None:
    """Stands in for all work."""
    raise Reached


def flags_of(command: str) -> list[str]:
    """All options of a command, as its help has them."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        cli.main([command, "--help"])
    return sorted({"--help", *re.findall(r"--[a-z][a-z.-]*[a-z]", text.getvalue())})


def make_line(draw: random.Random, flags: dict[str, list[str]]) -> list[str]:
    """A command, some names, some options; now and then something else."""
    command = draw.choice([*flags, *flags, draw.choice(VALUES)])
    known = [
        *paper.PRESETS,
        *TARGETS,
        "pathfinding-wmg",
        "random",
        "depth-2",
        "boxoban",
        "list",
    ]
    line = [command]
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        line.append(draw.choice((draw.choice(known), draw.choice(known), draw.choice(VALUES))))
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        others = flags[draw.choice(list(flags))]
        flag = draw.choice(draw.choice((flags.get(command, others), others)))
        value = draw.choice(VALUES)
        line += draw.choice(([flag], [flag, value], [f"{flag}={value}"]))
    return line


def run(line: list[str]) -> str | None:
    """What is wrong with the answer to a line, if anything. Raises `BadInput` if it is refused."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(line)
        except Reached:
            return None
        except SystemExit as exit:
            code = exit.code
    said = err.getvalue()
    if code == 2:
        raise BadInput(said.removeprefix("wmg: ").rstrip("\n"))
    if code not in (0, 1):
        return f"ended with {code}: {said[:200]}"
    return None if "Traceback" not in said else said[-300:]
