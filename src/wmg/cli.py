"""The `wmg` command. Each subcommand parses, calls the library, and prints.

Nothing here imports jax before a command needs it, so that `wmg --help` is instant.
"""

import dataclasses
import datetime
import itertools
import json as jsonlib
import os
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

from wmg import __version__, experiments
from wmg.commands import data, solve, tune, view
from wmg.commands.start import (
    held_out,
    named_env,
    pick_run,
    prepare_jax,
    remark_on_levels,
    split_name,
)
from wmg.config import BadInput, Config, Depth, Goal, Pathfinding, Random, Sokoban
from wmg.options import Bench, Convert, Eval, List, Reproduce, Train, parse

RELEASED_HEADS = 6
"""Attention heads of the authors' released Pathfinding models, which come without settings."""
SUMMARY = """\
usage: wmg COMMAND ...

Working Memory Graphs: a Transformer agent with working memory, for reinforcement learning.

  train      train a preset, on the CPU or hundreds of runs at once on a GPU
  eval       play held-out episodes with a trained agent
  view       watch an agent think, in the browser, as a page or a video
  reproduce  run a table or figure of the paper, and compare
  list       presets with their parameter counts, targets, shipped models
  convert    to and from the authors' .pth files
  bench      measure training speed
  data       import the Boxoban levels, list level banks
  tune       search for hyperparameters, as the paper did, on one core or a cluster

`wmg COMMAND --help` shows every option with its default.
"""


def train(args: list[str]) -> int:
    """`wmg train [PRESET] ...`"""
    name, args = split_name(args)
    options, settings = read_training(name, args)
    if options.resume and (options.out or options.from_):
        raise BadInput("--resume goes on in its own folder: it takes neither --out nor --from")
    if not 0 <= options.save_seconds < float("inf"):
        raise BadInput(f"save_seconds must be a number from 0 on, got {options.save_seconds}")
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    label = (name or "run").replace("/", "-")
    folder = options.resume or options.out or pathlib.Path("runs") / f"{label}-{stamp}"
    from wmg import progress, runlog
    from wmg import train as trainer

    prepare_jax(settings.runs)
    remark_on_levels(settings.env)
    mirrors = tuple(
        runlog.open_mirror(kind, folder / kind, dataclasses.asdict(settings))
        for kind in options.mirror
    )
    with progress.display() as show:
        result = trainer.train(
            settings, folder, resume=options.resume is not None,
            branch_from=options.from_, show=show, mirrors=mirrors,
            save_seconds=options.save_seconds,
        )  # fmt: skip
    for mirror in mirrors:
        mirror.close()
    return finish_training(result, options.json)


def read_training(name: str | None, args: list[str]) -> tuple[Train, Config]:
    """The options, and the config they make of what they change. Options of a goal ask for it,
    whether or not the preset has one."""
    base = base_config(name, args)
    goal = base.goal is not None or any(arg.startswith("--goal.") for arg in args)
    base = dataclasses.replace(base, goal=base.goal or Goal())
    options = parse(Train, args, "wmg train [PRESET]", config=base, goal=goal)
    return options, dataclasses.replace(
        options.config, goal=options.config.goal if options.goal else None
    )


def base_config(name: str | None, args: list[str]) -> Config:
    """What the options change: a preset, or the config of the folder to go on with."""
    if name is not None:
        return experiments.find_preset(name)
    for flag in ("--resume", "--from"):
        for index, arg in enumerate(args):
            value = arg.partition("=")[2] if arg.startswith(flag + "=") else None
            if arg == flag and index + 1 < len(args):
                value = args[index + 1]
            if value:
                from wmg import runfolder

                return runfolder.read_config(pathlib.Path(value))
    if {"-h", "--help"} & set(args):
        return experiments.find_preset("pathfinding/wmg")
    raise BadInput("name a preset (wmg list shows them), or a folder with --resume or --from")


