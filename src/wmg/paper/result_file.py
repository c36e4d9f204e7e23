"""The `result.json` of a cell: what it holds, how it is written and read.

Every result has `cell`, `command`, `hardware` (device, versions of jax and CUDA, commit, date).
A result of trained runs also has `config`, `precision` (of the products, as computed), `seeds`
(first and last), `started` and `ended`, and one of (curves also have the `engine`, window kernel
or XLA):

    tests     of runs with a goal: for each run its tests as (steps, solved, episodes), packed
    scores    of others: for each run its score at each of `steps`, in percent, packed

Packed rows are read by `unpack`: base64 of zlib of little-endian int32, each column of a row
stored as differences from the number before. Results that version 0.1 wrote have no tests and
plain rows of scores; they are read as well (`has_tests`, `precision_of`).
"""

import base64
import json
import pathlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wmg import config
from wmg.config import Config
from wmg.play.goal_test import GoalTest
from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON, write_atomically

NAME = "result.json"
MISSING = -(2**30)
"""Marks a missing score; small enough that differences fit in 32 bits."""
SCALE = 1000
"""Scores are packed in thousandths of a percent."""
LARGEST = 64 * 2**20
"""Bytes that packed rows may unpack to."""

Json = dict[str, Any]


def pack(rows: Sequence[Sequence[Sequence[int]]], width: int) -> Json:
    """Rows of tuples of `width` whole numbers, one row for each run, as JSON data."""
    flat = [np.asarray(row, np.int64).reshape(-1, width) for row in rows]
    deltas = [np.diff(row, axis=0, prepend=np.zeros((1, width), np.int64)) for row in flat]
    columns = np.concatenate([delta.T.ravel() for delta in deltas] or [np.zeros(0, np.int64)])
    if columns.size and np.abs(columns).max() >= 2**31:
        raise ValueError("a number is too large to be packed")
    data = zlib.compress(columns.astype("<i4").tobytes(), 9)
    return {
        "encoding": "base64 zlib int32 delta",
        "width": width,
        "lengths": [len(row) for row in flat],
        "data": base64.b64encode(data).decode(),
    }


def unpack(packed: Json) -> list[np.ndarray]:
    """The rows that `pack` was given, each an array of (length, width)."""
    width, lengths = packed["width"], packed["lengths"]
    inflate = zlib.decompressobj()
    data = inflate.decompress(base64.b64decode(packed["data"], validate=True), LARGEST)
    columns = np.frombuffer(data, "<i4").astype(np.int64)
    if not inflate.eof or len(columns) != width * sum(lengths):
        raise ValueError("packed rows are torn")
    ends = np.cumsum([width * length for length in lengths])
    parts = np.split(columns, ends[:-1]) if lengths else []
    return [np.cumsum(part.reshape(width, -1), axis=1).T for part in parts]


def pack_tests(runs: list[list[GoalTest]]) -> Json:
    """The tests of each run, packed."""
    return pack([[(t.steps, t.solved, t.episodes) for t in tests] for tests in runs], 3)


def pack_scores(rows: np.ndarray) -> Json:
    """Scores of runs by report, packed to a thousandth; NaN where there is none."""
    whole = np.where(np.isfinite(rows), np.round(np.nan_to_num(rows) * SCALE), MISSING)
    return pack(whole.astype(np.int64)[..., None].tolist(), 1)


def tests_of(result: Json) -> list[list[GoalTest]]:
    """The tests of each run of a result that has them."""
    return [[GoalTest(*map(int, test)) for test in row] for row in unpack(result["tests"])]


def scores_of(result: Json, name: str = "scores") -> list[np.ndarray]:
    """The scores of each run, NaN where there is none."""
    rows = result[name]
    if isinstance(rows, list):
        found = [np.array(row, float) for row in rows]
        if any(row.ndim != 1 or (np.abs(row) > 1e6).any() for row in found):
            raise ValueError("a row of scores is not one")
        return found
    packed = [row[:, 0] for row in unpack(rows)]
    return [np.where(row == MISSING, np.nan, row / SCALE) for row in packed]


