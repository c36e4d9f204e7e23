"""Where wmg keeps what it can make or fetch again: compiled programs and level banks."""

import os
import pathlib


def folder() -> pathlib.Path:
    """The user's cache folder of wmg, which may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "wmg"
