"""The real minigrid: its BabyAI environments as agents see them, and copies of its levels.

Needs the extra `minigrid`. `Factored` wraps any of the BabyAI environments, with their doors,
keys and many rooms; `host` makes one ready for `wmg.runs.train`; `evaluate`
plays held-out episodes on it; `copy_level` copies a level of one room into the compiled
environment.
"""

import contextlib
import io
from typing import Any, Literal

import numpy as np

from wmg.envs.babyai import encode, missions
from wmg.envs.babyai.vocabulary import ACTIONS, OBJECTS, SIZE, TYPES, VIEW
from wmg.envs.babyai.world import Layout
from wmg.play import host as hosts
from wmg.play import host_arrays, host_evaluate
from wmg.play.evaluate import Episodes
from wmg.tools.errors import BadInput
from wmg.types import Agent, EnvSpec, Observation, ObservationSpec

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.utils import RecordConstructorArgs
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
except ImportError as error:
    raise BadInput("minigrid's environments need minigrid: pip install 'wmg[minigrid]'") from error

Seen = dict[str, np.ndarray]

NAVIGATIONS = 2 * missions.CLAUSES
"""The most ways to go in a mission: minigrid gives time for each."""


class Factored(gymnasium.Wrapper[Any, int, Any, int], RecordConstructorArgs):
    """A BabyAI environment of minigrid with the paper's factored observations.

    An observation is a dictionary: `core` (63 numbers), `objects` (a row of 29 for each thing in
    view) and `objects_present` (which rows are things). With `clauses`, which compound missions
    need, `clauses` has a row of 38 for each clause, and `clauses_present` says which rows are
    clauses; the Core then holds the first clause of the first stage.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        things: int | None = None,
        clauses: bool = False,
        reward: Literal["binary", "minigrid"] = "binary",
    ):
        """`things` is the most that may be in view: by default 8 in a single room, and
        otherwise as many as a view can hold."""
        level = find_level(env)
        if level.agent_view_size != VIEW:
            raise BadInput(f"an agent's view is {VIEW} cells wide, not {level.agent_view_size}")
        if things is not None and (type(things) is not int or things < 1):
            raise BadInput(f"things must be a whole number from 1 on, got {things!r}")
        if reward not in ("binary", "minigrid"):
            raise BadInput(f"reward must be 'binary' or 'minigrid', got {reward!r}")
        RecordConstructorArgs.__init__(self, things=things, clauses=clauses, reward=reward)
        gymnasium.Wrapper.__init__(self, env)
        single = level.num_rows * level.num_cols == 1
        self.things = things or (OBJECTS if single else encode.MOST_THINGS)
        self.clauses, self.reward = clauses, reward
        self.mission = np.zeros(missions.SIZE, np.float32)
        self.rows: Seen = {}
        """The part of every observation of the episode that describes the clauses."""
        shapes = {"core": (encode.CORE,), "objects": (self.things, encode.FACTOR)}
        flags = {"objects_present": self.things}
        if clauses:
            shapes["clauses"] = (missions.CLAUSES, missions.CLAUSE_SIZE)
            flags["clauses_present"] = missions.CLAUSES
        numbers = {name: spaces.Box(-3.0, 6.0, shape) for name, shape in shapes.items()}
        bits = {name: spaces.MultiBinary(count) for name, count in flags.items()}
        self.observation_space = spaces.Dict({**numbers, **bits})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """A new episode; the text of its mission is in the info."""
        with contextlib.redirect_stdout(io.StringIO()):  # minigrid prints what it rejects
            seen, info = self.env.reset(seed=seed, options=options)
        self._read(seen["mission"])
        return self._encode(seen, -1), {**info, "mission": seen["mission"]}

    def step(self, action: int | np.integer) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """What follows an action."""
        seen, reward, terminated, truncated, info = self.env.step(int(action))
        paid = float(reward)
        if self.reward == "binary":
            paid = float(paid > 0)
        told = {**info, "mission": seen["mission"]}
        return self._encode(seen, int(action)), paid, terminated, truncated, told

    def _read(self, text: str) -> None:
        """Take in the mission of a new episode."""
        try:
            mission = missions.parse_compound(text)
        except ValueError as error:
            raise BadInput(str(error)) from None
        if len(mission.clauses) > 1 and not self.clauses:
            raise BadInput(f"the mission {text!r} is compound: wrap the environment with clauses")
        self.mission = missions.encode(mission.first[0])
        if self.clauses:
            rows, present = missions.encode_compound(mission)
            self.rows = {"clauses": rows, "clauses_present": present.astype(np.int8)}

    def _encode(self, seen: dict[str, Any], last_action: int) -> Seen:
        try:
            view = encode.AgentView(
                seen["image"], int(seen["direction"]), self.mission, last_action
            )
            objects, present = encode.things(view, self.things)
        except ValueError as error:
            raise BadInput(str(error)) from None
        flags = present.astype(np.int8)
        rows = {name: values.copy() for name, values in self.rows.items()}
        return {"core": encode.core(view), "objects": objects, "objects_present": flags, **rows}


def find_level(env: gymnasium.Env) -> Any:
    """The level inside any wrappers."""
    level = env.unwrapped
    if not isinstance(level, RoomGridLevel):
        raise BadInput(f"{level} is not one of minigrid's BabyAI environments")
    return level


def make(name: str) -> gymnasium.Env:
    """The environment that minigrid registers under that name, for instance
    `BabyAI-GoToLocal-v0`."""
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise BadInput(f"there is no environment {name!r}: {error}") from None


def host(
    env: str | gymnasium.Env,
    things: int | None = None,
    clauses: bool = False,
    reward: Literal["binary", "minigrid"] = "binary",
) -> hosts.Host:
    """An environment, or one by name, for `wmg.runs.train` and `wmg.play.host`; the rest is as in
    `Factored`."""
    wrapped = Factored(make(env) if isinstance(env, str) else env, things, clauses, reward)
    level = find_level(wrapped)
    factors = [("objects", wrapped.things, encode.FACTOR)]
    if clauses:
        factors.insert(0, ("clauses", missions.CLAUSES, missions.CLAUSE_SIZE))
    cells = level.room_size**2 * level.num_rows * level.num_cols
    spec = EnvSpec(
        observation=ObservationSpec(encode.CORE, tuple(factors)),
        actions=len(ACTIONS),
        max_steps=level.max_steps if level.fixed_max_steps else NAVIGATIONS * cells,
        metric="success",
    )
    return hosts.Host(wrapped, to_observation, spec)


def to_observation(seen: Seen) -> Observation:
    """What `Factored` shows, as agents take it."""
    factors = {"objects": (seen["objects"], seen["objects_present"].astype(bool))}
    if "clauses" in seen:
        factors["clauses"] = seen["clauses"], seen["clauses_present"].astype(bool)
    return host_arrays.observation(seen["core"], factors)


def evaluate(
    agent: Agent,
    env: str | gymnasium.Env,
    seed: int,
    episodes: int,
    greedy: bool = False,
    copies: int = 64,
    things: int | None = None,
    clauses: bool = False,
) -> Episodes:
    """Held-out episodes of an environment: by name, played on several copies in lockstep."""
    copied = [env] * copies if isinstance(env, str) else [env]
    each = [host(one, things, clauses) for one in copied[:episodes]]
    return host_evaluate.evaluate(each, agent, seed, episodes, greedy)


def copy_level(env: gymnasium.Env) -> Layout:
    """The level that an environment is in, as it is now, for `BabyAI.with_layouts`.

    It must be one room of 8x8 cells and a mission of one clause with one target.
    """
    level = find_level(env)
    width, height = level.grid.width, level.grid.height
    if (width, height) != (SIZE, SIZE):
        raise BadInput(f"a room is {SIZE}x{SIZE} cells, and this grid is {width}x{height}")
    if level.carrying is not None:
        raise BadInput("a level in which something is being carried cannot be copied")
    cells = [(x, y, level.grid.get(x, y)) for x in range(SIZE) for y in range(SIZE)]
    found = [(x, y, thing) for x, y, thing in cells if thing is not None]
    inside = range(1, SIZE - 1)
    lying = [(x, y, thing) for x, y, thing in found if x in inside and y in inside]
    if any(thing.type not in TYPES[1:] for _, _, thing in lying):
        raise BadInput("a room has keys, balls and boxes in it alone, and this one has more")
    if any(thing.type != "wall" for x, y, thing in found if (x, y, thing) not in lying):
        raise BadInput("a room has walls without doors, and this one has a door")
    try:
        if missions.parse(level.mission).second is not None:
            raise ValueError(f"a level of one room has one target, not {level.mission!r}")
        meant = level.instrs.desc.obj_set
        return Layout(
            agent=(int(level.agent_pos[0]), int(level.agent_pos[1])),
            direction=int(level.agent_dir),
            things=tuple((thing.type, thing.color, x, y) for x, y, thing in lying),
            mission=level.mission,
            targets=tuple(
                i for i, (_, _, thing) in enumerate(lying) if any(thing is one for one in meant)
            ),
        )
    except ValueError as error:
        raise BadInput(str(error)) from None