def finish_training(result: Any, json: bool) -> int:
    """Draw the curve and say what came of the training."""
    import numpy as np

    finals = result.scores[:, -1] if result.scores.size else np.zeros(0)
    finals = finals[np.isfinite(finals)]
    diverged = int(np.asarray(result.runs.diverged).sum())
    summary = {
        "folder": str(result.folder),
        "finished": result.finished,
        "seconds": round(result.seconds, 1),
        "best_run": result.best if result.scores.size else None,
        "score_median": round(float(np.median(finals)), 2) if finals.size else None,
        "score_best": round(float(finals.max()), 2) if finals.size else None,
        "diverged": diverged,
        "goal": summarise_goal(result),
        "curve": draw_curve(result) if result.finished else None,
    }
    if json:
        print(jsonlib.dumps(summary))
        return 1 if diverged == result.config.runs else 0
    if not result.finished:
        print(f"stopped and saved; go on with: wmg train --resume {result.folder}")
        return 0
    scores = "no score" if not finals.size else f"last score {summary['score_median']}%"
    if finals.size and result.config.runs > 1:
        scores = f"last scores: median {summary['score_median']}%, best {summary['score_best']}%"
    print(f"{result.folder}: {scores}, {summary['seconds']:,} s")
    if result.config.goal:
        print(describe_goal(summary["goal"], result.config))
    if diverged:
        print(f"{diverged} of {result.config.runs} runs diverged and were stopped")
    if summary["curve"]:
        print(f"learning curve: {summary['curve']}")
    return 1 if diverged == result.config.runs else 0


def summarise_goal(result: Any) -> dict[str, Any] | None:
    """How many steps runs took to meet their goal; None where there is none."""
    from wmg import stats

    if result.config.goal is None:
        return None
    steps = [float("inf") if x is None else round(x, 1) for x in result.crossings]
    finite = [
        x if x < float("inf") else None for x in (stats.censored_quantile(steps, 0.5), *steps)
    ]
    return {
        **dataclasses.asdict(result.config.goal),
        "test_every": result.config.report_every,
        "solved": sum(x is not None for x in finite[1:]),
        "median_steps": finite[0],
        "steps": finite[1:],
    }


def describe_goal(found: dict[str, Any], settings: Config) -> str:
    """The same in a sentence."""
    goal = f"{100 * found['success']:g}% of {found['episodes']:,} episodes"
    every = f"tested every {found['test_every']:,}"
    median = found["median_steps"]
    if settings.runs == 1 and median is None:
        return f"did not solve {goal} in {settings.steps:,} steps, {every}"
    if settings.runs == 1:
        return f"solved {goal} after {median:,.0f} steps, {every}"
    reached = "median not reached" if median is None else f"median {median:,.0f} steps"
    return f"{found['solved']} of {settings.runs} runs solved {goal}: {reached}, {every}"


def draw_curve(result: Any) -> str | None:
    """Save the learning curve beside the run, if matplotlib is there."""
    from wmg import plots

    path = result.folder / "curve.png"
    curve = plots.Curve(result.steps, result.scores)
    try:
        label = result.config.agent.name.upper()
        plots.learning_curves({label: curve}, path, title=str(result.folder), ylabel="score in %")
    except BadInput as missing:
        print(f"no picture of the curve: {missing}", file=sys.stderr)
        return None
    return str(path)


