"""Environments on the host: what they do wrong is refused."""

import numpy as np
import pytest
import toy

from wmg.play import host
from wmg.tools.errors import BadInput


class Wrong(toy.Toy):
    """Does something wrong in its third step."""

    def __init__(self, what):
        self.what = what

    def step(self, action):
        seen, reward, _, _, info = super().step(1)
        if self.time == 3 and self.what == "reward":
            reward = float("nan")
        if self.time == 3 and self.what == "values":
            seen[1] = np.nan
        if self.time == 3 and self.what == "shape":
            seen = seen[:2]
        return seen, reward, False, False, info


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("reward", "the reward of environment 1 is not finite: nan"),
        ("values", "the Core of environment 1 is not finite: nan"),
        ("shape", r"the Core must have the shape \(3,\), got \(2,\)"),
        ("length", "an episode goes on after 5 steps, the most that its EnvSpec promises"),
    ],
)
def test_what_an_environment_does_wrong_is_said_in_one_sentence(what, sentence):
    right = host.Host(toy.Toy(), toy.Plain().observe, toy.SPEC)
    envs = host.Lockstep([right, host.Host(Wrong(what), toy.Plain().observe, toy.SPEC)])
    envs.reset([1, 2])
    with pytest.raises(BadInput, match=sentence):
        for _ in range(6):
            envs.step(np.ones(2, int))
