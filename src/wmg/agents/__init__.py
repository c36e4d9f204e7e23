"""The agents, each in a folder of its own, and parts that several of them use.

A new agent is a folder with `settings.py` and `agent.py`, and a line in `wmg.registry`.
"""
