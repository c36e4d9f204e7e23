"""An agent in the compiled environment and in the real minigrid, side by side.

Give a run folder, a file or the name of a shipped model; without one, actions are random.
Needs the extra `minigrid`.
"""

import sys

from wmg.envs.babyai.settings import BabyAISettings
from wmg.interop import minigrid
from wmg.play import evaluate
from wmg.runs import models
from wmg.types import Env

LEVEL, EPISODES = "GoToLocal", 200

agent, settings = models.find(sys.argv[1] if sys.argv[1:] else "random")
env, agent = models.fit(agent, settings, BabyAISettings(level=LEVEL))
assert isinstance(env, Env)
played = {
    "compiled": evaluate.evaluate(env, agent, seed=1, episodes=EPISODES),
    "minigrid": minigrid.evaluate(agent, f"BabyAI-{LEVEL}-v0", seed=1, episodes=EPISODES),
}
for where, outcome in played.items():
    summary = evaluate.summary(env.spec, outcome)
    score, error = summary["score"], summary["standard_error"]
    print(f"{where}: {score:.1f}% of {EPISODES} episodes solved (standard error {error:.1f})")
