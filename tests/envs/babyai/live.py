"""Play in the real minigrid, recorded so that the compiled environment can replay it."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib

import jax
import numpy as np

from wmg.envs.babyai.env import Layout
from wmg.envs.babyai.vocabulary import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE

IDS = {
    "GoToObj": "BabyAI-GoToObj-v0",
    "GoToRedBallGrey": "BabyAI-GoToRedBallGrey-v0",
    "GoToRedBall": "BabyAI-GoToRedBall-v0",
    "GoToLocal": "BabyAI-GoToLocal-v0",
    "PickupLoc": "BabyAI-PickupLoc-v0",
}
"""Today's levels; the paper's grey boxes are no longer among them."""

ROOM = [(x, y) for x in range(1, 7) for y in range(1, 7)]
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))

GOLDEN = pathlib.Path(__file__).with_name("golden_play.npz")
"""Some episodes of each, for where minigrid is not installed; written by
`python tests/envs/babyai/live.py`."""


def make(level):
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    import gymnasium
    import minigrid  # noqa: F401  (registers the levels)

    return gymnasium.make(IDS[level]).unwrapped


def reset(env, seed):
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every level it rejects
        return env.reset(seed=seed)[0]


def move_agent(env, draw):
    """Put the agent where it faces a thing, as it never does at the start."""
    things = [(x, y) for x, y in ROOM if env.grid.get(x, y) is not None]
    poses = [(x - dx, y - dy, d) for x, y in things for d, (dx, dy) in enumerate(MOVES)]
    poses = [(x, y, d) for x, y, d in poses if (x, y) in ROOM and (x, y) not in things]
    x, y, env.agent_dir = poses[draw.integers(len(poses))]
    env.agent_pos = (x, y)
    return env.gen_obs()


def uniform(env, draw):
    """Any action."""
    return int(draw.integers(7))


def meddling(env, draw):
    """What makes things happen: pick up, open and push against what is in front, drop what is
    carried, and walk otherwise."""
    front = env.grid.get(*env.front_pos)
    if draw.random() < 0.1:
        return uniform(env, draw)
    if front is not None and front.type != "wall":
        return int(draw.choice([PICKUP, PICKUP, TOGGLE, DROP, FORWARD, LEFT]))
    if env.carrying is not None and draw.random() < 0.4:
        return DROP
    return int(draw.choice([FORWARD, FORWARD, FORWARD, LEFT, RIGHT]))


@dataclasses.dataclass
class Recording:
    """Episodes of one level, each padded to 64 steps: what was done and what minigrid said.

    Images and directions have one moment more than there are steps, the first.
    """

    layouts: list
    missions: list
    actions: np.ndarray
    images: np.ndarray
    directions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    lengths: np.ndarray

    @property
    def steps(self):
        return int(self.lengths.sum())


def without_keys():
    """A context for code that uses no random keys: the check of their reuse is slow."""
    return jax.debug_key_reuse(False)


def record(level, episodes, first_seed=0, facing=False):
    """Episodes of minigrid, by turns with uniform and with meddling actions; if asked for, with
    something right before the agent at the start."""
    with without_keys():
        return _record(level, episodes, first_seed, facing)


def _record(level, episodes, first_seed, facing):
    from wmg.interop.minigrid import copy_level  # late, where minigrid may be missing

    env, draw = make(level), np.random.default_rng(first_seed)
    played = Recording(
        layouts=[],
        missions=[],
        actions=np.zeros((episodes, 64), np.int32),
        images=np.zeros((episodes, 65, 7, 7, 3), np.int32),
        directions=np.zeros((episodes, 65), np.int32),
        rewards=np.zeros((episodes, 64)),
        terminated=np.zeros((episodes, 64), bool),
        truncated=np.zeros((episodes, 64), bool),
        lengths=np.zeros(episodes, np.int32),
    )
    for episode in range(episodes):
        policy = meddling if episode % 2 else uniform
        seen = reset(env, first_seed + episode)
        if facing:
            seen = move_agent(env, draw)
        played.layouts.append(copy_level(env))
        played.missions.append(env.mission)
        over, time = False, 0
        while True:
            played.images[episode, time] = seen["image"]
            played.directions[episode, time] = seen["direction"]
            if over:
                break
            action = policy(env, draw)
            seen, reward, terminated, truncated, _ = env.step(action)
            assert seen["mission"] == played.missions[-1]
            played.actions[episode, time] = action
            played.rewards[episode, time] = reward
            played.terminated[episode, time] = terminated
            played.truncated[episode, time] = truncated
            over, time = terminated or truncated, time + 1
        played.lengths[episode] = time
    return played


def save(path, recordings):
    """Write recordings, by level, to a file."""
    arrays = {}
    for level, recording in recordings.items():
        for field in dataclasses.fields(recording):
            value = getattr(recording, field.name)
            if field.name == "layouts":
                value = json.dumps([dataclasses.asdict(layout) for layout in value])
            if field.name == "images":
                value = value.astype(np.uint8)
            arrays[f"{level}/{field.name}"] = value
    np.savez_compressed(path, **arrays)


def load(level, path=GOLDEN):
    """One level's recording from a file."""
    stored = np.load(path)
    fields = {f.name: stored[f"{level}/{f.name}"] for f in dataclasses.fields(Recording)}
    layouts = json.loads(str(fields["layouts"]))
    for layout in layouts:
        layout["things"] = tuple(map(tuple, layout["things"]))
        layout["agent"], layout["targets"] = tuple(layout["agent"]), tuple(layout["targets"])
    with without_keys():
        fields["layouts"] = [Layout(**layout) for layout in layouts]
    fields["missions"] = fields["missions"].tolist()
    fields["images"] = fields["images"].astype(np.int32)
    return Recording(**fields)


if __name__ == "__main__":
    save(GOLDEN, {level: record(level, 12, 500_000) for level in IDS})