def evaluate(args: list[str]) -> int:
    """`wmg eval MODEL ...`"""
    name, args = split_name(args)
    args = [re.sub("^--levels(?==|$)", "--env.levels", arg) for arg in args]
    if name is None and not {"-h", "--help"} & set(args):
        raise BadInput("name a model: a file, a run folder, a shipped name, random or depth-N")
    from wmg import checkpoint, evaluate, models

    prepare_jax(os.cpu_count() or 1)
    agent, settings = models.find(name or "random", pick_run(args))
    if settings.env is None:
        raise BadInput(f"{name} was trained on an environment that only Python code can give")
    baseline = isinstance(settings.agent, Depth | Random)
    played_on = held_out(named_env(args) if baseline else settings.env)
    options = parse(Eval, args, "wmg eval MODEL", env=played_on)
    played_on = checkpoint.settle(options.env)
    env, agent = models.fit(agent, settings, played_on)
    if options.slots is not None:
        agent = models.lengthen(agent, options.slots, options.oldest_age, options.older)
    elif options.oldest_age is not None:
        raise BadInput("--oldest-age says how added slots are shown: it needs --slots")
    if not 0 <= options.test_seed < 2**31:
        raise BadInput(f"test_seed must be from 0 to {2**31 - 1:,}, got {options.test_seed}")
    if isinstance(played_on, Sokoban):
        return solve.run(name, env, agent, dataclasses.replace(options, env=played_on))
    if options.thinking or options.out or options.against:
        raise BadInput("--thinking, --out and --against are for the levels of Sokoban")
    episodes = 1000 if options.episodes is None else options.episodes
    if not 2 <= episodes <= 10_000_000:
        raise BadInput(f"episodes must be from 2 to 10,000,000, got {episodes}")
    played = evaluate.evaluate(env, agent, options.test_seed, episodes, options.greedy)
    result = {"model": name, **evaluate.summary(env.spec, played)}
    if options.json:
        print(jsonlib.dumps(result))
    else:
        print(
            f"{name}: {result['score']:.2f}% (standard error {result['standard_error']:.2f}) "
            f"over {result['episodes']:,} episodes of {result['mean_length']:.0f} steps"
        )
    return 0


def reproduce(args: list[str]) -> int:
    """`wmg reproduce TARGET ...`"""
    name, rest = split_name(args)
    options = parse(Reproduce, rest, "wmg reproduce TARGET")
    if name is None:
        raise BadInput(f"name a target: {', '.join(experiments.TARGETS)}")
    target = experiments.find_target(name)
    for cell in options.cells:
        if cell not in target.cells:
            raise BadInput(f"{name} has no cell {cell!r}; it has {', '.join(target.cells)}")
    for setting in ("runs", "steps", "group_size"):
        value = getattr(options, setting)
        if value is not None and value < 1:
            raise BadInput(f"{setting} must be at least 1, got {value}")
    from wmg import progress
    from wmg.experiments import report
    from wmg.experiments import reproduce as library

    prepare_jax(min(options.group_size, options.runs or target.runs))
    scale = library.Scale(options.runs, options.steps, options.group_size, options.groups)
    scale.groups_of(target)  # refuses groups that there are not
    for cell in () if options.report_only else options.cells or target.cells:
        print(f"{name}: {target.cells[cell].label}", file=sys.stderr, flush=True)
        with progress.display() as show:
            done = library.run_cell(name, target, cell, scale, options.out, show)
        if not done:
            print("stopped and saved; the same command goes on from here")
            return 0
    data = report.report(name, target, options.out)
    print(jsonlib.dumps(data) if options.json else report.markdown(data))
    return 0


def show_list(args: list[str]) -> int:
    """`wmg list`"""
    options = parse(List, args, "wmg list")
    from wmg import models
    from wmg.experiments import reproduce as library
    from wmg.experiments.target import Cell

    presets = {
        name: {
            "env": settings.env.name if settings.env else None,
            "agent": settings.agent.name,
            "parameters": library.count(Cell(name, settings))["value"],
            "steps": settings.steps,
            "goal": settings.goal and settings.goal.success,
        }
        for name, settings in experiments.PRESETS.items()
    }
    targets = {name: target.title for name, target in experiments.TARGETS.items()}
    if options.json:
        listing = {"presets": presets, "targets": targets, "models": list(models.shipped())}
        print(jsonlib.dumps(listing, indent=2))
        return 0
    width = max(map(len, presets))
    for group, names in itertools.groupby(presets, lambda name: name.partition("/")[0]):
        print(f"presets of {group} (wmg train NAME)")
        for name in names:
            row = presets[name]
            until = f" at most, to {row['goal']:.0%}" if row["goal"] else ""
            sizes = f"{row['parameters']:>10,} parameters {row['steps']:>10,} steps"
            print(f"  {name:{width}} {sizes}{until}")
    print("targets (wmg reproduce NAME)")
    width = max(map(len, targets))
    for name, target in experiments.TARGETS.items():
        print(f"  {name:{width}} {target.title} ({target.source})")
    print("models (wmg eval NAME)")
    for name in [*models.shipped(), "depth-N", "random"]:
        print(f"  {name}")
    return 0


