"""Reads the options of a `wmg` command from the command line, and prints its `--help`.

The options of a command are a dataclass: each field is an option. Where a field holds another
dataclass, the fields of that one are options with its name in front (`--agent.slots`). Docstrings
of classes and the strings under fields are the text of `--help`. The parser is argparse's. A
dataclass may have a method `unused` that says which of its fields have no effect, and why.
"""

import argparse
import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import pathlib
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, Literal, TypeVar

from wmg.tools.errors import BadInput, quote

Options = TypeVar("Options")
UNPREFIXED = {"prefix": ""}
"""Metadata of a field that holds a dataclass: its options have no name in front."""
METAVARS = {int: "INT", float: "FLOAT", str: "STR", pathlib.Path: "PATH"}


def parse(kind: type[Options], args: list[str], usage: str, **defaults: Any) -> Options:
    """The options in `args`; `defaults` replace the defaults of the class."""
    parser = argparse.ArgumentParser(
        usage=f"{usage} [OPTIONS]",
        description=inspect.getdoc(kind),
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=28),
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser._negative_number_matcher = re.compile(r"-\.?\d")  # Python 3.14's: -1e-05 is a number
    options = list(add_options(parser, kind, defaults))
    known = {flag: option for option in options for flag in option.option_strings}
    args = [re.sub("^--[^=]+", lambda flag: flag[0].replace("_", "-"), arg) for arg in args]
    try:
        given, unknown = parser.parse_known_args(args)
    except argparse.ArgumentError as error:  # `Option` checks values; this is about their number
        flag = str(error.argument_name).split("/")[0]
        if flag not in known:
            raise BadInput("--help takes no value") from None
        count, needs = known[flag].nargs, {0: "takes no value", None: "needs a value"}
        raise BadInput(f"{flag} {needs.get(count, f'needs {count} values')}") from None
    if unknown:
        raise BadInput(no_option(unknown[0], known))
    values = {**defaults, **changes(defaults, vars(given))}
    for option in options:
        if option.needed and option.dest not in values:
            raise BadInput(f"{option.option_strings[0]} is missing; --help describes it")
    made = kind(**values)
    for option in options:
        if option.dest in vars(given):
            refuse_unused(made, option)
    return made


def refuse_unused(made: Any, option: "Option") -> None:
    """Refuse an option that changes a field without effect: nothing is ignored in silence."""
    *path, name = option.dest.split(".")
    owner = functools.reduce(getattr, path, made)
    without_effect = getattr(owner, "unused", dict)()
    if name in without_effect and getattr(owner, name) != option.usual:
        raise BadInput(f"{option.option_strings[0]} has no effect: {without_effect[name]}")


