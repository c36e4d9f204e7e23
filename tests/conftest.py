"""Strictness for every test: a warning is an error, and no random key is used twice."""

import collections
import gc
import os
import pathlib
import resource

import jax
import pytest

LONG = ("test_examples",)
"""Files of few and long tests."""
MEMORY = 1.8e9
"""Bytes beyond which a process forgets its compiled programs, after a file of tests."""


def pytest_configure(config: pytest.Config) -> None:
    # Tests compile much and run little of it; commands that they start read the variables.
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # later ones end the process: they do not know the option
        given = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{given} --xla_cpu_use_fusion_emitters=false"
    config.addinivalue_line("filterwarnings", "error")
    jax.config.update("jax_debug_key_reuse", True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, which is how cores are given them: the last ones should be short."""
    tests = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.stem not in LONG, -tests[item.path]))


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Compiled programs of earlier files are not needed again, and a hundred take a gigabyte."""
    yield
    statm = pathlib.Path("/proc/self/statm")
    if statm.exists() and int(statm.read_text().split()[1]) * resource.getpagesize() > MEMORY:
        jax.clear_caches()
        gc.collect()
