"""`wmg inspect`: what an agent sees of an environment, and what it can do."""

import contextlib
import dataclasses
import importlib
import json as jsonlib
from typing import Any

from wmg import paper, registry
from wmg.cli.options import parse
from wmg.cli.start import split_name
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput, quote

GYMNASIUM = "gym:"
"""What stands before the id of a Gymnasium environment."""
OF_MINIGRID = ("MiniGrid-", "BabyAI-")
"""How the ids of minigrid's environments begin."""


@dataclasses.dataclass(frozen=True)
class InspectOptions:
    """Show what an agent sees of an environment: the Core, the Factors, the image, the actions.
    ENV is gym:ID for a Gymnasium environment, a name such as pathfinding, or a preset."""

    roles: tuple[str, ...] = ()
    """What parts of a Gymnasium observation become: KEY=ROLE, for example mission=ignore
    "vehicles=factors presence=0". A role is core, factors, grid, image or ignore."""
    json: bool = False
    """Print as JSON."""


def run(args: list[str]) -> int:
    """`wmg inspect ENV`"""
    name, args = split_name(args)
    options = parse(InspectOptions, args, "wmg inspect ENV")
    if name is None:
        raise BadInput("name an environment: gym:ID, a name such as pathfinding, or a preset")
    found = inspect(name, options.roles)
    if options.json:
        del found["table"]
        print(jsonlib.dumps(found, indent=2))
        return 0
    if found["table"]:
        print(f"{found['table']}\n")
    seen = found["observation"]
    print(f"Core     {seen['core']} numbers")
    for row in seen["factors"]:
        print(f"Factors  {row['name']}: at most {row['most']}, {row['size']} numbers each")
    if seen["image"]:
        print(f"image    {'x'.join(map(str, seen['image']))}")
    print(f"actions  {found['actions']}")
    if found["max_steps"]:
        print(f"steps    at most {found['max_steps']} in an episode")
    return 0


def inspect(name: str, roles: tuple[str, ...]) -> dict[str, Any]:
    """What there is to say of an environment, as JSON has it, and the table of its mapping."""
    from wmg.types import Env

    env = open_env(name)
    if isinstance(env, Env):
        if roles:
            raise BadInput(f"--roles are for Gymnasium's observations, and {name} has none")
        spec, steps, parts, table = env.spec, env.spec.max_steps, [], ""
    else:
        from wmg.interop.roles import parse_roles
        from wmg.interop.spaces import map_spaces

        spec = map_spaces(env.observation_space, env.action_space, roles=parse_roles(roles))
        steps = env.spec and env.spec.max_episode_steps
        parts, table = [dataclasses.asdict(part) for part in spec.parts], spec.describe()
        env.close()
    factors = [
        dict(zip(("name", "most", "size"), row, strict=True)) for row in spec.observation.factors
    ]
    seen = {"core": spec.observation.core, "factors": factors, "image": spec.observation.image}
    return {
        "env": name,
        "observation": seen,
        "actions": spec.actions,
        "max_steps": steps,
        "parts": parts,
        "table": table,
    }


def open_env(name: str) -> Any:
    """The environment: a `gymnasium.Env` for gym:ID, otherwise a `wmg.types.Env`."""
    if name.startswith(GYMNASIUM):
        return _make_gymnasium(name.removeprefix(GYMNASIUM))
    if name in registry.ENVS:
        settings = registry.settings_class(EnvSettings, name)()
    else:
        settings = paper.find_config(name).env
    return registry.make_env(settings, shapes_only=True)


def _make_gymnasium(name: str) -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise BadInput(f"gym:{name} needs gymnasium: pip install 'wmg[gym]'") from error
    if name.startswith(OF_MINIGRID):
        with contextlib.suppress(ImportError):
            importlib.import_module("minigrid")  # registers them
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise BadInput(f"gymnasium cannot make {quote(name)}: {why}") from None
