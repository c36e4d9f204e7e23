"""Reads files, also where a pipe or a huge file is in their place, and writes them atomically."""

import contextlib
import glob
import json
import os
import pathlib
import stat
from typing import Any

LARGEST_JSON = 1_000_000_000
"""Bytes of a JSON file or log; logs of 100,000 reports have 40,000,000."""
MOST_DIGITS = 19
"""Most digits of a whole number in JSON. More do not fit 64 bits; 309 do not even fit a float."""
PIECE = 1 << 20
NOT_JSON = (ValueError, RecursionError)
"""What `parse_json` raises for what is not JSON or not text, too long, or nested too deeply."""
TEMPORARY = ".{}.{}.tmp"
"""The name of a file while it is written: its later name, and the process."""


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file; a ValueError if there are more than `most`."""
    path = pathlib.Path(path)
    about, too_large = path.stat(), f"{path} is too large: it has more than {most:,} bytes"
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path} is not a regular file")
    if about.st_size > most:
        raise ValueError(too_large)
    with path.open("rb") as file:
        pieces, left = [], most + 1
        while left and (piece := file.read(min(left, PIECE))):
            pieces.append(piece)
            left -= len(piece)
    if not left:  # it grew, or tells no size, as those in /proc
        raise ValueError(too_large)
    return b"".join(pieces)


def read_json(path: str | os.PathLike[str]) -> Any:
    """The data in a JSON file; a ValueError or RecursionError if it holds none."""
    return parse_json(read_bounded(path, LARGEST_JSON))


def parse_json(text: str | bytes) -> Any:
    """The data in JSON text; a ValueError or RecursionError if it is none."""
    return json.loads(text, parse_int=_parse_int)


def _parse_int(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError(f"a whole number has more than {MOST_DIGITS} digits")
    return int(digits)


def write_atomically(path: pathlib.Path, data: bytes) -> None:
    """Put a file in its place, whole or not at all, even if the machine stops."""
    temporary = path.with_name(TEMPORARY.format(path.name, os.getpid()))
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.strerror:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_unfinished(path: pathlib.Path) -> None:
    """Remove what killed processes left of this file. No process may be writing it now."""
    for left in path.parent.glob(TEMPORARY.format(glob.escape(path.name), "[0-9]*")):
        left.unlink(missing_ok=True)


def cache_folder() -> pathlib.Path:
    """Where wmg keeps what it can make or fetch again: compiled programs and level banks.

    The folder may not exist yet.
    """
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "wmg"
