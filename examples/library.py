"""wmg as a library: train an agent in memory, then play held-out episodes with it.

A few thousand steps only, so that it ends within seconds: the score is not far from chance.
Raise `steps` to 400,000 to see it learn.
"""

from wmg import registry
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.play import evaluate
from wmg.runs import train

settings = Config(
    env=PathfindingSettings(nodes=4), agent=WMGSettings(slots=6, layers=2), steps=20_000
)
result = train.train(settings)
env = registry.make_env(settings.env)
played = evaluate.evaluate(env, result.agent, seed=1, episodes=1000)
print(evaluate.summary(env.spec, played))
