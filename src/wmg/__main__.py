"""`python -m wmg` is the `wmg` command."""

from wmg.cli import command

command()
