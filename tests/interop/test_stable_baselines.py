"""Stable-Baselines3's own check of our environments; skipped where it is not installed."""

import pytest

pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("stable_baselines3.common.env_checker")

from wmg.interop.gymnasium import GymEnv  # noqa: E402

KINDS = [
    ("pathfinding", {}),
    ("babyai", {"observation": "factored"}),
    ("babyai", {"observation": "flat"}),
    ("babyai", {"observation": "image"}),
]


@pytest.mark.parametrize("name, settings", KINDS)
def test_stable_baselines3_takes_our_environments(name, settings):
    # Its warnings advise on networks: which shapes its default policies take.
    env_checker.check_env(GymEnv(name, **settings), warn=False)
