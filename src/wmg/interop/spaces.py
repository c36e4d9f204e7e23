"""Gymnasium's spaces as agents take them: which part of an observation becomes what, by rule.

Needs the extra `gym`. `map_spaces` makes a `SpaceMapping` from an environment's two spaces. The
mapping turns observations into `Observation`s of numpy arrays, and numbers of actions into actions.

The rules (docs/spaces.md has the table):

- Box vectors, Discrete, MultiDiscrete and MultiBinary go to the Core, in the order of the keys.
- Rows of a 2-D Box, Sequence and the nodes of a Graph become Factors, a type for each key.
- A small grid of whole numbers becomes a Factor for each cell with a thing in it.
- Other 2-D and 3-D boxes are images.
- Texts go to the Core; a text that never changes is left out.

`roles` decides otherwise for a key; see `wmg.interop.roles`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from wmg.interop.roles import read_roles
from wmg.interop.space_factors import FactorPart
from wmg.interop.space_parts import Picture, Source, Vector
from wmg.play.host_arrays import from_parts
from wmg.tools.errors import BadInput, quote
from wmg.types import Observation, ObservationSpec

try:
    from gymnasium import spaces
except ImportError as error:
    raise BadInput("Gymnasium's spaces need gymnasium: pip install 'wmg[gym]'") from error

from wmg.interop.space_rules import MOST_ONE_HOT, Rules, show


@dataclasses.dataclass(frozen=True)
class MappedPart:
    """A line of `SpaceMapping.describe`."""

    key: str
    space: str
    becomes: str


@dataclasses.dataclass(frozen=True, eq=False)
class SpaceMapping:
    """How the observations and actions of a Gymnasium environment are an agent's."""

    observation: ObservationSpec
    actions: int
    """The agent chooses one of these."""
    parts: tuple[MappedPart, ...]
    """What each part of the spaces became."""
    core: Vector
    factors: tuple[tuple[str, FactorPart], ...]
    """Sorted by name."""
    image: Picture | None
    table: np.ndarray | None
    """The combination of each action; None where the action is a number."""
    first_action: int = 0
    flattened: bool = False
    """Whether the Factors are shown in the Core."""

    def observe(self, seen: Any) -> Observation:
        """The observation of one environment."""
        return self._build([leaf[0] for leaf in self._read(seen, None)])

    def observe_all(self, batch: Any) -> Observation:
        """The observations of a `gymnasium.vector.VectorEnv`, with a first axis."""
        return self._build(self._read(batch, len(self._first.find(batch))))

    def to_action(self, index: Any) -> Any:
        """What the environment's `step` takes for an agent's action."""
        if self.table is None:
            return int(index) + self.first_action
        return self.table[int(index)].copy()

    def to_actions(self, actions: Any) -> np.ndarray:
        """What a vector environment's `step` takes for the agents' actions."""
        chosen = np.asarray(actions)
        return chosen + self.first_action if self.table is None else self.table[chosen]

    def describe(self) -> str:
        """A table in plain text: each part of the spaces and what it became."""
        rows = [("part", "space", "becomes")]
        rows += [(part.key, part.space, part.becomes) for part in self.parts]
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        return "\n".join(
            f"{key:{widths[0]}}  {space:{widths[1]}}  {becomes}" for key, space, becomes in rows
        )

    @functools.cached_property
    def _first(self) -> Source:
        """A part of the observation."""
        if self.core.parts:
            return self.core.parts[0][0]
        return self.factors[0][1].source if self.factors else cast(Picture, self.image).source

    @functools.cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.factors)

    def _read(self, seen: Any, n: int | None) -> list[np.ndarray]:
        """The arrays of the observations, in the order of the PyTree."""
        if self.core.parts:
            leaves: list[np.ndarray] = [self.core.read(seen, n)]
        else:  # the constant 1, unless Factors follow
            leaves = [np.ones((n or 1, 0 if self.flattened else 1), np.float32)]
        for _, part in self.factors:
            leaves += part.read(seen, n)
        if self.image is not None:
            leaves.append(self.image.read(seen, n))
        return leaves

    def _build(self, leaves: list[np.ndarray]) -> Observation:
        names, last = self._names, 1 + 2 * len(self._names)
        if self.flattened:
            leaves, names = [flatten(leaves[0], leaves[1:last]), *leaves[last:]], ()
        return from_parts(names, leaves)


