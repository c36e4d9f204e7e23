"""`wmg tune`: a search for hyperparameters, by any number of workers."""

import dataclasses
import functools
import importlib
import json as jsonlib
import math
import pathlib
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from wmg.cli.options import parse
from wmg.cli.start import find_config, prepare_jax, require_new, split_name, split_names
from wmg.config import Config
from wmg.tools import files
from wmg.tools.errors import BadInput

if TYPE_CHECKING:
    from wmg.tuner.study import Shared
    from wmg.tuner.worker import Objective

STORAGE = "tune.db"
USAGE = """\
usage: wmg tune create PRESET ...   make a study: what is searched, and how
       wmg tune worker STUDY ...    do runs of it; start as many as you like, anywhere
       wmg tune workers STUDY ...   start workers on a Ray cluster
       wmg tune status STUDY ...    how far it is
       wmg tune best STUDY ...      the best configuration, of one study or several
       wmg tune final STUDY ...     fresh runs of it: the score to report

`wmg tune COMMAND --help` shows every option with its default.
"""


@dataclasses.dataclass(frozen=True)
class CreateOptions:
    """Make a study: the paper's search (Distributed Grid Descent) around a preset."""

    study: str | None = None
    """Its name (default: the preset's, with dashes)."""
    storage: str = STORAGE
    """An SQLite file, or the URL of a database: postgresql://user:password@host/name"""
    names: tuple[str, ...] = ()
    """Which hyperparameters of the grid to search (default: all)."""
    grid: pathlib.Path | None = None
    """A TOML or JSON file with an ordered list of values for each (default: the paper's)."""
    metric: str | None = None
    """What a run reports: score (percent, at the end of the run), return (of environments whose
    scores are returns) or steps (until the preset's goal is met; default where it has one)."""
    average: Literal["mean", "median"] = "mean"
    """How the runs of one configuration are made one number."""
    steps: int | None = None
    """Environment steps of each run (default: the preset's)."""
    report_every: int | None = None
    """Steps between two reports, and between two tests of a goal (default: the preset's)."""
    episodes: int | None = None
    """Episodes of each test of a goal (default: the preset's)."""
    runs: int = 500
    """The most runs of the search."""
    until_settled: bool = True
    """Whether it ends as soon as its best configuration is stable."""
    sampler: Literal["dgd", "tpe", "random"] = "dgd"
    """What chooses configurations."""
    n_init: int = 0
    """dgd: random runs before the descent begins; 0 is the paper's rule."""
    start: Literal["random", "preset"] = "random"
    """dgd: begin anywhere, as in the paper, or at the preset's own values."""
    seed: int | None = None
    """dgd: makes one worker's search the same every time."""
    beat: int = 30
    """Seconds between two beats of a run; after three missed beats another worker does it again."""


@dataclasses.dataclass(frozen=True)
class WorkerOptions:
    """Do runs of a study until it is finished or settled."""

    storage: str = STORAGE
    """An SQLite file, or the URL of a database."""
    at_once: int = 1
    """Runs at once, of the same shapes, as one program: for GPUs."""
    limit: int | None = None
    """The most runs of this worker (default: no limit)."""
    patience: float = 120.0
    """Seconds for which a storage that does not answer is tried again."""


@dataclasses.dataclass(frozen=True)
class WorkersOptions:
    """Start workers on a Ray cluster, and wait for them."""

    storage: str
    """The URL of a database that all machines can reach."""
    ray: str = "auto"
    """The address of the cluster; auto finds one that this machine is part of."""
    count: int = 1
    """How many workers."""
    gpus: float = 0.0
    """GPUs of each."""
    cpus: float = 1.0
    """CPU cores of each."""
    at_once: int = 1
    """Runs at once of each worker."""


@dataclasses.dataclass(frozen=True)
class StatusOptions:
    """Show how far a study is."""

    storage: str = STORAGE
    """An SQLite file, or the URL of a database."""
    watch: float | None = None
    """Repeat every this many seconds until it ends."""
    plot: pathlib.Path | None = None
    """Also draw the search into this .png or .svg file."""
    json: bool = False
    """Print as JSON."""


@dataclasses.dataclass(frozen=True)
class BestOptions:
    """Show the best configuration, of one study or of several together."""

    storage: str = STORAGE
    """An SQLite file, or the URL of a database."""
    json: bool = False
    """Print as JSON."""