class Option(argparse.Action):
    """An option that sets one field of a dataclass. It may be given once."""

    def __init__(self, option_strings: list[str], dest: str, hint: Any, default: Any, help: str):
        self.needed, self.usual = default is dataclasses.MISSING, default
        self.optional = NoneType in typing.get_args(hint)
        single = typing.get_args(hint)[0] if self.optional else hint
        self.is_tuple = typing.get_origin(single) is tuple
        kinds = typing.get_args(single) if self.is_tuple else (single,)
        self.kind = kinds[0]
        self.words = typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()
        count = 0 if self.kind is bool else len(kinds) if self.is_tuple else None
        super().__init__(
            option_strings,
            dest,
            nargs="*" if ... in kinds else count,
            default=argparse.SUPPRESS,
            type=self.convert,
            metavar=f"{{{','.join(self.words)}}}" if self.words else METAVARS.get(self.kind),
            help=f"{help} {shown(default)}".strip().replace("%", "%%"),
        )

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Store the value, which argparse has converted."""
        if hasattr(namespace, self.dest):
            raise BadInput(f"{self.option_strings[0]} is given twice")
        if self.kind is bool:
            values = option_string == self.option_strings[0]
        elif self.is_tuple:
            values = None if values == [None] else tuple(values)
        setattr(namespace, self.dest, values)

    def convert(self, word: str) -> Any:
        """A word of the command line as a value."""
        if self.optional and word == "None":
            return None
        number = "whole number" if self.kind is int else "number"
        wanted = f"{self.nargs} {number}s" if isinstance(self.nargs, int) else f"a {number}"
        if self.words:
            if word in self.words:
                return word
            wanted = f"one of {', '.join(map(repr, self.words))}"
        else:
            try:
                return whole(word) if self.kind is int else self.kind(word)
            except ValueError:  # no number, or an integer of more digits than Python reads
                wanted += " of fewer digits" if word.isdecimal() else ""
        raise BadInput(f"{self.option_strings[0]} must be {wanted}, got {quote(word)}")


def whole(word: str) -> int:
    """A whole number, which may be written as 1e6."""
    if not re.fullmatch(r"\d{1,9}e\d{1,2}", word):
        return int(word)
    digits, _, zeros = word.partition("e")
    return int(digits) * 10 ** int(zeros)


def add_options(
    parser: argparse.ArgumentParser,
    kind: Any,
    values: Mapping[str, Any],
    prefix: str = "",
    path: str = "",
) -> Iterator[Option]:
    """Add the options of a dataclass, whose fields have these values. A field that may hold one of
    several dataclasses has the options of the one it holds."""
    title = f"{prefix.removesuffix('.')} options"
    group = parser.add_argument_group(title, inspect.getdoc(kind)) if prefix else parser
    hints, texts = typing.get_type_hints(kind), texts_of(kind)
    for field in dataclasses.fields(kind):
        value, hint = values.get(field.name, field.default), hints[field.name]
        name, dest = field.name.rstrip("_").replace("_", "-"), path + field.name
        if dataclasses.is_dataclass(value):
            inner = field.metadata.get("prefix", f"{name}.")
            yield from add_options(parser, type(value), vars(value), prefix + inner, f"{dest}.")
        elif not any(map(dataclasses.is_dataclass, typing.get_args(hint))):
            flags = [f"--{prefix}{name}"] + [f"--{prefix}no-{name}"] * (hint is bool)
            text = texts.get(field.name, "")
            added = group.add_argument(
                *flags, dest=dest, action=Option, hint=hint, default=value, help=text
            )
            yield typing.cast(Option, added)


def changes(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that change and their new values, from values that are given by dotted path."""
    new: dict[str, Any] = {}
    for path, value in given.items():
        name, _, rest = path.partition(".")
        new.setdefault(name, {})[rest] = value
    for name, inner in new.items():
        if "" in inner:
            new[name] = inner[""]
        else:
            new[name] = dataclasses.replace(values[name], **changes(vars(values[name]), inner))
    return new


def no_option(word: str, flags: Iterable[str]) -> str:
    """The error message for a word that belongs to no option."""
    flag = word.partition("=")[0]
    if not flag.startswith("-"):
        return f"{quote(word)} belongs to no option; --help lists them all"
    close = difflib.get_close_matches(flag, flags, 1)
    hint = f"did you mean {close[0]}?" if close else "--help lists them all"
    return f"there is no option {quote(flag)[1:-1]}; {hint}"


def shown(default: Any) -> str:
    """A default in the help text."""
    if default is dataclasses.MISSING:
        return "(required)"
    text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return "" if text in ("", "None") else f"(default: {text})"


def texts_of(kind: type) -> dict[str, str]:
    """The strings under the fields of a dataclass, its own or those of a base."""
    found = {}
    for owner in reversed(kind.__mro__):
        texts = field_texts(owner.__module__)
        found |= {name: text for (of, name), text in texts.items() if of == owner.__name__}
    return found


@functools.cache
def field_texts(module: str) -> dict[tuple[str, str], str]:
    """The strings under the fields of the classes of a module."""
    texts = {}
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # a module without a file
        return {}
    for owner in ast.walk(ast.parse(source)):
        if isinstance(owner, ast.ClassDef):
            for field, below in itertools.pairwise(owner.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        texts[owner.name, name] = " ".join(text.split())
    return texts
