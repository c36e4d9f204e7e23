"""Agents from outside of the package."""
