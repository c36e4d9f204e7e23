"""Watching agents: recordings of episodes, a live page, the same page as one file, and videos."""

LARGEST_SEED = 2**31 - 1 - 20_000
"""Of an episode; 20,000 others after it may be tried, and still be counted in 32 bits."""
