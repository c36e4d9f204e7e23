"""The suite's tasks, thresholds, budgets and rules. They were fixed before the suite's first run;
docs/results/suite.md names the one correction since.

A threshold of a task that needs memory is more than an agent without memory can have, as far as
that is known. The returns of random play are means of 5 to 50 episodes; those of fixed rules, of 10
to 300.
"""

import dataclasses
from typing import Literal

REPORT = 4096
"""Interactions between two reports: 4 rounds of our PPO, 2 of RecurrentPPO's."""
LAST = 3
"""A run has reached a threshold at its first report at which the mean of this report's score and of
those before it, `LAST` in all, is at least the threshold. A report's score is the mean return of
the training episodes that ended since the report before; reports in which none ended are left
out."""
EPISODES = 200
"""Fresh episodes that an agent plays after training. As in training it samples its actions."""
RUNS = 5
ENVS = 16
"""Copies of the environment that an agent learns in."""
FULL, MEDIUM, SHORT = 73 * REPORT, 24 * REPORT, 10 * REPORT
"""Budgets: 299,008, 98,304 and 40,960 interactions."""

AGENTS = {"wmg": "WMG", "gru": "GRU", "recurrent-ppo": "RecurrentPPO"}
"""The agents of each task, and what they are called."""
OTHER = "recurrent-ppo"
"""The agent that another Python trains."""


@dataclasses.dataclass(frozen=True)
class SuiteTask:
    """An environment, and what is asked of it."""

    title: str
    env: str
    """What `wmg.train` takes: gym:ID, or the import path of a function that makes it."""
    threshold: float
    """The mean return of training episodes that counts as learned."""
    why: str
    """What lies below and above the threshold."""
    budget: int
    """Interactions of each run."""
    module: str
    """The module that is imported for it."""
    package: str
    """What pip calls that module's package."""
    needs: Literal["memory", "sets", ""] = ""
    """What an agent needs here beyond what any network has."""
    roles: tuple[str, ...] = ()
    """What parts of the observation become, where the rules do not fit."""


MAKERS = "wmg.api.suite.makers"


def popgym(
    title: str, env: str, threshold: float, why: str, needs: Literal["memory", ""] = "memory"
) -> SuiteTask:
    """A task of POPGym."""
    return SuiteTask(f"POPGym {title}", env, threshold, why, FULL, "popgym", "popgym", needs)


def minigrid(name: str, why: str, needs: Literal["memory", ""]) -> SuiteTask:
    """A task of MiniGrid."""
    title = f"MiniGrid-{name}"
    return SuiteTask(title, f"gym:{title}-v0", 0.8, why, FULL, "minigrid", "minigrid", needs)


THREE_IN_FOUR = "three answers in four are right; guessing gets {}, the best is 1"
TASKS = {
    "cartpole": SuiteTask(
        "CartPole-v1",
        "gym:CartPole-v1",
        475.0,
        "Gymnasium registers 475 as the reward threshold; random play gets 22, the best is 500",
        MEDIUM,
        "gymnasium",
        "gymnasium",
    ),
    "memory-s7": minigrid(
        "MemoryS7",
        "an agent that guesses at the fork gets at most 0.5, random play 0.17, the best about 0.95",
        "memory",
    ),
    "memory-s11": minigrid(
        "MemoryS11",
        "an agent that guesses at the fork gets at most 0.5, random play 0.21, the best about 0.95",
        "memory",
    ),
    "doorkey": minigrid("DoorKey-6x6", "random play gets 0, the best is about 0.95", ""),
    "repeat-first": popgym(
        "RepeatFirst, easy", "gym:popgym-RepeatFirstEasy-v0", 0.5, THREE_IN_FOUR.format(-0.5)
    ),
    "repeat-previous": popgym(
        "RepeatPrevious, easy", "gym:popgym-RepeatPreviousEasy-v0", 0.5, THREE_IN_FOUR.format(-0.5)
    ),
    "concentration": popgym(
        "Concentration, easy",
        f"{MAKERS}:concentration",
        0.5,
        "random play gets -0.19, turning hidden cards at random 0.45, perfect memory 0.82",
    ),
    "count-recall": popgym(
        "CountRecall, easy",
        "gym:popgym-CountRecallEasy-v0",
        0.0,
        "every other answer is right; random play gets -0.92, the likeliest count of each step "
        "-0.46, the best is 1",
    ),
    "battleship": popgym(
        "Battleship, easy",
        f"{MAKERS}:battleship",
        0.0,
        "random play gets -0.47, each square once in random order 0.09, row by row 0.16",
        needs="",
    ),
    "memory-chain": SuiteTask(
        "bsuite's MemoryChain, length 10",
        f"{MAKERS}:memory_chain",
        0.5,
        THREE_IN_FOUR.format(0),
        FULL,
        "gymnax",
        "gymnax",
        "memory",
    ),
    "highway": SuiteTask(
        "highway-fast-v0",
        "gym:highway-fast-v0",
        20.0,
        "random play gets 5, keeping lane and speed 10, always braking 22, the best is below 30",
        SHORT,
        "highway_env",
        "highway-env",
        roles=("factors presence=0 order=yes",),
    ),
}
CELLS = {f"{task}-{agent}": (task, agent) for task in TASKS for agent in AGENTS}
"""Task and agent of each cell."""
