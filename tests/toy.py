"""A small Gymnasium environment, alone and as a vector environment in every autoreset mode."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from wmg.play import host, host_arrays, vectorised
from wmg.types import EnvSpec, ObservationSpec

SPEC = EnvSpec(ObservationSpec(3), 3, 5, "return")


class Toy(gymnasium.Env):
    """A walk to a goal that is drawn; it ends there, at -2, or by a limit of 5 steps.

    It says itself what a success is: to end after an even number of steps.
    """

    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal, self.x, self.time = int(self.np_random.integers(1, 4)), 0, 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.goal, self.x, self.time], np.float32)

    def step(self, action):
        self.x, self.time = self.x + int(action) - 1, self.time + 1
        reward = 1.0 if self.x == self.goal else -0.1 * float(action)
        ends = self.x in (self.goal, -2), self.time == 5
        return self.seen(), reward, *ends, {"success": self.time % 2 == 0} if any(ends) else {}


class ToySet(Toy):
    """The same walk, whose goal is one of a set of things."""

    observation_space = gymnasium.spaces.Dict(
        {
            "x": Toy.observation_space,
            "goals": gymnasium.spaces.Box(-9, 9, (2, 2), np.float32),
            "goals_mask": gymnasium.spaces.MultiBinary(2),
        }
    )

    def seen(self):
        goals = np.array([[self.goal, 1], [0, 0]], np.float32)
        return {"x": super().seen(), "goals": goals, "goals_mask": np.array([1, 0], np.int8)}


class Plain:
    """The vector as it is, the action as it is."""

    observation = SPEC.observation

    def observe(self, seen):
        return host_arrays.observation(np.asarray(seen, np.float32), {})

    def observe_all(self, batch):
        return self.observe(batch)

    def to_action(self, action):
        return action

    def to_actions(self, actions):
        return actions


class Unknown(SyncVectorEnv):
    """A vector environment that is not Gymnasium's: no other way than to take its steps."""


def single(count):
    return host.Lockstep([host.Host(Toy(), Plain().observe, SPEC) for _ in range(count)])


def vector(kind, mode, count, **more):
    env = kind([Toy] * count, autoreset_mode=AutoresetMode(mode), **more)
    return vectorised.Vectorised(env, Plain(), SPEC)


VECTORS: dict[str, tuple[Any, str]] = {
    "next step": (SyncVectorEnv, "NextStep"),
    "same step": (SyncVectorEnv, "SameStep"),
    "disabled": (SyncVectorEnv, "Disabled"),
    "unknown, next step": (Unknown, "NextStep"),
    "unknown, same step": (Unknown, "SameStep"),
}
