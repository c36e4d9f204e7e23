"""The settings with which any environment is trained, unless the user says otherwise.

They are not the paper's, which were tuned for each of its environments. docs/defaults.md says how
they were found, and on which environments they were only tested.
"""

from typing import Any

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Batched, Config, Hyper
from wmg.settings import EnvSettings

STEPS = 300_000


def config_for(env: Any, named: EnvSettings | None) -> Config:
    """The settings for an environment (an `Env` or a `HostSource`) and its name in a config."""
    del env
    return Config(
        env=named,
        agent=WMGSettings(
            slots=8,
            memo_size=64,
            layers=2,
            heads=4,
            head_size=16,
            hidden=64,
            actor_critic=64,
            start="empty",
        ),
        hyper=Hyper(
            learning_rate=1e-3,
            discount=0.99,
            entropy=0.01,
            adam_eps=1e-6,
            grad_clip=8.0,
            reward_scale=1.0,
        ),
        t_max=32,
        batched=Batched(
            envs=16, windows=2, passes=4, minibatches=4, clip=0.2, trace=0.95, normalise=True
        ),
        steps=STEPS,
        report_every=10_000,
    )
