"""Trains sb3-contrib's RecurrentPPO on a task of the suite.

    PYTHON benchmarks/suite_recurrent_ppo.py memory-s7 --seed 0 --steps 299008

`wmg reproduce suite --other PYTHON` calls it. PYTHON has what suite-requirements.txt lists. The
agent has its defaults and MlpLstmPolicy. It sees what the environment shows. Gymnasium flattens
observations of several parts, and texts are left out. The last line of the output is JSON.
"""

import argparse
import functools
import json
import pathlib
import sys
import time

import gymnasium
import numpy as np
import sb3_contrib
import torch
from gymnasium import spaces
from gymnasium.wrappers import FilterObservation, FlattenObservation
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))

from wmg.api.suite.makers import make_gymnasium
from wmg.api.suite.tasks import ENVS, EPISODES, REPORT, TASKS

FRESH_SEED = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(train(options.task, options.seed, options.steps)))


def make(task: str) -> gymnasium.Env:
    """The environment, with an observation that is one array or one number."""
    env = make_gymnasium(TASKS[task])
    if isinstance(env.observation_space, spaces.Dict):
        parts = env.observation_space.spaces.items()
        env = FilterObservation(
            env, [key for key, part in parts if isinstance(part, spaces.Box | spaces.Discrete)]
        )
    if not isinstance(env.observation_space, spaces.Box | spaces.Discrete):
        env = FlattenObservation(env)  # torch refuses the size that is computed of a MultiDiscrete
    return env


def train(task: str, seed: int, steps: int) -> dict:
    """Train, with a report at the first round that ends at or after each multiple of REPORT, and
    play fresh episodes."""
    # make_vec_env adds 0, 1, 2, ... to the seed: so no two runs share an environment's seed
    envs = make_vec_env(functools.partial(make, task), ENVS, seed=seed * ENVS)
    agent = sb3_contrib.RecurrentPPO("MlpLstmPolicy", envs, seed=seed)
    taken: list[int] = []
    scores: list[float | None] = []
    counted, began = [0] * ENVS, time.monotonic()
    while agent.num_timesteps < steps:
        until = min((len(taken) + 1) * REPORT, steps)
        if agent.num_timesteps < until:
            agent.learn(until - agent.num_timesteps, reset_num_timesteps=False)
        every = envs.env_method("get_episode_rewards")
        ended = [each for all, old in zip(every, counted, strict=True) for each in all[old:]]
        counted = [len(each) for each in every]
        taken.append(agent.num_timesteps)
        scores.append(round(float(np.mean(ended)), 4) if ended else None)
        shown = f"{taken[-1]:,} of {steps:,} steps, {time.monotonic() - began:.0f} s"
        print(f"{shown}, return {scores[-1]}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    return {**describe(agent, taken, scores, seconds), **play(agent, task)}


def describe(agent: sb3_contrib.RecurrentPPO, taken: list, scores: list, seconds: float) -> dict:
    """What a result says of training."""
    versions = {"sb3_contrib": sb3_contrib.__version__, "torch": torch.__version__}
    versions |= {"gymnasium": gymnasium.__version__, "device": str(agent.device)}
    return {
        "steps": taken,
        "scores": scores,
        "seconds": round(seconds, 1),
        "diverged": False,
        "other": {**versions, "threads": torch.get_num_threads()},
    }


def play(agent: sb3_contrib.RecurrentPPO, task: str) -> dict:
    """The mean return of fresh episodes. Actions are sampled, as in training."""
    fresh = make_vec_env(functools.partial(make, task), ENVS, seed=FRESH_SEED)
    returns, _ = evaluate_policy(
        agent,
        fresh,
        n_eval_episodes=EPISODES,
        deterministic=False,
        return_episode_rewards=True,
    )
    return {
        "score": round(float(np.mean(returns)), 4),
        "standard_error": round(float(np.std(returns, ddof=1) / len(returns) ** 0.5), 4),
        "episodes": len(returns),
    }


if __name__ == "__main__":
    main()
