"""Environments from outside of the package."""