def has_tests(result: Json) -> bool:
    """Whether a result of runs with a goal holds every test of every run."""
    return "tests" in result


def precision_of(result: Json) -> str:
    """The precision of products. Version 0.1 left it to JAX, whose default on GPUs is TF32."""
    if "precision" in result:
        return result["precision"]
    settings = result.get("config", {})
    if settings.get("batched", {}).get("precision") == "bfloat16":
        return "bfloat16"
    return "float32" if result["hardware"].get("devices") is None else "tf32"


def commit_of(result: Json) -> str | None:
    """The commit that a result was made with, if it is known."""
    return result["hardware"].get("commit")


def read(path: pathlib.Path, is_result: Callable[[Json], bool] | None = None) -> Json:
    """What a `result.json` holds, if `is_result` (by default: a cell's) finds nothing missing."""
    try:
        result = files.read_json(path)
    except NOT_JSON:
        result = None
    if not isinstance(result, dict) or not (is_result or _is_result)(result):
        raise BadInput(f"{path} is damaged: it does not hold a result")
    return result


def write(path: pathlib.Path, result: Json) -> None:
    """Write a result where there is none. One that is there is never replaced."""
    if path.exists():
        raise BadInput(f"{path} holds a result already")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(result) + "\n").encode())


TEXTS = ("command", "started", "precision", "engine")
NUMBERS = ("seconds", "testing_seconds", "standard_error", "diverged")


def _is_result(data: Json) -> bool:
    """Whether it has all that reports are made of: a value, or something for each run."""
    hardware, texts = data.get("hardware"), [data.get(name, "") for name in TEXTS]
    if (
        "command" not in data
        or not isinstance(hardware, dict)
        or not all(isinstance(text, str) for text in texts)
    ):
        return False
    if not all(isinstance(hardware.get(name), str) for name in ("device", "date")):
        return False
    if not all(_is_number(data.get(name, 0)) for name in NUMBERS):
        return False
    if "config" not in data:
        rates = data.get("steps_per_second_each_chunk", [])
        return (
            _is_number(data.get("value"))
            and isinstance(rates, list)
            and all(_is_number(rate) for rate in rates)
        )
    return _is_config(data["config"]) and _has_row_for_each_run(data)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e15


def _is_config(settings: Any) -> bool:
    """Whether these are settings that this version can read."""
    try:
        return {"runs", "seed", "steps", "report_every"} <= settings.keys() and bool(
            config.from_dict(Config, settings)
        )
    except (AttributeError, OverflowError, BadInput):
        return False


def _has_row_for_each_run(data: Json) -> bool:
    runs, steps = data["config"]["runs"], data.get("steps", [])
    try:
        if has_tests(data) and not (
            data["tests"]["width"] == 3 and len(unpack(data["tests"])) == runs
        ):
            return False
        if "crossings" in data:
            rows, needed = data["crossings"], {"diverged", "testing_seconds"}
            aimed = isinstance(data["config"].get("goal"), dict)
            counts = data.get("episodes", rows)
            known = all(row is None or _is_number(row) for row in (*rows, *counts))
            whole = len(rows) == len(counts) == runs
            return known and aimed and whole and needed <= data.keys()
        names = {"scores"} | {name for name in data if name.startswith("scores")}
        of_names = [scores_of(data, name) for name in names]
        longest = {max(len(row) for row in rows) for rows in of_names}
        points = {len(steps)} if "steps" in data else {1}  # a transfer has one score for each run
        every = {len(rows) for rows in of_names} == {runs} and longest == points != {0}
        return every and all(map(_is_number, steps))
    except (*NOT_JSON, KeyError, TypeError, AttributeError, OverflowError, zlib.error):
        return False
