"""The settings with which any environment is trained, unless the user says otherwise.

They are not the paper's, which were tuned for each of its environments. docs/defaults.md says how
they were found, and on which environments.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Batched, Config, Hyper
from wmg.envs.batch import Batch
from wmg.play.source import HostSource
from wmg.settings import EnvSettings
from wmg.types import Env

ENVS = 16
STEPS = 600_000
DISCOUNT = 0.99


def config_for(env: Env | HostSource, named: EnvSettings | None, steps: int = STEPS) -> Config:
    """The settings for an environment and its name in a config."""
    return Config(
        env=named,
        agent=WMGSettings(
            slots=16,
            memo_size=64,
            layers=2,
            heads=4,
            head_size=16,
            hidden=64,
            actor_critic=64,
            start="empty",
            init="he",
        ),
        hyper=Hyper(
            learning_rate=3e-4,
            discount=DISCOUNT,
            entropy=0.01,
            adam_eps=1e-6,
            grad_clip=8.0,
            reward_scale=reward_scale(env),
            anneal=0.8,
            anneal_every=steps / 10,
        ),
        t_max=32,
        batched=Batched(
            envs=ENVS, windows=2, passes=4, minibatches=8, clip=0.2, trace=0.95, normalise=True
        ),
        steps=steps,
        report_every=10_000,
    )


PROBED = 128
"""Random steps of each environment whose rewards are looked at."""


def reward_scale(env: Env | HostSource) -> float:
    """A factor that makes the returns of random actions vary by at most about 1.

    Values of 100 take Adam many thousand updates to reach, and their errors drown the policy's
    gradient.
    """
    reward, done = random_rewards(env)
    returns, after = np.zeros_like(reward), np.zeros(reward.shape[1])
    for time in reversed(range(len(reward))):
        after = reward[time] + DISCOUNT * np.where(done[time], 0.0, after)
        returns[time] = after
    spread = float(returns.std())
    return min(1.0, float(f"{1 / spread:.1g}")) if math.isfinite(spread) and spread > 0 else 1.0


def random_rewards(
    env: Env | HostSource,
) -> tuple[Float[np.ndarray, "time envs"], Bool[np.ndarray, "time envs"]]:
    """Rewards of random actions, and where episodes ended."""
    if not isinstance(env, HostSource):
        return jax.device_get(_random_rewards(env, jax.random.key(0)))
    envs, draw = env.copies(4), np.random.default_rng(0)
    envs.reset(list(range(envs.count)))
    steps = [envs.step(draw.integers(env.spec.actions, size=envs.count)) for _ in range(PROBED)]
    return np.array([s.reward for s in steps], float), np.array([s.done for s in steps])


@jax.jit
def _random_rewards(
    env: Env, key: PRNGKeyArray
) -> tuple[Float[Array, "time envs"], Bool[Array, "time envs"]]:
    batch = Batch(env, ENVS)
    rkey, key = jax.random.split(key)

    def step(state: Any, key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
        akey, skey = jax.random.split(key)
        actions = jax.random.randint(akey, (ENVS,), 0, env.spec.actions)
        state, _, made = batch.step(state, actions, skey)
        return state, (made.reward, made.terminated | made.truncated)

    start, _ = batch.reset(rkey)
    return jax.lax.scan(step, start, jax.random.split(key, PROBED))[1]
