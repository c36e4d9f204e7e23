"""Runs: training sessions, their folders, logs, checkpoints and results."""
