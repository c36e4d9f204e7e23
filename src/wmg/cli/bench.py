"""`wmg bench`: how fast training is here."""

import dataclasses
import json as jsonlib
import os
import pathlib
import shlex

from wmg.cli.options import UNPREFIXED, parse
from wmg.cli.start import find_config, prepare_jax, require_new, split_name, threads_for
from wmg.config import Config
from wmg.tools import files
from wmg.tools.errors import BadInput

LONGEST = 86_400
"""Seconds of a measurement."""


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Measure training speed of a preset, or of its environment alone. PRESET is as for
    `wmg train`."""

    config: Config = dataclasses.field(metadata=UNPREFIXED)
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


def command_line(args: list[str]) -> str:
    """The command that repeats a measurement: these arguments without where its output goes."""
    kept, rest = [], iter(args)
    for arg in rest:
        if arg == "--out":
            next(rest, None)
        elif arg != "--json" and not arg.startswith("--out="):
            kept.append(arg)
    return shlex.join(["wmg", "bench", *kept])


def run(args: list[str]) -> int:
    """`wmg bench [PRESET] ...`"""
    command = command_line(args)
    name, args = split_name(args)
    base = find_config(name or "pathfinding/wmg")
    options = parse(BenchOptions, args, "wmg bench [PRESET]", config=base)
    if options.at_once is not None and not options.env_only:
        raise BadInput("--at-once says how many environments there are: it needs --env-only")
    if not 0 < options.seconds <= LONGEST:
        raise BadInput(f"seconds must be above 0 and at most {LONGEST:,}, got {options.seconds}")
    require_new(options.out)
    from wmg.runs import bench

    prepare_jax(os.cpu_count() or 1 if options.env_only else threads_for(options.config))
    if options.env_only:
        found = bench.measure_env(options.config.env, options.seconds, options.at_once)
        measured = f"environment alone, {found['at_once']:,} at once"
    else:
        found = bench.measure(options.config, options.seconds)
        measured = f"{found['runs']} run(s)"
    data = {"command": command, "preset": name or "pathfinding/wmg", **found}
    text = jsonlib.dumps(data)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(options.out, (text + "\n").encode())
    if options.json:
        print(text)
    else:
        print(
            f"{data['preset']}, {measured}: {data['steps_per_second']:,.0f} steps/s in "
            f"all, {data['compile_seconds']} s to compile, peak "
            f"{data['peak_memory_bytes'] / 2**20:,.0f} MiB, on {data['hardware']['device']}"
        )
    return 0
