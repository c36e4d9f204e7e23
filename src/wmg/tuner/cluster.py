"""Workers on a Ray cluster: Ray places them and restarts lost ones."""

import dataclasses
import importlib
from collections.abc import Callable

from wmg.tools.errors import BadInput
from wmg.tuner import worker
from wmg.tuner.worker import Objective


@dataclasses.dataclass(frozen=True)
class Resources:
    """What each worker is given."""

    cpus: float = 1.0
    gpus: float = 0.0


def work(
    address: str,
    storage: str,
    name: str,
    count: int,
    resources: Resources,
    at_once: int,
    make_objective: Callable[[dict], Objective],
) -> list[int]:
    """How many runs each of `count` workers has done, once all have ended."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise BadInput("workers on a cluster need Ray: pip install 'wmg[ray]'") from error
    try:
        ray.init(address=address, ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f"there is no Ray cluster at {address!r}: {reason}") from None
    place = ray.remote(
        num_cpus=resources.cpus,
        num_gpus=resources.gpus,
        max_retries=-1,  # a worker whose machine is lost restarts on another
        scheduling_strategy="SPREAD",
    )
    loop = place(_work)
    return ray.get([loop.remote(storage, name, at_once, make_objective) for _ in range(count)])


def _work(
    storage: str, name: str, at_once: int, make_objective: Callable[[dict], Objective]
) -> int:
    """The loop that `wmg tune worker` runs, in a process of Ray's."""
    return worker.work(storage, name, make_objective, at_once=at_once, say=print).runs
