"""Checks of an environment of one's own: what is wrong with it, in one sentence.

`check_shapes` compares what an environment's functions return with its `spec`. It compiles and
plays nothing, so trainers can always call it. `check_env` also plays at random, and finds numbers
that are not finite, episodes longer than promised, and functions that fail when they are run.
"""

import difflib
import functools
import math
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg.play.host import Host
from wmg.tools.errors import BadInput, quote
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Step

METRICS = ("reward", "success", "return")
LONGEST_PLAY = 2_000
"""Steps up to which play in a compiled environment goes on to see an episode's end."""
NUMBERS = (bool, int, float, complex, np.generic, np.ndarray, jax.Array)
OWN_FOLDER = pathlib.Path(__file__).parents[1]


def check_env(env: Env | Host, steps: int = 256) -> None:
    """Plays at random for some steps and raises `BadInput` if anything is wrong.

    env: an environment of `wmg.types.Env`, which is compiled once, or a `wmg.play.host.Host`.
    steps: how many steps to play. In a compiled environment it is more if an episode may be
        longer: up to `spec.max_steps` + 1, at most 2,000.

    The sentence of the error says what to change. If the environment's own code raises, its error
    is the cause (`__cause__`) of this one, with its traceback.
    """
    if type(steps) is not int or steps < 1:
        raise BadInput(f"steps must be a whole number from 1 on, got {quote(steps)}")
    check_shapes(env)
    if env.spec.actions == 1:
        raise BadInput(f"{_name(env)}.spec.actions must be 2 or more: there is nothing to choose")
    if isinstance(env, Host):
        _play_on_host(env, steps)
    else:
        _play(env, max(steps, min(env.spec.max_steps + 1, LONGEST_PLAY)))


def check_shapes(env: Env | Host) -> None:
    """Raises `BadInput` if an environment does not return what its spec says.

    Nothing is compiled and nothing is played. Of a `Host` only the spec is checked.
    """
    refuse_other_kinds(env)
    name = _name(env)
    spec = _read_spec(env, name)
    if isinstance(env, Host):
        return
    _check_fields(env, name)
    key = jax.eval_shape(lambda: jax.random.key(0))
    made = _trace(env, name, "reset", key)
    if not isinstance(made, tuple) or len(made) != 2:
        raise BadInput(f"{name}.reset must return (state, observation), got {_kind(made)}")
    state, seen = made
    _check_observation(f"{name}.reset", spec.observation, seen)
    action = jax.ShapeDtypeStruct((), jnp.int32)
    step = _trace(env, name, "step", state, action, key)
    if not isinstance(step, Step):
        raise BadInput(f"{name}.step must return a wmg.types.Step, got {_kind(step)}")
    _check_observation(f"{name}.step", spec.observation, step.observation)
    _check_state(name, state, step.state)
    _check_scalars(name, step)


def refuse_other_kinds(env: Any) -> None:
    """Refuses what is not an environment, and says what it seems to be."""
    if isinstance(env, Env | Host):
        return
    if isinstance(env, type):
        raise BadInput(f"env must be an environment, got the class {env.__name__}: call it")
    if all(hasattr(env, name) for name in ("reset", "step", "action_space", "default_params")):
        why = "with gymnax's interface: wmg.interop.gymnax.wrap makes it a wmg.types.Env"
        raise BadInput(f"env is an environment {why}, got {quote(env)}")
    if all(hasattr(env, name) for name in ("reset", "step", "action_space")):
        why = "a Gymnasium environment, which runs on the host: wrap it in a wmg.play.host.Host"
        raise BadInput(f"env is {why}, got {quote(env)}")
    raise BadInput(f"env must be a wmg.types.Env or a wmg.play.host.Host, got {quote(env)}")


def _name(env: Env | Host) -> str:
    inner = env.env if isinstance(env, Host) else env
    return type(getattr(inner, "unwrapped", inner)).__name__


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


# The spec


