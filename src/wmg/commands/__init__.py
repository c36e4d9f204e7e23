"""The commands of `wmg` that have a file of their own; `wmg.cli` has the table of them all."""
