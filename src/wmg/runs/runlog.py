"""The JSON-lines log of a run, one record per report.

A log only grows. A checkpoint flushes the logs and then stores their sizes; a resumed run
first cuts each log back to that size, so that no report appears twice.
"""

import json
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tools.files import NOT_JSON

Record = dict[str, Any]


def path_of(folder: pathlib.Path, run: int) -> pathlib.Path:
    """The log of a run in a folder of logs."""
    return folder / f"{run:04d}.jsonl"


def encode(record: Record) -> str:
    """One line of strict JSON: NaN and infinities become null, numpy values plain ones."""
    return json.dumps(plain(record), allow_nan=False)


def plain(value: Any) -> Any:
    """A value that strict JSON can hold."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return float(value) if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case _:
            return plain(value.tolist())  # numpy, without importing it


class RunLog:
    """Appends records to one log.

    The file is open only while it is written to: a process may hold about a thousand open
    files, and a batch may have more runs than that.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        self.path.touch()
        self._size = self.path.stat().st_size
        self._synced = True

    def write(self, record: Record) -> None:
        """Append one line. Readers see it at once; `flush` saves it from a power cut."""
        line = encode(record).encode() + b"\n"
        with open(self.path, "ab", opener=_open_existing) as file:
            file.write(line)
        self._size += len(line)
        self._synced = False

    def flush(self) -> None:
        """Return once everything written is on the disk."""
        if self._synced:
            return
        with open(self.path, "ab", opener=_open_existing) as file:
            os.fsync(file.fileno())
        self._synced = True

    def size(self) -> int:
        """Bytes in the log, including those of earlier sessions."""
        return self._size


def _open_existing(path: str, flags: int) -> int:
    """Opens existing files only: a deleted log must not start again without its beginning."""
    return os.open(path, flags & ~os.O_CREAT)


class Logs:
    """The logs of a batch of runs: 0000.jsonl, 0001.jsonl, ... in one folder, cut back to the
    `sizes` that a checkpoint recorded."""

    def __init__(self, folder: str | os.PathLike[str], runs: int, sizes: Sequence[int]):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [path_of(self.folder, run) for run in range(runs)]
        _truncate_all(paths, sizes)
        self._logs = [RunLog(path) for path in paths]

    def write(self, run_index: int, record: Record) -> None:
        self._logs[run_index].write(record)

    def read(self) -> list[list[Record]]:
        """The records of each run."""
        return [read(log.path) for log in self._logs]

    def flush(self) -> None:
        for log in self._logs:
            log.flush()

    def sizes(self) -> list[int]:
        """What a checkpoint stores, after `flush`."""
        return [log.size() for log in self._logs]


def _truncate_all(paths: list[pathlib.Path], sizes: Sequence[int]) -> None:
    if len(sizes) != len(paths):
        raise BadInput(f"the checkpoint has {len(sizes)} logs but there are {len(paths)} runs")
    # All are checked before the first is cut, so a damaged folder stays as it was found.
    for path, size in zip(paths, sizes, strict=True):
        _require_line_end(path, size)
    for path, size in zip(paths, sizes, strict=True):
        if path.exists():  # one of size 0 may be missing
            os.truncate(path, size)


def _require_line_end(path: pathlib.Path, size: int) -> None:
    if size == 0:
        return
    found = path.stat().st_size if path.exists() else 0
    if found < size:
        raise BadInput(
            f"{path} is damaged: it has {found} bytes but its checkpoint recorded {size}"
        )
    with path.open("rb") as file:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            raise BadInput(f"{path} is damaged: no line ends at byte {size}")


def read(path: str | os.PathLike[str]) -> list[Record]:
    """All records of a log. A torn last line, left by a crash, is ignored."""
    try:
        data = files.read_bounded(path, files.LARGEST_JSON)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(str(error)) from None
    lines = data.removesuffix(b"\n").split(b"\n")
    records = [_decode(line) for line in lines]
    if records[-1] is None:
        records.pop()
    if None in records:
        raise BadInput(f"{path} is damaged at line {records.index(None) + 1}")
    return [record for record in records if record is not None]


def _decode(line: bytes) -> Record | None:
    try:
        record = files.parse_json(line)
    except NOT_JSON:
        return None
    return record if isinstance(record, dict) else None
