"""The environments, each in a folder of its own.

A new one is a folder with `settings.py` and `env.py`, and a line in `wmg.registry`. What the
viewer, videos and Gymnasium show of it are optional methods of its class: see `wmg.types.Env`.
"""
