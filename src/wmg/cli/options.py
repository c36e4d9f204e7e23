"""Reading the options of a `wmg` command from the command line.

They are a dataclass beside the command. Its docstring and the strings under its fields are what
`--help` prints.
"""

import contextlib
import io
import re
from typing import Any, TypeVar, cast

import tyro

from wmg.tools.errors import BadInput

Options = TypeVar("Options")


def parse(kind: type[Options], args: list[str], usage: str, **defaults: Any) -> Options:
    """Options from the command line; anything wrong with them is one sentence."""
    default = kind(**defaults) if defaults else None
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return cast(Options, tyro.cli(kind, args=args, prog=usage, default=default))
    except SystemExit as end:
        if not end.code:
            raise
        raise BadInput(one_sentence(errors.getvalue())) from None


def one_sentence(message: str) -> str:
    """What a boxed, many-lined complaint says."""
    box = r"\x1b\[[0-9;]*m|[╭╮╰╯│─]|-{4,}|^[+|]-? |[+|]$"  # in ASCII where the locale is
    text = " ".join(re.sub(box, " ", message, flags=re.MULTILINE).split())
    meant = re.search(r"Perhaps you meant: (--[\w.-]+)", text)
    text = re.split(r"For full helptext|Perhaps you meant|Argument helptext", text)[0].strip()
    if unknown := re.search(r"Unrecognized options: (-[^\s,=]+)", text):
        hint = f"did you mean {meant[1]}?" if meant else "--help lists them all"
        return f"there is no option {unknown[1]}; {hint}"
    if extra := re.search(r"Unrecognized options: (.*)", text):
        return f"{extra[1]!r} belongs to no option; --help lists them all"
    if choice := re.search(r"invalid choice '(.*)' for argument '(.*)'.*\((.*)\)", text):
        return f"{choice[2]} must be one of {choice[3].rstrip(',')}, got {choice[1]!r}"
    if missing := re.search(r"Missing value for argument '(.*?)'(?:\. Expected (\d+))?", text):
        several = missing[2] not in (None, "1")
        return f"{missing[1]} needs {f'{missing[2]} values' if several else 'a value'}"
    if wrong := re.search(r"Error parsing (--[\w.-]+): .* arguments \[('.*', '.*')\]", text):
        return f"{wrong[1]} must be numbers, got {wrong[2]}"
    if wrong := re.search(r"Error parsing (--[\w.-]+): (.*)", text):
        if "Exceeds the limit" in wrong[2]:  # Python's, of the digits of an integer
            return f"{wrong[1]} must be a whole number of fewer digits"
        given = re.findall(r"'[^']*'", wrong[2])[:1] or ["that"]
        whole = re.search(r"int\(\)|\bint\b", wrong[2])
        return f"{wrong[1]} must be a {'whole ' if whole else ''}number, got {given[0]}"
    text = re.sub(r"^(Value error )?Error parsing [\w.]+: ", "", text)
    return text or "the options cannot be understood"
