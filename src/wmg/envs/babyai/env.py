"""BabyAI: the five single-room levels of the paper, exactly as minigrid plays them.

Description: a room of 6x6 cells with up to eight things in it, keys, balls and boxes of six
    colours. A mission names one or more of them.
Actions: 0 turn left, 1 turn right, 2 go forward, 3 pick up, 4 drop, 5 toggle (opens a box, which
    is then gone), 6 done (does nothing).
Observation: of the 7x7 cells before and beside the agent, in the format of your choice; see
    `observe`.
Rewards: 1 for success; or, as minigrid pays, 1 - 0.9 * t / 64 after t steps.
Termination: with success. "Go to" means to stand before the thing and face it, "pick up" to pick
    it up. Truncation: after 64 steps, also if the last of them succeeds.
Levels: GoToObj, a single thing; GoToRedBallGrey, a red ball among seven grey things;
    GoToRedBallGreyBoxes, as it was in the paper, among seven grey boxes; GoToRedBall, among
    seven of any kind; GoToLocal, any of eight things; PickupLoc, to pick up what may be
    described by where it is ("the ball on your left"), also where that is not needed.
Source: section 4.2 of the paper; minigrid 3.2.0.
"""

import typing
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.envs.babyai.levels import draw
from wmg.envs.babyai.missions import WORDS
from wmg.envs.babyai.observe import FORMATS, observe, spec
from wmg.envs.babyai.settings import LEVELS, Reward
from wmg.envs.babyai.vocabulary import ACTIONS, MAX_STEPS, OBJECTS
from wmg.envs.babyai.world import ABSENT, BabyAIState, Layout, act
from wmg.envs.scenery import Scenery
from wmg.hooks import Bounds
from wmg.tools.draw import Frame
from wmg.types import Env, EnvSpec, Observation, Step

REWARDS = typing.get_args(Reward)
PAID = np.array([1 - 0.9 * (time / MAX_STEPS) for time in range(MAX_STEPS + 1)], np.float32)
"""What minigrid pays for success, by time. Computed in place it would be rounded differently."""

__all__ = ["BabyAI", "BabyAIState", "Layout"]


class BabyAI(Env[BabyAIState]):
    """See the module's docstring."""

    level: str = eqx.field(static=True)
    observation: str = eqx.field(static=True)
    reward: str = eqx.field(static=True)
    given: BabyAIState | None = None
    """Levels to play instead of fresh ones, on a first axis."""

    def __check_init__(self):
        options = {"level": LEVELS, "observation": FORMATS, "reward": REWARDS}
        for name, allowed in options.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")

    def with_layouts(self, layouts: Sequence[Layout]) -> "BabyAI":
        """This environment, where every episode starts from one of the layouts at random."""
        if not layouts:
            raise ValueError("an environment needs at least one layout")
        states = [layout.state() for layout in layouts]
        given = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        if (given.status[:, self.slots :] != ABSENT).any():
            raise ValueError(f"{self.level} shows no more than {self.slots} thing(s)")
        return BabyAI(self.level, self.observation, self.reward, given)

    @property
    def slots(self) -> int:
        """The most things that can be in view."""
        return 1 if self.level == "GoToObj" else OBJECTS

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            observation=spec(self.observation, self.slots),
            actions=len(ACTIONS),
            max_steps=MAX_STEPS,
            metric="success",
        )

    def reset(self, key: PRNGKeyArray) -> tuple[BabyAIState, Observation]:
        if self.given is None:
            state = draw(self.level, key)
        else:
            which = jax.random.randint(key, (), 0, self.given.time.shape[0])
            state = jax.tree.map(lambda leaf: leaf[which], self.given)
        return state, self.observe(state)

    def step(
        self, state: BabyAIState, action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[BabyAIState]:
        del key  # what happens in a room is certain
        after, success = act(state, action)
        paid = jnp.asarray(PAID)[after.time] if self.reward == "minigrid" else 1.0
        return Step(
            state=after,
            observation=self.observe(after),
            reward=jnp.where(success, paid, 0.0),
            terminated=success,
            truncated=after.time >= MAX_STEPS,
            success=success,
        )

    def observe(self, state: BabyAIState) -> Observation:
        """What the agent sees in a state."""
        return observe(state, self.observation, self.slots)

    def picture(self, state: BabyAIState) -> Frame:
        from wmg.envs.babyai import picture

        return picture.rgb(state)

    def text(self, state: BabyAIState) -> str:
        from wmg.envs.babyai import picture

        return picture.ansi(state)

    def scene(self) -> Scenery:
        from wmg.envs.babyai.scene import SCENERY

        return SCENERY

    def bounds(self) -> Bounds:
        numbers = (0.0, float(len(WORDS))) if self.observation == "words" else (-3.0, 6.0)
        return Bounds(numbers=numbers, image=(0.0, 7.0))

    def info(self, state: BabyAIState) -> dict[str, Any]:
        from wmg.envs.babyai.picture import mission_text

        return {"mission": mission_text(state)}
