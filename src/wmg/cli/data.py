"""`wmg data`: importing levels, and seeing which there are."""

import dataclasses
import json as jsonlib
import sys

from wmg.cli.options import parse
from wmg.cli.start import split_name
from wmg.tools.errors import BadInput


@dataclasses.dataclass(frozen=True)
class BoxobanOptions:
    """Import the Boxoban levels, which figures comparable with the paper need."""

    from_: str | None = None
    """A zip file, folder or URL of the repository google-deepmind/boxoban-levels (default: from
    GitHub)."""
    json: bool = False
    """Print the result as JSON."""


@dataclasses.dataclass(frozen=True)
class BanksOptions:
    """Show the level banks there are."""

    json: bool = False
    """Print as JSON."""


def run(args: list[str]) -> int:
    """`wmg data boxoban|list ...`"""
    name, rest = split_name(args)
    commands = {"boxoban": import_boxoban, "list": show_list}
    if name is None and {"-h", "--help"} & set(args):
        print("wmg data list shows the level banks there are, wmg data boxoban imports them.\n")
        return import_boxoban(args)
    if name not in commands:
        raise BadInput(f"wmg data has {' and '.join(commands)}, got {name!r}")
    return commands[name](rest)


def import_boxoban(args: list[str]) -> int:
    """`wmg data boxoban ...`"""
    options = parse(BoxobanOptions, args, "wmg data boxoban")
    from wmg.envs.sokoban import boxoban
    from wmg.runs import counter

    try:
        with counter.count() as show:
            counts = boxoban.import_boxoban(options.from_, show)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 1
    if options.json:
        print(jsonlib.dumps(counts))
        return 0
    for bank, levels in counts.items():
        print(f"{bank:16} {levels:>7,} levels")
    return 0


def show_list(args: list[str]) -> int:
    """`wmg data list ...`"""
    options = parse(BanksOptions, args, "wmg data list")
    from wmg.envs.sokoban import boxoban

    banks = boxoban.banks()
    if options.json:
        print(jsonlib.dumps(banks, indent=2))
        return 0
    for bank, about in banks.items():
        size = f"{about['levels']:>7,} levels"
        where = "damaged" if about["damaged"] else "not imported"
        if about["file"]:
            where = f"{about['bytes']:>10,} bytes  {about['file']}"
        print(f"{bank:16} {size}  {where}")
    if damaged := [bank for bank, about in banks.items() if about["damaged"]]:
        names = ", ".join(damaged)
        print(f"damaged banks: {names}; `wmg data boxoban` repairs them", file=sys.stderr)
    meant = ", ".join(f"{split} is {bank}" for split, bank in boxoban.meanings().items())
    print(f"as levels, {meant}")
    return 0
