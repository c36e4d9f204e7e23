"""Saving and loading: safetensors with a JSON header, never pickle.

A file has one of two forms. *Release*: the weights of one agent and its config. *Resume*:
everything of all runs in a batch. Files are written beside their place and moved into it, so
a reader or a crash never meets half of one.
"""

import dataclasses
import json
import pathlib
import zlib
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import PyTree

from wmg import config, registry
from wmg.config import Config
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.play.check_spec import check_spec
from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON
from wmg.types import Agent, EnvSpec

FORMAT_VERSION = 2
"""Since version 2 the checksum covers the types and shapes of the arrays. Version 1 is read too."""
FORMS = {"release": "one model", "resume": "the state of runs"}  # what is in such a file
Tree = TypeVar("Tree")


def save(path: pathlib.Path, tree: PyTree, form: str, about: dict[str, Any]) -> None:
    """Write the arrays of `tree`, and `about` as JSON, to one file."""
    arrays = {name: _to_numpy(leaf) for name, leaf in _named_leaves(tree)}
    header = {**about, "version": FORMAT_VERSION, "form": form}
    header["checksum"] = _checksum(arrays, header)
    data = safetensors.numpy.save(arrays, metadata={"wmg": json.dumps(header)})
    files.write_atomically(path, data)


def load(path: pathlib.Path, like: Tree, form: str, part: str = "") -> tuple[Tree, dict[str, Any]]:
    """The tree of arrays that `save` wrote, or the `part` of it that has this name, in the
    structure of `like`, and the header."""
    header = read_header(path, form)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            stored = file.keys()
            arrays = {name: file.get_tensor(name) for name in stored}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise BadInput(f"{path} is damaged: {_first_line(error)}") from None
    if header.pop("checksum", None) != _checksum(arrays, header):
        raise BadInput(f"{path} is damaged: its checksum does not match its contents")
    if part:
        prefix = f"{part}."
        arrays = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
    expected = dict(_named_leaves(like))
    if odd := sorted(expected.keys() ^ arrays.keys()):
        raise BadInput(f"{path} does not fit its config: {odd[0]} is missing or not expected")
    for name, leaf in expected.items():
        if wrong := _misfit(arrays[name], leaf, form):
            raise BadInput(f"{path} does not fit its config: {name} has {wrong}")
    leaves = [_from_numpy(arrays[name], leaf) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), header


def read_header(path: pathlib.Path, form: str) -> dict[str, Any]:
    """The JSON header of a wmg file. Refuses another form and unknown versions."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except (safetensors.SafetensorError, OSError) as error:
        raise BadInput(f"{path} is damaged or not a wmg file: {_first_line(error)}") from None
    try:
        header = files.parse_json(metadata["wmg"])
        version, actual = header["version"], header["form"]
    except (*NOT_JSON, KeyError, TypeError):
        raise BadInput(f"{path} was not written by wmg") from None
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise BadInput(f"{path} has format version {version}; this wmg reads 1 to {FORMAT_VERSION}")
    if actual != form:
        raise BadInput(f"{path} holds {FORMS.get(actual, actual)}, not {FORMS[form]}")
    return header


def shape_of(settings: Config, spec: EnvSpec | None = None) -> Agent:
    """The agent with shapes in place of arrays. The data set of its environment may be missing."""
    seen = spec or registry.make_env(settings.env, shapes_only=True).spec

    def make() -> Agent:
        return registry.make_agent(settings.agent, seen, jax.random.key(0))

    return eqx.filter_eval_shape(make)


def save_model(
    path: pathlib.Path | str,
    agent: Agent,
    settings: Config,
    spec: EnvSpec | None = None,
    **about: Any,
) -> None:
    """Write one agent in release form: weights and config.

    For an environment from outside of the package, the file also holds its `spec`: with that the
    agent can be loaded where the environment is not installed.
    """
    path = pathlib.Path(path)
    about = {"config": config.to_dict(settings), **about}
    if spec is not None and isinstance(settings.env, OutsideEnvSettings | None):
        about["spec"] = dataclasses.asdict(spec)
    save(path, agent, "release", about)


def to_half(agent: Agent) -> Agent:
    """The agent with 16-bit weights, to be saved. Loading makes them 32-bit again."""

    def halve(weights: Any) -> Any:
        if not eqx.is_inexact_array(weights):
            return weights
        short = np.asarray(weights).astype(np.float16)
        if not np.isfinite(short).all():
            raise BadInput("a weight of this agent is too large for a number of 16 bits")
        return short

    with np.errstate(over="ignore"):
        return jax.tree.map(halve, agent)


def load_model(path: pathlib.Path | str) -> tuple[Agent, Config]:
    """An agent in release form, and the config it was trained with."""
    path = pathlib.Path(path)
    settings, spec = read_about(path)
    agent, _ = load(path, shape_of(settings, spec), "release")
    require_finite(path, agent)
    return agent, settings


def read_about(path: pathlib.Path) -> tuple[Config, EnvSpec | None]:
    """The config of an agent in release form, and the spec of its environment if it has one."""
    header = read_header(path, "release")
    try:
        settings = config.from_dict(Config, header.get("config"))
        if (told := header.get("spec")) is None:
            return settings, None
        check_spec(spec := config.from_dict(EnvSpec, told, "spec"))
        return settings, spec
    except BadInput as error:
        raise BadInput(f"{path} has a config that cannot be used: {error}") from None


def require_finite(path: pathlib.Path, agent: Agent) -> None:
    """Refuse an agent from this file if a weight is NaN or infinite."""
    for name, leaf in _named_leaves(eqx.filter(agent, eqx.is_inexact_array)):
        if not np.isfinite(leaf).all():
            raise BadInput(f"{path} has weights that are not finite: {name}")


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), x) for path, x in paths]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _from_numpy(array: np.ndarray, like: Any) -> jax.Array:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array))
    return jnp.asarray(array, like.dtype)


def _misfit(array: np.ndarray, leaf: Any, form: str) -> str | None:
    """How the shape or type of a stored array differs from the expected ones, if it does."""
    expected = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    if array.shape != expected.shape:
        return f"shape {array.shape}, expected {expected.shape}"
    halved = form == "release" and expected.dtype == np.float32 and array.dtype == np.float16
    if array.dtype != expected.dtype and not halved:
        return f"type {array.dtype}, expected {expected.dtype}"
    return None


def _checksum(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> int:
    value = zlib.crc32(json.dumps(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        kind = "" if header["version"] == 1 else f" {array.dtype.name} {array.shape}"
        value = zlib.crc32(f"{name}{kind}".encode(), value)
        value = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, value)
    return value


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
