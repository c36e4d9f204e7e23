"""The commands of `wmg`, a module each; `wmg.cli.main` has the table of them all."""
