"""Sokoban (section 4.3): the settings of the paper's one agent, and of others beside it."""

import dataclasses

from wmg.agents.drc.settings import DRCSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Batched, Config, Hyper
from wmg.envs.sokoban.settings import SokobanSettings

PRESETS = {
    "sokoban/wmg": Config(  # Table 11
        env=SokobanSettings(cells=57),
        agent=WMGSettings(
            slots=1,
            memo_size=2048,
            layers=10,
            heads=8,
            head_size=32,
            hidden=8,
            actor_critic=2880,
            shared_heads=True,
            start="empty",
            age="added",
        ),
        hyper=Hyper(
            learning_rate=1.6e-5,
            discount=0.995,
            entropy=0.02,
            adam_eps=1e-10,
            grad_clip=512.0,
            reward_scale=4.0,
            anneal=0.98,
            anneal_every=100_000.0,
            anneal_after=10_000_000.0,
        ),
        t_max=4,
        steps=20_000_000,
        report_every=5_000,
    ),
}

PAPERS = PRESETS["sokoban/wmg"]
# The same agent in the batched trainer, for a GPU. Numbers were found by experiment:
# docs/results/sokoban.md.
PRESETS["sokoban/wmg-batched"] = dataclasses.replace(
    PAPERS,
    hyper=dataclasses.replace(
        PAPERS.hyper,
        learning_rate=1e-4,
        discount=0.99,
        entropy=0.01,
        adam_eps=1e-8,
        grad_clip=2.0,
        reward_scale=1.0,
        anneal_after=35_000_000.0,
    ),
    batched=Batched(envs=256, windows=4, minibatches=4, passes=2, trace=0.95),
    precision="bfloat16",
    steps=50_000_000,
    report_every=250_000,
)

# DRC(3,3) of Guez et al. (2019) with the settings of the replication by Taufeeque et al. (2024)
# where they apply: 256 environments, 20 steps, 8 minibatches, rewards, discount, trace, entropy.
# Learning is PPO here, IMPALA there. Their loss is a mean over steps, ours a sum over the 20 of a
# window. So their threshold of the gradient's norm and their epsilon of Adam, 2.5e-4 and 1.5625e-7,
# are 20 times as large here.
PRESETS["sokoban/drc"] = Config(
    env=SokobanSettings(observation="planes", cells=57, rewards=(-0.1, 1.0, -1.0, 10.0)),
    agent=DRCSettings(layers=3, ticks=3, channels=32, actor_critic=256),
    hyper=Hyper(
        learning_rate=4e-4,
        discount=0.97,
        entropy=0.01,
        adam_eps=3.125e-6,
        grad_clip=5e-3,
        reward_scale=1.0,
    ),
    t_max=20,
    batched=Batched(envs=256, minibatches=8, trace=0.5),
    precision="tf32",
    steps=50_000_000,
    report_every=250_000,
)
