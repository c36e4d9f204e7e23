"""Steps per second of `sb3_contrib.RecurrentPPO` beside WMG with default settings.

    python benchmarks/recurrent_ppo.py gym:CartPole-v1 --other PYTHON --pairs 3 --out FILE.json

Both learn in 16 copies of the environment, in turns on the same machine: a ratio of each pair, and
the median. `--other` is the Python of an environment with what the file suite-requirements.txt
beside this one lists; the script calls itself there. RecurrentPPO has its defaults, with
MlpLstmPolicy or, for
dictionaries, MultiInputLstmPolicy.
"""

import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import time

ENVS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("env", help="gym:ID")
    parser.add_argument("--other", help="the Python with sb3-contrib")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.other is None:
        print(json.dumps(recurrent_ppo(options.env, options.seconds)))
        return
    from wmg.tools import machine

    pairs = []
    for _ in range(options.pairs):
        args = [options.env, f"--seconds={options.seconds:g}"]
        theirs = run([options.other, __file__, *args])
        ours = run([sys.executable, "-m", "wmg", "bench", *args, "--json"])
        pairs.append([ours["steps_per_second"], theirs["steps_per_second"]])
    found = {
        "command": f"python benchmarks/recurrent_ppo.py {options.env} --other PYTHON "
        f"--pairs {options.pairs} --seconds {options.seconds:g}",
        "env": options.env,
        "envs": ENVS,
        "steps_per_second": {"wmg": [a for a, _ in pairs], "RecurrentPPO": [b for _, b in pairs]},
        "median_ratio": statistics.median(a / b for a, b in pairs),
        "other": theirs,
        "hardware": machine.describe(),
    }
    text = json.dumps(found, indent=1) + "\n"
    if options.out:
        options.out.write_text(text)
    print(text, end="")


def run(command: list[str]) -> dict:
    """The JSON that a command prints last."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def recurrent_ppo(env: str, seconds: float) -> dict:
    """Its speed, learning included, after a first round."""
    import gymnasium
    import sb3_contrib
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    name = env.removeprefix("gym:")
    if name.startswith("MiniGrid-"):
        importlib.import_module("minigrid")  # registers them

    def make() -> gymnasium.Env:
        made = gymnasium.make(name)
        if name.startswith("MiniGrid-"):
            made = gymnasium.wrappers.FilterObservation(made, ["image", "direction"])
        return made

    envs = make_vec_env(make, n_envs=ENVS)
    is_dict = isinstance(envs.observation_space, gymnasium.spaces.Dict)
    agent = sb3_contrib.RecurrentPPO("MultiInputLstmPolicy" if is_dict else "MlpLstmPolicy", envs)
    agent.learn(ENVS * agent.n_steps)
    began, taken = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        agent.learn(ENVS * agent.n_steps, reset_num_timesteps=False)
        taken += ENVS * agent.n_steps
    speed = taken / (time.monotonic() - began)
    versions = {"sb3_contrib": sb3_contrib.__version__, "torch": torch.__version__}
    return {"steps_per_second": speed, "threads": torch.get_num_threads(), **versions}


if __name__ == "__main__":
    main()
