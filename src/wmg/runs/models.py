"""Finding an agent by what a user calls it: a file, a run folder, or a name."""

import dataclasses
import importlib.resources
import pathlib
import re
from typing import Any

import jax

from wmg import registry
from wmg.agents.baselines.settings import DepthSettings, RandomSettings
from wmg.agents.wmg.agent import WMG, Older, with_slots
from wmg.config import Config
from wmg.play.check import spec_of
from wmg.play.source import HostSource
from wmg.runs import checkpoint, folder_logs, hardware, runfolder
from wmg.settings import EnvSettings
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env

MOST_SLOTS = 65_536
SHIPPED = pathlib.Path(str(importlib.resources.files("wmg.runs") / "shipped"))


def shipped() -> dict[str, pathlib.Path]:
    """The trained models that come with the package, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.safetensors"))}


def find(
    name: str | pathlib.Path, run: int | None = None, own: Env | HostSource | None = None
) -> tuple[Agent, Config]:
    """The agent called `name`, and the config it was trained with (or plays by default). Of a
    folder in which training has not ended it is the best run so far, as it was saved last; if the
    settings do not name its environment, that is `own`."""
    path, name = pathlib.Path(name), str(name)
    baseline = name == "random" or re.fullmatch(r"depth-\d{1,9}", name)
    if path.is_dir() and not baseline:
        return _from_folder(path, run, own)
    if run is not None:
        raise BadInput(f"--run chooses a run of a run folder, and {name} is not one")
    if baseline:
        return _baseline(name)
    if path.is_file() and path.suffix in (".pth", ".pt"):
        raise BadInput(
            f"{path} is PyTorch's: wmg convert {path} MODEL.safetensors makes one of ours"
        )
    if path.is_file():
        return checkpoint.load_model(path)
    if name in shipped():
        return checkpoint.load_model(shipped()[name])
    known = ", ".join([*shipped(), "random", "depth-N"])
    raise BadInput(f"there is no model {name!r}: not a file, not a run folder, and none of {known}")


def _baseline(name: str) -> tuple[Agent, Config]:
    agent = RandomSettings()
    if name != "random":
        agent = DepthSettings(depth=int(name.removeprefix("depth-")))
    settings = Config(agent=agent)
    env = registry.make_env(settings.env)
    return registry.make_agent(settings.agent, env.spec, jax.random.key(0)), settings


def _from_folder(
    path: pathlib.Path, run: int | None, own: Env | HostSource | None
) -> tuple[Agent, Config]:
    settings = runfolder.read_config(path)
    if run is None and (best := runfolder.final_model(path)):
        return checkpoint.load_model(best)
    if run is None:
        run = folder_logs.best_so_far(path, settings.runs)
    if not 0 <= run < settings.runs:
        raise BadInput(f"--run must be from 0 to {settings.runs - 1} in {path}, got {run}")
    mine = dataclasses.replace(settings, hyper=settings.hypers()[run], vary=())
    agent = hardware.take(load_agents(path, settings, own), run)
    checkpoint.require_finite(path / runfolder.STATE, agent)
    return agent, mine


def load_agents(path: pathlib.Path, settings: Config, own: Env | HostSource | None = None) -> Agent:
    """The saved agents of all runs in a folder, along a leading axis."""
    if not (path / runfolder.STATE).exists():
        raise BadInput(f"{path} has no saved state yet")
    env = registry.make_env(settings.env, own, shapes_only=True)
    make = jax.vmap(lambda key: registry.make_agent(settings.agent, env.spec, key))
    like = jax.eval_shape(lambda: make(jax.random.split(jax.random.key(0), settings.runs)))
    return checkpoint.load(path / runfolder.STATE, like, "resume", "agent")[0]


def fit(agent: Agent, settings: Config, env: EnvSettings) -> tuple[Any, Agent]:
    """The environment (an `Env` or a `HostSource`) and a fitting agent. An agent that does not
    learn is rebuilt; a trained one must have been trained on observations of the same shape."""
    made = registry.make_env(env)
    new, spec = settings.agent.for_env(env), spec_of(made)

    def make() -> Agent:
        return registry.make_agent(new, spec, jax.random.key(0))

    if not new.learns:
        return made, make()
    like = jax.eval_shape(make)
    shapes = [[leaf.shape for leaf in jax.tree.leaves(tree)] for tree in (agent, like)]
    if shapes[0] != shapes[1]:
        raise BadInput(f"the model does not fit the observations and actions of {env}")
    return made, agent


def lengthen(agent: Agent, slots: int, oldest_age: int | None, older: Older) -> Agent:
    """An agent with more memory slots than it was trained with."""
    if not isinstance(agent, WMG):
        raise BadInput("only WMG agents have memory slots that can be added to")
    if slots > MOST_SLOTS:
        raise BadInput(f"slots must be at most {MOST_SLOTS:,}, got {slots}")
    try:
        return with_slots(agent, slots, oldest_age=oldest_age, older=older)
    except ValueError as error:
        raise BadInput(str(error)) from None
