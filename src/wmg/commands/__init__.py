"""The commands of `wmg`, a module each; `wmg.cli` has the table of them all."""