def convert(args: list[str]) -> int:
    """`wmg convert INPUT OUTPUT ...`"""
    source, args = split_name(args)
    target, args = split_name(args)
    options = parse(Convert, args, "wmg convert INPUT OUTPUT")
    if source is None or target is None:
        raise BadInput("name what to convert and the file to write: wmg convert INPUT OUTPUT")
    from wmg import checkpoint, models
    from wmg.interop import official, torch_file

    path = pathlib.Path(target)
    if path.exists():
        raise BadInput(f"{path} already exists")
    if path.suffix not in (".pth", ".safetensors"):
        raise BadInput(f"the output must end in .safetensors or .pth, got {target!r}")
    if options.half and path.suffix == ".pth":
        raise BadInput("--half writes .safetensors files only")
    if source.endswith(".pth"):
        heads = options.heads or (None if options.settings else RELEASED_HEADS)
        settings, agent = official.load(pathlib.Path(source), options.settings, heads)
        if options.heads is None and heads is not None and settings.agent.name == "wmg":
            print(f"assuming {heads} attention heads; if not so, give --heads or --settings")
        models.fit(agent, settings, settings.env or Pathfinding())
    else:
        agent, settings = models.find(source, options.run)
    if options.half:
        agent = checkpoint.to_half(agent)
    if path.suffix == ".pth":
        torch_file.write_pth(path, official.export_weights(agent))
    else:
        checkpoint.save_model(path, agent, settings, converted_from=pathlib.Path(source).name)
    print(f"wrote {path}")
    return 0


def measure_speed(args: list[str]) -> int:
    """`wmg bench [PRESET] ...`"""
    name, args = split_name(args)
    base = experiments.find_preset(name or "pathfinding/wmg")
    options = parse(Bench, args, "wmg bench [PRESET]", config=base)
    if options.at_once is not None and not options.env_only:
        raise BadInput("--at-once says how many environments there are: it needs --env-only")
    from wmg import bench, checkpoint

    prepare_jax(os.cpu_count() or 1 if options.env_only else options.config.runs)
    if options.env_only:
        found = bench.measure_env(options.config.env, options.seconds, options.at_once)
        measured = f"environment alone, {found['at_once']:,} at once"
    else:
        found = bench.measure(options.config, options.seconds)
        measured = f"{found['runs']} run(s)"
    data = {"preset": name or "pathfinding/wmg", **found}
    text = jsonlib.dumps(data)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write_atomically(options.out, (text + "\n").encode())
    if options.json:
        print(text)
    else:
        print(
            f"{data['preset']}, {measured}: {data['steps_per_second']:,.0f} steps/s in "
            f"all, {data['compile_seconds']} s to compile, peak "
            f"{data['peak_memory_bytes'] / 2**20:,.0f} MiB, on {data['hardware']['device']}"
        )
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "eval": evaluate,
    "view": view.run,
    "reproduce": reproduce,
    "list": show_list,
    "convert": convert,
    "bench": measure_speed,
    "data": data.run,
    "tune": tune.run,
}


def main(argv: list[str] | None = None) -> int:
    """Run a command. 0: done, 1: failed, 2: bad input, said in one sentence."""
    args = sys.argv[1:] if argv is None else argv
    if not args or args[0] in ("-h", "--help"):
        print(SUMMARY, end="")
        return 0
    if args[0] == "--version":
        print(f"wmg {__version__}")
        return 0
    try:
        if args[0] not in COMMANDS:
            raise BadInput(f"there is no command {args[0]!r}; there are {', '.join(COMMANDS)}")
        return COMMANDS[args[0]](args[1:])
    except BadInput as error:
        print(f"wmg: {error}", file=sys.stderr)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
        return 0
    except OSError as error:
        print(f"wmg: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
    return 2
