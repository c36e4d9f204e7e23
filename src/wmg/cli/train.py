"""`wmg train`: runs of a preset, new, resumed or branched off."""

import contextlib
import dataclasses
import datetime
import json as jsonlib
import math
import pathlib
import re
import sys
from typing import Any, Literal

from wmg.cli.options import UNPREFIXED, parse
from wmg.cli.start import (
    asked_steps,
    find_config,
    option_value,
    prepare_jax,
    remark_on,
    split_name,
    take_option,
    threads_for,
)
from wmg.config import Config, Goal, to_dict
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.tools import scores
from wmg.tools.errors import BadInput


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Train one or more runs and write a run folder. PRESET is a name that `wmg list` shows, or
    module:NAME, the import path of a Config; gym:ID or module:NAME of an environment stands for its
    default settings. Without a preset, --env says what is trained on:
    gym:ID, an environment that Gymnasium knows, or module:NAME, the import path of one. --agent
    says what is trained: gru or another name, or module:NAME, the import path of its class.
    Defaults are those of the preset or environment: name it before --help to see them."""

    config: Config = dataclasses.field(metadata=UNPREFIXED)
    goal: bool = False
    """Whether runs are tested at every report and stop once they meet the goal."""
    out: pathlib.Path | None = None
    """Run folder (default: runs/PRESET-TIME). One that exists is never overwritten."""
    resume: pathlib.Path | None = None
    """Go on with this run folder, exactly where its last checkpoint left it."""
    from_: pathlib.Path | None = None
    """Start from the state of this run folder, with changed numbers, in a new folder."""
    mirror: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Also log to these (extras of the same names)."""
    save_seconds: float = 60.0
    """Least time between checkpoints."""
    json: bool = False
    """Print the result as JSON."""


def run(args: list[str]) -> int:
    """`wmg train [PRESET] ...`"""
    name, args = split_name(args)
    options, settings = read_training(name, args)
    if options.resume and (options.out or options.from_):
        raise BadInput("--resume goes on in its own folder: it takes neither --out nor --from")
    if not 0 <= options.save_seconds < float("inf"):
        raise BadInput(f"save_seconds must be a number from 0 on, got {options.save_seconds}")
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    label = re.sub("[/:]", "-", name or "run")
    folder = options.resume or options.out or pathlib.Path("runs") / f"{label}-{stamp}"
    from wmg.runs import progress
    from wmg.runs import train as trainer
    from wmg.runs.mirrors import open_mirror

    prepare_jax(threads_for(settings))
    remark_on(settings.env)
    mirrors = tuple(open_mirror(kind, folder, to_dict(settings)) for kind in options.mirror)
    with contextlib.ExitStack() as stack:
        for mirror in mirrors:
            stack.callback(mirror.close)
        display = stack.enter_context(progress.display())
        result = trainer.train(
            settings,
            folder,
            resume=options.resume is not None,
            branch_from=options.from_,
            start=display.start,
            show=display.show,
            mirrors=mirrors,
            save_seconds=options.save_seconds,
        )
    return finish_training(result, options.json)


def read_training(name: str | None, args: list[str]) -> tuple[TrainOptions, Config]:
    """The options, and the config that results from them. Any option of a goal turns the goal on,
    also where the preset has none."""
    env, args = take_option(args, "--env")
    agent, args = take_option(args, "--agent")
    if (env or agent) and (old := option_value(args, "--resume") or option_value(args, "--from")):
        raise BadInput(f"{old} has its environment and agent: it takes neither --env nor --agent")
    base = base_config(name, env, agent, args)
    numbers = [arg.partition("=")[0] for arg in args if arg.startswith("--goal.")]
    goal = base.goal is not None or bool(numbers)
    base = dataclasses.replace(base, goal=base.goal or Goal())
    options = parse(TrainOptions, args, "wmg train [PRESET]", config=base, goal=goal)
    if options.goal:
        return options, options.config
    if numbers:
        raise BadInput(f"{numbers[0]} has no effect: --no-goal leaves the goal out")
    return options, dataclasses.replace(options.config, goal=None)


