"""Which environment a baseline plays, by the options that are given."""

import pytest

from wmg.cli import models
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings


@pytest.mark.parametrize(
    "args, env",
    {
        (): PathfindingSettings,
        ("--env.nodes", "5"): PathfindingSettings,
        ("--env.level=GoToObj",): BabyAISettings,
        ("--env.levels=test", "--env.max-steps=240"): SokobanSettings,
        ("--env.max_steps", "240"): SokobanSettings,
    }.items(),
    ids=str,
)
def test_a_baseline_plays_the_environment_that_has_the_settings(args, env):
    assert isinstance(models.named_env(list(args)), env)
