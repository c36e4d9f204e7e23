"""Reading files that may be anything: a pipe, a device, or larger than memory."""

import json
import os
import pathlib
import stat
from typing import Any

LARGEST_JSON = 1_000_000_000
"""Bytes of a JSON file or log; logs of 100,000 reports have 40,000,000."""
MOST_DIGITS = 19
"""Digits of a whole number in JSON. Longer ones fit neither 64 bits nor, from 309 on, a float."""
PIECE = 1 << 20


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file; a ValueError if there are more than `most`."""
    path = pathlib.Path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is not a regular file")
    with path.open("rb") as file:
        pieces, left = [], most + 1
        while left and (piece := file.read(min(left, PIECE))):
            pieces.append(piece)
            left -= len(piece)
    if not left:
        raise ValueError(f"{path} is too large: it has more than {most:,} bytes")
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