@dataclasses.dataclass(frozen=True)
class FinalOptions:
    """Do fresh runs of the best configuration of one study or several, or of the preset."""

    storage: str = STORAGE
    """An SQLite file, or the URL of a database."""
    runs: int = 100
    """How many."""
    of: Literal["best", "preset"] = "best"
    """Of which configuration: the best found, or the preset's own, to compare."""
    at_once: int = 1
    """Runs at once, as one program: for GPUs."""
    out: pathlib.Path | None = None
    """Also write the JSON here."""
    json: bool = False
    """Print as JSON."""


def run(args: list[str]) -> int:
    """`wmg tune create|worker|workers|status|best|final ...`"""
    name, rest = split_name(args)
    commands: dict[str, Callable[[list[str]], int]] = {
        "create": create,
        "worker": worker,
        "workers": workers,
        "status": status,
        "best": best,
        "final": final,
    }
    if name is None and {"-h", "--help"} & set(args):
        print(USAGE, end="")
        raise SystemExit(0)
    if name not in commands:
        raise BadInput(f"wmg tune has {', '.join(commands)}, got {name!r}")
    try:
        importlib.import_module("optuna")
    except ImportError as error:
        raise BadInput("wmg tune needs Optuna: pip install 'wmg[tune]'") from error
    return commands[name](rest)


def create(args: list[str]) -> int:
    """`wmg tune create PRESET ...`"""
    preset, args = split_name(args)
    options = parse(CreateOptions, args, "wmg tune create PRESET")
    if preset is None:
        raise BadInput("name a preset to tune; wmg list shows them")
    settings = changed(find_config(preset, options.steps), options)
    check_counts(options, runs=1, n_init=0, beat=1, seed=0)
    from wmg.tuner import objective, space, study

    task = objective.make_task(preset, settings, options.metric)
    grid = space.choose(settings, options.names, options.grid)
    start = start_values(settings, grid) if options.start == "preset" else None
    plan = study.Plan(
        task,
        runs=options.runs,
        until_settled=options.until_settled,
        sampler=options.sampler,
        average=options.average,
        n_init=options.n_init,
        start=start,
        shapes=tuple(space.shapes(list(grid))),
        seed=options.seed,
        beat=options.beat,
    )
    name = options.study or re.sub("[/:]", "-", preset)
    study.create(options.storage, name, plan, grid, maximise=task["metric"] != "steps")
    points = math.prod(map(len, grid.values()))
    print(f"made study {name}: {len(grid)} hyperparameters, {points:,} configurations")
    print(f"work on it with: {command('worker', [name], options.storage)}")
    return 0


def command(does: str, names: list[str], storage: str) -> str:
    """What to type to do something with studies."""
    where = [] if storage == STORAGE else ["--storage", storage]
    return shlex.join(["wmg", "tune", does, *names, *where])


def changed(settings: Config, options: CreateOptions) -> Config:
    """A preset with the steps and tests that were asked for."""
    given = {name: getattr(options, name) for name in ("steps", "report_every")}
    settings = dataclasses.replace(settings, **{k: v for k, v in given.items() if v is not None})
    if options.episodes is not None:
        if settings.goal is None:
            raise BadInput("--episodes is for presets with a goal")
        goal = dataclasses.replace(settings.goal, episodes=options.episodes)
        settings = dataclasses.replace(settings, goal=goal)
    return settings


def start_values(settings: Config, grid: dict[str, list[Any]]) -> dict[str, Any]:
    """The preset's own values, which must be on the grid."""
    from wmg.tuner import space
    from wmg.tuner.sampler import DGDSampler

    values = space.current(settings, list(grid))
    try:
        DGDSampler(grid).locate(values)
    except ValueError as error:
        raise BadInput(f"the search cannot start at the preset: {error}") from None
    return values


LARGEST = 10**9


def check_counts(options: Any, **least: int) -> None:
    """Refuse numbers that are too small, or too large to be meant."""
    for name, smallest in least.items():
        value = getattr(options, name)
        if value is not None and not smallest <= value <= LARGEST:
            raise BadInput(f"{name} must be from {smallest} to {LARGEST:,}, got {value}")


def one_study(args: list[str], command: str) -> tuple[str, list[str]]:
    """The name of the study that a command is about."""
    name, rest = split_name(args)
    if name is None and not {"-h", "--help"} & set(args):
        raise BadInput(f"name a study: wmg tune {command} STUDY")
    return name or "", rest


