"""`wmg.load` and `wmg.evaluate`: trained agents."""

import pathlib
from collections.abc import Callable
from typing import Any

from wmg import registry
from wmg.api.training import find_env
from wmg.config import Config
from wmg.runs import checkpoint, models, runfolder
from wmg.runs.model import Evaluation, Model
from wmg.runs.result import Result
from wmg.tools.errors import BadInput


def load(name: pathlib.Path | str, *, run: int | None = None, env: Any = None) -> Model:
    """A trained agent: a model file, a run folder, or a name that `wmg list` shows.

    Of a run folder it is the best run, or the `run` of that number. If training has not ended in
    it, that is the best run so far, as it was saved last. An environment that was given to
    `wmg.train` as an object must be given again, as `env`.
    """
    named, own = find_env(env)
    own = own or (named and registry.make_env(named))
    if own is not None and pathlib.Path(name).is_dir():
        _require_no_name(name, runfolder.read_config(pathlib.Path(name)))
    agent, settings = models.find(name, run, own)
    if own is not None:
        _require_no_name(name, settings)
    spec = None
    for path in (pathlib.Path(name), pathlib.Path(name) / runfolder.BEST):
        if path.is_file():
            spec = checkpoint.read_about(path)[1]
    if spec is None:
        spec = registry.make_env(settings.env, own, shapes_only=True).spec
    return Model(agent, settings, spec, own)


def _require_no_name(name: pathlib.Path | str, settings: Config) -> None:
    """Refuse another environment for a model that names its own."""
    if settings.env is not None:
        raise BadInput(f"{name} names its environment: leave env out, or give it to wmg.evaluate")


def evaluate(
    model: Model | Result | pathlib.Path | str,
    episodes: int = 1000,
    *,
    env: Any = None,
    seed: int = 1,
    greedy: bool = False,
    thinking: int = 0,
    show: Callable[[str, int, int], None] | None = None,
) -> Evaluation:
    """How well an agent plays fresh episodes, of its own environment or of another one.

    **Arguments:**

    - `model`: what `wmg.load` or `wmg.train` returned, or a name for `wmg.load`.
    - `episodes`: how many.
    - `env`: another environment to play in, named as for `wmg.train`. Its observations must
      have the same shapes.
    - `seed`: which episodes; the same seed gives the same episodes to every agent.
    - `greedy`: take the most likely action instead of sampling.
    - `thinking`: how many more steps the agent sees the first observation, and updates its memory,
      before an episode begins.
    - `show`: is told what is done, how much of it, and of how much.
    """
    if not isinstance(model, Model | Result):
        model = load(model)
    found = model.model if isinstance(model, Result) else model
    if env is not None:
        named, own = find_env(env)
        found = found.on(named, own)
    return found.evaluate(episodes, seed=seed, greedy=greedy, thinking=thinking, show=show)
