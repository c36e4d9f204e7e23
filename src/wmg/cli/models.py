"""Finds the model that a command line names, and says what is special about it."""

import dataclasses
import os
import pathlib
import sys
from typing import Any

from wmg import registry
from wmg.cli.start import option_value, prepare_jax
from wmg.config import Config
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput

MOST_DIGITS = 9
"""Digits of --run; a folder has at most 100,000 runs."""


def find_model(name: str | None, args: list[str]) -> tuple[Any, Config, EnvSettings]:
    """The agent that a user names, its config, and what it plays unless options say otherwise."""
    if not name and not {"-h", "--help"} & set(args):
        raise BadInput("name a model: a file, a run folder, a shipped name, random or depth-N")
    from wmg.runs import models

    prepare_jax(os.cpu_count() or 1)
    agent, settings = models.find(name or "random", pick_run(args))
    remark_on_folder(name or "", pick_run(args))
    assert settings.env is not None  # or there would be no agent
    shown = settings.env if settings.agent.learns else named_env(args)
    return agent, settings, shown.held_out()


def pick_run(args: list[str]) -> int | None:
    """The value of --run."""
    text = option_value(args, "--run")
    if text is not None and not text.isdecimal():
        raise BadInput(f"--run must be a whole number, got {text!r}")
    if text is not None and len(text) > MOST_DIGITS:
        raise BadInput(f"--run must have at most {MOST_DIGITS} digits, got {len(text):,}")
    return None if text is None else int(text)


def named_env(args: list[str]) -> EnvSettings:
    """The first environment that has all settings which options name: a baseline plays any."""
    options = {arg.partition("=")[0] for arg in args if arg.startswith("--env.")}
    options = {option.removeprefix("--env.").replace("-", "_") for option in options}
    kinds = [registry.settings_class(EnvSettings, name) for name in registry.ENVS]
    fits = [k for k in kinds if options <= {field.name for field in dataclasses.fields(k)}]
    return (fits or [PathfindingSettings])[0]()


def kind(env: Any) -> str:
    """Which environment the settings are about, whatever their numbers."""
    if isinstance(env, OutsideEnvSettings):
        return env.label
    return type(env).__name__.removesuffix("Settings")


def remark_on_folder(name: str, run: int | None = None) -> None:
    """Say which weights of a folder are used if training has not ended in it."""
    from wmg.runs import folder_logs, runfolder

    path = pathlib.Path(name)
    if not (path / runfolder.CONFIG).is_file() or runfolder.final_model(path):
        return
    of, runs = "", runfolder.read_config(path).runs
    if run is None and runs > 1:
        of = f" of run {folder_logs.best_so_far(path, runs)}, the best so far"
    print(f"training in {name} has not ended: its last saved weights{of}", file=sys.stderr)
