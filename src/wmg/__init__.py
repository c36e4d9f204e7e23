"""Working Memory Graphs in JAX."""

__version__ = "0.1.0"
