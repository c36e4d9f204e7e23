"""The settings of the GRU baseline."""
