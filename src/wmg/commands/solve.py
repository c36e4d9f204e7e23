"""`wmg eval` on Sokoban: every level of a bank, once."""

import json as jsonlib
from typing import Any

from wmg.commands.start import remark_on_levels
from wmg.config import Sokoban
from wmg.options import Eval


def run(name: str | None, env: Any, agent: Any, options: Eval) -> int:
    """Play the levels, print the solved share, and save or compare outcomes if asked to."""
    from wmg import solve

    settings = options.env
    assert isinstance(settings, Sokoban)
    remark_on_levels(settings)
    count = solve.count_levels(env, options.episodes)
    other = solve.read(options.against, settings, count) if options.against else None
    played = solve.play_levels(
        env, agent, count=count, seed=options.test_seed, greedy=options.greedy,
        thinking=options.thinking,
    )  # fmt: skip
    how = {"model": name, "seed": options.test_seed, "greedy": options.greedy}
    how |= {"thinking": options.thinking}
    found = solve.summary(played)
    compared = None if other is None else solve.compare(played, other)
    if options.out:
        solve.save(options.out, played, settings, **how)
    if options.json:
        played_on = {"bank": settings.levels, "max_steps": settings.max_steps}
        print(jsonlib.dumps({**how, **played_on, **found, "against": compared}))
        return 0
    low, high = found["interval"]
    print(
        f"{name}: solved {found['share']:.1%} ({low:.1%} to {high:.1%}) of {found['levels']:,} "
        f"levels of {settings.levels} in {settings.max_steps} steps"
    )
    if compared:
        print(
            f"both solved {compared['both']:,}, only this one {compared['only_this']:,}, only "
            f"{options.against} {compared['only_other']:,}, neither {compared['neither']:,} "
            f"(sign test {compared['sign_test']:.2g})"
        )
    return 0
