"""The environments as Gymnasium's: `gym.make("wmg/BabyAI-GoToLocal-v0", observation="factored")`.

Needs the extra `gym`. Importing this module registers all environments of `wmg.registry`;
`register()` adds environments that were registered later. `gym.make` returns one environment,
`gym.make_vec` many in one compiled program. An environment of your own needs no registration:
`GymEnv(MyEnv())`, `GymVectorEnv(MyEnv(), num_envs=64)`. Its methods `bounds`, `info`,
`picture` and `text` (`wmg.types.Env`) are used.

An observation that is a Core alone is an array. Any other is a dictionary: "core", "image" if
there is one, and for each type of Factors, say "objects", their rows and, in "objects_present",
which of the rows are real.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg import config, registry
from wmg.envs.batch import Batch
from wmg.hooks import Bounds
from wmg.play.check import spec_of
from wmg.play.record import one_by_one
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput, quote
from wmg.types import Env, Observation, ObservationSpec, Step

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise BadInput("Gymnasium's environments need gymnasium: pip install 'wmg[gym]'") from error

Seen = np.ndarray | dict[str, np.ndarray]
Info = dict[str, Any]

RENDER_MODES = ("rgb_array", "ansi")
METADATA: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 6}
BATCH_METADATA = {**METADATA, "autoreset_mode": AutoresetMode.SAME_STEP}
Seeds = int | Sequence[int | None] | None


class GymEnv(gymnasium.Env[Seen, Any]):
    """One environment: any of `wmg.types.Env`, or the name of one and its settings."""

    metadata = METADATA

    def __init__(self, env: Env | str, render_mode: str | None = None, **settings: Any):
        self.inner = _make(env, settings)
        self.render_mode = _check_render_mode(render_mode)
        bounds = self.inner.bounds()
        self.observation_space = observation_space(self.inner.spec.observation, bounds)
        self.action_space = spaces.Discrete(self.inner.spec.actions)
        self._key: PRNGKeyArray | None = None
        self._state: Any = None
        self._told: Info = {}
        self._over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """A new episode. A seed decides this one and all that follow without a seed."""
        _refuse_fork()
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = _draw_key(self.np_random)
        self._key, self._state, observation = _reset(self.inner, self._key)
        self._told, self._over = self.inner.info(self._state), False
        return to_numpy(observation), dict(self._told)

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, Info]:
        """What follows an action. `success` in the info is meaningful where the episode ends."""
        if self._over:
            raise BadInput("there is no episode to go on with: reset the environment first")
        if not self.action_space.contains(action):
            most = self.inner.spec.actions - 1
            raise BadInput(f"an action must be a whole number from 0 to {most}, got {action!r}")
        self._key, self._state, observation, outcome = _step(
            self.inner, self._state, np.int32(action), self._key
        )
        reward, terminated, truncated, success = (x.item() for x in jax.device_get(outcome))
        self._over = terminated or truncated
        info = {**self._told, "success": success}
        return to_numpy(observation), reward, terminated, truncated, info

    def render(self) -> Any:
        """A picture or a text, as the render mode says."""
        return _render(self.inner, self.render_mode, self._state)


class GymVectorEnv(VectorEnv[Seen, Any, np.ndarray]):
    """Many environments of one kind, in one compiled program.

    `autoreset_mode` says what follows the end of an episode. SAME_STEP: the next one begins in the
    same step; what the old one showed and told last is in `final_obs` and `final_info` of the
    infos. NEXT_STEP: it begins in the next step, whose action is ignored. DISABLED: it begins with
    `reset(options={"reset_mask": ...})`.
    """

    metadata = BATCH_METADATA

    def __init__(
        self,
        env: Env | str,
        num_envs: int = 1,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **settings: Any,
    ):
        if num_envs < 1:
            raise BadInput(f"num_envs must be at least 1, got {num_envs}")
        self.autoreset_mode = _check_autoreset_mode(autoreset_mode)
        self.metadata = {**METADATA, "autoreset_mode": self.autoreset_mode}
        inner = _make(env, settings)
        self.batch, self.num_envs = Batch(inner, num_envs), num_envs
        self.render_mode = _check_render_mode(render_mode)
        self.single_observation_space = observation_space(inner.spec.observation, inner.bounds())
        self.single_action_space = spaces.Discrete(inner.spec.actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._key: PRNGKeyArray | None = None
        self._state: Any = None
        self._told: Info = {}

        self._seen: Seen = {}
        self._over = np.zeros(num_envs, bool)
        """Whose episode has ended, and no new one has begun."""

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[Seen, Info]:
        """New episodes everywhere, or in the environments of `reset_mask` in the options.

        One seed serves the whole batch. With a list, each seed decides the episode that begins in
        its environment, as it does in a `GymEnv`, and all of them what follows; None stands for no
        seed.
        """
        _refuse_fork()
        mask = self._read_mask((options or {}).get("reset_mask"))
        if seed is None or isinstance(seed, int):
            seeds, one = None, seed
        else:
            seeds = self._read_seeds(seed)
            one = _join(seeds)
        super().reset(seed=one)
        if seed is not None or self._key is None:
            self._key = _draw_key(self.np_random)
        if seeds is None:
            self._key, state, observation = _reset(self.batch, self._key)
        else:
            each = [self.np_random if one is None else seeding.np_random(one)[0] for one in seeds]
            drawn = np.array([one.integers(2**32) for one in each], np.uint32)
            state, observation = _reset_each(self.batch.env, drawn)
        if mask is None:
            mask = np.ones(self.num_envs, bool)
            self._state, self._seen = state, to_numpy(observation)
            self._told = _columns([self.batch.env.info(one) for one in one_by_one(state)])
        else:
            self._begin(mask, state, to_numpy(observation))
        self._over = self._over & ~mask
        return _copy(self._seen), _infos(self._told, mask)

    def _begin(self, mask: Bool[np.ndarray, " envs"], state: Any, seen: Seen) -> None:
        """Go on from other states and observations in the environments of the mask."""
        self._state = _choose(mask, state, self._state)
        self._seen = _put(mask, seen, self._seen)
        self._tell(mask)

    def step(self, actions: Any) -> tuple[Seen, np.ndarray, np.ndarray, np.ndarray, Info]:
        """What follows the actions, one for each environment."""
        _refuse_fork()
        if self._state is None:
            raise BadInput("there is no episode to go on with: reset the environment first")
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            return self._step_and_go_on(self._check(actions))
        if self.autoreset_mode == AutoresetMode.DISABLED and self._over.any():
            ended = ", ".join(map(str, np.flatnonzero(self._over)))
            raise BadInput(
                f"the episodes of the environments {ended} have ended: reset them with "
                'options={"reset_mask": ...}'
            )
        return self._step_to_the_end(self._check(actions))

    def _step_and_go_on(self, actions: Int[np.ndarray, " envs"]) -> tuple[Any, ...]:
        """A step in which the next episode begins where one ends."""
        self._key, self._state, observation, last, outcome = _step_all(
            self.batch, self._state, actions, self._key
        )
        reward, terminated, truncated, success = map(np.array, jax.device_get(outcome))
        done = terminated | truncated
        infos: Info = {}
        if done.any():
            ended = {**self._told, "success": success}
            infos |= {"final_obs": _take_each(to_numpy(last), done), "_final_obs": done.copy()}
            infos |= {"final_info": _infos(ended, done), "_final_info": done.copy()}
            self._tell(done)
        if not done.all():
            infos |= _infos({"success": success}, ~done)
        infos |= _infos(self._told, np.ones(self.num_envs, bool))
        self._seen = to_numpy(observation)
        return _copy(self._seen), reward.astype(np.float64), terminated, truncated, infos

    def _step_to_the_end(self, actions: Int[np.ndarray, " envs"]) -> tuple[Any, ...]:
        """A step that ends with an episode; where one had ended, a new one begins instead."""
        begins, inner = self._over, self.batch.env
        self._key, state, observation, outcome = _step_each(inner, self._state, actions, self._key)
        reward, terminated, truncated, success = map(np.array, jax.device_get(outcome))
        self._state, self._seen = _choose(~begins, state, self._state), to_numpy(observation)
        if begins.any():
            self._key, state, fresh = _reset(self.batch, self._key)
            self._begin(begins, state, to_numpy(fresh))
        reward, terminated, truncated = (
            np.where(begins, np.zeros_like(each), each) for each in (reward, terminated, truncated)
        )
        self._over = terminated | truncated
        infos = {} if begins.all() else _infos({"success": success}, ~begins)
        infos |= _infos(self._told, np.ones(self.num_envs, bool))
        return _copy(self._seen), reward.astype(np.float64), terminated, truncated, infos

    def _read_mask(self, mask: Any) -> Bool[np.ndarray, " envs"] | None:
        if mask is None:
            return None
        fits = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.any()
        if not fits or mask.shape != (self.num_envs,):
            raise BadInput(
                f"reset_mask must be an array of {self.num_envs} bools, one of them True, "
                f"got {quote(mask)}"
            )
        if self._state is None:
            raise BadInput("there are no episodes yet: reset all environments without reset_mask")
        return mask

    def _read_seeds(self, seeds: Any) -> list[int | None]:
        found = [one if one is None else int(one) for one in seeds]
        if len(found) != self.num_envs or any(one is not None and one < 0 for one in found):
            raise BadInput(
                f"seed must be a whole number or a list of {self.num_envs}, got {quote(seeds)}"
            )
        return found

    def _tell(self, begun: Bool[np.ndarray, " envs"]) -> None:
        """Take note of what the episodes that have just begun tell."""
        if not self._told:  # neither will they
            return
        states = jax.device_get(self._state)
        for i in np.flatnonzero(begun):
            info = self.batch.env.info(jax.tree.map(lambda leaf, i=i: leaf[i], states))
            for name, values in self._told.items():
                values[i] = info[name]

    def _check(self, actions: Any) -> Int[np.ndarray, " envs"]:
        actions = np.asarray(actions)
        whole = np.issubdtype(actions.dtype, np.integer)
        if not whole or not self.action_space.contains(actions):
            count, most = self.num_envs, self.batch.env.spec.actions - 1
            raise BadInput(f"actions must be {count} whole numbers from 0 to {most}, got {actions}")
        return actions.astype(np.int32)

    def render(self) -> tuple[Any, ...] | None:
        """A picture or a text of each environment."""
        env, mode = self.batch.env, self.render_mode
        if mode is None or self._state is None:
            return _render(env, mode, self._state)
        return tuple(_render(env, mode, state) for state in one_by_one(self._state))


def observation_space(spec: ObservationSpec, bounds: Bounds) -> spaces.Space[Any]:
    """The space of what `to_numpy` makes of an observation."""
    core = spaces.Box(*bounds.numbers, (spec.core,))
    parts: dict[str, spaces.Space[Any]] = {"core": core}
    for name, count, size in spec.factors:
        parts[name] = spaces.Box(*bounds.numbers, (count, size))
        parts[f"{name}_present"] = spaces.MultiBinary(count)
    if spec.image is not None:
        parts["image"] = spaces.Box(*bounds.image, spec.image)
    return core if len(parts) == 1 else spaces.Dict(parts)


def to_numpy(observation: Observation) -> Seen:
    """An observation, or many on a first axis, as arrays that may be kept and changed."""
    observation = jax.device_get(observation)
    parts = {"core": np.array(observation.core)}
    for name, rows in observation.factors.items():
        parts[name] = np.array(rows.values)
        parts[f"{name}_present"] = np.array(rows.present, np.int8)
    if observation.image is not None:
        parts["image"] = np.array(observation.image)
    return parts["core"] if len(parts) == 1 else parts


Outcome = tuple[Array, Array, Array, Array]
"""Reward, terminated, truncated, success."""


def _outcome(step: Step[Any]) -> Outcome:
    return step.reward, step.terminated, step.truncated, step.success


# Of an environment only the settings count here: equal ones share what is compiled.


@jax.jit
def _reset(env: Env | Batch, key: PRNGKeyArray) -> tuple[PRNGKeyArray, Any, Observation]:
    key, rkey = jax.random.split(key)
    return key, *env.reset(rkey)


@jax.jit
def _step(
    env: Env, state: Any, action: Int[Array, ""], key: PRNGKeyArray
) -> tuple[PRNGKeyArray, Any, Observation, Outcome]:
    key, skey = jax.random.split(key)
    step = env.step(state, action, skey)
    return key, step.state, step.observation, _outcome(step)


@jax.jit
def _step_all(
    batch: Batch, state: Any, actions: Int[Array, " envs"], key: PRNGKeyArray
) -> tuple[PRNGKeyArray, Any, Observation, Observation, Outcome]:
    key, skey = jax.random.split(key)
    state, observation, step = batch.step(state, actions, skey)
    return key, state, observation, step.observation, _outcome(step)


@jax.jit
def _reset_each(env: Env, drawn: Any) -> tuple[Any, Observation]:
    """The starts of single environments whose generators drew these numbers."""
    return jax.vmap(lambda number: _reset(env, jax.random.key(number))[1:])(drawn)


@jax.jit
def _step_each(
    env: Env, state: Any, actions: Int[Array, " envs"], key: PRNGKeyArray
) -> tuple[PRNGKeyArray, Any, Observation, Outcome]:
    """A step of each environment, and no new episode."""
    key, skey = jax.random.split(key)
    step = jax.vmap(env.step)(state, actions, jax.random.split(skey, actions.shape[0]))
    return key, step.state, step.observation, _outcome(step)


@jax.jit
def _choose(mask: Any, new: Any, old: Any) -> Any:
    """The new states in the environments of the mask, the old ones elsewhere."""
    return jax.tree.map(lambda *both: jax.vmap(jnp.where)(mask, *both), new, old)


def _put(mask: Bool[np.ndarray, " envs"], new: Seen, old: Seen) -> Seen:
    """The new observations in the environments of the mask, the old ones elsewhere."""

    def one(new: np.ndarray, old: np.ndarray) -> np.ndarray:
        return np.where(mask.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    if isinstance(new, dict):
        assert isinstance(old, dict)
        return {name: one(new[name], old[name]) for name in new}
    assert not isinstance(old, dict)
    return one(new, old)


def _copy(seen: Seen) -> Seen:
    if isinstance(seen, dict):
        return {name: part.copy() for name, part in seen.items()}
    return seen.copy()


def _join(seeds: list[int | None]) -> int:
    """One seed for what follows the first episodes."""
    numbers = [0 if seed is None else seed + 1 for seed in seeds]
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _check_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    for one in AutoresetMode:
        if mode in (one, one.value, one.name):
            return one
    known = ", ".join(one.name for one in AutoresetMode)
    raise BadInput(f"autoreset_mode must be one of {known}, got {quote(mode)}")


_forked_after_use = False


def _note_fork() -> None:
    """In a forked process: whether JAX had been used before, whose threads are then missing."""
    global _forked_after_use
    bridge = sys.modules.get("jax._src.xla_bridge")
    _forked_after_use = _forked_after_use or bool(getattr(bridge, "_backends", None))


os.register_at_fork(after_in_child=_note_fork)


def _refuse_fork() -> None:
    if _forked_after_use:
        raise BadInput(
            "JAX was used before this process was forked, and would hang here: give "
            'AsyncVectorEnv context="spawn", or make_vec vector_kwargs={"context": "spawn"}'
        )


def _make(env: Env | str, settings: dict[str, Any]) -> Env:
    if isinstance(env, str):
        kind = registry.settings_class(EnvSettings, env, where="env")
        return registry.make_env(config.from_dict(kind, settings, env))
    if settings:
        raise BadInput(f"an environment of your own has no setting {next(iter(settings))!r}")
    spec_of(env)
    return env


def _draw_key(generator: np.random.Generator) -> PRNGKeyArray:
    return jax.random.key(int(generator.integers(2**32)))


def _check_render_mode(mode: str | None) -> str | None:
    if mode is not None and mode not in RENDER_MODES:
        raise BadInput(f"render_mode must be one of {', '.join(RENDER_MODES)}, got {mode!r}")
    return mode


def _render(env: Env, mode: str | None, state: Any) -> Any:
    if mode is None:
        return None
    if state is None:
        raise BadInput("there is nothing to render: reset the environment first")
    return env.picture(state) if mode == "rgb_array" else env.text(state)


def _columns(told: list[Info]) -> Info:
    """What each environment tells, as one array for each name."""
    columns = {}
    for name in told[0]:
        values = [np.asarray(info[name]) for info in told]
        plain = all(value.ndim == 0 and value.dtype.kind in "biuf" for value in values)
        columns[name] = np.empty(len(told), np.result_type(*values) if plain else object)
        for i, info in enumerate(told):
            columns[name][i] = info[name]
    return columns


def _infos(told: Info, mask: Bool[np.ndarray, " envs"]) -> Info:
    """What the environments of the mask tell, in Gymnasium's form: each array with its mask."""
    infos = {}
    for name, values in told.items():
        nothing = None if values.dtype == object else values.dtype.type()
        infos |= {name: np.where(mask, values, nothing), f"_{name}": mask.copy()}
    return infos


def _take_each(seen: Seen, mask: Bool[np.ndarray, " envs"]) -> np.ndarray:
    """The observations of the mask's environments, each on its own, and None elsewhere."""
    each = np.full(len(mask), None, object)
    for i in np.flatnonzero(mask):
        parts = seen if isinstance(seen, dict) else {"": seen}
        one = {name: part[i].copy() for name, part in parts.items()}
        each[i] = one if isinstance(seen, dict) else one[""]
    return each


IDS: dict[str, dict[str, Any]] = {}
"""Registered names, and the settings of each."""


def register() -> None:
    """Give Gymnasium the environments of the registry that it does not have yet."""
    for env in registry.ENVS:
        for variant, settings in registry.settings_class(EnvSettings, env).variants().items():
            name = f"wmg/{variant}-v0"
            if name in IDS:
                continue
            IDS[name] = {"env": env, **settings}
            gymnasium.register(
                name,
                entry_point=f"{__name__}:GymEnv",
                vector_entry_point=f"{__name__}:GymVectorEnv",
                kwargs=IDS[name],
            )


register()