def _read_spec(env: Env | Host, name: str) -> EnvSpec:
    """The spec, if it makes sense."""
    try:
        spec = env.spec
    except Exception as error:
        raise _failed(f"{name}.spec", error) from error
    if not isinstance(spec, EnvSpec):
        raise BadInput(f"{name}.spec must be a wmg.types.EnvSpec, got {_kind(spec)}")
    for field, least in (("actions", 1), ("max_steps", 1)):
        _check_count(f"{name}.spec.{field}", getattr(spec, field), least)
    if spec.metric not in METRICS:
        raise BadInput(
            f"{name}.spec.metric must be one of {', '.join(METRICS)}, got {quote(spec.metric)}"
        )
    perfect = spec.reward_per_step
    if not isinstance(perfect, int | float) or not math.isfinite(perfect) or perfect == 0:
        raise BadInput(f"{name}.spec.reward_per_step must be a number but 0, got {quote(perfect)}")
    _check_observation_spec(f"{name}.spec.observation", spec.observation)
    return spec


def _check_count(where: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise BadInput(f"{where} must be a whole number from {least} on, got {quote(value)}")


def _check_observation_spec(where: str, spec: Any) -> None:
    if not isinstance(spec, ObservationSpec):
        raise BadInput(f"{where} must be a wmg.types.ObservationSpec, got {_kind(spec)}")
    _check_count(f"{where}.core", spec.core, 1)
    for entry in spec.factors:
        fits = isinstance(entry, tuple) and len(entry) == 3 and isinstance(entry[0], str)
        if not fits or any(type(size) is not int or size < 1 for size in entry[1:]):
            raise BadInput(
                f"{where}.factors must have (name, largest count, size) for each type, "
                f"got {quote(entry)}"
            )
    names = [entry[0] for entry in spec.factors]
    if names != sorted(set(names)):
        raise BadInput(
            f"{where}.factors must be sorted by name, each name once: "
            f"{', '.join(sorted(set(names)))}, got {', '.join(names)}"
        )
    image = spec.image
    if image is not None and (len(image) != 3 or any(type(side) is not int for side in image)):
        raise BadInput(f"{where}.image must be (width, height, channels), got {quote(image)}")


# Functions that are traced


def _check_fields(env: Env, name: str) -> None:
    """An environment is an argument of compiled functions, so its leaves must be arrays."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(env)[0]:
        if not isinstance(leaf, NUMBERS):
            field = jax.tree_util.keystr(path).removeprefix(".")
            raise BadInput(
                f"{name}.{field} is {_kind(leaf)} and no array: declare the field with "
                "equinox.field(static=True)"
            )
    try:
        hash(jax.tree.structure(env))
    except Exception as error:
        raise BadInput(
            f"{name} has a static field that cannot be hashed ({error}): an array needs no "
            "static=True, and a list can be a tuple"
        ) from error


def _trace(env: Env, name: str, function: str, *args: Any) -> Any:
    """The shapes that a function of the environment returns, as trainers will call it."""
    numbers = [leaf for leaf in jax.tree.leaves(env) if isinstance(leaf, bool | int | float)]
    try:
        return jax.eval_shape(lambda env, *args: getattr(env, function)(*args), env, *args)
    except BadInput:
        raise
    except Exception as error:
        hint = ""
        if numbers and isinstance(error, jax.errors.JAXTypeError):
            hint = "; a number that decides shapes is a field with equinox.field(static=True)"
        raise _failed(f"{name}.{function}", error, hint) from error


def _failed(function: str, error: BaseException, hint: str = "") -> BadInput:
    """What to raise from an error of the environment's own code."""
    lines = str(error).strip().splitlines()
    said = f": {lines[0].rstrip('.')}" if lines else ""
    return BadInput(f"{function} raises {type(error).__name__}{_place(error)}{said}{hint}")


def _place(error: BaseException) -> str:
    """The line that raised the error: the last one outside of installed packages."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = pathlib.Path(frame.filename)
        installed = "site-packages" in path.parts or OWN_FOLDER in path.parents
        if not installed and path.exists():
            return f" in line {frame.lineno} of {path.name}"
    return ""


def _check_state(name: str, before: Any, after: Any) -> None:
    """The state has the same structure, shapes and types after a step as before."""
    old, new = (dict(_leaves(state)) for state in (before, after))
    for path in [*old, *new]:
        if path not in old or path not in new:
            one, other = ("step", "reset") if path in new else ("reset", "step")
            raise BadInput(f"{name}.{one} returns a state with {path}, and {name}.{other} does not")
        if (old[path].shape, old[path].dtype) != (new[path].shape, new[path].dtype):
            raise BadInput(
                f"{name}.step changes {path}: {_describe(old[path])} after reset, "
                f"{_describe(new[path])} after a step"
            )
    if jax.tree.structure(before) != jax.tree.structure(after):
        raise BadInput(
            f"{name}.step returns a state of another structure than {name}.reset: "
            f"{quote(str(jax.tree.structure(after)))}"
        )


def _leaves(state: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        yield "state" + jax.tree_util.keystr(path), leaf


def _describe(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def _check_scalars(name: str, step: Step) -> None:
    expected: dict[str, Any] = dict.fromkeys(("terminated", "truncated", "success"), jnp.bool_)
    for field, dtype in {"reward": jnp.float32, **expected}.items():
        value = getattr(step, field)
        if getattr(value, "shape", None) != () or value.dtype != dtype:
            got = _describe(value) if hasattr(value, "dtype") else _kind(value)
            raise BadInput(
                f"{name}.step: {field} must be a scalar of {jnp.dtype(dtype).name}, got {got}"
            )


# Observations


def _check_observation(where: str, spec: ObservationSpec, seen: Any) -> None:
    """Refuses an observation, or the shapes of one, that is not as the spec says."""
    fault = observation_fault(spec, seen)
    if fault:
        raise BadInput(f"{where}: {fault}")


def observation_fault(spec: ObservationSpec, seen: Any) -> str | None:
    """What an observation has that its spec does not say, in words; None if they agree."""
    if not isinstance(seen, Observation):
        return f"the observation must be a wmg.types.Observation, got {_kind(seen)}"
    faults = [_array_fault("the Core", seen.core, (spec.core,))]
    if not isinstance(seen.factors, dict):
        return f"the Factors must be a dict, got {_kind(seen.factors)}"
    faults.append(_names_fault([name for name, *_ in spec.factors], list(seen.factors)))
    for name, count, size in spec.factors:
        faults.append(_factors_fault(name, seen.factors.get(name), count, size))
    if spec.image is None and seen.image is not None:
        faults.append("there is an image that spec does not name")
    elif spec.image is not None:
        faults.append(_array_fault("the image", seen.image, tuple(spec.image)))
    return next((fault for fault in faults if fault), None)


def _names_fault(named: list[str], shown: list[str]) -> str | None:
    for name in shown:
        if name not in named:
            near = difflib.get_close_matches(name, named, 1)
            hint = f": is {near[0]!r} meant?" if near else ""
            return f"there are Factors {name!r}, which spec does not name{hint}"
    missing = [name for name in named if name not in shown]
    return f"there are no Factors {missing[0]!r}, which spec names" if missing else None


def _factors_fault(name: str, rows: Any, count: int, size: int) -> str | None:
    if not isinstance(rows, Factors):
        return f"Factors {name!r} must be a wmg.types.Factors, got {_kind(rows)}"
    values = _array_fault(f"values of Factors {name!r}", rows.values, (count, size))
    return values or _array_fault(f"present of Factors {name!r}", rows.present, (count,), "bool")


def _array_fault(
    what: str, array: Any, shape: tuple[int, ...], kind: str = "float32"
) -> str | None:
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return f"{what} must be an array, got {_kind(array)}"
    if tuple(array.shape) != shape:
        return f"{what} must have the shape {shape} of spec, got {tuple(array.shape)}"
    if array.dtype != kind:
        return f"{what} must be {kind}, got {array.dtype}"
    return None


# Random play


def _play(env: Env, steps: int) -> None:
    """Plays in a compiled environment and refuses what it finds."""
    name = _name(env)
    try:
        finite, rewards, longest = jax.device_get(_random_play(env, jax.random.key(0), steps))
    except Exception as error:
        raise _failed(f"{name} in random play", error) from error
    for path, fine in _parts(finite):
        _check_finite(name, path, fine)
    _check_finite(name, "reward", rewards)
    _check_length(name, env.spec, int(longest))


def _check_finite(name: str, what: str, fine: Any) -> None:
    if not fine:
        raise BadInput(f"{name}: {what} is NaN or infinite in random play")


def _check_length(name: str, spec: EnvSpec, longest: int) -> None:
    if longest > spec.max_steps:
        raise BadInput(
            f"{name}: an episode is longer than spec.max_steps = {spec.max_steps}: "
            "step must end it by terminated or truncated"
        )


def _parts(seen: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(seen)[0]:
        yield "observation" + jax.tree_util.keystr(path), leaf


class _Tour(eqx.Module):
    """Random play so far. A new episode begins where `over`."""

    state: Any
    seen: Observation
    over: Bool[Array, ""]
    length: Int[Array, ""]
    """Of the episode."""
    longest: Int[Array, ""]
    finite: Any
    """Whether each array of the observations has been finite."""
    rewards: Bool[Array, ""]
    """Whether the rewards have been."""


@functools.partial(jax.jit, static_argnums=2)
def _random_play(env: Env, key: PRNGKeyArray, steps: int) -> tuple[Any, Array, Array]:
    """Which arrays of observations and which rewards were finite; the longest episode's length."""

    def step(tour: _Tour, key: PRNGKeyArray) -> tuple[_Tour, None]:
        rkey, akey, skey = jax.random.split(key, 3)
        state, seen = jax.lax.cond(
            tour.over, lambda: _strong(env.reset(rkey)), lambda: (tour.state, tour.seen)
        )
        made = env.step(state, jax.random.randint(akey, (), 0, env.spec.actions), skey)
        length = jnp.where(tour.over, 0, tour.length) + 1
        both = jax.tree.map(jnp.logical_and, _finite(seen), _finite(made.observation))
        after = _Tour(
            state=_strong(made.state),
            seen=_strong(made.observation),
            over=made.done,
            length=length,
            longest=jnp.maximum(tour.longest, length),
            finite=jax.tree.map(jnp.logical_and, tour.finite, both),
            rewards=tour.rewards & jnp.isfinite(made.reward),
        )
        return after, None

    state, seen = jax.tree.map(_zeros, jax.eval_shape(env.reset, key))
    begun, zero = jnp.ones((), bool), jnp.zeros((), jnp.int32)
    start = _Tour(state, seen, begun, zero, zero, _finite(seen), begun)
    end, _ = jax.lax.scan(step, start, jax.random.split(key, steps))
    return end.finite, end.rewards, end.longest


def _zeros(leaf: jax.ShapeDtypeStruct) -> Array:
    return jnp.zeros(leaf.shape, leaf.dtype)


def _strong(tree: Any) -> Any:
    """The same arrays; none of them takes on another type beside a Python number."""

    def one(leaf: Any) -> Array:
        array = jnp.asarray(leaf)
        is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
        return array if is_key else jax.lax.convert_element_type(array, array.dtype)

    return jax.tree.map(one, tree)


def _finite(seen: Observation) -> Any:
    return jax.tree.map(lambda leaf: jnp.isfinite(leaf).all(), seen)


def _play_on_host(host: Host, steps: int) -> None:
    """Plays in an environment of the host and refuses what it finds."""
    name, draw = _name(host), np.random.default_rng(0)
    seen = _run(f"{name}.reset", lambda: host.reset(0))
    _check_seen(f"{name}.reset", host.spec, seen)
    length = 0
    for time in range(steps):
        action = int(draw.integers(host.spec.actions))
        step = _run(f"{name}.step", lambda action=action: host.step(action))
        length += 1
        _check_seen(f"{name}.step, in step {time + 1}", host.spec, step.observation)
        _check_finite(name, "reward", math.isfinite(step.reward))
        _check_length(name, host.spec, length)
        if step.done:
            seen, length = _run(f"{name}.reset", host.reset), 0
            _check_seen(f"{name}.reset", host.spec, seen)


def _run(function: str, call: Callable[[], Any]) -> Any:
    """What a function of the environment returns; its own error becomes the cause of ours."""
    try:
        return call()
    except BadInput:
        raise
    except Exception as error:
        raise _failed(function, error) from error


def _check_seen(where: str, spec: EnvSpec, seen: Any) -> None:
    _check_observation(where, spec.observation, seen)
    for path, leaf in _parts(seen):
        _check_finite(where, path, np.isfinite(leaf).all())
