"""Strictness for every test: a warning is an error, and no random key is used twice."""

import collections
import contextlib
import ctypes
import gc
import os
import pathlib
import resource
import shutil
import tempfile

import jax
import pytest

LONG = ("test_examples",)
"""Files of few and long tests."""
MEMORY = 1.4e9
"""Bytes beyond which a process forgets its compiled programs, after a file of tests."""


def pytest_configure(config: pytest.Config) -> None:
    # Tests compile much and run little of it; commands that they start read the variables.
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # later ones end the process: they do not know all options
        given = os.environ.get("XLA_FLAGS", "")
        quick = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ["XLA_FLAGS"] = f"{given} {quick}"
    if "WMG_TEST_CACHE" not in os.environ:  # not so in workers, which share the folder
        os.environ["WMG_TEST_CACHE"] = tempfile.mkdtemp(prefix="wmg-tests-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop("WMG_TEST_CACHE")))
    config.addinivalue_line("filterwarnings", "error")
    # One process may read a program while another one writes it, and then compiles it itself.
    config.addinivalue_line("filterwarnings", "ignore:Error reading persistent compilation cache")
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
        with contextlib.suppress(OSError, AttributeError):  # without it the memory is kept
            ctypes.CDLL("libc.so.6").malloc_trim(0)
