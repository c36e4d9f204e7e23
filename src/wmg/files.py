"""Reading files that may be anything: a pipe, a device, or larger than memory."""

import os
import pathlib
import stat


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file; a ValueError if there are more than `most`."""
    path = pathlib.Path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is not a regular file")
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is too large: it has more than {most:,} bytes")
    return data
