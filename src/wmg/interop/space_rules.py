"""The rules by which parts of a Gymnasium observation space become Core, Factors or image.

`Rules` visits a space part by part; `guess_role` decides where the user does not. The page
docs/spaces.md has the table.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from wmg.interop.roles import Role
from wmg.interop.space_factors import FactorPart, GridCells, Items, TableRows
from wmg.interop.space_parts import (
    MASKS,
    TEXT_SIZE,
    Encoder,
    OneHot,
    Picture,
    Scaled,
    Sentences,
    Source,
    Terrain,
    Vector,
    embed_text,
)
from wmg.tools.errors import BadInput, cut, quote

MOST_ITEMS = 32
"""Factors of a sequence or graph, unless a role says otherwise."""
MOST_ROWS = 64
"""Rows that become Factors, and cells of a grid, unless a role says otherwise."""
MOST_ONE_HOT = 4096
"""Numbers of a one-hot part, and actions that are combinations."""
FEW_VALUES = 32
"""The most values of a grid's cell."""
LARGEST_GRID = 32
SMALLEST_IMAGE = 32
"""The side of a 2-D Box of fractions that is taken for an image."""
MOST_MISSIONS = 10_000
MINIGRID_VALUES = (11, 6, 4)
"""Types, colours and states of minigrid's cells."""
MINIGRID_EMPTY = (0, 1)
MINIGRID_TERRAIN = (2, 9)
"""Walls and lava."""
MINIGRID_MOST = 16
"""Things that are shown. Of 129 environments' random play the most was 11."""
MINIGRID_VIEW, MINIGRID_WHOLE = 11, 25
"""The widest view of an agent, and the widest world."""


def show(space: Any) -> str:
    """A space in a few words."""
    if is_mission(space):
        return type(space).__name__
    return cut(" ".join(repr(space).split()), 60)


