"""BabyAI through Gymnasium: one environment, and many in one compiled program.

Needs the extra `gym`.
"""

import gymnasium as gym

import wmg.interop.gymnasium  # noqa: F401 (registers the environments)

NAME, COUNT, STEPS = "wmg/BabyAI-GoToObj-v0", 64, 500

env = gym.make(NAME, observation="factored", render_mode="ansi")
seen, info = env.reset(seed=1)
print(env.render())
print({name: part.shape for name, part in seen.items()})

envs = gym.make_vec(NAME, num_envs=COUNT, observation="factored")
envs.reset(seed=1)
envs.action_space.seed(1)
episodes = solved = 0
for _ in range(STEPS):
    _, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
    if (terminated | truncated).any():
        episodes += infos["_final_info"].sum()
        solved += infos["final_info"]["success"].sum()
print(f"{episodes:,} episodes of random play: {solved / episodes:.0%} solved")
