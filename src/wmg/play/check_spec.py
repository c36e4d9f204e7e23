"""The check of a spec, where an environment of one's own comes in.

It is not in `EnvSpec` itself: an environment makes its spec anew whenever it is asked for it, also
in every step that is traced.
"""

import math
import typing
from typing import Any

from wmg.settings import require, require_counts
from wmg.tools.scores import Metric
from wmg.types import EnvSpec, ObservationSpec

LARGEST_SIZE = 2**24
"""Most numbers in one part of an observation."""
METRICS = typing.get_args(Metric)
"""What the score of an environment can be."""


def check_spec(spec: EnvSpec) -> None:
    """Raises `BadInput` if a spec makes no sense."""
    _check_observation(spec.observation)
    require_counts(spec, actions=1)
    require_counts(spec, largest=2**31 - 1, max_steps=1)
    require(spec.metric in METRICS, "metric", spec.metric, f"one of {', '.join(METRICS)}")
    perfect = spec.reward_per_step
    fits = isinstance(perfect, int | float) and math.isfinite(perfect) and perfect != 0
    require(fits, "reward_per_step", perfect, "a number other than 0")


def _check_observation(spec: Any) -> None:
    require(isinstance(spec, ObservationSpec), "observation", spec, "a wmg.ObservationSpec")
    rows, image = spec.factors, spec.image
    fits = isinstance(rows, tuple) and all(map(_is_row, rows))
    require(fits, "factors", rows, "a tuple with (name, largest count, size) for each type")
    fits = image is None or (isinstance(image, tuple) and len(image) == 3)
    require(fits, "image", image, "the tuple (width, height, channels) or None")
    names = [name for name, _, _ in spec.factors]
    for size in (spec.core, *(spec.image or ()), *(n for _, *ns in spec.factors for n in ns)):
        fits = type(size) is int and 0 <= size <= LARGEST_SIZE
        require(fits, "a size of an observation", size, f"from 0 to {LARGEST_SIZE:,}")
    require(names == sorted(set(names)), "names of Factors", names, "different and sorted")


def _is_row(row: Any) -> bool:
    """Whether it tells of a Factor type."""
    return isinstance(row, tuple) and [type(part) for part in row] == [str, int, int]