class Rules:
    """Visits the parts of an observation space and decides what each becomes."""

    def __init__(self, roles: dict[str, Role], text: Callable[[str], np.ndarray] | None):
        self.roles, self.text = roles, text
        self.core: list[tuple[Source, Encoder]] = []
        self.factors: dict[str, FactorPart] = {}
        self.images: list[Picture] = []
        self.lines: list[tuple[str, Any, str]] = []
        """Key, space, and what that became."""
        self.keys: list[str] = []
        """All keys there are."""

    def visit(
        self,
        space: Any,
        path: tuple[Any, ...] = (),
        mask: Source | None = None,
        mission: bool = False,
    ) -> None:
        """Take in a part: with its mask if it has one, and whether minigrid's mission is beside."""
        key = "/".join(map(str, path))
        self.keys.append(key)
        role = self.roles.get(key)
        if role is not None and role.word == "ignore":
            self.lines.append((key, space, "ignored, as its role says"))
        elif isinstance(space, spaces.Dict | spaces.Tuple):
            if role is not None:
                raise BadInput(f"{name_part(key)} has parts: give roles to these, not to the whole")
            self._visit_parts(space, path)
        elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
            role = role or guess_role(space, key, mask is not None, mission)
            self._add_array(space, Source(key, path, space.shape), role, mask)
        elif isinstance(space, spaces.Discrete):
            self._add_to_core(space, Source(key, path, ()), role or Role("core"))
        elif isinstance(space, spaces.Sequence | spaces.Graph):
            self._add_items(space, Source(key, path, None), role or Role("factors"))
        elif isinstance(space, spaces.Text) or is_mission(space):
            self._add_text(space, Source(key, path, None), role)
        else:
            raise cannot_map(key, space)

    def refuse_unused(self) -> None:
        """Refuse roles of keys that do not exist."""
        for key in self.roles:
            if key not in self.keys:
                known = ", ".join(map(repr, self.keys))
                raise BadInput(f"roles has {quote(key)}, but the parts are {known}")

    def _visit_parts(self, space: Any, path: tuple[Any, ...]) -> None:
        parts = dict(space.items() if isinstance(space, spaces.Dict) else enumerate(space))
        mission = any(is_mission(part) for part in parts.values())
        masks = self._find_masks(parts, path)
        for key, part in parts.items():
            if key not in masks.values():
                here = (*path, key)
                mask = None
                if key in masks:
                    there = (*path, masks[key])
                    mask = Source("/".join(map(str, there)), there, parts[masks[key]].shape)
                self.visit(part, here, mask, mission)
            else:
                whole = "/".join(map(str, (*path, key)))
                self.keys.append(whole)
                self.lines.append((whole, part, "the mask of these Factors"))

    def _find_masks(self, parts: dict[Any, Any], path: tuple[Any, ...]) -> dict[str, str]:
        """The key of the mask, for each key of rows that has one."""
        found = {}
        for rows, ending in itertools.product(parts, MASKS):
            mask, here = f"{rows}{ending}", "/".join(map(str, (*path, rows)))
            role = self.roles.get(here)
            shape = parts[rows].shape
            if mask not in parts or not isinstance(parts[rows], ROWS) or shape is None:
                continue
            if len(shape) != 2 or (role and role.word != "factors"):
                continue
            key = "/".join(map(str, (*path, mask)))
            if key in self.roles or (role and role.presence is not None):
                continue
            if parts[mask].shape != shape[:1] or not is_binary(parts[mask]):
                raise BadInput(
                    f"the mask {quote(key)} must have a 0 or 1 for each of the {shape[0]} rows of "
                    f"{quote(here)}, got {show(parts[mask])}: correct it, or give it a role"
                )
            found[rows] = mask
        return found

    def _add_array(self, space: Any, source: Source, role: Role, mask: Source | None) -> None:
        add = {
            "core": self._add_to_core,
            "grid": self._add_grid,
            "image": self._add_image,
        }
        if role.word == "factors":
            self._add_rows(space, source, role, mask)
        else:
            add[role.word](space, source, role)

    def _add_to_core(self, space: Any, source: Source, role: Role) -> None:
        if role.word != "core":
            raise wrong_role(source.key, space, role)
        encoder, becomes = encode(space, source.key, role)
        self._extend_core(source, encoder, space, becomes)

    def _extend_core(self, source: Source, encoder: Encoder, space: Any, becomes: str) -> None:
        start = sum(encoder.size for _, encoder in self.core)
        self.core.append((source, encoder))
        place = f"{start}-{start + encoder.size - 1}" if encoder.size > 1 else f"{start}"
        self.lines.append((source.key, space, f"Core {place}: {becomes}"))

    def _add_factors(self, part: FactorPart, name: str, space: Any, becomes: str) -> None:
        called = part.source.key or name
        self.factors[called] = part
        most = f"at most {part.count}, {part.size} numbers each"
        self.lines.append((part.source.key, space, f"Factors {called!r} ({most}): {becomes}"))

    def _add_rows(self, space: Any, source: Source, role: Role, mask: Source | None) -> None:
        shape = space.shape
        if len(shape) != 2:
            raise BadInput(
                f"{name_part(source.key)} must be 2-D to become Factors, got shape {shape}"
            )
        count, width = shape
        if role.most is not None and role.most != count:
            raise BadInput(f"{name_part(source.key)} always has {count} rows: leave out most")
        presence = role.presence
        if presence is not None and presence >= width:
            raise BadInput(
                f"presence in the role of {quote(source.key)} must be a column from 0 to "
                f"{width - 1}, got {presence}"
            )
        if presence is not None and width == 1:
            raise BadInput(f"{name_part(source.key)} has a presence column and no other")
        columns = tuple(i for i in range(width) if i != presence)
        order = role.order if role.order is not None else mask is None
        encoder, becomes = encode(narrow(space, columns), source.key, role)
        part = TableRows(source, count, encoder, columns, presence, mask, order)
        says = "always there"
        if presence is not None:
            says = f"there where column {presence} is 1"
        elif mask is not None:
            says = f"there where {mask.key!r} is 1"
        place = ", and the row's number one-hot" if order else ""
        self._add_factors(part, "rows", space, f"rows, {says}; each is {becomes}{place}")

    def _add_items(self, space: Any, source: Source, role: Role) -> None:
        if role.word != "factors" or role.presence is not None:
            raise wrong_role(source.key, space, role)
        graph = isinstance(space, spaces.Graph)
        if graph and space.edge_space is not None and role.edges is None:
            raise BadInput(
                f"{name_part(source.key)} is a graph with edges, and only nodes can be Factors: "
                f"give roles {{{source.key!r}: 'factors edges=ignore'}} to leave the edges out"
            )
        inner, stacked = (space.node_space, True) if graph else (space.feature_space, space.stack)
        item = Rules({}, self.text)
        item.visit(inner, (0,) if graph else ())
        if item.factors or item.images or not item.core:
            raise cannot_map(source.key, space)
        plan = [(dataclasses.replace(at, key=source.key), made) for at, made in item.core]
        part = Items(
            source, role.most or MOST_ITEMS, Vector(tuple(plan)), stacked, role.order or False
        )
        what = "nodes, without their edges" if graph else "items"
        if graph and space.edge_space is None:
            what = "nodes"
        place = "; each with its number one-hot" if part.order else ""
        self._add_factors(part, "nodes" if graph else "items", space, f"{what}{place}")

    def _add_text(self, space: Any, source: Source, role: Role | None) -> None:
        if role is not None and role.word != "core":
            raise wrong_role(source.key, space, role)
        missions = list_missions(space)
        if missions is not None and len(missions) == 1 and self.text is None:
            self.lines.append((source.key, space, "left out: the text is always the same"))
        elif self.text is not None:
            size = int(np.size(self.text(next(iter(missions or ["go"])))))
            made = Sentences(source.key, self.text, size)
            self._extend_core(source, made, space, "the text, by the encoder that was given")
        elif missions is not None:
            size = len(next(iter(missions.values())))
            made = Sentences(source.key, functools.partial(_find_mission, missions), size)
            says = f"what varies among its {len(missions)} texts, one-hot"
            self._extend_core(source, made, space, says)
        else:
            made = Sentences(source.key, embed_text, TEXT_SIZE)
            says = "the sum of a random vector for each word and pair of words"
            self._extend_core(source, made, space, says)

    def _add_grid(self, space: Any, source: Source, role: Role) -> None:
        if len(space.shape) not in (2, 3) or not is_whole(space):
            raise wrong_role(source.key, space, role)
        grid = read_grid(space, source.key, role)
        height, width = space.shape[:2]
        cells = height * width
        minigrid = grid.counts == MINIGRID_VALUES
        most = role.most or (min(cells, MINIGRID_MOST) if minigrid else min(cells, MOST_ROWS))
        view = height == width and height % 2 == 1 and height <= MINIGRID_VIEW
        # Minigrid's first axis is x. An agent stands in the middle of its view's near side.
        anchor = ((height - 1) / 2, width - 1.0 if minigrid and view else (width - 1) / 2)
        skipped = None if grid.skipped is None else (*grid.skipped, *grid.terrain)
        part = GridCells(
            source,
            most,
            grid.counts,
            (height, width),
            grid.low,
            skipped,
            anchor,
            cut=minigrid or bool(role.most),
        )
        if grid.terrain:
            bits = Terrain(cells, grid.terrain)
            kinds = " and ".join(map(str, grid.terrain))
            says = f"a bit for each cell and type of terrain ({kinds})"
            if minigrid and grid.terrain == MINIGRID_TERRAIN:
                says = "where walls are, and lava: two bits for each cell"
            self._extend_core(source, bits, space, says)
        which = f"the {most} nearest cells with a thing" if part.cut else "cells with a thing"
        self._add_factors(part, "cells", space, f"{which}: what it is, one-hot, and where it is")

    def _add_image(self, space: Any, source: Source, role: Role) -> None:
        if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
            raise wrong_role(source.key, space, role)
        if self.images:
            raise BadInput(
                f"{quote(self.images[0].source.key)} and {quote(source.key)} are both images, and "
                f"an agent takes one: give one of them the role 'ignore'"
            )
        first, *_, last = space.shape
        channels_first = len(space.shape) == 3 and first <= 16 < last and first < space.shape[1]
        picture = Picture(source, scaled(space), channels_first)
        self.images.append(picture)
        size = "x".join(map(str, picture.shape))
        self.lines.append((source.key, space, f"image {size}, scaled by its bounds"))


