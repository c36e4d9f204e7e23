"""Checks of an environment of one's own: what is wrong with it, in one sentence.

`check_shapes` compares what an environment's functions return with its `spec`. It compiles and
plays nothing, so trainers always call it. `check_play` plays at random, and finds numbers that are
not finite, episodes longer than promised, and functions that fail when they are run.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from wmg.play.check_spec import check_spec
from wmg.play.host import HostEnvs, Lockstep
from wmg.play.own_code import run_own
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Step

LONGEST_PLAY = 2_000
"""Steps up to which play in a compiled environment goes on to see an episode's end."""
NUMBERS = (bool, int, float, complex, np.generic, np.ndarray, jax.Array)


def check_play(env: Env | HostEnvs, steps: int) -> None:
    """Plays at random for some steps and raises `BadInput` if anything is wrong. In a compiled
    environment it is more steps if an episode may be longer, at most 2,000."""
    if env.spec.actions == 1:
        raise BadInput(f"{name_of(env)} has one action: there is nothing to choose")
    if isinstance(env, HostEnvs):
        _play_on_host(env, steps)
    else:
        _play(env, max(steps, min(env.spec.max_steps + 1, LONGEST_PLAY)))


def check_shapes(env: Env) -> None:
    """Raises `BadInput` if an environment does not return what its spec says."""
    name, spec = name_of(env), spec_of(env)
    _check_fields(env, name)
    key = jax.eval_shape(lambda: jax.random.key(0))
    made = _trace(env, f"{name}.reset", lambda env, key: env.reset(key), key)
    if not isinstance(made, tuple) or len(made) != 2:
        raise BadInput(f"{name}.reset must return (state, observation), got a {_kind(made)}")
    state, seen = made
    expected = jax.eval_shape(spec.observation.zeros)
    _compare(f"{name}.reset", {"observation": expected}, {"observation": seen})
    action = jax.ShapeDtypeStruct((), jnp.int32)
    step = _trace(env, f"{name}.step", lambda env, *args: env.step(*args), state, action, key)
    if not isinstance(step, Step):
        raise BadInput(f"{name}.step must return a wmg.Step, got a {_kind(step)}")
    flags = ("terminated", "truncated", "success")
    wanted = {
        "observation": expected,
        "state": state,
        "reward": jax.ShapeDtypeStruct((), jnp.float32),
        **dict.fromkeys(flags, jax.ShapeDtypeStruct((), jnp.bool_)),
    }
    _compare(f"{name}.step", wanted, {part: getattr(step, part) for part in wanted})


def spec_of(env: Any) -> EnvSpec:
    """The spec of an environment; raises `BadInput` if it makes no sense."""
    name = name_of(env)
    spec = run_own(f"{name}.spec", lambda: env.spec)
    if not isinstance(spec, EnvSpec):
        raise BadInput(f"{name}.spec must be a wmg.EnvSpec, got a {_kind(spec)}")
    check_spec(spec)
    return spec


def name_of(env: Any) -> str:
    """What an environment's class is called."""
    if isinstance(env, Lockstep):
        inner = env.hosts[0].env
        return type(getattr(inner, "unwrapped", inner)).__name__
    return type(env).__name__


def _kind(value: Any) -> str:
    return f"tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__


# Functions that are traced