def base_config(name: str | None, env: str | None, agent: str | None, args: list[str]) -> Config:
    """The config that the options change: a preset, the defaults for an environment, or the config
    of the folder to go on with."""
    if name is not None and env is None:
        base = find_config(name, asked_steps(args))
        if agent is None:
            return base
        from wmg.api.training import find_agent  # imports jax: not for a plain preset

        return dataclasses.replace(base, agent=find_agent(agent))
    if env or agent:
        from wmg.api import training
        from wmg.api.defaults import STEPS

        return training.experiment(name, env, agent, steps=asked_steps(args) or STEPS)[0]
    if folder := option_value(args, "--resume") or option_value(args, "--from"):
        from wmg.runs import runfolder

        return runfolder.read_config(pathlib.Path(folder))
    if {"-h", "--help"} & set(args):
        return find_config("pathfinding/wmg")
    raise BadInput(
        "name a preset (wmg list shows them), an environment with --env, or a folder with "
        "--resume or --from"
    )


def finish_training(result: Any, json: bool) -> int:
    """Draw the learning curve and print the result."""
    import numpy as np

    finals = result.scores[:, -1] if result.scores.size else np.zeros(0)
    finals = finals[np.isfinite(finals)]
    diverged = int(result.diverged.sum())
    summary = {
        "folder": str(result.folder),
        "finished": result.finished,
        "seconds": round(result.seconds, 1),
        "best_run": result.best if result.scores.size else None,
        "score_median": round(float(np.median(finals)), 2) if finals.size else None,
        "score_best": round(float(finals.max()), 2) if finals.size else None,
        "metric": result.spec.metric,
        "diverged": diverged,
        "goal": summarise_goal(result),
        "curve": draw_curve(result) if result.finished else None,
    }
    if json:
        print(jsonlib.dumps(summary))
    elif not result.finished:
        print(f"stopped and saved; go on with: wmg train --resume {result.folder}")
        print(f"to keep its model as it is: wmg convert {result.folder} MODEL.safetensors")
    else:
        print_summary(summary, result)
    return 1 if diverged == result.config.runs else 0


def print_summary(summary: dict[str, Any], result: Any) -> None:
    """Print the result of training that has ended, for people."""
    runs, diverged = result.config.runs, summary["diverged"]
    said = describe_scores(summary, runs)
    print(f"{result.folder}: {said}, {summary['seconds']:,} s")
    if result.config.goal:
        print(describe_goal(summary["goal"], result.config))
    if diverged:
        print(f"{diverged} of {runs} runs diverged and were stopped{suspect(result)}")
    if summary["curve"]:
        print(f"learning curve: {summary['curve']}")


def suspect(result: Any) -> str:
    """What to try where every run diverged in an environment from outside of the package."""
    env = result.config.env
    if not result.diverged.all() or not isinstance(env, OutsideEnvSettings):
        return ""
    return f"; if the environment shows NaN, wmg.check_env({env.path!r}) says so"


def describe_scores(summary: dict[str, Any], runs: int) -> str:
    """The last scores of all runs in words."""
    metric, best = summary["metric"], summary["score_best"]
    if best is None:
        return f"no {scores.name(metric)}"
    name, unit = scores.name(metric), scores.unit(metric)
    if runs == 1:
        return f"last {name} {summary['score_median']}{unit}"
    return f"last {name}s: median {summary['score_median']}{unit}, best {best}{unit}"


def summarise_goal(result: Any) -> dict[str, Any] | None:
    """How many steps runs took to meet their goal; None where there is none."""
    from wmg.tools import stats

    if result.config.goal is None:
        return None
    steps = [None if x is None else round(x, 1) for x in result.crossings]
    median = stats.censored_quantile([math.inf if x is None else x for x in steps], 0.5)
    return {
        **dataclasses.asdict(result.config.goal),
        "test_every": result.config.report_every,
        "solved": len(steps) - steps.count(None),
        "median_steps": median if median < math.inf else None,
        "steps": steps,
    }


def describe_goal(found: dict[str, Any], settings: Config) -> str:
    """The result of `summarise_goal` in a sentence."""
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
    from wmg.tools import plots

    path = result.folder / "curve.png"
    curve = plots.Curve(result.steps, result.scores)
    try:
        label = result.config.agent.name.upper()
        title = str(result.folder).encode(errors="replace").decode()  # a name may be no text
        plots.learning_curves(
            {label: curve}, path, title=title, ylabel=scores.axis(result.spec.metric)
        )
    except BadInput as missing:
        print(f"no picture of the curve: {missing}", file=sys.stderr)
        return None
    return str(path)
