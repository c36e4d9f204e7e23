"""Pathfinding (section 4.1): the tables of settings, for WMG and nr-WMG."""

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config, Hyper

WMG_20M = Config(
    agent=WMGSettings(slots=16, memo_size=128, layers=4, heads=6, head_size=12, hidden=12),
    hyper=Hyper(
        learning_rate=1.6e-4,
        discount=0.5,
        entropy=0.01,
        adam_eps=1e-6,
        grad_clip=16.0,
        reward_scale=2.0,
    ),
)

NR_WMG_20M = Config(
    agent=WMGSettings(memory="observations", slots=11, layers=4, heads=6, head_size=16, hidden=32),
    hyper=Hyper(
        learning_rate=1.6e-4,
        discount=0.6,
        entropy=0.005,
        adam_eps=1e-8,
        grad_clip=16.0,
        reward_scale=1.0,
    ),
)

WMG_1M = Config(
    agent=WMGSettings(
        slots=6, memo_size=256, layers=3, heads=4, head_size=90, hidden=8, actor_critic=2880
    ),
    hyper=Hyper(
        learning_rate=4e-5,
        discount=0.5,
        entropy=0.005,
        adam_eps=1e-4,
        grad_clip=256.0,
        reward_scale=4.0,
    ),
    steps=1_000_000,
)

NR_WMG_1M = Config(
    agent=WMGSettings(
        memory="observations",
        slots=6,
        layers=5,
        heads=1,
        head_size=90,
        hidden=16,
        actor_critic=256,
    ),
    hyper=Hyper(
        learning_rate=1.6e-4,
        discount=0.5,
        entropy=0.05,
        adam_eps=1e-12,
        grad_clip=4.0,
        reward_scale=2.0,
    ),
    steps=1_000_000,
)

PRESETS = {
    "pathfinding/wmg": WMG_20M,
    "pathfinding/nr-wmg": NR_WMG_20M,
    "pathfinding-6-memos/wmg": WMG_1M,
    "pathfinding-6-memos/nr-wmg": NR_WMG_1M,
}
