"""Mirrors of the logs: records are also shown in TensorBoard or Weights & Biases."""

import importlib
import json
import os
import pathlib
import types
from typing import Any, Literal

from wmg.runs.runlog import Record, plain
from wmg.tools.errors import BadInput

# CleanRL's names where it has one, so that existing dashboards work.
TAGS = {
    "rate": "charts/SPS",
    "learning_rate": "charts/learning_rate",
    "score": "charts/score",
    "episodes": "charts/episodes",
    "policy_loss": "losses/policy_loss",
    "value_loss": "losses/value_loss",
    "entropy": "losses/entropy",
    "gradient_norm": "losses/gradient_norm",
    "diverged": "losses/diverged",
    "success": "eval/success_rate",
}


def tagged(record: Record) -> dict[str, float]:
    """The record under CleanRL's tag names, without what is missing or not finite.

    `reward` and `episodes` are sums over one report interval; their ratio is the return.
    """
    known = plain(record)
    found = {tag: known.get(key) for key, tag in TAGS.items()}
    if known.get("reward") is not None and known.get("episodes"):
        found["charts/episodic_return"] = known["reward"] / known["episodes"]
    return {tag: float(value) for tag, value in found.items() if value is not None}


class TensorBoardMirror:
    """Event files in tensorboard/0000, 0001, ... of a run folder: a TensorBoard run for each of
    ours."""

    def __init__(self, folder: pathlib.Path, config: Record):
        self._package = _extra("tensorboardX", "tensorboard")
        self._folder = folder
        self._config = json.dumps(plain(config), indent=2)
        self._writers: dict[int, Any] = {}

    def write(self, run_index: int, record: Record) -> None:
        if run_index not in self._writers:
            self._writers[run_index] = self._open(run_index)
        for tag, value in tagged(record).items():
            self._writers[run_index].add_scalar(tag, value, record["steps"])

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _open(self, run_index: int) -> Any:
        writer = self._package.SummaryWriter(str(self._folder / "tensorboard" / f"{run_index:04d}"))
        writer.add_text("config", f"```json\n{self._config}\n```")
        return writer


class WandbMirror:
    """A W&B run for each of ours, all in one group named after the run folder, in which W&B makes a
    folder of its own. A folder that is resumed goes on in new ones."""

    def __init__(self, folder: pathlib.Path, config: Record):
        self._package = _extra("wandb", "wandb")
        self._folder = folder
        self._config = plain(config)
        self._runs: dict[int, Any] = {}

    def write(self, run_index: int, record: Record) -> None:
        if run_index not in self._runs:
            self._runs[run_index] = self._open(run_index)
        self._runs[run_index].log({"global_step": record["steps"], **tagged(record)})

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()
        self._runs.clear()

    def _open(self, run_index: int) -> Any:
        group = self._folder.resolve().name
        run = self._package.init(
            project="wmg",
            group=group,
            name=f"{group}-{run_index:04d}",
            dir=str(self._folder),
            config={**self._config, "run": run_index},
            reinit="create_new",
        )
        # W&B's own step counts calls.
        run.define_metric("*", step_metric="global_step")
        return run


Mirror = TensorBoardMirror | WandbMirror
"""A second place where records are shown while runs go on."""


def open_mirror(
    kind: Literal["tensorboard", "wandb"], folder: str | os.PathLike[str], config: Record
) -> Mirror:
    """A mirror of a run folder. It opens a run when its first record comes."""
    if kind == "tensorboard":
        return TensorBoardMirror(pathlib.Path(folder), config)
    return WandbMirror(pathlib.Path(folder), config)


def _extra(package: str, extra: str) -> types.ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise BadInput(f"the {extra} mirror needs {package}: pip install 'wmg[{extra}]'") from error
