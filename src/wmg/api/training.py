"""`wmg.train`: train a preset, a config, or an agent on any environment."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from wmg import paper, registry
from wmg.agents.outside.settings import OutsideAgentSettings
from wmg.api.defaults import STEPS, config_for
from wmg.config import Batched, Config, Goal, Hyper
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.interop import outside
from wmg.play.check import check_shapes
from wmg.play.source import HostSource
from wmg.runs import progress, runfolder
from wmg.runs import train as trainer
from wmg.runs.result import Progress, Result
from wmg.settings import AgentSettings, EnvSettings, require
from wmg.tools.errors import BadInput, quote
from wmg.types import Env, Learner


def train(
    preset: str | Config | None = None,
    folder: pathlib.Path | str | None = None,
    *,
    env: Any = None,
    agent: Any = None,
    resume: bool = False,
    branch_from: pathlib.Path | str | None = None,
    show: bool | Callable[[Progress], None] | None = None,
    **changes: Any,
) -> Result:
    """Train one or more runs, in memory or in a run folder, and return what came of it.

    **Arguments:**

    - `preset`: a name that `wmg list` shows, the import path of a `Config`, or a `Config`. Without
      one, defaults are chosen for the environment.
    - `folder`: a new folder for logs and checkpoints. Without one, nothing is written.
    - `env`: the environment: a name (`"pathfinding"`), settings, a Gymnasium ID (`"gym:ID"`), an
      import path (`"module:NAME"`), or an environment, class or function of your own.
    - `agent`: the agent: a name (`"gru"`), settings, the import path of a class, or a class that
      derives from `wmg.Learner`; or a dictionary with the settings to change (`{"slots": 32}`).
    - `resume`: go on with the folder from its last checkpoint.
    - `branch_from`: start a new folder from the state of another one, with changed numbers.
    - `show`: whether progress is shown (by default on a terminal), or a function that is given a
      `Progress` after each report.
    - `changes`: fields of `Config` (`steps`, `runs`, `seed`, ...). `hyper`, `batched`
      and `goal` may be dictionaries with the fields to change.

    Ctrl-C saves what there is, if there is a folder, and raises `KeyboardInterrupt`.
    """
    steps = changes.get("steps", STEPS)
    require(type(steps) is int and steps > 0, "steps", steps, "a positive whole number")
    if resume and folder is None:
        raise BadInput("resume goes on with a run folder: give it as folder")
    older = folder if resume else branch_from
    settings, own = experiment(preset, env, agent, older, steps)
    settings = changed(settings, changes)
    with display_for(show) as display:
        result = trainer.train(
            settings,
            folder,
            env=own,
            resume=resume,
            branch_from=branch_from,
            start=display.start,
            show=display.show,
        )
    if result.stopped and not result.finished:
        raise KeyboardInterrupt
    return result


def display_for(
    show: bool | Callable[[Progress], None] | None,
) -> contextlib.AbstractContextManager[progress.Display]:
    """A display if it is wanted, by default on a terminal; or the user's own function."""
    if show is True or (show is None and sys.stderr.isatty()):
        return progress.display()
    own = show if callable(show) else lambda report: None
    return contextlib.nullcontext(progress.Display(lambda: None, own))


def experiment(
    preset: str | Config | None,
    env: Any,
    agent: Any,
    folder: pathlib.Path | str | None = None,
    steps: int = STEPS,
) -> tuple[Config, Env | HostSource | None]:
    """The settings, and the environment if they do not name it."""
    fits = isinstance(preset, str | Config | None)
    require(fits, "preset", preset, "a name that wmg.presets() lists, or a wmg.Config")
    named, own = find_env(env)
    if preset is not None:
        settings = preset if isinstance(preset, Config) else paper.named_config(preset)
    elif folder is not None:
        settings = runfolder.read_config(pathlib.Path(folder))
    elif env is None:
        raise BadInput(
            "name a preset (wmg.presets() lists them) or give an environment, as env=..."
        )
    else:
        found = own or registry.make_env(named)
        if isinstance(found, Env):
            check_shapes(found)  # the defaults depend on rewards
        settings = config_for(found, named, steps)
    if env is not None:
        settings = dataclasses.replace(settings, env=named)
    if agent is not None:
        given = agent if isinstance(agent, dict) else find_agent(agent)
        settings = changed(settings, {"agent": given})
    return settings, own


def find_env(given: Any) -> tuple[EnvSettings | None, Env | HostSource | None]:
    """An environment as settings; or as an object, which settings cannot name."""
    if given is None or isinstance(given, EnvSettings):
        return given, None
    if isinstance(given, str) and ":" in given:
        return OutsideEnvSettings(given), None
    if isinstance(given, str):
        return registry.settings_class(EnvSettings, given, where="env")(), None
    if callable(given) and hasattr(given, "__qualname__"):
        return OutsideEnvSettings(registry.remember(given)), None
    return None, outside.adapt(given, type(given).__name__)


def find_agent(given: Any) -> AgentSettings:
    """An agent as settings."""
    if isinstance(given, AgentSettings):
        return given
    if isinstance(given, str) and ":" in given:
        return OutsideAgentSettings(given)
    if isinstance(given, str):
        return registry.settings_class(AgentSettings, given, where="agent")()
    if isinstance(given, Learner):
        raise BadInput(
            f"agent must be a class, which is made for the environment: give "
            f"{type(given).__name__}, not an object of it"
        )
    if callable(given) and hasattr(given, "__qualname__"):
        return OutsideAgentSettings(registry.remember(given))
    raise BadInput(f"agent must be a name, settings or a class, got {quote(given)}")


def changed(settings: Config, changes: dict[str, Any]) -> Config:
    """The settings with some fields changed; fields of a field may be given as a dictionary."""
    known = [field.name for field in dataclasses.fields(Config)]
    for name, value in changes.items():
        if name not in known:
            raise BadInput(f"train has no setting {quote(name)}; it has {', '.join(known)}")
        inner = getattr(settings, name)
        if name == "goal" and inner is None:
            inner = Goal()
        if isinstance(value, dict) and isinstance(inner, Hyper | Batched | Goal | AgentSettings):
            fields = [field.name for field in dataclasses.fields(inner)]
            if odd := sorted(set(value) - set(fields)):
                raise BadInput(f"{name} has no setting {odd[0]!r}; it has {', '.join(fields)}")
            changes = {**changes, name: dataclasses.replace(inner, **value)}
    return dataclasses.replace(settings, **changes)
