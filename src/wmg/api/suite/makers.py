"""Makes the suite's environments, for our agents and for others.

It imports neither jax nor the agents, so that another Python can use it.
"""

import importlib
from typing import Any

from wmg.api.suite.tasks import SuiteTask

GYM = "gym:"
CHAIN = 10
"""Steps over which MemoryChain's bit must be remembered."""


def battleship() -> Any:
    """POPGym's Battleship, which shows the last action too. POPGym says that it must be shown."""
    return _with_last_action("BattleshipEasy")


def concentration() -> Any:
    """POPGym's Concentration, which shows the last action too. POPGym says that it must be
    shown."""
    return _with_last_action("ConcentrationEasy")


def _with_last_action(name: str) -> Any:
    envs, wrappers = map(importlib.import_module, ("popgym.envs", "popgym.wrappers"))
    return wrappers.PreviousAction(getattr(envs, name)())


def memory_chain() -> tuple[Any, Any]:
    """gymnax's version of bsuite's MemoryChain, and its parameters."""
    env, params = importlib.import_module("gymnax").make("MemoryChain-bsuite")
    return env, params.replace(memory_length=CHAIN)


def make_gymnasium(task: SuiteTask) -> Any:
    """The task's environment with Gymnasium's interface, for agents that know no other one."""
    import gymnasium

    if task.env.startswith(GYM):
        importlib.import_module(task.module)  # registers the ID
        return gymnasium.make(task.env.removeprefix(GYM), disable_env_checker=True)
    module, _, name = task.env.partition(":")
    made = getattr(importlib.import_module(module), name)()
    if isinstance(made, tuple):
        return importlib.import_module("gymnax.wrappers").GymnaxToGymWrapper(*made)
    return made