def _check_fields(env: Env, name: str) -> None:
    """An environment is an argument of compiled functions, so its leaves must be arrays."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(env)[0]:
        if not isinstance(leaf, NUMBERS):
            raise BadInput(
                f"{name}{jax.tree_util.keystr(path)} is a {_kind(leaf)} and no array: declare the "
                "field with equinox.field(static=True)"
            )
    try:
        hash(jax.tree.structure(env))
    except Exception as error:
        raise BadInput(
            f"{name} has a static field that cannot be hashed ({error}): an array needs no "
            "static=True, and a list can be a tuple"
        ) from error


def _trace(env: Env, function: str, call: Callable[..., Any], *args: Any) -> Any:
    """The shapes that a function of the environment returns, as trainers will call it."""
    numbers = any(isinstance(leaf, bool | int | float) for leaf in jax.tree.leaves(env))
    hint = "; a number that decides shapes is a field with equinox.field(static=True)"
    return run_own(function, lambda: jax.eval_shape(call, env, *args), hint if numbers else "")


SOURCES = {
    "state": ("reset returns", "reset does not return", " as after reset"),
    "observation": ("spec names", "spec does not name", " as spec says"),
}
"""Who decides which parts there must be, in words for error messages."""


def _compare(function: str, wanted: dict[str, Any], made: dict[str, Any]) -> None:
    """Refuses parts that are missing, too many or of another shape or type than wanted."""
    old, new = _leaves(wanted), _leaves(made)
    lacks, odd = ([p for p in a if p not in b] for a, b in ((old, new), (new, old)))
    for path in lacks:
        but = f", and has {odd[0]}" if odd else ""
        raise BadInput(f"{function} lacks {path}, which {_sources(path)[0]}{but}")
    for path in odd:
        raise BadInput(f"{function} has {path}, which {_sources(path)[1]}")
    for path, leaf in old.items():
        want, got = (f"{x.dtype}{list(x.shape)}" for x in (leaf, new[path]))
        if want != got:
            raise BadInput(f"{function}: {path} must be {want}{_sources(path)[2]}, got {got}")
    if jax.tree.structure(wanted) != jax.tree.structure(made):
        raise BadInput(
            f"{function} returns other classes or static fields in the state than reset, or in the "
            "observation than wmg.Observation and wmg.Factors"
        )


def _sources(path: str) -> tuple[str, str, str]:
    return SOURCES.get(re.split(r"\W", path)[0], ("a Step needs", "a Step does not have", ""))


def _leaves(tree: dict[str, Any]) -> dict[str, Any]:
    leaves = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        leaves[path[0].key + jax.tree_util.keystr(path[1:])] = leaf
    return leaves


# Random play


def _play(env: Env, steps: int) -> None:
    """Plays in a compiled environment and refuses what it finds."""
    name, state, done, length = name_of(env), None, True, 0
    for key in jax.random.split(jax.random.key(0), steps):
        if done:
            state, fine = run_own(f"{name}.reset", lambda key=key: _random_reset(env, key))
            _check_finite(f"{name}.reset", fine)
            length = 0
        state, fine, done = run_own(
            f"{name}.step", lambda state=state, key=key: _random_step(env, state, key)
        )
        _check_finite(f"{name}.step", fine)
        length += 1
        if length >= env.spec.max_steps and not done:
            raise BadInput(
                f"{name}: an episode goes on after {env.spec.max_steps:,} steps, the most that its "
                "EnvSpec promises: step must end it by terminated or truncated"
            )


def _check_finite(function: str, fine: dict[str, Any]) -> None:
    for path, good in _leaves(fine).items():
        if not good:
            raise BadInput(f"{function}: {path} is NaN or infinite in random play")


@jax.jit
def _random_reset(env: Env, key: PRNGKeyArray) -> tuple[Any, dict[str, Any]]:
    """A new state, and whether the arrays of its observation are finite."""
    state, seen = env.reset(jax.random.fold_in(key, 0))
    return state, {"observation": jax.tree.map(_finite, seen)}


@jax.jit
def _random_step(env: Env, state: Any, key: PRNGKeyArray) -> tuple[Any, dict[str, Any], Array]:
    """The state after some action, whether what it leads to is finite, and whether it ends."""
    action = jax.random.randint(jax.random.fold_in(key, 1), (), 0, env.spec.actions)
    made = env.step(state, action, jax.random.fold_in(key, 2))
    seen = jax.tree.map(_finite, made.observation)
    return made.state, {"observation": seen, "reward": _finite(made.reward)}, made.done


def _finite(array: Array) -> Array:
    return jnp.isfinite(array).all()


def _play_on_host(envs: HostEnvs, steps: int) -> None:
    """Plays in environments of the host, which check what they show."""
    name, draw = name_of(envs), np.random.default_rng(0)
    run_own(f"{name}.reset", lambda: envs.reset([0] * envs.count))
    for _ in range(steps):
        actions = draw.integers(envs.spec.actions, size=envs.count)
        run_own(f"{name}.step", lambda actions=actions: envs.step(actions))
