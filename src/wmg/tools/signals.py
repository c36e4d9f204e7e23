"""How signals to stop are counted."""

ONE_SIGNAL = 0.3
"""Seconds in which signals count as one. A scheduler, or `timeout`, sends one to a process and to
its group."""
