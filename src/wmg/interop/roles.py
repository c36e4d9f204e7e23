"""Roles: what a user wants a part of an observation space to become, in one line of text.

A role is a word and its options, with spaces or commas between them: `core`, `ignore`, `image`,
`factors presence=0 most=15`, `grid values=11/6/4 empty=0/1`. Roles are a dictionary from the key
of the part to its role; the key of a space without parts is "". A part inside others has a path:
`player/items`. So roles can be stored as JSON, and typed as `player/items=factors,most=8`.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wmg.tools.errors import BadInput, quote


@dataclasses.dataclass(frozen=True)
class Role:
    """What a part becomes, and the options that were given."""

    word: str
    presence: int | None = None
    """Factors: the column that says whether a row is real. It is not shown itself."""
    most: int | None = None
    """Factors and grids: the largest number of Factors."""
    order: bool | None = None
    """Factors: whether each row is told its place, one-hot."""
    edges: str | None = None
    """Factors of a graph: 'ignore' shows its nodes alone."""
    numbers: bool | None = None
    """Core: whether whole numbers are shown as numbers, not one-hot."""
    values: tuple[int, ...] | None = None
    """Grids: how many values each channel has."""
    empty: tuple[int, ...] | None = None
    """Grids: the values of the first channel that stand for no thing."""
    terrain: tuple[int, ...] | None = None
    """Grids: the values of the first channel that become bits of the Core, not Factors."""


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise ValueError("a whole number above 0")
    return int(text)


def _column(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text):
        raise ValueError("the number of a column, from 0 on")
    return int(text)


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def _ignore(text: str) -> str:
    if text != "ignore":
        raise ValueError("ignore")
    return text


def _list(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(\d{1,6}(/\d{1,6})*)?", text):
        raise ValueError("whole numbers with / between them, for example 11/6/4")
    return tuple(map(int, text.split("/"))) if text else ()


READERS: dict[str, dict[str, Callable[[str], Any]]] = {
    "core": {"numbers": _yes_or_no},
    "factors": {"presence": _column, "most": _count, "order": _yes_or_no, "edges": _ignore},
    "grid": {"values": _list, "empty": _list, "terrain": _list, "most": _count},
    "image": {},
    "ignore": {},
}
"""The words, and the options of each."""


def read_role(text: Any, key: str) -> Role:
    """The role of a part, from its text."""
    where = f"the role of {quote(key)}"
    if not isinstance(text, str) or not text.strip(" ,"):
        raise BadInput(f"{where} must be one of {', '.join(READERS)}, got {quote(text)}")
    word, *options = re.split(r"[ ,]+", text.strip(" ,"))
    if word not in READERS:
        raise BadInput(f"{where} must be one of {', '.join(READERS)}, got {quote(word)}")
    given: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name not in READERS[word]:
            known = ", ".join(READERS[word]) or "none"
            raise BadInput(f"{where} has an unknown option {quote(name)}: {word} has {known}")
        if name in given:
            raise BadInput(f"{where} has the option {name} twice")
        try:
            given[name] = READERS[word][name](value)
        except ValueError as wanted:
            raise BadInput(f"{name} in {where} must be {wanted}, got {quote(value)}") from None
    return Role(word, **given)


def read_roles(roles: Any) -> dict[str, Role]:
    """The roles of all parts that have one."""
    if roles is None:
        return {}
    if not isinstance(roles, Mapping) or not all(isinstance(key, str) for key in roles):
        raise BadInput(f"roles must be a dictionary from keys to roles, got {quote(roles)}")
    return {key: read_role(text, key) for key, text in roles.items()}


def parse_roles(words: Iterable[str]) -> dict[str, str]:
    """Roles from the command line: KEY=ROLE, or ROLE alone for a space without parts."""
    roles: dict[str, str] = {}
    for text in words:
        key, role = "", text
        if "=" in re.split(r"[ ,]", text, maxsplit=1)[0]:
            key, _, role = text.partition("=")
        if key in roles:
            raise BadInput(f"the role of {quote(key)} is given twice")
        read_role(role, key)
        roles[key] = role
    return roles