ROWS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


def name_part(key: str) -> str:
    """A part of the space in an error message."""
    return f"the part {quote(key)} of the observation space" if key else "the observation space"


def cannot_map(key: str, space: Any) -> BadInput:
    """What is said of a space without a rule."""
    hint = f"give roles {{{key!r}: 'ignore'}} to leave it out, or " if key else ""
    return BadInput(f"{name_part(key)} is {show(space)}, which has no rule: {hint}wrap it")


def wrong_role(key: str, space: Any, role: Role) -> BadInput:
    """What is said of a role that a space cannot have."""
    return BadInput(f"{name_part(key)} is {show(space)}, which cannot have the role {role.word!r}")


def guess_role(space: Any, key: str, masked: bool, mission: bool) -> Role:
    """The role of an array that has none: with its mask, or minigrid's mission, beside it."""
    shape = space.shape
    if masked:
        return Role("factors")
    if not isinstance(space, spaces.Box) or len(shape) <= 1 or math.prod(shape) <= 8:
        return Role("core")
    if looks_like_minigrid(space, mission):
        return Role("grid")
    whole = is_whole(space)
    few = whole and float(space.high.max()) - float(space.low.min()) < FEW_VALUES
    grid = few and min(shape[:2]) >= 3 and max(shape[:2]) <= LARGEST_GRID
    if len(shape) == 2:
        byte = whole and (space.low == 0).all() and (space.high == 255).all()
        image = min(shape) >= SMALLEST_IMAGE // (2 if byte else 1) and not grid
        if not image and not grid and shape[0] > MOST_ROWS:
            raise BadInput(
                f"{name_part(key)} is {show(space)}: give it the role 'factors', 'core' or 'image',"
                f" since more than {MOST_ROWS} rows become Factors only on request"
            )
        return Role("grid" if grid else "image" if image else "factors")
    if len(shape) == 3:
        return Role("grid" if grid else "image")
    raise BadInput(
        f"{name_part(key)} is {show(space)}, which has more than 3 axes: give it the role 'core' "
        f"or 'ignore', or wrap the environment"
    )


