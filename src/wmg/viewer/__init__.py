"""Watching agents: recordings of episodes, a live page, the same page as one file, and videos."""
