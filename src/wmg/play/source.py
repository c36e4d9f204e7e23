"""An environment that runs on the host, before there are copies of it; and episodes of any kind."""

import dataclasses
from collections.abc import Callable
from typing import Any

from wmg.play import evaluate, host_evaluate
from wmg.play.check_spec import check_spec
from wmg.play.evaluate import Episodes, Show
from wmg.play.host import HostEnvs, Mapping
from wmg.types import Agent, Env, EnvSpec

COPIES = 16
"""Environments of the host that play at the same time in a test."""


@dataclasses.dataclass(frozen=True)
class HostSource:
    """An environment of the host that can be made as often as it is needed."""

    label: str
    """What people call it."""
    spec: EnvSpec
    copies: Callable[[int], HostEnvs]
    """That many environments, which take their steps together."""
    mapping: Mapping
    """From what one of them shows to what an agent sees, and from its actions to theirs."""
    with_pictures: Callable[[], Any]
    """A single Gymnasium environment whose `render` gives pictures, if it can."""

    def __post_init__(self):
        check_spec(self.spec)


def play_episodes(
    env: Env | HostSource,
    agent: Agent,
    seed: int,
    episodes: int,
    greedy: bool = False,
    show: Show | None = None,
    thinking: int = 0,
) -> Episodes:
    """The episodes of a test seed, wherever the environment runs. For `thinking` see
    `wmg.play.evaluate.play`."""
    if not isinstance(env, HostSource):
        return evaluate.evaluate(env, agent, seed, episodes, greedy, show, thinking)
    envs = env.copies(min(episodes, COPIES))
    return host_evaluate.evaluate(envs, agent, seed, episodes, greedy, show, thinking)
