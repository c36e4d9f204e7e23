"""Distributed Grid Descent for Optuna."""

from .sampler import DGDSampler

__all__ = ["DGDSampler"]
