#!/bin/sh
# Makes the folder beside this file with the code of commit 339e103, and what that code made of
# it. README.md says how.
set -e
python - <<'PYTHON'
import json
import pathlib
import shutil
import signal

import safetensors.numpy

from wmg import registry
from wmg.agents.lstm.settings import LSTMSettings
from wmg.config import Config, Hyper
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.play import evaluate
from wmg.runs import models, train

SETTINGS = Config(
    env=PathfindingSettings(nodes=4),
    agent=LSTMSettings(embedding=8, size=8, actor_critic=8),
    hyper=Hyper(learning_rate=1e-3, adam_eps=1e-4),
    seed=3,
    steps=480,
    report_every=48,
)


def halve(folder):
    """Train, and stop after half of the reports."""
    left = iter(range(SETTINGS.steps // SETTINGS.report_every // 2 - 1))

    def show(progress):
        if next(left, None) is None:
            signal.raise_signal(signal.SIGTERM)

    assert not train.train(SETTINGS, folder, show=show).finished
    for name in (".lock", "best.safetensors"):
        pathlib.Path(folder, name).unlink(missing_ok=True)


def logs(folder):
    """The records of each run, without those that depend on the clock."""
    files = sorted(pathlib.Path(folder, "logs").glob("*.jsonl"))
    records = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    return [[{k: v for k, v in one.items() if k not in ("seconds", "rate")} for one in log]
            for log in records]


halve("lstm")
shutil.copytree("lstm", "end")
train.train(SETTINGS, "end", resume=True)
agent, settings = models.find("lstm", 0)
env = registry.make_env(settings.env)
score = evaluate.summary(env.spec, evaluate.evaluate(env, agent, 1, 200))
pathlib.Path("expected.json").write_text(
    json.dumps({"lstm": {"score": score, "end": logs("end")}}, indent=1) + "\n"
)
state = safetensors.numpy.load_file("end/state.safetensors")
safetensors.numpy.save_file(
    {name: array for name, array in state.items() if name.startswith("agent.")},
    "lstm-end.safetensors",
)
shutil.rmtree("end")
PYTHON
