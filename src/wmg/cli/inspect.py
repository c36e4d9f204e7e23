"""`wmg inspect`: what an agent sees of an environment, and what it can do."""

import dataclasses
import json as jsonlib
import pathlib
from typing import Any

from wmg import paper, registry
from wmg.cli.options import parse
from wmg.cli.start import names_env, split_name
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput


@dataclasses.dataclass(frozen=True)
class InspectOptions:
    """Show what an agent sees of an environment: the Core, the Factors, the image, the actions.
    ENV is gym:ID for a Gymnasium environment, module:NAME for one of your own, a name such as
    pathfinding, a preset, or a run folder or model file, for the environment of its agent."""

    roles: tuple[str, ...] = ()
    """What parts of a Gymnasium observation become: KEY=ROLE, for example mission=ignore
    "vehicles=factors presence=0". A role is core, factors, grid, image or ignore."""
    flattened: bool = False
    """Show the Factors of a Gymnasium observation in the Core, for agents that take no Factors."""
    json: bool = False
    """Print as JSON."""


def run(args: list[str]) -> int:
    """`wmg inspect ENV`"""
    name, args = split_name(args)
    options = parse(InspectOptions, args, "wmg inspect ENV")
    if name is None:
        raise BadInput(
            "name an environment: gym:ID, module:NAME, a name like pathfinding, or a preset"
        )
    found = inspect(name, options.roles, options.flattened)
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


def inspect(name: str, roles: tuple[str, ...], flattened: bool) -> dict[str, Any]:
    """What there is to say of an environment, as JSON has it, and the table of its mapping."""
    from wmg.interop.outside import UNLIMITED
    from wmg.play.check import spec_of
    from wmg.play.source import HostSource

    env = registry.make_env(find_settings(name, roles, flattened), shapes_only=True)
    spec = spec_of(env)
    parts, table = [], ""
    if isinstance(env, HostSource):
        from wmg.interop.spaces import SpaceMapping  # needs gymnasium

        assert isinstance(env.mapping, SpaceMapping)
        parts = [dataclasses.asdict(part) for part in env.mapping.parts]
        table = env.mapping.describe()
    seen, steps = spec.observation, spec.max_steps
    factors = [dict(zip(("name", "most", "size"), row, strict=True)) for row in seen.factors]
    return {
        "env": name,
        "observation": {"core": seen.core, "factors": factors, "image": seen.image},
        "actions": spec.actions,
        "max_steps": None if steps == UNLIMITED else steps,
        "parts": parts,
        "table": table,
    }


def find_settings(name: str, roles: tuple[str, ...], flattened: bool) -> EnvSettings | None:
    """The settings of an environment, by the name of an environment, preset, `Config` or model."""
    if name not in registry.ENVS and pathlib.Path(name).exists():
        found = played_by(pathlib.Path(name))
        if isinstance(found, OutsideEnvSettings):
            shown = flattened or found.flattened
            return dataclasses.replace(found, roles=roles or found.roles, flattened=shown)
        if not (roles or flattened):
            return found
    elif names_env(name):
        return OutsideEnvSettings(name, roles, flattened)
    if roles or flattened:
        raise BadInput(
            f"--roles and --flattened are for Gymnasium's environments, and {name} names none"
        )
    if name in registry.ENVS:
        return registry.settings_class(EnvSettings, name)()
    return paper.named_config(name).env


def played_by(path: pathlib.Path) -> EnvSettings | None:
    """The environment of the agent in a run folder or model file."""
    from wmg.runs import checkpoint, runfolder

    settings = runfolder.read_config(path) if path.is_dir() else checkpoint.read_about(path)[0]
    return settings.env
