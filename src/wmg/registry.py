"""The environments and agents by name: where their settings and constructors are.

The package's own are import paths that are loaded at their first use, so that nothing here imports
jax. `register_env` and `register_agent` add yours.
"""

import dataclasses
import importlib
import pathlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wmg.settings import AgentSettings, EnvSettings
from wmg.tools.errors import BadInput

if TYPE_CHECKING:
    import jax

    from wmg.types import Agent, Env, EnvSpec

NOT_NAMED = "the settings do not name the environment, an object: give it again, as env=..."
IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of environment or agent. Both parts may be import paths, `module:name`."""

    settings: type | str
    constructor: Callable[..., Any] | str


def _of_package(folder: str, settings: str, constructor: str) -> Kind:
    module = "env" if folder.startswith("envs.") else "agent"
    return Kind(f"wmg.{folder}.settings:{settings}", f"wmg.{folder}.{module}:{constructor}")


ENVS = {
    "pathfinding": _of_package("envs.pathfinding", "PathfindingSettings", "Pathfinding"),
    "babyai": _of_package("envs.babyai", "BabyAISettings", "BabyAI"),
    "sokoban": _of_package("envs.sokoban", "SokobanSettings", "Sokoban.create"),
    "outside": Kind("wmg.envs.outside.settings:OutsideEnvSettings", "wmg.interop.outside:open_env"),
}
AGENTS = {
    "wmg": Kind("wmg.agents.wmg.settings:WMGSettings", "wmg.agents.wmg.make:make"),
    "gru": _of_package("agents.gru", "GRUSettings", "GRU"),
    "cnn-gru": _of_package("agents.cnn_gru", "CNNGRUSettings", "CNNGRU"),
    "lstm": _of_package("agents.lstm", "LSTMSettings", "LSTM"),
    "gtrxl": _of_package("agents.gtrxl", "GTrXLSettings", "GTrXL"),
    "drc": _of_package("agents.drc", "DRCSettings", "DRC"),
    "film": _of_package("agents.film", "FiLMSettings", "FiLM"),
    "depth": _of_package("agents.baselines", "DepthSettings", "Depth"),
    "random": _of_package("agents.baselines", "RandomSettings", "Random"),
    "outside": Kind(
        "wmg.agents.outside.settings:OutsideAgentSettings", "wmg.interop.outside:make_agent"
    ),
}
OWN = {"env": frozenset(ENVS), "agent": frozenset(AGENTS)}
"""The names of the package's own kinds, which others cannot take."""


def register_env(settings: type[EnvSettings], constructor: "Callable[..., Env]") -> None:
    """Make an environment known by the name of its settings.

    `settings` is a frozen dataclass that derives from `EnvSettings`; `constructor` takes its fields
    as keyword arguments. A run folder remembers the module of `settings`. Loading the run
    imports that module, which registers the environment again.
    """
    _register("env", ENVS, EnvSettings, settings, constructor)


def register_agent(settings: type[AgentSettings], constructor: "Callable[..., Agent]") -> None:
    """Make an agent known by the name of its settings.

    `settings` is a frozen dataclass that derives from `AgentSettings`; `constructor` takes an
    `ObservationSpec`, the number of actions, and as keyword arguments its fields and a `key`.
    """
    _register("agent", AGENTS, AgentSettings, settings, constructor)


def _register(
    what: str, known: dict[str, Kind], base: type, settings: Any, constructor: Callable[..., Any]
) -> None:
    fits = isinstance(settings, type) and issubclass(settings, base)
    if not fits or "__dataclass_fields__" not in vars(settings):  # not those of its base
        raise BadInput(f"the settings of an {what} must be a dataclass of {base.__name__}")
    for word in ("name", "title") if what == "env" else ("name",):
        if not isinstance(given := getattr(settings, word, None), str) or not given:
            raise BadInput(f"{settings.__name__} must have a {word}")
    name = settings.name
    if name in OWN[what]:
        raise BadInput(f"wmg has an {what} called {name!r}: choose another name")
    known[name] = Kind(settings, constructor)


def settings_class(base: type, name: Any, path: Any = None, where: str = "config") -> type:
    """The settings class of the environment or agent called `name`. If it is not registered,
    the module of the import path `path` is imported, which should register it."""
    known = ENVS if base is EnvSettings else AGENTS
    is_name = isinstance(name, str)
    if is_name and name not in known and isinstance(path, str):
        load(path, f"{where} {name!r}")
        if name not in known:
            raise BadInput(f"{where} {name!r} is not registered by the module of {path}")
    if not is_name or name not in known:
        raise BadInput(f"{where} must be one of {', '.join(sorted(known))}, got {name!r}")
    found = known[name].settings
    return load(found, name) if isinstance(found, str) else found


def import_path(settings: EnvSettings | AgentSettings) -> str | None:
    """The import path of settings that are not the package's own, else None."""
    path = path_of(type(settings))
    return None if path.startswith("wmg.") else path


def path_of(thing: Any) -> str:
    """The import path of a class or function."""
    module = thing.__module__
    if module == "__main__":  # a script, whose name others import it by
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else pathlib.Path(file).stem if file else module
    return f"{module}:{thing.__qualname__}"


GIVEN: dict[str, Any] = {}
"""Classes and functions that were given to this process, by their import paths."""


def remember(thing: Any) -> str:
    """The import path of a class or function. In this process it need not be importable: one
    that is defined in a script, a notebook or another function is found as well."""
    for path, given in GIVEN.items():
        if given is thing:
            return path
    path = path_of(thing)
    if "<" in path and path in GIVEN:  # lambdas and local functions may share a name
        path += f"#{len(GIVEN)}"
    GIVEN[path] = thing
    return path


def load(path: str, what: str) -> Any:
    """The object at an import path, `module:name`."""
    if path in GIVEN:
        return GIVEN[path]
    if not IMPORT_PATH.fullmatch(path):
        raise BadInput(f"{what} must be an import path, module:name, got {path!r}")
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        why = f"which cannot be imported: {error}"
        raise BadInput(f"{what} needs the module {module}, {why}") from error
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise BadInput(f"{what} needs {name}, which the module {module} does not have") from None
    return found


def _construct(known: dict[str, Kind], settings: Any, *args: Any, **changes: Any) -> Any:
    constructor = known[settings.name].constructor
    if isinstance(constructor, str):
        constructor = load(constructor, settings.name)
    fields = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    try:
        return constructor(*args, **{**fields, **changes})
    except ValueError as error:
        raise BadInput(str(error)) from None


def make_env(settings: EnvSettings | None, own: Any = None, *, shapes_only: bool = False) -> Any:
    """The environment that the settings describe, or the user's own where they are None: an `Env`
    or, on the host, a `HostSource`.

    With `shapes_only`, say to build an agent, its data set need not be there.
    """
    if settings is None and own is None:
        raise BadInput(NOT_NAMED)
    if settings is not None and own is not None:
        raise BadInput("the settings name an environment, and env is another: leave one out")
    if settings is None:
        return own
    missing = {settings.data: None} if shapes_only and settings.data else {}
    return _construct(ENVS, settings, **missing)


def maker_of(settings: AgentSettings) -> Any:
    """What makes such an agent now: a class or function may be defined again under its name."""
    return GIVEN.get(getattr(settings, "path", "")) or AGENTS[settings.name].constructor


def make_agent(settings: AgentSettings, spec: "EnvSpec", key: "jax.Array") -> "Agent":
    """A new agent as the settings describe it, for environments of that spec."""
    return _construct(AGENTS, settings, spec.observation, spec.actions, key=key)
