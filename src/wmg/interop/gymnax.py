"""JAX environments of others: gymnax's interface, `reset(key, params)` and
`step(key, state, action, params)`.

    env = wrap(*gymnax.make("CartPole-v1"))

The result is an environment like the package's own, compiled whole. gymnax is not imported: any
object with its interface will do, of gymnax 0.0 or 1.0, popjaxrl or pobax.

gymnax resets environments by itself where an episode ends, and so do the trainers here. So
`step_env` and `reset_env` are called where the class has them. A wrapper has only `step`: the new
episode that it begins is thrown away.

An observation is an array or a PyTree of arrays. Each of its arrays goes where its shape says:
rows `x` of shape (n, k) beside a mask `x_mask` or `x_present` of shape (n,) are Factors of type x;
an array of three dimensions with more than 1,024 numbers is the image; all others are flattened
and joined in the Core, a `Discrete` number as one-hot.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from wmg.interop.space_parts import MASKS
from wmg.play.check_spec import check_spec
from wmg.play.own_code import run_own
from wmg.tools.errors import BadInput, quote
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Step

LARGEST_FLAT = 1024
"""The largest array of three dimensions that is flattened into the Core."""
LONGEST = 10_000
"""Steps after which an episode is truncated if nothing says how long it may be."""
Observe = Callable[[Any], Observation]


class GymnaxState(eqx.Module):
    """The state of the environment that is wrapped, and how many steps were taken in it."""

    inner: Any
    time: Int[Array, ""]


class Gymnax(Env[GymnaxState]):
    """An environment with gymnax's interface as one of `wmg.types.Env`; `wrap` makes it."""

    inner: "_Inner" = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    def reset(self, key: PRNGKeyArray) -> tuple[GymnaxState, Observation]:
        seen, state = self.inner.reset(key)
        return GymnaxState(self.inner.cast(state), jnp.int32(0)), self.inner.observe(seen)

    def step(
        self, state: GymnaxState, action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[GymnaxState]:
        seen, after, reward, done, truncated, info = self.inner.step(key, state.inner, action)
        time = state.time + 1
        late = time >= self.spec.max_steps
        if truncated is None:  # `done` is either end
            terminated, truncated = done & ~late, late
        else:
            terminated, truncated = done, (truncated | late) & ~done
        success = info.get("success", info.get("is_success", reward > 0))
        return Step(
            state=GymnaxState(self.inner.cast(after), time),
            observation=self.inner.observe(seen),
            reward=jnp.float32(reward),
            terminated=terminated,
            truncated=truncated,
            success=jnp.asarray(success, bool) & (terminated | truncated),
        )


def wrap(
    env: Any,
    params: Any = None,
    *,
    max_steps: int | None = None,
    observe: Observe | None = None,
) -> Gymnax:
    """Wraps an environment with gymnax's interface.

    Without `params` its `default_params` are used. Episodes are truncated after `max_steps`, by
    default what the parameters say, or 10,000 if they say nothing. `observe` replaces the rules by
    which observations are mapped.
    """
    params = getattr(env, "default_params", None) if params is None else params
    if max_steps is None:
        told = getattr(params, "max_steps_in_episode", getattr(params, "max_steps", LONGEST))
        max_steps = int(told)
    return Gymnax(_Inner(env, params, max_steps, observe))


class _Inner:
    """The environment that is wrapped, and what is known of it. Two are equal only if they are the
    same: compiled programs have their parameters as constants."""

    def __init__(self, env: Any, params: Any, max_steps: int, observe: Observe | None):
        self.env, self.params, self.name = env, params, type(env).__name__
        self.whole = hasattr(type(env), "step_env") and hasattr(type(env), "reset_env")
        """Whether an episode can be stepped to its end without a new one."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        seen, state = run_own(f"{self.name}.reset", lambda: jax.eval_shape(self.reset, key))
        given = key, state, jax.ShapeDtypeStruct((), jnp.int32)
        after = run_own(f"{self.name}.step", lambda: jax.eval_shape(self._state_after, *given))
        self.types = _common_types(self.name, state, after)
        self.observe = observe or _Mapping(seen, _ask(env, "observation_space", params))
        shown = jax.eval_shape(self.observe, seen)
        factors = tuple((name, *shown.factors[name].values.shape) for name in sorted(shown.factors))
        image = None if shown.image is None else shown.image.shape
        observation = ObservationSpec(shown.core.shape[0], factors, image)
        self.spec = EnvSpec(observation, self._count_actions(), max_steps, "return")
        check_spec(self.spec)

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Observation and state of a new episode."""
        return (self.env.reset_env if self.whole else self.env.reset)(key, self.params)

    def step(self, key: PRNGKeyArray, state: Any, action: Int[Array, ""]) -> tuple[Any, ...]:
        """Observation, state, reward, terminated, truncated and info. Truncated is None where
        `terminated` may be either end."""
        step = self.env.step_env if self.whole else self.env.step
        seen, after, reward, done, *more, info = step(key, state, action, self.params)
        truncated = None
        if more:
            truncated = jnp.asarray(more[0], bool)
        elif self.whole and hasattr(self.env, "is_truncated"):  # gymnax 1.0
            truncated = jnp.asarray(self.env.is_truncated(after, self.params), bool)
        last = seen if self.whole else info.get("final_observation", seen)
        return last, after, jnp.asarray(reward), jnp.asarray(done, bool), truncated, info

    def _state_after(self, *given: Any) -> Any:
        return self.step(*given)[1]

    def cast(self, state: Any) -> Any:
        """The state with the same types after a reset as after a step."""
        return jax.tree.map(_cast, state, self.types)

    def _count_actions(self) -> int:
        """How many actions there are; anything but one choice is refused."""
        space = _ask(self.env, "action_space", self.params)
        count = getattr(self.env, "num_actions", None) if space is None else None
        count = getattr(space, "n", getattr(space, "num_categories", count))
        if not isinstance(count, int | np.integer):
            raise BadInput(
                f"actions must be discrete: {self.name} has the action space {quote(space)}"
            )
        return int(count)


def _ask(env: Any, name: str, params: Any) -> Any:
    """A space of the environment; None if there is none."""
    space = getattr(env, name, None)
    try:
        return space(params) if callable(space) else space
    except NotImplementedError:
        return None


def _common_types(name: str, state: Any, after: Any) -> Any:
    """The types that every state can have: a reset may say 0 where a step says 0.5."""
    if jax.tree.structure(after) != jax.tree.structure(state):
        raise BadInput(f"{name}: the state after a step has other parts than after reset")

    def common(start: Any, end: Any) -> Any:
        if start.shape != end.shape:
            raise BadInput(
                f"{name}: an array of the state has the shape {start.shape} after reset and "
                f"{end.shape} after a step"
            )
        same = start.dtype == end.dtype
        return start.dtype if same else jnp.promote_types(start.dtype, end.dtype)

    return jax.tree.map(common, state, after)


def _cast(leaf: Any, dtype: Any) -> Array:
    """The array in that type, which its other operands cannot change."""
    array = jnp.asarray(leaf)
    is_key = jnp.issubdtype(dtype, jax.dtypes.prng_key)
    return array if is_key else jax.lax.convert_element_type(array, dtype)


class _Mapping:
    """Where each array of an observation goes, by the rules of this module."""

    def __init__(self, seen: Any, space: Any):
        shapes = {name: leaf.shape for name, leaf in _named(seen).items()}
        self.masks = {
            name: name + end
            for name, shape in shapes.items()
            for end in MASKS
            if len(shape) == 2 and shapes.get(name + end) == shape[:1]
        }
        """The mask of each type of Factors."""
        taken = {*self.masks, *self.masks.values()}
        rest = {name: shape for name, shape in shapes.items() if name not in taken}
        large = [n for n in rest if len(rest[n]) == 3 and math.prod(rest[n]) > LARGEST_FLAT]
        if len(large) > 1:
            raise BadInput(f"an observation has at most one image, got {' and '.join(large)}")
        self.image = next(iter(large), None)
        self.core = [name for name in rest if name not in large]
        parts = getattr(space, "spaces", {"": space})
        self.values = {
            name: int(part.n)
            for name, part in (parts.items() if isinstance(parts, Mapping) else ())
            if type(part).__name__ == "Discrete" and shapes.get(name) == ()
        }
        """How many values a number has that becomes one-hot."""

    def __call__(self, seen: Any) -> Observation:
        arrays = _named(seen)
        core = [self._flat(name, arrays[name]) for name in self.core]
        factors = {
            name: Factors(arrays[name].astype(jnp.float32), arrays[mask].astype(bool))
            for name, mask in sorted(self.masks.items())
        }
        image = None if self.image is None else _picture(arrays[self.image])
        return Observation(jnp.concatenate(core) if core else jnp.zeros(0), factors, image)

    def _flat(self, name: str, array: Array) -> Array:
        if name in self.values:
            return jax.nn.one_hot(array, self.values[name])
        return array.astype(jnp.float32).reshape(-1)


def _named(seen: Any) -> dict[str, Any]:
    """The arrays of an observation by their names: the keys that lead to them."""
    paths = jax.tree_util.tree_flatten_with_path(seen)[0]
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}
    shapes_only = all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in named.values())
    return named if shapes_only else {name: jnp.asarray(leaf) for name, leaf in named.items()}


def _picture(array: Array) -> Array:
    """The image; bytes become numbers from 0 to 1."""
    return array.astype(jnp.float32) / (255.0 if array.dtype == jnp.uint8 else 1.0)
