"""The settings of the agents that do not learn."""
