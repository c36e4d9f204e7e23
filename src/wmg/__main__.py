"""`python -m wmg` is the `wmg` command."""

from wmg.cli.main import command

command()
