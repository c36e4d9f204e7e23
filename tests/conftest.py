"""Strictness for every test: a warning is an error, and no random key is used twice."""

import jax
import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "error")
    jax.config.update("jax_debug_key_reuse", True)
