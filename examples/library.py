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
state, observation = model.env.reset(jax.random.key(0))
memory, taken = None, []
for key in jax.random.split(jax.random.key(1), model.spec.max_steps):
    action, memory = model.act(observation, memory, key)
    step = model.env.step(state, action, key)
    state, observation = step.state, step.observation
    taken.append(int(action))
    if step.done:
        break
print(f"actions of one episode: {taken}; solved: {bool(step.success)}")