def flatten(core: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
    """A Core with all Factors in it, one after the other, each with whether it is there; one that
    is not is all zeros. `factors` has rows and presence of each type in turn."""
    parts = [core]
    for values, present in zip(factors[::2], factors[1::2], strict=True):
        there = present[..., None]
        rows = np.where(there, np.concatenate([values, np.ones_like(there)], axis=-1), 0)
        parts.append(rows.reshape(*rows.shape[:-2], -1))
    return np.concatenate(parts, axis=-1, dtype=np.float32)


def flatten_spec(spec: ObservationSpec) -> ObservationSpec:
    """The shapes of an observation with its Factors in the Core."""
    more = sum(most * (size + 1) for _, most, size in spec.factors)
    return dataclasses.replace(spec, core=spec.core + more, factors=())


def map_spaces(
    observation_space: Any,
    action_space: Any,
    *,
    roles: Mapping[str, str] | None = None,
    text: Callable[[str], np.ndarray] | None = None,
    flattened: bool = False,
) -> SpaceMapping:
    """The mapping of an environment's spaces.

    `roles` decides what parts become; see `wmg.interop.roles`. `text` encodes texts: it returns
    the same number of numbers for each. `flattened` shows Factors in the Core,
    if there are any.
    """
    if not isinstance(observation_space, spaces.Space):
        got = quote(observation_space)
        raise BadInput(f"an observation space must be one of Gymnasium's, got {got}")
    rules = Rules(read_roles(roles), text)
    rules.visit(observation_space)
    rules.refuse_unused()
    if not (rules.core or rules.factors or rules.images):
        raise BadInput("nothing of the observation is left: every part is ignored or constant")
    table, first_action, actions, becomes = map_actions(action_space)
    core, factors = Vector(tuple(rules.core)), tuple(sorted(rules.factors.items()))
    image, flattened = rules.images[0] if rules.images else None, flattened and bool(factors)
    spec = ObservationSpec(
        core.size if flattened else core.size or 1,
        tuple((name, part.count, part.size) for name, part in factors),
        None if image is None else image.shape,
    )
    lines = [MappedPart(key or "observation", show(s), made) for key, s, made in rules.lines]
    if not rules.core and not flattened:
        lines.append(MappedPart("", "", "Core 0: always 1, since nothing else is in the Core"))
    if flattened:
        was, spec = spec.core, flatten_spec(spec)
        lines.append(MappedPart("", "", f"Core {was}-{spec.core - 1}: all Factors, flattened"))
    lines.append(MappedPart("action", show(action_space), becomes))
    return SpaceMapping(
        observation=spec,
        actions=actions,
        parts=tuple(lines),
        core=core,
        factors=factors,
        image=image,
        table=table,
        first_action=first_action,
        flattened=flattened,
    )


def map_actions(space: Any) -> tuple[np.ndarray | None, int, int, str]:
    """Table of combinations, first action, number of actions, and what that is in words."""
    if isinstance(space, spaces.Discrete):
        start, count = int(space.start), int(space.n)
        shift = f", the first of which is {start}" if start else ""
        return None, start, count, f"{count} actions{shift}"
    if not isinstance(space, spaces.MultiDiscrete):
        raise BadInput(
            f"the action space must be Discrete or MultiDiscrete, got {show(space)}: wrap the "
            f"environment so that its actions can be counted"
        )
    counts = space.nvec.ravel().tolist()
    actions = math.prod(counts)
    if actions > MOST_ONE_HOT:
        raise BadInput(
            f"the action space {show(space)} has {actions:,} combinations, and there may be at "
            f"most {MOST_ONE_HOT:,}: wrap the environment so that there are fewer"
        )
    digits = np.stack(np.unravel_index(np.arange(actions), counts), axis=1)
    table = digits.reshape(actions, *space.nvec.shape) + space.start
    return table.astype(space.dtype), 0, actions, f"{actions} actions: all combinations"
