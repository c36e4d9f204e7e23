"""A few windows of a small agent by the window kernel, for compute-sanitizer: it ends with "ok".

compute-sanitizer --tool racecheck python tests/kernels/few_windows.py
"""

import numpy as np

from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.runs.task import make_task, stack_hypers

agent = WMGSettings(slots=5, memo_size=24, layers=3, heads=2, head_size=12, hidden=12)
settings = Config(
    env=PathfindingSettings(nodes=4), agent=agent, runs=2, precision="tf32", kernel="on"
)
task = make_task(settings, None)
runs, totals = task.advance()(stack_hypers(settings), task.start(), np.array([18, 6]))
assert list(np.asarray(totals.windows)) == [3, 1]
print("ok")
