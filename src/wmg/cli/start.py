"""What commands do before they begin: read the first words of their line, and set up jax."""

import contextlib
import importlib.util
import os
import pathlib
import sys

from wmg.cli.options import whole
from wmg.config import Config
from wmg.paper import named_config
from wmg.registry import load
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput


def split_name(args: list[str]) -> tuple[str | None, list[str]]:
    """The leading positional argument, if there is one, and the rest."""
    if args and not args[0].startswith("-"):
        return args[0], args[1:]
    return None, args


def split_names(args: list[str]) -> tuple[list[str], list[str]]:
    """All leading positional arguments, and the rest."""
    first = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    return args[:first], args[first:]


def find_config(name: str, steps: int | None = None) -> Config:
    """A preset, the `Config` at an import path, or the defaults for an environment: gym:ID or an
    import path. Defaults depend on the steps to train for."""
    if not names_env(name, "a preset"):
        return named_config(name)
    from wmg.api import training
    from wmg.api.defaults import STEPS

    return training.experiment(None, name, None, steps=steps or STEPS)[0]


def names_env(name: str, what: str = "env") -> bool:
    """Whether it is gym:ID, or the import path of anything but a `Config`. The path's errors say
    `what` was looked for."""
    if name.startswith("gym:"):
        return True
    return ":" in name and not isinstance(load(name, what), Config)


def asked_steps(args: list[str]) -> int | None:
    """The value of --steps if it is valid. Others are refused later, with all options."""
    with contextlib.suppress(BadInput, ValueError):
        steps = whole(option_value(args, "--steps") or "")
        return steps if 0 < steps <= 2_000_000_000 else None
    return None


def option_value(args: list[str], flag: str) -> str | None:
    """The value of an option that decides what is loaded before the others are read."""
    for index, arg in enumerate(args):
        if arg.startswith(f"{flag}="):
            return arg.removeprefix(f"{flag}=")
        if arg == flag:
            return next(iter(args[index + 1 :]), None)
    return None


def take_option(args: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of an option that is given at most once, and the other arguments."""
    at = [i for i, arg in enumerate(args) if arg == flag or arg.startswith(f"{flag}=")]
    if not at:
        return None, args
    if len(at) > 1:
        raise BadInput(f"{flag} is given twice")
    first = at[0]
    width = 2 if args[first] == flag else 1
    value = option_value(args, flag)
    if not value:
        raise BadInput(f"{flag} needs a value")
    return value, args[:first] + args[first + width :]


def require_new(path: pathlib.Path | None) -> None:
    """Refuse to write where something is already."""
    if path is not None and os.path.lexists(path):
        raise BadInput(f"{path} already exists")


def remark_on(env: EnvSettings | None) -> None:
    """Say what a user should know before this environment is played."""
    if env is not None and (remark := env.remark()):
        print(remark, file=sys.stderr)


LARGE = 800_000
"""Parameters of a network for whose products a second thread pays."""


def threads_for(settings: Config) -> int:
    """The best number of threads for training on a CPU: one for each run, but two for a single run
    of a large network or of many environments. A small network is a tenth slower with two."""
    from wmg.runs import checkpoint
    from wmg.types import count_parameters

    parameters = count_parameters(checkpoint.shape_of(settings))
    large = settings.rule == "ppo" or parameters >= LARGE
    return max(settings.runs, 2 if large else 1)


def prepare_jax(threads: int = 1) -> None:
    """Keep compiled programs on disk, so that the second start is quick. On a CPU, XLA gets at most
    this many threads, and no more than there are cores."""
    import jax

    from wmg.tools import files, machine

    # These threads compile an accelerator's programs: one thread takes five times as long.
    if importlib.util.find_spec("jax_plugins") is None:
        os.environ.setdefault("PJRT_NPROC", str(min(threads, machine.cores())))
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(files.cache_folder() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
