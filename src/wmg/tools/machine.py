"""The machine that a figure was measured on: device, versions, commit, date."""

import contextlib
import datetime
import functools
import os
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

from wmg import __version__


def describe() -> dict[str, Any]:
    """The conditions of a measurement: device, versions, commit, date."""
    import jax

    device = jax.devices()[0]
    cuda = re.search(r"cuda (\d+)", device.client.platform_version)
    return {
        "device": device.device_kind if device.platform != "cpu" else _cpu_name(),
        "devices": jax.device_count() if device.platform != "cpu" else None,
        "cores": cores(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "cuda": int(cuda[1]) if cuda else None,
        "wmg": __version__,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


@functools.cache
def commit() -> str | None:
    """The commit of this code, with "+" if tracked files have changed since; None if unknown.

    The variable WMG_COMMIT names the commit of code that was copied without its history.
    """
    if told := os.environ.get("WMG_COMMIT"):
        return told
    ask = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty=+"]
    with contextlib.suppress(OSError):
        # --exclude: the commit, whatever tags there are. A copy in another repository is not ours.
        found = subprocess.run([*ask, "--abbrev=12", "--exclude=*"], capture_output=True, text=True)
        tracked = subprocess.run(
            [*ask[:3], "ls-files", "--error-unmatch", __file__], capture_output=True
        )
        if found.returncode == tracked.returncode == 0:
            return found.stdout.strip()
    return None


def now() -> str:
    """The time, as results have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def cores() -> int:
    """How many CPU cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
