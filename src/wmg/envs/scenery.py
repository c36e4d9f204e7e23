"""What the viewer must know of an environment."""

import dataclasses
from collections.abc import Callable
from typing import Any

from wmg.types import Observation


@dataclasses.dataclass(frozen=True)
class Choice:
    """A way to choose an episode, other than by its seed."""

    label: str
    kind: str
    """What is asked for: 'number', 'text' or 'lines'."""
    hint: str
    """An example."""
    start: Callable[[Any, Any, int], tuple[int, Any]]
    """(environment, what was asked for, last seed) to the seed of the episode and the state it
    starts from, None for that of the seed. A ValueError says in one sentence what is wrong."""


@dataclasses.dataclass(frozen=True)
class Scenery:
    """One environment. States and observations come as numpy arrays, unless said otherwise."""

    title: Callable[[Any], str]
    """A name for an environment with these settings."""
    actions: tuple[tuple[str, str], ...]
    """(name, key) of each action, as a browser calls keys."""
    describe: Callable[[Any, Observation], dict[str, Any]]
    """A state as JSON. What every scene has: `says`, a sentence; `brief`, a few letters for a
    timeline; `places`, where the Factors are, in order, None for one that is not there."""
    observe: Callable[[Any, Any], Observation]
    """(environment, state, as jax arrays) to what an agent sees."""
    choices: dict[str, Choice] = dataclasses.field(default_factory=dict)
    squares: Callable[[list[int]], tuple[int, int, int]] | None = None
    """Left, top and side of the cell of a place, in pixels of the picture of a state."""
