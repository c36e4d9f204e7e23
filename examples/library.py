"""wmg as a library: train an agent, play fresh episodes with it, save it, and use it step by step.

The agent learns BabyAI's GoToObj ("go to the blue key"). Training stops as soon as it solves 99% of
10,000 fresh episodes.
"""

import jax

import wmg

result = wmg.train("babyai/level1/wmg-factored", steps=5_000)
print(result.evaluate(episodes=1_000))
result.save("mine.safetensors")

model = wmg.load("mine.safetensors")
env = model.env
key = jax.random.key(1)
state, observation = env.reset(jax.random.key(0))
memory, actions, done = None, [], False
while not done:
    key, akey, skey = jax.random.split(key, 3)
    action, memory = model.act(observation, memory, akey)
    step = env.step(state, action, skey)
    state, observation, done = step.state, step.observation, bool(step.done)
    actions.append(int(action))
print(f"actions of one episode: {actions}")
