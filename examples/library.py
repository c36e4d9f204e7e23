"""wmg as a library: train an agent in memory, then play held-out episodes with it.

A few thousand steps only, so that it ends within seconds: the score is not far from chance.
Raise `steps` to 400,000 to see it learn.
"""

from wmg.config import WMG, Config, Pathfinding
from wmg.play import evaluate
from wmg.runs import checkpoint, train

settings = Config(env=Pathfinding(nodes=4), agent=WMG(slots=6, layers=2), steps=20_000)
result = train.train(settings)
env = checkpoint.make_env(settings.env)
played = evaluate.evaluate(env, result.agent, seed=1, episodes=1000)
print(evaluate.summary(env.spec, played))
