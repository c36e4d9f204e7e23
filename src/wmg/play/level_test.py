"""How many levels of a bank an agent solves: each is played once, and its outcome kept."""

import json
import pathlib
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg import config
from wmg.play import evaluate
from wmg.play.evaluate import Begin, Draw, Episodes, Show
from wmg.play.streams import Chance, chance_of, test_key
from wmg.settings import EnvSettings
from wmg.tools import files, stats
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON
from wmg.types import Agent, LevelEnv

LARGEST_FILE = 100_000_000
"""Bytes of a file of outcomes; of 900,000 levels they are 16,000,000."""


def levels(env: LevelEnv, key: PRNGKeyArray) -> tuple[Begin, Draw]:
    """The levels of an environment in their order."""

    def chance(index: Int[Array, ""], time: Int[Array, ""]) -> Chance:
        pkey, ekey = jax.random.split(jax.random.fold_in(key, index))
        return chance_of(env.spec, pkey, ekey, time)

    return env.start, chance


def count_levels(env: LevelEnv, wanted: int | None) -> int:
    """The number of levels to play: as many as asked for, at most those of the bank."""
    wanted = env.count if wanted is None else wanted
    if not 1 <= wanted <= env.count:
        raise BadInput(
            f"episodes must be from 1 to {env.count:,}, the levels there are, got {wanted}"
        )
    return wanted


def play_levels(
    env: LevelEnv,
    agent: Agent,
    *,
    count: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    thinking: int = 0,
    show: Show | None = None,
) -> Episodes:
    """The outcome of each level of the bank, or of the first `count`.

    With `thinking`, the agent stays where it is for so many steps first. They do not count
    towards the limit, nor as length, but are paid as other steps are. What is sampled depends on
    seed and level alone.
    """
    count = count_levels(env, count)
    if not 0 <= thinking <= 10_000:
        raise BadInput(f"thinking must be from 0 to 10,000, got {thinking}")
    lanes = min(1000, evaluate.lanes_for(count))
    key = test_key(seed)
    longer = env.with_limit(env.spec.max_steps + thinking)
    test = longer, agent, key, levels, count, lanes, greedy, thinking
    played = evaluate.play_all(*test, show=show)
    return eqx.tree_at(lambda episodes: episodes.length, played, played.length - thinking)


def summary(episodes: Episodes) -> dict[str, Any]:
    """The solved share with its 95% interval (Wilson), and the mean length of solved episodes."""
    solved = np.asarray(episodes.success)
    low, high = stats.wilson(int(solved.sum()), len(solved))
    lengths = np.asarray(episodes.length)[solved]
    return {
        "levels": len(solved),
        "solved": int(solved.sum()),
        "share": float(solved.mean()),
        "interval": [low, high],
        "mean_length_solved": float(lengths.mean()) if lengths.size else None,
    }


def save(path: pathlib.Path, episodes: Episodes, settings: EnvSettings, **about: Any) -> None:
    """Write the outcome of every level, in the order of the bank, as JSON."""
    outcome = {
        "env": config.to_dict(settings),
        **about,
        **summary(episodes),
        "solved_each": np.asarray(episodes.success).astype(int).tolist(),
        "length_each": np.asarray(episodes.length).tolist(),
        "reward_each": np.asarray(episodes.reward).round(4).tolist(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, (json.dumps(outcome) + "\n").encode())


def read(path: pathlib.Path, settings: EnvSettings, count: int) -> Bool[np.ndarray, " levels"]:
    """Which levels were solved, from a file that `save` wrote of the same levels."""
    try:
        saved = files.parse_json(files.read_bounded(path, LARGEST_FILE))
        bank, solved = str(saved["env"][settings.data]), np.array(saved["solved_each"], bool)
    except (*NOT_JSON, KeyError, TypeError):
        raise BadInput(f"{path} does not hold the outcomes of levels") from None
    if bank != settings.bank or solved.shape != (count,):
        raise BadInput(
            f"{path} is of {solved.size:,} levels of {bank}, not {count:,} of {settings.bank}"
        )
    return solved
