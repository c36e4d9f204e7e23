"""`wmg.check_env`: what is wrong with an environment of one's own."""

from typing import Any

from wmg import registry
from wmg.api.training import find_env
from wmg.play.check import check_play, check_shapes
from wmg.play.host import Host, HostEnvs, as_envs
from wmg.play.source import HostSource
from wmg.settings import require


def check_env(env: Any, steps: int = 256) -> None:
    """Plays an environment at random and raises `BadInput` if anything is wrong with it.

    `env` is what `wmg.train` takes, or a `wmg.play.host.Host`. The sentence of the error says what
    to change. If the environment's own code fails, its error is the cause, with its traceback.
    In a compiled environment, play goes on until an episode must have ended, for up to 2,000 steps.
    """
    require(type(steps) is int and steps >= 1, "steps", steps, "a whole number from 1 on")
    found = env if isinstance(env, Host | HostEnvs) else registry.make_env(*find_env(env))
    if isinstance(found, HostSource):
        found = found.copies(1)
    if isinstance(found, Host | HostEnvs):
        found = as_envs(found)
    else:
        check_shapes(found)
    check_play(found, steps)
