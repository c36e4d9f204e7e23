"""Strictness for every test: a warning is an error, and no random key is used twice."""

import os

import jax
import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Tests compile much and run little of it; commands that they start read the variables.
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # later ones end the process: they do not know the option
        given = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{given} --xla_cpu_use_fusion_emitters=false"
    config.addinivalue_line("filterwarnings", "error")
    jax.config.update("jax_debug_key_reuse", True)
