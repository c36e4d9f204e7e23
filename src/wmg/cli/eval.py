"""`wmg eval`: held-out episodes and, of Sokoban, every level of a bank, once."""

import contextlib
import dataclasses
import json as jsonlib
import pathlib
import re
from typing import Any, Literal

from wmg.cli.models import find_model
from wmg.cli.options import parse
from wmg.cli.start import remark_on, require_new, split_name
from wmg.settings import EnvSettings
from wmg.tools import scores
from wmg.tools.errors import BadInput


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Play held-out episodes with a model: a file, a run folder, a shipped name, random or
    depth-N. Sokoban plays every level of --levels once, test if not given: a split, a bank or a
    file, as --env.levels."""

    env: EnvSettings
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


def run(args: list[str]) -> int:
    """`wmg eval MODEL ...`"""
    name, args = split_name(args)
    args = [re.sub("^--levels(?==|$)", "--env.levels", arg) for arg in args]
    agent, settings, played_on = find_model(name, args)
    options = parse(EvalOptions, args, "wmg eval MODEL", env=played_on)
    from wmg.runs import hardware, models
    from wmg.types import LevelEnv

    options = dataclasses.replace(options, env=options.env.pinned())
    env, agent = models.fit(agent, settings, options.env)
    if options.slots is not None:
        agent = models.lengthen(agent, options.slots, options.oldest_age, options.older)
    elif options.oldest_age is not None:
        raise BadInput("--oldest-age says how added slots are shown: it needs --slots")
    if not 0 <= options.test_seed < 2**31:
        raise BadInput(f"test_seed must be from 0 to {2**31 - 1:,}, got {options.test_seed}")
    require_new(options.out)
    play = play_levels if isinstance(env, LevelEnv) else play_episodes
    with hardware.products(settings.precision):
        play(name, env, agent, options)
    return 0


def showing(json: bool) -> Any:
    """A context with a function that shows progress; None where JSON is printed."""
    from wmg.runs import counter

    return contextlib.nullcontext() if json else counter.count()


def play_episodes(name: str | None, env: Any, agent: Any, options: EvalOptions) -> None:
    """Play episodes, and print the score."""
    from wmg.play import evaluate, source

    if options.thinking or options.out or options.against:
        raise BadInput("--thinking, --out and --against are for the levels of Sokoban")
    episodes = 1000 if options.episodes is None else options.episodes
    if not 2 <= episodes <= 10_000_000:
        raise BadInput(f"episodes must be from 2 to 10,000,000, got {episodes}")
    with showing(options.json) as show:
        played = source.play_episodes(env, agent, options.test_seed, episodes, options.greedy, show)
    result = {"model": name, **evaluate.summary(env.spec, played)}
    if options.json:
        print(jsonlib.dumps(result))
    else:
        print(
            f"{name}: {scores.write(env.spec.metric, result['score'], 2)} "
            f"(standard error {result['standard_error']:.2f}) "
            f"over {result['episodes']:,} episodes of {result['mean_length']:.0f} steps"
        )


def play_levels(name: str | None, env: Any, agent: Any, options: EvalOptions) -> None:
    """Play the levels, print the solved share, and save or compare outcomes if asked to."""
    import numpy as np

    from wmg.play import level_test
    from wmg.tools import stats

    settings = options.env
    remark_on(settings)
    count = level_test.count_levels(env, options.episodes)
    other = level_test.read(options.against, settings, count) if options.against else None
    with showing(options.json) as show:
        played = level_test.play_levels(
            env,
            agent,
            count=count,
            seed=options.test_seed,
            greedy=options.greedy,
            thinking=options.thinking,
            show=show,
        )
    how = {"model": name, "seed": options.test_seed, "greedy": options.greedy}
    how |= {"thinking": options.thinking}
    found = level_test.summary(played)
    compared = None if other is None else stats.paired_rates(np.asarray(played.success), other)
    if options.out:
        level_test.save(options.out, played, settings, **how)
    if options.json:
        played_on = {"bank": settings.bank, "max_steps": env.spec.max_steps}
        print(jsonlib.dumps({**how, **played_on, **found, "against": compared}))
        return
    low, high = found["interval"]
    print(
        f"{name}: solved {found['share']:.1%} ({low:.1%} to {high:.1%}) of {found['levels']:,} "
        f"levels of {settings.bank} in {env.spec.max_steps} steps"
    )
    if compared:
        print(describe_difference(compared, "this one", str(options.against)))


def describe_difference(
    found: dict[str, Any], first: str, second: str, unit: str = " points"
) -> str:
    """Lines that say how two agents compare; of percentages, differences are in points."""
    low, high = found["interval"]
    lines = [
        f"difference {found['difference']:+.2f}{unit}, 95% interval {low:+.2f} to {high:+.2f}, "
        f"p = {found['p_value']:.2g} ({found['test']})"
    ]
    if "both" in found:
        lines.append(
            f"both solved {found['both']:,}, only {first} {found['only_first']:,}, only {second} "
            f"{found['only_second']:,}, neither {found['neither']:,}"
        )
    return "\n".join(lines)