def is_whole(space: Any) -> bool:
    """Whether a space holds whole numbers or bits."""
    return np.dtype(space.dtype).kind in "iub"


def looks_like_minigrid(space: Any, mission: bool) -> bool:
    """Whether a Box is the view of an agent of minigrid, or its whole world beside a mission."""
    shape = space.shape
    if len(shape) != 3 or shape[2] != 3 or space.dtype != np.uint8:
        return False
    view = shape[0] == shape[1] and shape[0] % 2 == 1 and shape[0] <= MINIGRID_VIEW
    known = view or (mission and max(shape[:2]) <= MINIGRID_WHOLE)
    return known and bool((space.low == 0).all() and (space.high == 255).all())


@dataclasses.dataclass(frozen=True)
class GridValues:
    """What the values of a grid's cells mean."""

    counts: tuple[int, ...]
    low: int
    skipped: tuple[int, ...] | None
    terrain: tuple[int, ...]


def read_grid(space: Any, key: str, role: Role) -> GridValues:
    """The values of a grid, by its role and its bounds."""
    channels = space.shape[2] if len(space.shape) == 3 else 1
    low, high = _limits(space)
    shape = (-1, channels)
    counts = tuple(map(int, high.reshape(shape).max(0) - low.min() + 1))
    wide = max(counts) > FEW_VALUES
    minigrid = role.values in (None, MINIGRID_VALUES) and wide and channels == 3
    if role.values is not None:
        if len(role.values) != channels:
            raise BadInput(
                f"values in the role of {quote(key)} must be {channels} numbers, one for each "
                f"channel, got {len(role.values)}"
            )
        counts = role.values
    elif minigrid:
        counts = MINIGRID_VALUES
    elif wide:
        raise BadInput(
            f"{name_part(key)} may have {max(counts)} values in a cell: say how many each channel "
            f"has, for example 'grid values={'/'.join(['8'] * channels)}'"
        )
    lowest = 0 if role.values is not None or minigrid else int(low.min())
    if role.empty is None and not minigrid and role.terrain is None:
        return GridValues(counts, lowest, None, ())
    usual_empty, usual_terrain = (MINIGRID_EMPTY, MINIGRID_TERRAIN) if minigrid else ((0,), ())
    empty = usual_empty if role.empty is None else role.empty
    terrain = usual_terrain if role.terrain is None else role.terrain
    return GridValues(counts, lowest, empty, terrain)


