"""JAX environments of others: gymnax's interface, `reset(key, params)` and
`step(key, state, action, params)`.

    env = wrap(*gymnax.make("CartPole-v1"))

The result is an environment like the package's own, compiled whole. gymnax is not imported: any
object with its interface will do, for example those of popjaxrl and pobax.

gymnax resets environments by itself where an episode ends, and this package does so too. So
`step_env` and `reset_env` are called where the class defines them. Where it does not, the new
episode that `step` begins is thrown away, and the last observation of the old one is taken from
`info["final_observation"]` if it is there.

An observation is an array or a PyTree of arrays. Each of its arrays goes where its shape says:
rows `x` of shape (n, k) beside a mask `x_mask` or `x_present` of shape (n,) are Factors of type x;
an array of two or three dimensions with more than 1,024 numbers, or one of three called `image`, is
the image; all others are flattened and joined in the Core, a `Discrete` number as one-hot.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from wmg.tools.errors import BadInput, quote
from wmg.types import Env, EnvSpec, Factors, Observation, ObservationSpec, Step

LARGEST_FLAT = 1024
"""The largest array of two or three dimensions that is flattened into the Core."""
LONGEST = 10_000
"""Steps after which an episode is truncated if nothing says how long it may be."""
LIMITS = ("max_steps_in_episode", "max_steps", "max_episode_steps", "episode_length", "horizon")
"""Where parameters or environments say how long an episode may be."""
LAST = ("final_observation", "final_obs", "terminal_observation")
"""Where infos hold the last observation of an episode that a new one has replaced."""
METHODS = ("reset", "step")
SUCCESS = ("success", "is_success")
MASKS = ("_mask", "_present")


class GymnaxState(eqx.Module):
    """The state of the environment that is wrapped, and how many steps were taken in it."""

    inner: Any
    time: Int[Array, ""]


class Gymnax(Env[GymnaxState]):
    """An environment with gymnax's interface as one of `wmg.types.Env`; `wrap` makes it."""

    arrays: tuple[Any, ...]
    """The arrays and numbers of the environment and its parameters."""
    plan: "_Plan" = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        assert self.plan.spec is not None
        return self.plan.spec

    def reset(self, key: PRNGKeyArray) -> tuple[GymnaxState, Observation]:
        seen, state = self.plan.target(self.arrays).reset(key)
        return GymnaxState(self.plan.cast(state), jnp.int32(0)), self.plan.observe(seen)

    def step(
        self, state: GymnaxState, action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[GymnaxState]:
        time = state.time + 1
        made = self.plan.target(self.arrays).step(key, state.inner, action)
        late = time >= self.spec.max_steps
        if made.truncated is None:  # `done` is said, not why
            truncated, terminated = late, made.done & ~late
        else:
            truncated, terminated = (made.truncated | late) & ~made.done, made.done
        return Step(
            state=GymnaxState(self.plan.cast(made.state), time),
            observation=self.plan.observe(made.seen),
            reward=made.reward,
            terminated=terminated,
            truncated=truncated,
            success=made.success & (terminated | truncated),
        )


def wrap(
    env: Any,
    params: Any = None,
    *,
    metric: str = "reward",
    max_steps: int | None = None,
    observe: Callable[[Any], Observation] | None = None,
) -> Gymnax:
    """Wraps an environment with gymnax's interface.

    `env` is the environment, its class, or a pair (environment, parameters) as `gymnax.make`
    returns it. Without `params` its `default_params` are used. Episodes are truncated after
    `max_steps`, by default what the parameters say, or 10,000 if they say nothing. `observe`
    replaces the rules by which observations are mapped.
    """
    env, params = _unpair(env, params)
    if isinstance(env, type):
        env = _instance(env)
    if not looks_like_gymnax(env):
        raise BadInput(f"gymnax's interface is reset(key, params) and step, got {quote(env)}")
    if params is None:
        params = getattr(env, "default_params", None)
    actions = _count_actions(env, params)
    options = _Options(actions, metric, _limit(env, params, max_steps), observe)
    try:
        return _build(env, params, options, traced=True)
    except (TypeError, ValueError):  # parameters that decide shapes, or must be hashed
        return _build(env, params, options, traced=False)


def looks_like_gymnax(env: Any) -> bool:
    """Whether it has gymnax's interface; an `Env` of this package has not."""
    if isinstance(env, tuple) and len(env) == 2:
        env = env[0]
    if isinstance(env, Env) or not all(callable(getattr(env, name, None)) for name in METHODS):
        return False
    try:
        named = list(inspect.signature(env.reset).parameters.values())
    except (TypeError, ValueError):
        return False
    placed = [one for one in named if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(placed) - isinstance(env, type) >= 2 or hasattr(env, "default_params")


def _unpair(env: Any, params: Any) -> tuple[Any, Any]:
    if not (isinstance(env, tuple) and len(env) == 2):
        return env, params
    if params is not None:
        raise BadInput("parameters are given twice: in the pair and as params")
    return env


def _instance(kind: type) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise BadInput(f"{kind.__name__} cannot be made without arguments: {error}") from error


def _limit(env: Any, params: Any, given: int | None) -> int:
    """How many steps an episode may have."""
    if given is not None:
        if type(given) is not int or given < 1:
            raise BadInput(f"max_steps must be a whole number from 1 on, got {quote(given)}")
        return given
    for place in (params, env):
        for name in LIMITS:
            value = getattr(place, name, None)
            if isinstance(value, int | np.integer | jax.Array) and np.ndim(value) == 0:
                return int(value)
    return LONGEST


@dataclasses.dataclass(frozen=True)
class _Options:
    actions: int
    metric: str
    max_steps: int
    observe: Callable[[Any], Observation] | None


def _build(env: Any, params: Any, options: _Options, traced: bool) -> Gymnax:
    """The environment; with `traced`, the numbers of its parameters are compiled as arguments."""
    arrays, plan = _take_apart(env, params, traced)
    plan.dtypes = _state_types(plan, arrays)
    seen, _ = jax.eval_shape(plan.reset, arrays)
    plan.mapping = options.observe or _Mapping(seen, _discrete(env, params))
    shown = jax.eval_shape(lambda: plan.observe(_zeros(seen)))
    plan.spec = EnvSpec(
        observation=_spec_of(shown),
        actions=options.actions,
        max_steps=options.max_steps,
        metric=options.metric,
    )
    return Gymnax(arrays, plan)


@dataclasses.dataclass(eq=False)
class _Plan:
    """What is fixed of a wrapped environment. Two are equal only if they are the same."""

    structure: Any
    fixed: tuple[Any, ...]
    """What is not an array, in the places of the structure."""
    inner: bool
    """Whether `step_env` and `reset_env` are called."""
    dtypes: tuple[Any, ...] | None = None
    """The type of each array of the state."""
    mapping: Callable[[Any], Observation] | None = None
    spec: EnvSpec | None = None

    def target(self, arrays: tuple[Any, ...]) -> "_Target":
        """The environment and its parameters, with these arrays."""
        pairs = zip(arrays, self.fixed, strict=True)
        leaves = [fixed if array is None else array for array, fixed in pairs]
        env, params = self.structure.unflatten(leaves)
        return _Target(env, params.params if isinstance(params, _Static) else params, self.inner)

    def reset(self, arrays: tuple[Any, ...]) -> tuple[Any, Any]:
        """Observation and state of some new episode."""
        return self.target(arrays).reset(jax.random.key(0))

    def cast(self, state: Any) -> Any:
        """The state with the same types after a reset as after a step."""
        assert self.dtypes is not None
        leaves, structure = jax.tree.flatten(state)
        return structure.unflatten(
            [_cast(leaf, dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        )

    def observe(self, seen: Any) -> Observation:
        """The observation as agents see it."""
        assert self.mapping is not None
        return self.mapping(seen)


@dataclasses.dataclass(frozen=True)
class _Static:
    """Parameters that are not to be traced."""

    params: Any


def _take_apart(env: Any, params: Any, traced: bool) -> tuple[tuple[Any, ...], _Plan]:
    """The arrays of an environment, and how to put it together again with others."""
    if traced:
        params = jax.tree.map(_as_array, params)
    leaves, structure = jax.tree.flatten((env, params if traced else _Static(params)))
    is_array = [isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves]
    pairs = list(zip(leaves, is_array, strict=True))
    arrays = tuple(leaf if array else None for leaf, array in pairs)
    fixed = tuple(None if array else leaf for leaf, array in pairs)
    return arrays, _Plan(structure, fixed, _defines_inner(type(env)))


def _as_array(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, bool | int | float | np.number) else leaf


def _defines_inner(kind: type) -> bool:
    """Whether `step_env` is what the class really steps by: wrappers replace `step` alone."""
    places = {
        name: [i for i, base in enumerate(kind.__mro__) if name in vars(base)]
        for name in ("step", "reset", "step_env", "reset_env")
    }
    if not places["step_env"] or not places["reset_env"]:
        return False
    outer = min(places["step"] + places["reset"], default=len(kind.__mro__))
    return max(places["step_env"][0], places["reset_env"][0]) <= outer


@dataclasses.dataclass(frozen=True)
class _Made:
    """What a step of the wrapped environment led to. `truncated` is None where it is not said."""

    seen: Any
    state: Any
    reward: Array
    done: Bool[Array, ""]
    truncated: Bool[Array, ""] | None
    success: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class _Target:
    """The environment that is wrapped."""

    env: Any
    params: Any
    inner: bool

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Observation and state of a new episode."""
        made = (self.env.reset_env if self.inner else self.env.reset)(key, self.params)
        if not isinstance(made, tuple) or len(made) != 2:
            raise BadInput(f"{self.name}: reset must return (observation, state)")
        return made

    def step(self, key: PRNGKeyArray, state: Any, action: Int[Array, ""]) -> _Made:
        """What follows an action."""
        step = self.env.step_env if self.inner else self.env.step
        made = step(key, state, action, self.params)
        if not isinstance(made, tuple) or len(made) not in (5, 6):
            raise BadInput(
                f"{self.name}: step must return (observation, state, reward, done, info), or "
                "terminated and truncated in place of done"
            )
        seen, after, reward, done, *told, info = made
        info = info if isinstance(info, Mapping) else {}
        truncated = told[0] if told else self._truncated(after, info)
        if not told and not self.inner and "terminated" in info and truncated is not None:
            done = info["terminated"]
        reward = self._scalar("reward", reward, jnp.float32)
        paid = next((info[name] for name in SUCCESS if name in info), reward > 0)
        return _Made(
            seen if self.inner else next((info[name] for name in LAST if name in info), seen),
            after,
            reward,
            self._scalar("done", done, bool),
            None if truncated is None else self._scalar("truncated", truncated, bool),
            self._scalar("success", paid, bool),
        )

    def _truncated(self, state: Any, info: Mapping[str, Any]) -> Any:
        """Whether the time is over, if the environment says so apart from `done`."""
        if "truncated" in info and "terminated" in info:
            return info["truncated"]
        if self.inner and hasattr(type(self.env), "is_truncated") and hasattr(state, "time"):
            return self.env.is_truncated(state, self.params)
        return None

    def _scalar(self, name: str, value: Any, dtype: Any) -> Array:
        array = jnp.asarray(value)
        if array.shape:
            raise BadInput(f"{self.name}: {name} must be one number, got the shape {array.shape}")
        return jax.lax.convert_element_type(array, dtype)

    @property
    def name(self) -> str:
        return type(self.env).__name__


def _cast(leaf: Any, dtype: Any) -> Array:
    """The array in that type, which its other operands cannot change."""
    array = jnp.asarray(leaf)
    return array if _is_key(dtype) else jax.lax.convert_element_type(array, dtype)


def _is_key(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _zeros(shapes: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _state_types(plan: _Plan, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types that every state can have: a reset may say 0 where a step says 0.5."""
    name = plan.target(arrays).name
    _, start = jax.eval_shape(plan.reset, arrays)
    leaves, structure = jax.tree.flatten(start)
    dtypes: tuple[Any, ...] = ()
    while dtypes != (dtypes := tuple(leaf.dtype for leaf in leaves)):
        now = structure.unflatten(leaves)
        after = jax.eval_shape(functools.partial(_state_after, plan, now), arrays)
        if jax.tree.structure(after) != structure:
            raise BadInput(f"{name}: the state after a step has other parts than after reset")
        leaves = [_common(name, *pair) for pair in zip(leaves, jax.tree.leaves(after), strict=True)]
    return dtypes


def _state_after(plan: _Plan, state: Any, arrays: tuple[Any, ...]) -> Any:
    target = plan.target(arrays)
    return target.step(jax.random.key(0), _zeros(state), jnp.int32(0)).state


def _common(name: str, start: Any, after: Any) -> jax.ShapeDtypeStruct:
    """What an array of the state is after a reset and after a step alike."""
    if start.shape != after.shape:
        raise BadInput(
            f"{name}: an array of the state has the shape {start.shape} after reset and "
            f"{after.shape} after a step"
        )
    types = start.dtype, after.dtype
    dtype = start.dtype if any(map(_is_key, types)) else jnp.promote_types(*types)
    return jax.ShapeDtypeStruct(start.shape, dtype)


class _Mapping:
    """Where each array of an observation goes, by the rules of this module."""

    def __init__(self, seen: Any, discrete: dict[str, int]):
        shapes = {name: leaf for name, leaf in _named(seen)}
        masks = {
            name + end: name
            for name, leaf in shapes.items()
            for end in MASKS
            if len(leaf.shape) == 2 and name + end in shapes
        }
        self.masks = {rows: mask for mask, rows in masks.items()}
        """The mask of each type of Factors."""
        for rows, mask in self.masks.items():
            _check_mask(rows, shapes[rows].shape, mask, shapes[mask].shape)
        rest = {name: leaf for name, leaf in shapes.items() if name not in {*masks, *self.masks}}
        images = [name for name, leaf in rest.items() if _is_image(name, leaf)]
        if len(images) > 1:
            raise BadInput(f"an observation has at most one image, got {' and '.join(images)}")
        self.image = images[0] if images else None
        self.core = [name for name in rest if name not in images]
        self.discrete = {name: n for name, n in discrete.items() if shapes[name].shape == ()}

    def __call__(self, seen: Any) -> Observation:
        arrays = dict(_named(seen))
        core = [self._flat(name, arrays[name]) for name in self.core]
        factors = {
            name: Factors(arrays[name].astype(jnp.float32), arrays[mask].astype(bool))
            for name, mask in sorted(self.masks.items())
        }
        image = None if self.image is None else _picture(arrays[self.image])
        # The Core has at least one number.
        return Observation(jnp.concatenate(core) if core else jnp.ones(1), factors, image)

    def _flat(self, name: str, array: Array) -> Array:
        if name in self.discrete:
            return jax.nn.one_hot(array, self.discrete[name])
        return array.astype(jnp.float32).reshape(-1)


def _named(seen: Any) -> list[tuple[str, Any]]:
    """The arrays of an observation with their names: the keys that lead to them."""
    named = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(seen)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "the observation"
        array = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.asarray(leaf)
        if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
            raise BadInput(f"{name} is of the type {array.dtype}, which is not numbers")
        named.append((name, array))
    return named


def _check_mask(rows: str, shape: Any, mask: str, its: Any) -> None:
    if its != shape[:1]:
        raise BadInput(
            f"{rows} has {shape[0]} rows, so {mask} must have the shape {shape[:1]}, got {its}"
        )


def _is_image(name: str, leaf: Any) -> bool:
    """Whether an array is an image. One of more dimensions is refused if it is not small."""
    dimensions, size = len(leaf.shape), int(np.prod(leaf.shape))
    if dimensions > 3 and size > LARGEST_FLAT:
        raise BadInput(
            f"{name} has the shape {leaf.shape}: an array of more than 3 dimensions is taken up to "
            f"{LARGEST_FLAT:,} numbers; give wrap an observe function that makes an Observation"
        )
    named = dimensions == 3 and name.rpartition(".")[2] == "image"
    return named or (dimensions in (2, 3) and size > LARGEST_FLAT)


def _picture(array: Array) -> Array:
    """The image with a third axis for channels; bytes become numbers from 0 to 1."""
    image = array.astype(jnp.float32) / (255.0 if array.dtype == jnp.uint8 else 1.0)
    return image if image.ndim == 3 else image[..., None]


def _discrete(env: Any, params: Any) -> dict[str, int]:
    """The `Discrete` parts of the observation space by name, and how many values each has."""
    space = getattr(env, "observation_space", None)
    if callable(space):
        space = _ask(space, params)
    found: dict[str, int] = {}

    def visit(space: Any, name: str) -> None:
        parts = getattr(space, "spaces", None)
        if isinstance(parts, Mapping | tuple | list):
            pairs = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
            for key, part in pairs:
                visit(part, f"{name}.{key}".removeprefix("."))
        elif type(space).__name__ == "Discrete":
            found[name or "the observation"] = int(space.n)

    visit(space, "")
    return found


def _ask(space: Callable[..., Any], params: Any) -> Any:
    """A space, from a method with or without parameters; None if there is none."""
    try:
        takes = bool(inspect.signature(space).parameters)
        return space(params) if takes else space()
    except NotImplementedError:
        return None


def _spec_of(seen: Observation) -> ObservationSpec:
    """The spec of observations of these shapes."""
    factors = [(name, *seen.factors[name].values.shape) for name in sorted(seen.factors)]
    image = None if seen.image is None else seen.image.shape
    return ObservationSpec(seen.core.shape[0], tuple(factors), image)


def _count_actions(env: Any, params: Any) -> int:
    """How many actions there are; anything but one choice is refused."""
    space = getattr(env, "action_space", None)
    if callable(space):
        space = _ask(space, params)
    if space is None:
        count = getattr(env, "num_actions", None)
    else:
        count = getattr(space, "n", getattr(space, "num_categories", None))
    if not isinstance(count, int | np.integer):
        what = "no action_space or num_actions" if space is None else f"the action space {space!r}"
        raise BadInput(f"actions must be discrete: {type(env).__name__} has {what}")
    return int(count)
