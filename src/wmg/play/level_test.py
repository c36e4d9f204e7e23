"""How many levels of a bank an agent solves: each is played, and its outcome kept."""

import functools
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg import config
from wmg.play import evaluate
from wmg.play.evaluate import Begin, Draw, Episodes, Show
from wmg.play.streams import Chance, chance_of, try_key
from wmg.settings import EnvSettings
from wmg.tools import files, stats
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON
from wmg.types import Agent, LevelEnv, Observation

MOST_TRIES = 1000
TOGETHER = 16
"""Further tries play a multiple of this many levels, so that few programs are compiled."""
LARGEST_FILE = 100_000_000
"""Bytes of a file of outcomes; of 900,000 levels they are 16,000,000."""


def levels(env: LevelEnv, chosen: tuple[PRNGKeyArray, Int[Array, " levels"]]) -> tuple[Begin, Draw]:
    """Some levels of an environment. What is random in one depends on the key and its index."""
    key, indices = chosen

    def begin(episode: Int[Array, ""]) -> tuple[Any, Observation]:
        return env.start(indices[episode])

    def chance(episode: Int[Array, ""], time: Int[Array, ""]) -> Chance:
        pkey, ekey = jax.random.split(jax.random.fold_in(key, indices[episode]))
        return chance_of(env.spec, pkey, ekey, time)

    return begin, chance


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

    What is sampled depends on seed and level alone. For `thinking` see `wmg.play.evaluate.play`.
    """
    how = {"count": count, "seed": seed, "greedy": greedy, "thinking": thinking, "show": show}
    return play_tries(env, agent, 1, **how)[0]


def play_tries(
    env: LevelEnv,
    agent: Agent,
    tries: int,
    *,
    count: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    thinking: int = 0,
    show: Show | None = None,
) -> tuple[Episodes, Int[np.ndarray, " levels"]]:
    """The outcome of each level in the try that decides it, and the number of the try that solved
    it, counted from 1; 0 for none.

    A level is tried until it is solved, at most `tries` times: its first solved try decides, or its
    last. What is sampled depends on seed, try and level alone, so the first try is `play_levels`.
    """
    count = count_levels(env, count)
    evaluate.check_thinking(agent, thinking)
    if not 1 <= tries <= MOST_TRIES:
        raise BadInput(f"tries must be from 1 to {MOST_TRIES:,}, got {tries}")
    if tries > 1 and greedy:
        raise BadInput(f"tries differ by their samples: with greedy, tries must be 1, got {tries}")
    played = _play(env, agent, np.arange(count), try_key(seed, 1), greedy, thinking, show)
    solved_in = np.asarray(played.success).astype(int)
    for number in range(2, tries + 1):
        left = np.flatnonzero(solved_in == 0)
        if not left.size:
            break
        # Levels are repeated to fill the batch.
        filled = np.resize(left, -(-left.size // TOGETHER) * TOGETHER)
        named = show and functools.partial(_show_try, show, number)
        found = _play(env, agent, filled, try_key(seed, number), greedy, thinking, named)
        for outcome, new in zip(jax.tree.leaves(played), jax.tree.leaves(found), strict=True):
            outcome[left] = new[: left.size]
        solved_in[left[played.success[left]]] = number
    return played, solved_in


def _show_try(show: Show, number: int, what: str, done: int, total: int) -> None:
    show(f"try {number}" if what == "episodes" else what, done, total)


def _play(
    env: LevelEnv,
    agent: Agent,
    chosen: Int[np.ndarray, " levels"],
    key: PRNGKeyArray,
    greedy: bool,
    thinking: int,
    show: Show | None,
) -> Episodes:
    """The outcome of each of some levels, in arrays that can be written to."""
    lanes = min(1000, evaluate.lanes_for(chosen.size))
    test = env, agent, (key, jnp.asarray(chosen)), levels, chosen.size, lanes, greedy, thinking
    return jax.tree.map(np.array, evaluate.play_all(*test, show=show))


def count_by_try(solved_in: Int[np.ndarray, " levels"], tries: int) -> list[int]:
    """How many levels were solved in the first try, in the first two, and so on."""
    return np.bincount(solved_in, minlength=tries + 1)[1:].cumsum().tolist()


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


def read(
    path: pathlib.Path, settings: EnvSettings, count: int, tries: int = 1
) -> Bool[np.ndarray, " levels"]:
    """Which levels were solved, from a file that `save` wrote of the same levels and tries."""
    try:
        saved = files.parse_json(files.read_bounded(path, LARGEST_FILE))
        bank, solved = str(saved["env"][settings.data]), np.array(saved["solved_each"], bool)
        tried = int(saved.get("tries", 1))  # version 0.1 had one try
    except (*NOT_JSON, KeyError, TypeError):
        raise BadInput(f"{path} does not hold the outcomes of levels") from None
    if bank != settings.bank or solved.shape != (count,):
        raise BadInput(
            f"{path} is of {solved.size:,} levels of {bank}, not {count:,} of {settings.bank}"
        )
    if tried != tries:
        raise BadInput(f"{path} is of {tried:,} tries for each level, not {tries:,}")
    return solved
