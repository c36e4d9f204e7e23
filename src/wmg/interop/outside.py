"""Environments and agents from outside of the package, made from whatever a user gives.

An environment may be one of ours (a class or an object that derives from `wmg.Env`), one of
Gymnasium's (an ID, a class, a function, an object), or one with gymnax's interface. It becomes an
`Env`, which is compiled with the agent, or a `HostSource`, which makes copies that run in Python.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax

from wmg import registry
from wmg.play.check import spec_of
from wmg.play.host import Host, HostEnvs, Lockstep
from wmg.play.own_code import run_own
from wmg.play.source import HostSource
from wmg.play.vectorised import Vectorised
from wmg.tools.errors import BadInput, quote
from wmg.types import Env, EnvSpec, Learner, ObservationSpec

GYM = "gym:"


def open_env(
    *, path: str, roles: tuple[str, ...] = (), flattened: bool = False, vector: str = "none"
) -> Env | HostSource:
    """The environment at an import path or, after `gym:`, of a Gymnasium ID."""
    if not path.startswith(GYM):
        if vector != "none":
            raise BadInput(f"vector = {vector} is for environments named {GYM}ID, not {path}")
        return adapt(registry.load(path, "env"), path, roles=roles, flattened=flattened)
    name = path.removeprefix(GYM)
    together = None if vector == "none" else functools.partial(make_vector, name, vector)
    drawn = functools.partial(make_by_id, name, render_mode="rgb_array")
    one = functools.partial(make_by_id, name)
    return from_gymnasium(
        one, path, roles=roles, flattened=flattened, together=together, with_pictures=drawn
    )


def adapt(
    thing: Any, label: str, *, roles: tuple[str, ...] = (), flattened: bool = False
) -> Env | HostSource:
    """An environment, made from an object, a class, or a function that makes one."""
    if isinstance(thing, Env | HostSource):
        for name, given in (("roles", roles), ("flattened", flattened)):
            if given:
                state = "is compiled" if isinstance(thing, Env) else "has its own mapping"
                raise BadInput(f"{name}: only for Gymnasium's spaces, and {label} {state}")
        spec_of(thing)
        return thing
    if is_gymnax(thing):
        from wmg.interop.gymnax import wrap

        made = wrap(*thing) if isinstance(thing, tuple) else wrap(thing)
        return adapt(made, label, roles=roles, flattened=flattened)
    if is_gymnasium(thing):
        return from_gymnasium(copies_of(thing), label, roles=roles, flattened=flattened)
    if callable(thing):
        made = call(thing, label)
        if is_gymnasium(made):
            return from_gymnasium(thing, label, roles=roles, flattened=flattened)
        if not callable(made):
            return adapt(made, label, roles=roles, flattened=flattened)
    raise BadInput(
        f"{label} must be an environment: one that derives from wmg.Env or gymnasium.Env, or has "
        f"gymnax's interface, or a class or function that makes one; it is {quote(thing)}"
    )


def call(make: Callable[[], Any], label: str) -> Any:
    """What a user's class or function makes. Its own error is shown whole."""
    return run_own(f"the maker of {label}", make)


def is_gymnasium(thing: Any) -> bool:
    """Whether it is an object with Gymnasium's interface."""
    names = ("reset", "step", "observation_space", "action_space")
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in names)


def is_gymnax(thing: Any) -> bool:
    """Whether it is an object with gymnax's interface, or a pair of one and its parameters, as
    `gymnax.make` returns it."""
    if isinstance(thing, tuple) and len(thing) == 2:
        return is_gymnax(thing[0])
    names = ("reset", "step", "default_params")
    return not isinstance(thing, type) and all(hasattr(thing, name) for name in names)


def make_by_id(name: str, **options: Any) -> Any:
    """The environment that Gymnasium makes by that ID."""
    try:
        import gymnasium
    except ImportError as error:
        raise BadInput(f"{GYM}{name} needs gymnasium: pip install 'wmg[gym]'") from error
    import_plugins(name)
    try:
        return gymnasium.make(name, disable_env_checker=True, **options)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise BadInput(f"Gymnasium cannot make {quote(name)}: {why}") from None


def make_vector(name: str, mode: str, count: int) -> Any:
    """That many environments of an ID in one `VectorEnv`."""
    import gymnasium

    if mode != "async":
        return gymnasium.make_vec(name, count, vectorization_mode=mode)
    # Processes that are forked from one that has used JAX may hang.
    return gymnasium.make_vec(
        name, count, vectorization_mode=mode, vector_kwargs={"context": "spawn"}
    )


def import_plugins(name: str) -> None:
    """Import the package whose environments have names like this, if it is installed."""
    import importlib
    import importlib.util

    for start, module in PLUGINS.items():
        if name.startswith(start) and importlib.util.find_spec(module):
            importlib.import_module(module)


def from_gymnasium(
    make: Callable[[], Any],
    label: str,
    *,
    roles: tuple[str, ...] = (),
    flattened: bool = False,
    together: Callable[[int], Any] | None = None,
    with_pictures: Callable[[], Any] | None = None,
) -> HostSource:
    """What makes copies of a Gymnasium environment, with its spaces mapped. `together` makes a
    `gymnasium.vector.VectorEnv` of some; by default each copy is called by itself."""
    from wmg.interop.roles import parse_roles
    from wmg.interop.spaces import map_spaces

    first = call(make, label)
    both = first.observation_space, first.action_space
    mapping = map_spaces(*both, roles=parse_roles(roles), flattened=flattened)
    spec = EnvSpec(mapping.observation, mapping.actions, longest_episode(first), "return")
    made = [first]

    def copies(count: int) -> HostEnvs:
        if together is not None:
            return Vectorised(together(count), mapping, spec)
        envs = [made.pop() if made else call(make, label) for _ in range(count)]
        return Lockstep([Host(env, mapping.observe, spec, mapping.to_action) for env in envs])

    pictures = functools.partial(call, with_pictures or make, label)
    return HostSource(label, spec, copies, mapping, pictures)


def longest_episode(env: Any) -> int:
    """The limit of steps of a Gymnasium environment, or a large number if it tells none."""
    told = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    inner = getattr(env, "unwrapped", env)
    if any(kind.__module__.startswith("minigrid.") for kind in type(inner).__mro__):
        told.append(inner.max_steps)  # elsewhere, this may mean anything
    known = [int(limit) for limit in told if isinstance(limit, int) and limit > 0]
    return min(known, default=UNLIMITED)


UNLIMITED = 1_000_000
"""The step limit of an environment that does not name one."""
PLUGINS = {
    "MiniGrid-": "minigrid",
    "BabyAI-": "minigrid",
    "popgym-": "popgym",
    "highway-": "highway_env",
}
"""Packages that Gymnasium knows only once they are imported, by how their IDs begin."""


def copies_of(env: Any) -> Callable[[], Any]:
    """A function that makes copies of a Gymnasium environment. The first is the environment."""
    left = [env]

    def make() -> Any:
        try:
            return left.pop() if left else copy.deepcopy(env)
        except Exception as error:
            raise BadInput(
                f"{env} cannot be copied, and several are needed: give its class, or a function "
                f"that makes one ({error})"
            ) from None

    return make


def make_agent(observation: ObservationSpec, actions: int, *, path: str, key: jax.Array) -> Learner:
    """The agent of the class at an import path, for these observations and actions."""
    kind = registry.load(path, "agent")
    made = run_own(path, lambda: kind(observation, actions, key=key))
    if not isinstance(made, Learner):
        raise BadInput(f"{path} must make a wmg.Learner, and made {quote(type(made).__name__)}")
    return made
