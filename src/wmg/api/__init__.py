"""The front door: what `import wmg` gives."""
