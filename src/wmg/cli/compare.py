"""`wmg compare`: two agents in the same episodes."""

import dataclasses
import json as jsonlib
import pathlib
import sys
from typing import Any

from wmg.cli.eval import describe_difference, showing
from wmg.cli.models import find_model, kind
from wmg.cli.options import parse
from wmg.cli.start import remark_on, split_names
from wmg.registry import NOT_NAMED
from wmg.settings import EnvSettings
from wmg.tools import scores as score_text
from wmg.tools.errors import BadInput

MOST_EPISODES = 100_000


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Play the same held-out episodes with two models, and compare them episode by episode. A model
    is a file, a run folder (its best run), a shipped name, random or depth-N. Both play the
    environment of A, or of B if A does not learn; options of the environment change it."""

    env: EnvSettings
    episodes: int | None = None
    """How many (default: 1000; of Sokoban, all levels)."""
    test_seed: int = 1
    """Which held-out episodes."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""
    all_runs: bool = False
    """Compare all runs of two folders, by each run's mean score, instead of their best runs."""
    json: bool = False
    """Print the result as JSON."""


def run(args: list[str]) -> int:
    """`wmg compare A B ...`"""
    names, args = split_names(args)
    helped = bool({"-h", "--help"} & set(args))
    if len(names) != 2 and not helped:
        raise BadInput(f"name two models to compare, got {len(names)}")
    names = names if len(names) == 2 else ["random", "random"]
    everything = bool({"--all-runs", "--all_runs"} & set(args))
    sides = [find_side(name, args, everything) for name in names]
    learning = [side for side in sides if side[1].agent.learns]
    shown = (learning or sides)[0][2]
    options = parse(CompareOptions, args, "wmg compare A B", env=shown)
    check_kinds(names, learning, options)
    options = dataclasses.replace(options, env=options.env.pinned())
    remark_on(options.env)
    with showing(options.json) as show:
        played = [play(agents, config, options, show) for agents, config, _ in sides]
    report(names, [rows for rows, _ in played], options, played[0][1])
    return 0


def find_side(name: str, args: list[str], everything: bool) -> tuple[list[Any], Any, EnvSettings]:
    """The agents of one side, their config, and the environment they are shown."""
    from wmg.runs import hardware, models, runfolder

    path = pathlib.Path(name)
    if not everything:
        agent, config, env = find_model(name, args)
        return [agent], config, env
    if not path.is_dir():
        raise BadInput(f"--all-runs compares run folders, and {name} is not one")
    config = runfolder.read_config(path)
    if config.runs < 2:
        raise BadInput(f"--all-runs needs at least 2 runs, and {name} has {config.runs}")
    if config.env is None:
        raise BadInput(NOT_NAMED)
    agents = models.load_agents(path, config)
    each = [hardware.take(agents, index) for index in range(config.runs)]
    return each, config, config.env.held_out()


def check_kinds(names: list[str], learning: list[tuple], options: CompareOptions) -> None:
    """Refuse what cannot be compared, and say which environment is played if there is a choice."""
    least, most = 2, MOST_EPISODES
    if options.episodes is not None and not least <= options.episodes <= most:
        raise BadInput(f"episodes must be from {least} to {most:,}, got {options.episodes}")
    if not 0 <= options.test_seed < 2**31:
        raise BadInput(f"test_seed must be from 0 to {2**31 - 1:,}, got {options.test_seed}")
    kinds = [kind(config.env) for _, config, _ in learning]
    if len(set(kinds)) > 1:
        raise BadInput(f"{names[0]} plays {kinds[0]} and {names[1]} plays {kinds[1]}")
    if len({env for _, _, env in learning}) > 1:
        print(f"both play the environment of {names[0]}: {options.env}", file=sys.stderr)


def play(agents: list[Any], config: Any, options: CompareOptions, show: Any) -> tuple[Any, str]:
    """Scores, one row for each agent and one column for each episode; and what they are."""
    import numpy as np

    from wmg.play import evaluate, level_test, source
    from wmg.runs import hardware, models
    from wmg.types import LevelEnv

    rows, metric = [], ""
    for agent in agents:
        env, fitting = models.fit(agent, config, options.env)
        with hardware.products(config.precision):
            if isinstance(env, LevelEnv):
                count = level_test.count_levels(env, options.episodes)
                how = {"seed": options.test_seed, "greedy": options.greedy, "show": show}
                played = level_test.play_levels(env, fitting, count=count, **how)
            else:
                count = 1000 if options.episodes is None else options.episodes
                test = env, fitting, options.test_seed, count, options.greedy
                played = source.play_episodes(*test, show)
        rows.append(evaluate.scores(env.spec, played))
        metric = env.spec.metric
    return np.stack(rows), metric


def report(names: list[str], scores: list[Any], options: CompareOptions, metric: str) -> None:
    """Print both scores and how they differ."""
    from wmg.tools import stats

    if options.all_runs:
        found = stats.unpaired_means(*(rows.mean(axis=1) for rows in scores))
    elif metric != "return" and all(set(rows.flat) <= {0.0, 100.0} for rows in scores):
        found = stats.paired_rates(*(rows[0] > 0 for rows in scores))
    else:
        found = stats.paired_means(*(rows[0] for rows in scores))
    means = [float(rows.mean()) for rows in scores]
    if options.json:
        sides = [
            {"model": name, "score": mean, "runs": len(rows)}
            for name, mean, rows in zip(names, means, scores, strict=True)
        ]
        about = {"episodes": scores[0].shape[1], "seed": options.test_seed}
        print(jsonlib.dumps({"models": sides, **about, "greedy": options.greedy, **found}))
        return
    for name, mean, rows in zip(names, means, scores, strict=True):
        runs = f"{len(rows)} runs, each " if options.all_runs else ""
        score = score_text.write(metric, mean, 2)
        print(f"{name}: {score} over {runs}{rows.shape[1]:,} episodes")
    print(describe_difference(found, *names, unit="" if metric == "return" else " points"))
