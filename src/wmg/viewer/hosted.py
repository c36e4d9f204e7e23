"""Episodes of an environment on the host, step by step, so that the viewer can go back.

Such an environment cannot be saved. A state is the seed of an episode and the actions so far; to go
on from an earlier one, the episode is played again up to it. Episode n starts as episode n of
`wmg eval` does. With greedy actions it is the same; sampled actions have other random numbers.
"""

import jax.numpy as jnp
import numpy as np

from wmg.play import host
from wmg.play.host import Host
from wmg.play.source import HostSource
from wmg.tools.draw import Frame
from wmg.tools.errors import BadInput
from wmg.types import Observation, Step

History = tuple[int, ...]
"""The number of an episode, and the actions that were taken in it."""
MOST_EPISODES = 10_000_000
"""How many `wmg eval` plays at most. All seeds up to an episode's own are drawn."""


class HostedEpisodes:
    """Stands where the viewer expects an environment."""

    def __init__(self, source: HostSource, test_seed: int):
        env = source.with_pictures()
        self.label, self.spec = source.label, source.spec
        self._host = Host(env, source.mapping.observe, source.spec, source.mapping.to_action)
        self._env, self._test_seed = env, test_seed
        self._now: History = ()

    def scene(self) -> None:
        """It has none of its own."""

    def reset(self, seed: int) -> tuple[History, Observation]:
        """The start of the episode that has this number in `wmg eval`."""
        number = int(seed)
        if not 0 <= number < MOST_EPISODES:
            most = f"{MOST_EPISODES - 1:,}"
            raise BadInput(f"an episode of {self.label} must be from 0 to {most}, got {number:,}")
        self._now = (number,)
        return self._now, self._host.reset(host.episode_seeds(self._test_seed, number + 1)[-1])

    def step(self, state: History, action: int) -> Step[History]:
        """What follows an action."""
        self._go_to(state)
        self._now = (*state, int(action))
        made = self._host.step(int(action))
        told = made.reward, made.terminated, made.truncated, made.success
        return Step(self._now, made.observation, *map(jnp.asarray, told))

    def picture(self, state: History) -> Frame:
        """What the environment draws."""
        self._go_to(state)
        picture = self._env.render() if getattr(self._env, "render_mode", None) else None
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise BadInput(f"{self.label} draws no pictures in render_mode rgb_array")
        return np.asarray(picture, np.uint8)

    def _go_to(self, state: History) -> None:
        if self._now != state:
            seed, *actions = state
            self.reset(seed)
            for action in actions:
                self._host.step(action)
            self._now = state
