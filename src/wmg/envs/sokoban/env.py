"""Sokoban: boxes to be pushed onto targets.

Description: a warehouse with walls around it, boxes, and as many targets or more. A box can be
    pushed but not pulled, only one at a time, and not into a wall or another box.
Actions: 0 stay, 1 up, 2 down, 3 left, 4 right. What cannot be done only passes time.
Observation: the whole board, in the format of your choice; see `observe`.
Rewards: 1 for a box pushed onto a target, -1 for one pushed off, 2 when all are on targets. These,
    and a reward in every step (0), are settings.
Termination: when all boxes are on targets. Truncation: after 120 steps.
Levels: from a bank that is given; see `levels`.
Source: section 4.3 of the paper; the levels are Boxoban's where they are at hand.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.envs.scenery import Scenery
from wmg.envs.sokoban.levels import Level, Levels
from wmg.envs.sokoban.levels import find as find_levels
from wmg.envs.sokoban.observe import FORMATS, observe, spec
from wmg.envs.sokoban.world import ACTIONS, Rewards, SokobanState, act, begin, most_cells
from wmg.hooks import Bounds
from wmg.tools.draw import Frame
from wmg.types import EnvSpec, LevelEnv, Observation, Step

__all__ = ["Level", "Levels", "Rewards", "Sokoban", "SokobanState"]


class Sokoban(LevelEnv[SokobanState]):
    """See the module's docstring."""

    levels: Levels | None
    """The bank of levels; None for an environment that has shapes only."""
    observation: str = eqx.field(static=True)
    bound: int = eqx.field(static=True)
    """Height and width of the board, walls included."""
    cells: int = eqx.field(static=True)
    """Largest number of cells that are not walls."""
    max_steps: int = eqx.field(static=True)
    rewards: Rewards = eqx.field(static=True)

    @staticmethod
    def create(
        levels: str | Levels | None,
        observation: str,
        bound: int,
        cells: int | None,
        max_steps: int,
        rewards: Sequence[float],
    ) -> "Sokoban":
        """The environment of some levels, which may be named (see `levels.find`), with room for so
        many cells or, if that is None, for all that a board can have."""
        room = most_cells(bound) if cells is None else cells
        found = find_levels(levels, bound) if isinstance(levels, str) else levels
        return Sokoban(found, observation, bound, room, max_steps, Rewards(*rewards))

    def __check_init__(self):
        if self.observation not in FORMATS:
            raise ValueError(
                f"observation must be one of {', '.join(FORMATS)}, got {self.observation!r}"
            )
        if self.bound < 4:
            raise ValueError(f"bound must be at least 4, got {self.bound}")
        if self.levels is None:
            return
        if (self.levels.height, self.levels.width) != (self.bound, self.bound):
            raise ValueError(
                f"bound must be that of the levels, {self.levels.height}, got {self.bound}"
            )
        if self.cells < most_cells(self.bound):
            largest = int(_count_cells(self.levels).max())
            if self.cells < largest:
                raise ValueError(
                    f"cells must be at least {largest} for these levels, got {self.cells}"
                )

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            observation=spec(self.observation, self.bound, self.cells),
            actions=len(ACTIONS),
            max_steps=self.max_steps,
            metric="success",
        )

    @property
    def count(self) -> int:
        return 0 if self.levels is None else len(self.levels)

    def reset(self, key: PRNGKeyArray) -> tuple[SokobanState, Observation]:
        return self.start(jax.random.randint(key, (), 0, len(self._bank())))

    def start(self, index: Int[Array, ""]) -> tuple[SokobanState, Observation]:
        return self.begin(self._bank().level(index))

    def begin(self, level: Level) -> tuple[SokobanState, Observation]:
        """An episode of a level of any bank."""
        state = begin(level, self.cells)
        return state, self.observe(state)

    def step(
        self, state: SokobanState, action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[SokobanState]:
        del key  # what happens is certain
        after = act(state, action, self.rewards)
        return Step(
            state=after,
            observation=self.observe(after),
            reward=after.last_reward,
            terminated=after.solved,
            truncated=(after.time >= self.max_steps) & ~after.solved,
            success=after.solved,
        )

    def observe(self, state: SokobanState) -> Observation:
        """What the agent sees in a state."""
        return observe(state, self.observation)

    def picture(self, state: SokobanState) -> Frame:
        from wmg.envs.sokoban import picture

        return picture.rgb(state)

    def text(self, state: SokobanState) -> str:
        from wmg.envs.sokoban import picture

        return picture.ansi(state)

    def scene(self) -> Scenery:
        from wmg.envs.sokoban.scene import SCENERY

        return SCENERY

    def bounds(self) -> Bounds:
        """The last reward is among the numbers; all others are from -1 to 1."""
        step, on, off, solved = self.rewards
        paid = [step + pushed + ended for pushed in (0.0, on, off) for ended in (0.0, solved)]
        low, high = math.floor(min(-1.0, *paid)), math.ceil(max(1.0, *paid))
        return Bounds(numbers=(float(low), float(high)), image=(0.0, 1.0))

    def _bank(self) -> Levels:
        if self.levels is None:
            raise ValueError("an environment without levels has no episodes")
        return self.levels


@jax.jit
def _count_cells(levels: Levels) -> Int[Array, " levels"]:
    """How many cells of each level are not walls."""

    def count(index: Int[Array, ""]) -> Int[Array, ""]:
        return (~levels.level(index).walls).sum()

    return jax.lax.map(count, jnp.arange(len(levels)), batch_size=4096)
