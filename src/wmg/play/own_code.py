"""Calls of code that the user gave: its error becomes the cause of a sentence that names it."""

import pathlib
import traceback
from collections.abc import Callable
from typing import TypeVar

from wmg.tools.errors import BadInput, FailedCode

Made = TypeVar("Made")
OWN_FOLDER = pathlib.Path(__file__).parents[1]


def run_own(function: str, call: Callable[[], Made], hint: str = "") -> Made:
    """What a function of the user returns; its own error becomes the cause of ours. The hint is
    for errors of types, which JAX raises while it traces."""
    try:
        return call()
    except BadInput:
        raise
    except Exception as error:
        raise _failed(function, error, hint if isinstance(error, TypeError) else "") from error


def _failed(function: str, error: Exception, hint: str = "") -> FailedCode:
    """What to raise where a function of the user raised an error."""
    lines = str(error).strip().splitlines()
    said = f": {lines[0].rstrip('.')}" if lines else ""
    kind = type(error).__name__
    return FailedCode(f"{function} raises {kind}{_place(error)}{said}{hint}")


def _place(error: BaseException) -> str:
    """The line that raised the error: the last one outside of installed packages."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = pathlib.Path(frame.filename)
        installed = "site-packages" in path.parts or OWN_FOLDER in path.parents
        if not installed and path.exists():
            return f" in line {frame.lineno} of {path.name}"
    return ""
