"""A long short-term memory as the agent's memory."""