def worker(args: list[str]) -> int:
    """`wmg tune worker STUDY ...`"""
    name, args = one_study(args, "worker")
    options = parse(WorkerOptions, args, "wmg tune worker STUDY")
    check_counts(options, at_once=1, limit=1, patience=0)
    return do_work(options.storage, name, options.at_once, options.limit, options.patience)


def do_work(
    storage: str, name: str, at_once: int, limit: int | None = None, patience: float = 120.0
) -> int:
    """Work on a study in this process, and say what was done."""
    from wmg.tuner import worker

    objective, began = functools.partial(training, at_once), time.monotonic()
    try:
        done = worker.work(
            storage, name, objective, at_once=at_once, limit=limit, patience=patience, say=say
        )
    except worker.Stopped as stopped:
        print(f"wmg: {stopped}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("stopped; the run in progress was given back")
        raise
    say(f"did {done.runs} runs of {name} in {time.monotonic() - began:.0f} s; {done.reason}")
    return 0


def training(at_once: int, task: dict[str, Any]) -> "Objective":
    """Training as the objective of a search, wherever a worker is."""
    from wmg.tuner.objective import make_objective

    prepare_jax(at_once)
    return make_objective(task)


def say(text: str) -> None:
    """A line about what goes on."""
    print(text, file=sys.stderr, flush=True)


def workers(args: list[str]) -> int:
    """`wmg tune workers STUDY ...`"""
    name, args = one_study(args, "workers")
    options = parse(WorkersOptions, args, "wmg tune workers STUDY")
    check_counts(options, count=1, at_once=1, gpus=0, cpus=0)
    from wmg.tuner import cluster

    per_worker = cluster.Resources(options.cpus, options.gpus)
    objective = functools.partial(training, options.at_once)
    done = cluster.work(
        options.ray, options.storage, name, options.count, per_worker, options.at_once, objective
    )
    print(f"{options.count} workers did {sum(done)} runs of {name}")
    return 0


def status(args: list[str]) -> int:
    """`wmg tune status STUDY ...`"""
    name, args = one_study(args, "status")
    options = parse(StatusOptions, args, "wmg tune status STUDY")
    check_counts(options, watch=0)
    require_new(options.plot)
    from wmg.tools import plots
    from wmg.tuner import report, study

    if options.plot:
        plots.check_format(options.plot)

    with study.opened(options.storage, name) as shared:
        for found in snapshots(shared, options.watch):
            if options.watch is not None and sys.stdout.isatty():
                print("\033[H\033[J", end="")  # in the place of the last
            print(jsonlib.dumps(found) if options.json else report.describe(found), flush=True)
        if options.plot:
            from wmg.tuner import plot

            plot.draw(shared, options.plot)
            say(f"drew {options.plot}")
    return 0


def snapshots(shared: "Shared", watch: float | None) -> Iterator[dict[str, Any]]:
    """How a study stands: now, or again and again until it ends."""
    from wmg.tuner import report

    while True:
        found = report.status(shared)
        yield found
        if watch is None or found["ended"]:
            return
        time.sleep(watch)


def best(args: list[str]) -> int:
    """`wmg tune best STUDY [STUDY ...] ...`"""
    names, args = all_studies(args, "best")
    options = parse(BestOptions, args, "wmg tune best STUDY")
    from wmg.tuner import report

    found = report.best(options.storage, names)
    if options.json:
        print(jsonlib.dumps(found))
        return 0
    print(report.describe_best(found))
    print(f"report the score of fresh runs: {command('final', names, options.storage)}")
    return 0


def all_studies(args: list[str], command: str) -> tuple[list[str], list[str]]:
    """The names of the studies that a command is about."""
    one_study(args, command)  # refuses none
    return split_names(args)


def final(args: list[str]) -> int:
    """`wmg tune final STUDY [STUDY ...] ...`"""
    names, args = all_studies(args, "final")
    options = parse(FinalOptions, args, "wmg tune final STUDY")
    check_counts(options, runs=1, at_once=1)
    require_new(options.out)
    from wmg.tuner import report

    name = report.prepare_final(options.storage, names, options.of, options.runs)
    if code := do_work(options.storage, name, options.at_once):
        return code
    found = report.final(options.storage, name)
    text = jsonlib.dumps(found, indent=2)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(options.out, (text + "\n").encode())
    print(text if options.json else report.describe_final(found))
    return 0
