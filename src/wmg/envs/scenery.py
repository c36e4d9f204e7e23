"""How an environment tells the viewer to show more than its picture."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from wmg.types import Observation

Reset = Callable[[Any, Any], tuple[Any, Observation]]
"""(environment, seed) to the start of the episode of that seed. It can be compiled."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A way to choose an episode, other than by its seed."""

    label: str
    kind: str
    """The kind of input: 'number', 'text' or 'lines'."""
    hint: str
    """An example."""
    start: Callable[[Any, Any, int, Reset], tuple[int, Any]]
    """(environment, user's input, last seed, reset) to the seed of the episode and its first state
    (None: the seed's own). Raises ValueError with one sentence if the input is wrong."""


@dataclasses.dataclass(frozen=True)
class Scenery:
    """How the viewer shows one environment. States and observations come as numpy arrays, unless
    said otherwise."""

    drawing: pathlib.Path
    """The JavaScript file that draws what `describe` returns. It exports `drawing`, an object with
    `measure`, `draw`, `centre` (if there are places) and `legend`; `envs/*/scene.js` are examples.
    It may import from "./make.js"."""
    actions: tuple[tuple[str, str], ...]
    """(name, key) of each action, as a browser calls keys; without a key ''."""
    describe: Callable[[Any, Observation], dict[str, Any]]
    """A state as JSON. What every scene has: `says`, a sentence; `brief`, a few letters for a
    timeline; `places`, where the Factors are, in order, None if absent."""
    choices: dict[str, Choice] = dataclasses.field(default_factory=dict)
    observe: Callable[[Any, Any], Observation] | None = None
    """(environment, state, as jax arrays) to what an agent sees, if a choice gives states."""
    squares: Callable[[list[int]], tuple[int, int, int]] | None = None
    """Left, top and side of the cell of a place, in pixels of the picture of a state."""
