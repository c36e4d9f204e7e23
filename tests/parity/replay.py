"""Replay recordings of the authors' implementation: `python tests/parity/replay.py FILE...`

A file of the network form holds a stream of observations, actions and rewards, and what the
authors' network and updates made of it. The stream is played here through the code that
trains agents (`a3c.window`), and every number compared. A file of the BabyAI form holds
moments of minigrid and what the authors' encoders made of them; a file of the Sokoban form, levels,
actions, and what the authors' environment made of them. One line per file; the exit code is 1 if
an error is above 1e-5 (of environments: above 0), and 2 if a file cannot be replayed.
"""

import dataclasses
import json
import pathlib
import sys
import zipfile
import zlib
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.agents.wmg.memory import Memory
from wmg.config import Config, Hyper
from wmg.envs.babyai import encode, missions, vocabulary
from wmg.envs.sokoban.env import Sokoban
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.observe import kinds
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.interop import official
from wmg.interop.official_settings import config_from_settings
from wmg.learn import a3c
from wmg.registry import make_env
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Run, Step

LIMIT = 1e-5
FREE = ".attention.key.layer.bias"
"""Without effect on the network: its gradient is rounding noise, and so are its updates."""
KEYS = (
    *("core", "factors", "num_factors", "action", "reward", "done", "logits", "value"),
    *("state_newest_first", "update_after_step", "next_core", "next_factors"),
)
"""The stream of the network form."""
ENCODED = {"core": 63, "flat": 929, "cnn_vector": 47}
MOMENTS = ("mission", "direction", "image", "last_action", *ENCODED, "factors", "num_factors")
"""The BabyAI form."""
PLAYED = ("core", "factors", "num_factors", "room_state")
EPISODES = ("level", "action", "reward", "done", *PLAYED)
"""The Sokoban form."""
ROOM = np.array([0, 1, 2, 4, 3, 5, 5])
"""The authors' numbers for what `kinds` tells apart: they show no target under the player."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """One file."""

    config: Config
    weights: dict[str, np.ndarray]
    updated: dict[str, np.ndarray]
    stream: dict[str, np.ndarray]

    @property
    def steps(self) -> int:
        return len(self.stream["action"])


class Script(Env[Int[Array, ""]]):
    """An environment that goes through a recorded stream, whatever the agent does."""

    core: Float[Array, "moments core"]
    factors: Float[Array, "moments count size"]
    present: Bool[Array, "moments count"]
    reward: Float[Array, " time"]
    done: Bool[Array, " time"]
    restart: Int[Array, ""]
    """Where in the stream the next episode begins."""
    shapes: EnvSpec = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        return self.shapes

    def observe(self, time: Int[Array, ""]) -> Observation:
        rows = Factors(self.factors[time], self.present[time])
        names = [name for name, _, _ in self.shapes.observation.factors]
        return Observation(self.core[time], dict.fromkeys(names, rows))

    def reset(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Observation]:
        return self.restart, self.observe(self.restart)

    def step(
        self, state: Int[Array, ""], action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[Int[Array, ""]]:
        done, no = self.done[state], jnp.zeros((), bool)
        return Step(state + 1, self.observe(state + 1), self.reward[state], done, no, no)


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    try:
        with path.open("rb") as handle, np.load(handle) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, TypeError, zlib.error, zipfile.BadZipFile) as error:
        raise BadInput(f"{path} is not an .npz file of numbers: {error}") from None


def require_keys(path: pathlib.Path, data: dict[str, np.ndarray], keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in data]
    if missing:
        raise BadInput(f"{path} has no {missing[0]!r}")


def require_shapes(
    path: pathlib.Path, data: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]
) -> None:
    for key, shape in shapes.items():
        if data[key].shape != shape:
            raise BadInput(f"{path}: {key} has shape {data[key].shape}, expected {shape}")


def require_whole(path: pathlib.Path, key: str, values: np.ndarray, least: int, end: int) -> None:
    if values.dtype.kind not in "iu" or not ((values >= least) & (values < end)).all():
        raise BadInput(f"{path}: {key} must be whole numbers from {least} to {end - 1}")


def read(path: pathlib.Path, data: dict[str, np.ndarray]) -> Recording:
    """The recording in a file of the network form."""
    parts = {
        part: {k.removeprefix(part): v for k, v in data.items() if k.startswith(part)}
        for part in ("weights/", "updated/")
    }
    if not parts["weights/"]:
        raise BadInput(f"{path} has no 'weights/'")
    require_keys(path, data, KEYS)
    try:
        settings = json.loads(str(data["settings"]))
    except json.JSONDecodeError as error:
        raise BadInput(f"{path} has settings that are not JSON: {error}") from None
    if not isinstance(settings, dict):
        raise BadInput(f"{path} has settings that are not a JSON object")
    stream = {key: data[key] for key in KEYS}
    recording = Recording(
        config_from_settings(settings), parts["weights/"], parts["updated/"], stream
    )
    check_shapes(path, recording)
    return recording


def check_shapes(path: pathlib.Path, recording: Recording) -> None:
    """Refuse a recording whose arrays do not fit each other."""
    spec = official.observation_spec(recording.weights)
    actions = official.action_count(recording.weights)
    steps, padded, width = (*recording.stream["factors"].shape, 0, 0, 0)[:3]
    expected = {
        **{key: (steps,) for key in ("num_factors", "action", "reward", "done", "value")},
        "core": (steps, spec.core),
        "factors": (steps, padded, spec.factors[0][2] if spec.factors else width),
        "logits": (steps, actions),
        "next_core": (spec.core,),
        "next_factors": (len(recording.stream["next_factors"]), width),
    }
    if len(spec.factors) > 1:
        raise BadInput(f"{path} has more than one Factor type")
    require_shapes(path, recording.stream, expected)
    for key, end in (("action", actions), ("num_factors", padded + 1)):
        require_whole(path, key, recording.stream[key], 0, end)
    if set(recording.updated) != set(recording.weights):
        raise BadInput(f"{path}: weights/ and updated/ do not have the same names")


def script(recording: Recording) -> Script:
    """The stream of a recording as an environment."""
    stream, steps = recording.stream, recording.steps
    spec = official.observation_spec(recording.weights)
    count = max(stream["factors"].shape[1], len(stream["next_factors"]))
    factors = np.zeros((steps + 1, count, stream["factors"].shape[2]), np.float32)
    factors[:-1, : stream["factors"].shape[1]] = stream["factors"]
    factors[-1, : len(stream["next_factors"])] = stream["next_factors"]
    counts = np.append(stream["num_factors"], len(stream["next_factors"]))
    present = np.arange(count) < counts[:, None]
    core = np.concatenate([stream["core"], stream["next_core"][None]])
    return Script(
        jnp.asarray(core, jnp.float32),
        jnp.asarray(factors),
        jnp.asarray(present),
        jnp.asarray(stream["reward"], jnp.float32),
        jnp.asarray(stream["done"], bool),
        jnp.zeros((), jnp.int32),
        # Longer than any window, so that a window's end is bootstrapped like the authors'.
        EnvSpec(
            ObservationSpec(spec.core, tuple((n, count, size) for n, _, size in spec.factors)),
            official.action_count(recording.weights),
            steps + 2,
            "reward",
        ),
    )


def plain_scan(step: Any, agent: Any, carry: Any, inputs: Any, **_: Any) -> Any:
    """What `window.scan` computes, by ordinary differentiation and without an early end."""
    return jax.lax.scan(lambda carry, given: step(agent, carry, given), carry, inputs)


@eqx.filter_jit
def play_window(
    env: Script,
    hyper: Hyper,
    run: Run,
    actions: Int[Array, " time"],
    t_max: int,
    check_gradient: bool,
) -> tuple[Run, Float[Array, ""]]:
    """`a3c.window` with given actions, and the error of its deferred gradients.

    The actions are forced by noise so strong that it decides every sample. The error is
    relative to the largest entry of the gradient where that is above 1.
    """
    gradients = []
    real = a3c.update

    def update(run: Run, gradient: Any, *rest: Any) -> Any:
        gradients.append(ravel_pytree(gradient)[0])
        return real(run, gradient, *rest)

    def window(run: Run) -> Run:
        key = jax.random.clone(run.key)
        again = eqx.tree_at(lambda run: run.key, run, key)
        return a3c.window(env, hyper, again, a3c.A3C(t_max), noise=noise)[0]

    noise = 1e6 * jax.nn.one_hot(actions, env.spec.actions)
    with mock.patch.object(a3c, "update", update):
        after = window(run)
        if not check_gradient:
            return after, jnp.zeros(())
        with mock.patch.object(a3c, "scan", plain_scan):
            window(run)
    fast, slow = gradients
    return after, jnp.abs(fast - slow).max() / jnp.maximum(1.0, jnp.abs(slow).max())


def replay(path: pathlib.Path, check_gradient: bool = True) -> dict[str, float]:
    """The largest absolute error of each quantity in a file of any form.

    Checking the deferred gradient against the ordinary one doubles the time to compile.
    """
    data = load(path)
    if "settings" in data:
        return replay_network(read(path, data), check_gradient)
    if "mission" in data:
        return replay_encodings(path, data)
    if "room_state" in data:
        return replay_episodes(path, data)
    raise BadInput(f"{path}: form not known")


def replay_network(recording: Recording, check_gradient: bool) -> dict[str, float]:
    """The largest absolute error of each quantity of the network form."""
    env, stream, steps = script(recording), recording.stream, recording.steps
    t_max = min(recording.config.t_max, steps + 1)  # A longer window never fills.
    agent = official.build_agent(recording.config.agent, recording.weights)
    run = a3c.A3C(t_max).start(env, agent, jax.random.key(0))
    forward = eqx.filter_jit(lambda agent, *seen: agent(*seen))
    actions = jnp.asarray(np.append(stream["action"], [0] * t_max), jnp.int32)
    outputs, updates, gradient = [], [], 0.0
    while len(outputs) < steps:
        start = len(outputs)
        memory = run.scene.memory
        ends = start + np.flatnonzero(stream["done"][start:])
        for time in range(start, min(start + t_max, steps)):
            output = forward(run.agent, env.observe(jnp.asarray(time)), memory)
            memory = output.memory
            outputs.append(output)
            if time in ends:
                break
        if len(outputs) - start < t_max and not len(ends):
            break  # The stream ends within a window, before an update.
        restart = jnp.asarray(ends[0] + 1 if len(ends) else steps, jnp.int32)
        env = eqx.tree_at(lambda env: env.restart, env, restart)
        window = actions[start : start + t_max]
        run, error = play_window(env, recording.config.hyper, run, window, t_max, check_gradient)
        updates.append(int(run.steps) - 1)
        gradient = max(gradient, float(error))
    return compare(recording, outputs, updates, run.agent) | {"gradient": gradient}


def compare(
    recording: Recording, outputs: list[Any], updates: list[int], agent: Any
) -> dict[str, float]:
    """The largest absolute error of each recorded quantity."""
    stream = recording.stream
    memories = [output.memory for output in outputs]
    states = [m.vectors if isinstance(m, Memory) else m for m in memories]
    weights = official.export_weights(agent)
    return {
        "logits": largest(np.stack([o.logits for o in outputs]), stream["logits"]),
        "value": largest(np.stack([o.value for o in outputs]), stream["value"]),
        "state": largest(np.stack(states), stream["state_newest_first"]),
        "update steps": largest(np.array(updates), stream["update_after_step"]),
        "updated": max(
            largest(weights[name], value)
            for name, value in recording.updated.items()
            if not name.endswith(FREE)
        ),
    }


def replay_encodings(path: pathlib.Path, data: dict[str, np.ndarray]) -> dict[str, float]:
    """The error of each encoding: 0 if all its numbers are identical, infinite if not."""
    moments = read_moments(path, data)
    limit = data["factors"].shape[1]
    try:
        things = [encode.things(moment, limit) for moment in moments]
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    ours = {
        "core": [encode.core(moment) for moment in moments],
        "factors": [factors for factors, _ in things],
        "num_factors": [present.sum() for _, present in things],
        "flat": [encode.flat(moment) for moment in moments],
        "cnn_vector": [encode.vector(moment) for moment in moments],
    }
    return {
        key: 0.0 if np.array_equal(np.stack(values), data[key]) else float("inf")
        for key, values in ours.items()
    }


def read_moments(path: pathlib.Path, data: dict[str, np.ndarray]) -> list[encode.AgentView]:
    """What the agent was told at each moment of a file of the BabyAI form."""
    require_keys(path, data, MOMENTS)
    count, side = len(data["image"]), vocabulary.VIEW
    shapes = {
        **{key: (count,) for key in ("mission", "direction", "last_action", "num_factors")},
        **{key: (count, size) for key, size in ENCODED.items()},
        "image": (count, side, side, 3),
        "factors": (count, *data["factors"].shape[1:2], encode.FACTOR),
    }
    require_shapes(path, data, shapes)
    require_whole(path, "direction", data["direction"], 0, encode.DIRECTIONS)
    require_whole(path, "last_action", data["last_action"], -1, len(vocabulary.ACTIONS))
    ends = (encode.CELL_TYPES, len(vocabulary.COLOURS), encode.DOOR_STATES)
    for channel, end in enumerate(ends):
        require_whole(path, f"image[..., {channel}]", data["image"][..., channel], 0, end)
    try:
        said = [missions.encode(missions.parse(str(text))) for text in data["mission"]]
        told = (data["image"], data["direction"].tolist(), said, data["last_action"].tolist())
        return [encode.AgentView(*moment) for moment in zip(*told, strict=True)]
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def replay_episodes(path: pathlib.Path, data: dict[str, np.ndarray]) -> dict[str, float]:
    """The error of each part of the Sokoban form: 0 if all is identical, infinite if not."""
    env = read_episodes(path, data)
    actions = jnp.asarray(data["action"], jnp.int32)
    start, after = jax.tree.map(np.asarray, play_episodes(env, actions))
    steps = actions.shape[1]
    length = data.get("length", np.full(len(actions), steps))
    counts = np.arange(steps) < length[:, None]
    shown = np.arange(steps + 1) <= length[:, None]

    def moments(first: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.concatenate([first[:, None], others], axis=1)[shown]

    core, rows, present, room = jax.tree.map(moments, start, after[:4])
    first = np.argsort(~present, axis=1, kind="stable")[..., None]
    rows = np.take_along_axis(rows, first, axis=1)  # ours has gaps: the player's own cell
    width = data["factors"].shape[2]
    rows = np.pad(rows, ((0, 0), (0, max(0, width - rows.shape[1])), (0, 0)))[:, :width]
    ours = {
        "core": (core, data["core"][shown]),
        "factors": (rows, data["factors"][shown]),
        "num_factors": (present.sum(axis=1), data["num_factors"][shown]),
        "room_state": (ROOM[room], data["room_state"][shown]),
        "reward": (after[4][counts], data["reward"][counts]),
        "done": (after[5][counts], data["done"][counts]),
    }
    return {key: 0.0 if np.array_equal(*pair) else float("inf") for key, pair in ours.items()}


@jax.jit
def play_episodes(env: Sokoban, actions: Int[Array, "levels time"]) -> Any:
    """What each level shows at its start, and what it shows and pays after each action."""

    def show(state: Any, seen: Observation) -> tuple[Array, ...]:
        rows = seen.factors["cells"]
        return seen.core, rows.values, rows.present, kinds(state)

    def step(state: Any, action: Array) -> tuple[Any, tuple[Array, ...]]:
        made = env.step(state, action, jax.random.key(0))
        return made.state, (*show(made.state, made.observation), made.reward, made.done)

    def play(index: Array, actions: Array) -> Any:
        state, seen = env.start(index)
        return show(state, seen), jax.lax.scan(step, state, actions)[1]

    return jax.vmap(play)(jnp.arange(len(actions)), actions)


def read_episodes(path: pathlib.Path, data: dict[str, np.ndarray]) -> Sokoban:
    """The environment that plays the levels of a file of the Sokoban form."""
    require_keys(path, data, EPISODES)
    env = make_env(SokobanSettings(), shapes_only=True)
    assert isinstance(env, Sokoban)
    ((_, _, size),) = env.spec.observation.factors
    count, steps = (*data["action"].shape, 0, 0)[:2]
    padded = (*data["factors"].shape, 0, 0, 0)[2]
    shapes = {
        "level": (count,),
        **{key: (count, steps) for key in ("action", "reward", "done")},
        "core": (count, steps + 1, env.spec.observation.core),
        "num_factors": (count, steps + 1),
        "factors": (count, steps + 1, padded, size),
        "room_state": (count, steps + 1, env.bound, env.bound),
        **({"length": (count,)} if "length" in data else {}),
    }
    require_shapes(path, data, shapes)
    require_whole(path, "action", data["action"], 0, env.spec.actions)
    if "length" in data:
        require_whole(path, "length", data["length"], 0, steps + 1)
    try:
        levels = from_text("\n\n".join(map(str, data["level"])), env.bound)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    if len(levels) != count:
        raise BadInput(f"{path}: level holds {len(levels)} levels, expected {count}")
    return dataclasses.replace(env, levels=levels)


def largest(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest absolute difference; infinite for other shapes and for NaN."""
    if ours.shape != theirs.shape:
        return float("inf")
    error = float(np.abs(ours.astype(np.float64) - theirs).max(initial=0.0))
    return error if error == error else float("inf")


def main(arguments: list[str]) -> int:
    jax.config.update("jax_default_matmul_precision", "highest")
    if not arguments:
        print("usage: python tests/parity/replay.py FILE...", file=sys.stderr)
        return 2
    code = 0
    for argument in arguments:
        try:
            errors = replay(pathlib.Path(argument))
        except BadInput as error:
            named = argument in str(error)
            print(error if named else f"{argument}: {error}", file=sys.stderr)
            code = 2
            continue
        good = all(error <= LIMIT for error in errors.values())
        numbers = "  ".join(f"{name} {error:.1e}" for name, error in errors.items())
        print(f"{argument}: {'ok' if good else 'FAILED'}  {numbers}", flush=True)
        code = code or (0 if good else 1)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
