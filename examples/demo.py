"""The first minute with wmg: train a small agent on Pathfinding, and see how good it is.

What `make demo` runs. The agent is a smaller WMG than the paper's, on graphs of four nodes
instead of seven, so that one CPU core can learn the task while you watch.
"""

import dataclasses
import pathlib
import time

from wmg import evaluate, experiments, models, plots, progress, train
from wmg.config import WMG, Config, Pathfinding

FOLDER = pathlib.Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")

preset = experiments.find_preset("pathfinding/wmg")
small = Pathfinding(nodes=4, pattern=4)
config = Config(
    env=small,
    agent=WMG(slots=6, memo_size=32, layers=2, heads=4, head_size=8, hidden=16, actor_critic=64),
    hyper=dataclasses.replace(preset.hyper, learning_rate=1e-3),
    steps=400_000,
)

print("Training WMG on Pathfinding with 4 nodes: remember the links, answer about the paths.")
with progress.display() as show:
    result = train.train(config, FOLDER, show=show)

print("\n1,000 new episodes, % of possible reward:")
for name in (str(FOLDER), "depth-1", "random"):
    agent, settings = models.find(name)
    env, agent = models.fit(agent, settings, small)
    summary = evaluate.summary(env.spec, evaluate.evaluate(env, agent, seed=1, episodes=1000))
    label = "WMG" if name == str(FOLDER) else name
    print(f"  {label:8} {summary['score']:5.1f}  (standard error {summary['standard_error']:.1f})")

curve = plots.Curve(result.steps, result.scores)
path = FOLDER / "curve.png"
plots.learning_curves(
    {"WMG": curve}, path, title="WMG on Pathfinding (4 nodes)", ylabel="% of reward"
)
print(f"\nlearning curve: {path}\nthe trained agent: {FOLDER / 'best.safetensors'}")