def _limits(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and largest values, of the shape of the space. They are floats: the difference
    of two whole numbers of 64 bits may not fit 64 bits."""
    if isinstance(space, spaces.Box):
        return space.low.astype(float), space.high.astype(float)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape), np.ones(space.shape)
    return space.start.astype(float), space.start.astype(float) + space.nvec - 1


def is_binary(space: Any) -> bool:
    """Whether a space holds 0 and 1 alone."""
    if isinstance(space, spaces.MultiBinary):
        return True
    if isinstance(space, spaces.MultiDiscrete):
        return bool((space.nvec == 2).all() and (space.start == 0).all())
    return isinstance(space, spaces.Box) and bool(
        (space.low == 0).all() and (space.high == 1).all()
    )


def narrow(space: Any, columns: tuple[int, ...]) -> Any:
    """The space of one row of a table, and of these columns alone."""
    chosen = list(columns)
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary(len(chosen))
    if isinstance(space, spaces.MultiDiscrete):
        last = (space.start + space.nvec).max(0)[chosen]
        first = space.start.min(0)[chosen]
        return spaces.MultiDiscrete(last - first, start=first)
    return spaces.Box(space.low.min(0)[chosen], space.high.max(0)[chosen], dtype=space.dtype)


def encode(space: Any, key: str, role: Role) -> tuple[Encoder, str]:
    """The vector of a space of numbers, and what that is in words."""
    if isinstance(space, spaces.MultiBinary):
        size = math.prod(space.shape)
        return Scaled(np.zeros(size), np.ones(size)), f"{size} bits"
    if isinstance(space, spaces.Box):
        made = scaled(space)
        numbers = f"{made.size} number{'s' if made.size > 1 else ''}"
        if made.scaled == 0:
            return made, f"{numbers}, as they are" if made.size > 1 else f"{numbers}, as it is"
        which = "" if made.scaled == made.size else f", {made.scaled} of them"
        return made, f"{numbers}{which} scaled by the bounds"
    single = isinstance(space, spaces.Discrete)
    counts = [int(space.n)] if single else space.nvec.ravel().tolist()
    starts = [int(space.start)] if single else space.start.ravel().tolist()
    if role.numbers:
        first, many = np.array(starts, float), np.array(counts, float)
        return Scaled(first, first + many - 1), f"{len(counts)} scaled by the bounds"
    if sum(counts) > MOST_ONE_HOT:
        raise BadInput(
            f"{name_part(key)} would be {sum(counts):,} numbers one-hot, and there may be at most "
            f"{MOST_ONE_HOT:,}: give it the role 'core numbers=yes' or 'ignore'"
        )
    return OneHot(key, counts, starts), "one-hot"


def scaled(space: Any) -> Scaled:
    """The numbers of a Box."""
    return Scaled(space.low.ravel().astype(float), space.high.ravel().astype(float))


def is_mission(space: Any) -> bool:
    """Whether a space is minigrid's, of missions."""
    return hasattr(space, "mission_func") and hasattr(space, "ordered_placeholders")


def list_missions(space: Any) -> dict[str, Float[np.ndarray, " size"]] | None:
    """All missions of a space of minigrid, each with its words that vary, one-hot. None if they
    are unknown or too many."""
    if not is_mission(space):
        return None
    if space.ordered_placeholders is None and space.contains("any"):  # BabyAI's contains all texts
        return None
    words = [list(group) for group in space.ordered_placeholders or []]
    if math.prod(map(len, words)) > MOST_MISSIONS:
        return None
    varying = [i for i, group in enumerate(words) if len(group) > 1]
    missions = {}
    for chosen in itertools.product(*(range(len(group)) for group in words)):
        mission = space.mission_func(*(group[i] for group, i in zip(words, chosen, strict=True)))
        bits = [np.eye(len(words[i]), dtype=np.float32)[chosen[i]] for i in varying]
        missions.setdefault(mission, np.concatenate(bits) if bits else np.zeros(0, np.float32))
    return missions


def _find_mission(missions: dict[str, np.ndarray], text: str) -> np.ndarray:
    if text not in missions:
        raise BadInput(f"the text {quote(text)} is none of the {len(missions)} that its space has")
    return missions[text]
