#!/bin/sh
# Makes the folders beside this file with the code of commit 554fd4e, and what that code made of
# them. README.md says how.
set -e
python - <<'PYTHON'
import json
import pathlib
import shutil
import signal

import safetensors.numpy

from wmg import checkpoint, evaluate, models, train
from wmg.config import BabyAI, Batched, Config, Goal, GRU, Hyper, Pathfinding, WMG

HYPER = Hyper(learning_rate=1e-3, adam_eps=1e-4)
SMALL = WMG(slots=3, memo_size=8, layers=2, heads=2, head_size=4, hidden=4, actor_critic=8)
BATCHED = Batched(envs=4, windows=2, passes=2, minibatches=2, trace=0.9, normalise=True)
FOLDERS = {
    "wmg": Config(env=Pathfinding(nodes=4), agent=SMALL, hyper=HYPER, runs=2, seed=3,
                  vary=("entropy=0.01,0.05",), steps=480, report_every=48),
    "gru": Config(env=Pathfinding(nodes=4), agent=GRU(embedding=8, size=8, actor_critic=8),
                  hyper=HYPER, batched=BATCHED, t_max=4, steps=1280, report_every=128),
}
MODEL = Config(env=BabyAI(level="GoToObj"), agent=SMALL, hyper=HYPER, t_max=6, steps=512,
               report_every=128, goal=Goal(success=0.5, episodes=50))


def halve(settings, folder):
    """Train, and stop after half of the reports."""
    left = iter(range(settings.steps // settings.report_every // 2 - 1))

    def show(progress):
        if next(left, None) is None:
            signal.raise_signal(signal.SIGTERM)

    assert not train.train(settings, folder, show=show).finished
    (pathlib.Path(folder) / ".lock").unlink()


def score(name, run=None):
    """The scores of 200 episodes."""
    agent, settings = models.find(name, run)
    env = checkpoint.make_env(settings.env)
    return evaluate.summary(env.spec, evaluate.evaluate(env, agent, 1, 200))


def logs(folder):
    """The records of each run, without those that depend on the clock."""
    files = sorted(pathlib.Path(folder, "logs").glob("*.jsonl"))
    records = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return [[{k: v for k, v in one.items() if k not in ("seconds", "rate")} for one in log]
            for log in records]

found = {}
for name, settings in FOLDERS.items():
    halve(settings, name)
    shutil.copytree(name, f"{name}-end")
    train.train(settings, f"{name}-end", resume=True)
    found[name] = {"score": score(name, 0), "end": logs(f"{name}-end")}
    state = safetensors.numpy.load_file(f"{name}-end/state.safetensors")
    safetensors.numpy.save_file(
        {name: array for name, array in state.items() if name.startswith("agent.")},
        f"{name}-end.safetensors",
    )
    shutil.rmtree(f"{name}-end")
train.train(MODEL, "goal")
shutil.move("goal/best.safetensors", "goal.safetensors")
shutil.rmtree("goal")
found["goal"] = {"score": score("goal.safetensors")}
pathlib.Path("expected.json").write_text(json.dumps(found, indent=1) + "\n")
PYTHON
