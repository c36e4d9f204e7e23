"""`wmg convert`: models in our form and in the authors'."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from wmg import registry
from wmg.cli.models import remark_on_folder
from wmg.cli.options import parse
from wmg.cli.start import split_name
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.tools import files
from wmg.tools.errors import BadInput

if TYPE_CHECKING:
    from wmg.runs.model import Model


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """Convert a model: .pth to .safetensors, .safetensors to .pth, or a run folder to either. Of a
    folder in which training has not ended it is the model as it was saved last."""

    settings: pathlib.Path | None = None
    """The authors' settings file that belongs to the .pth file: read with it, or written."""
    heads: int | None = None
    """Attention heads of a .pth file without settings, which shapes do not tell (the released
    Pathfinding models have 6)."""
    run: int | None = None
    """Which run of a run folder (default: the best, or the best so far)."""
    half: bool = False
    """Write a .safetensors file with numbers of 16 bits, half the size."""


def run(args: list[str]) -> int:
    """`wmg convert INPUT OUTPUT ...`"""
    source, args = split_name(args)
    target, args = split_name(args)
    options = parse(ConvertOptions, args, "wmg convert INPUT OUTPUT")
    if source is None or target is None:
        raise BadInput("name what to convert and the file to write: wmg convert INPUT OUTPUT")
    from wmg.api import models
    from wmg.runs import checkpoint

    path = pathlib.Path(target)
    if path.exists():
        raise BadInput(f"{path} already exists")
    if path.suffix not in (".pth", ".safetensors"):
        raise BadInput(f"the output must end in .safetensors or .pth, got {target!r}")
    check(options, source, path)
    if theirs(source):
        model = read_theirs(pathlib.Path(source), options)
    else:
        model = models.load(source, run=options.run)
        remark_on_folder(source, options.run)
    if options.half:
        model = dataclasses.replace(model, agent=checkpoint.to_half(model.agent))
    if path.suffix == ".pth":
        beside = None if theirs(source) else options.settings
        write_theirs(path, model.agent, model.config, beside)
    else:
        model.save(path, converted_from=pathlib.Path(source).name)
    print(f"wrote {path}")
    return 0


def theirs(source: str) -> bool:
    """Whether this is a model in the authors' form."""
    return source.endswith((".pth", ".pt"))


def check(options: ConvertOptions, source: str, path: pathlib.Path) -> None:
    """Refuse options that this conversion has no use for, and a file it could not write."""
    beside, writes = options.settings, path.suffix == ".pth"
    if options.half and writes:
        raise BadInput("--half writes .safetensors files only")
    if options.run is not None and theirs(source):
        raise BadInput("--run is for run folders: a .pth file holds one model")
    if options.heads is not None and (beside is not None or not theirs(source)):
        raise BadInput("--heads is for a .pth file that comes without settings")
    if beside is None or theirs(source):
        return
    if not writes:
        raise BadInput("--settings belongs to a .pth file, and none is read or written here")
    if beside.exists():
        raise BadInput(f"{beside} already exists")
    if beside.resolve() == path.resolve() or not beside.parent.is_dir():
        raise BadInput(f"--settings must name a file of its own in a folder that exists: {beside}")


def read_theirs(source: pathlib.Path, options: ConvertOptions) -> "Model":
    """A model in the authors' form. Without its settings, it must be of Pathfinding."""
    from wmg.interop import official
    from wmg.runs import models
    from wmg.runs.model import Model

    if options.settings is not None:
        settings, agent = official.load(source, options.settings)
        return Model(agent, settings, registry.make_env(settings.env, shapes_only=True).spec)
    heads = official.RELEASED_HEADS if options.heads is None else options.heads
    settings, agent = official.load(source, heads=heads)
    if options.heads is None and settings.agent.name == "wmg":
        print(f"assuming {heads} attention heads; if not so, give --heads or --settings")
    try:
        env, agent = models.fit(agent, settings, PathfindingSettings())
    except BadInput:
        raise BadInput(
            f"{source} was not trained on Pathfinding: give its settings file with --settings"
        ) from None
    return Model(agent, settings, env.spec)


def write_theirs(
    path: pathlib.Path, agent: Any, settings: Config, beside: pathlib.Path | None
) -> None:
    """Write a model in the authors' form and, if asked to, its settings."""
    from wmg.interop import official, official_settings, torch_file

    if beside is None:
        torch_file.write_pth(path, official.export_weights(agent))
        return
    text = official_settings.format_settings(official_settings.settings_from_config(settings))
    torch_file.write_pth(path, official.export_weights(agent))
    files.write_atomically(beside, text.encode())
    print(f"wrote {beside}")
