"""What the parts of a Gymnasium observation become: numbers of the Core, Factors, an image.

Everything is numpy and serves a batch: `n` observations along a first axis. Tables and scales are
made once, from the space; a call copies numbers into their places. `wmg.interop.spaces` decides
which part of a space becomes what.
"""

import abc
import dataclasses
import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Integer, Shaped

from wmg.tools.errors import BadInput, quote

MOST_TEXTS = 10_000
"""Encoded texts that are remembered."""
TEXT_SIZE = 64
"""Numbers of a text that has no encoder of the user's."""
WIDEST = 1e5
"""Bounds further apart than this say nothing about the size of a number."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a part is in an observation, and its shape."""

    key: str
    path: tuple[Any, ...]
    shape: tuple[int, ...] | None
    """None where Gymnasium batches this part as a tuple of samples."""

    def find(self, seen: Any) -> Any:
        """The part itself."""
        try:
            for step in self.path:
                seen = seen[step]
        except (KeyError, IndexError, TypeError):
            raise BadInput(f"the observation has no part {quote(self.key)}") from None
        return seen

    def read(self, seen: Any, n: int | None) -> Any:
        """The part with a first axis, from one observation (n = None) or from a batch of n."""
        found = self.find(seen)
        if self.shape is None:
            if n is not None and len(found) != n:
                raise BadInput(f"{name(self.key)} has {len(found)} samples in a batch of {n}")
            return [found] if n is None else found
        return self.check(found if n is not None else [found], n or 1)

    def check(self, found: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
        """The samples as one array, if all have the shape of the space."""
        try:
            batch = np.asarray(found)
        except ValueError:
            raise BadInput(f"{name(self.key)} must always have shape {self.shape}") from None
        if batch.shape[0] != n or batch.shape[1:] != self.shape:
            raise BadInput(
                f"{name(self.key)} has shape {batch.shape[1:]}, but its space says {self.shape}"
            )
        if batch.dtype.kind == "b":
            return batch.view(np.uint8)
        if batch.dtype.kind not in "fiu":
            raise BadInput(f"{name(self.key)} must hold numbers, got {quote(batch.flat[0])}")
        return batch


def name(key: str) -> str:
    """A part of an observation in an error message."""
    return f"the part {quote(key)} of the observation" if key else "the observation"


class Encoder(abc.ABC):
    """Turns each sample of a part into a vector."""

    size: int

    @abc.abstractmethod
    def write(self, batch: Any, out: Float32[np.ndarray, "n size"]) -> None:
        """Write the vectors of a batch."""


class Scaled(Encoder):
    """Numbers as they are, or scaled by their bounds; see `scaling`."""

    def __init__(self, low: Float[np.ndarray, " size"], high: Float[np.ndarray, " size"]):
        self.size = low.size
        scale, shift = scaling(low, high)
        self.scale = None if (scale == 1).all() else scale
        self.shift = None if (shift == 0).all() else shift
        self.scaled = int(((scale != 1) | (shift != 0)).sum())
        """How many numbers change."""

    def write(self, batch: Shaped[np.ndarray, "n ..."], out: Float32[np.ndarray, "n size"]) -> None:
        flat = batch.reshape(len(batch), self.size)
        if self.scale is None:
            out[:] = flat
        else:
            np.multiply(flat, self.scale, out=out, casting="same_kind")
        if self.shift is not None:
            out += self.shift


def scaling(
    low: Float[np.ndarray, " size"], high: Float[np.ndarray, " size"]
) -> tuple[Float32[np.ndarray, " size"], Float32[np.ndarray, " size"]]:
    """Scale and shift of numbers within these bounds: to at most 1 in size.

    Where the bounds include 0, a number is divided by the larger bound, so that 0 stays 0.
    Otherwise the bounds become -1 and 1. Without two finite bounds a number stays as it is.
    """
    low, high = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(all="ignore"):
        width = high - low
        bounded = np.isfinite(low) & np.isfinite(high) & (width <= WIDEST)
        largest = np.maximum(np.abs(low), np.abs(high))
        around_zero = (low <= 0) & (high >= 0)
        divisor = np.where(around_zero, largest, width / 2)
        scale = np.where(bounded & (divisor > 0), 1 / divisor, 1.0)
        shift = np.where(bounded & ~around_zero, -(low + high) / 2 * scale, 0.0)
    return scale.astype(np.float32), shift.astype(np.float32)


class OneHot(Encoder):
    """Whole numbers, each one-hot."""

    def __init__(self, key: str, counts: Sequence[int], starts: Sequence[int]):
        self.key, self.size = key, sum(counts)
        self.counts, self.starts = np.array(counts, np.uint64), np.array(starts, np.int64)
        self.places = np.cumsum([0, *counts[:-1]])

    def write(self, batch: Shaped[np.ndarray, "n ..."], out: Float32[np.ndarray, "n size"]) -> None:
        chosen = batch.reshape(len(batch), -1).astype(np.int64) - self.starts
        if (chosen.view(np.uint64) >= self.counts).any():  # a negative number becomes a large one
            row, column = np.argwhere(chosen.view(np.uint64) >= self.counts)[0]
            low = int(self.starts[column])
            most = low + int(self.counts[column]) - 1
            got = int(chosen[row, column]) + low
            raise BadInput(f"{name(self.key)} must be from {low} to {most}, got {got}")
        out[:] = 0.0
        out[np.arange(len(batch))[:, None], chosen + self.places] = 1.0


class Sentences(Encoder):
    """Texts, each encoded once and then remembered."""

    def __init__(self, key: str, encode: Callable[[str], np.ndarray], size: int):
        self.key, self.encode, self.size = key, encode, size
        self.known: dict[str, np.ndarray] = {}

    def write(self, batch: Sequence[Any], out: Float32[np.ndarray, "n size"]) -> None:
        for row, text in zip(out, batch, strict=True):
            found = self.known.get(text)
            row[:] = self._encode(text) if found is None else found

    def _encode(self, text: str) -> np.ndarray:
        vector = np.asarray(self.encode(str(text)), np.float32)
        if vector.shape != (self.size,):
            raise BadInput(
                f"the encoder of texts must always return {self.size} numbers, but for "
                f"{quote(text)} its result has shape {vector.shape}"
            )
        if len(self.known) < MOST_TEXTS:
            self.known[text] = vector
        return vector


def embed_text(text: str) -> Float32[np.ndarray, " 64"]:
    """A text as 64 numbers: the sum of a fixed random vector for each word and pair of words."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    tokens = words + [" ".join(pair) for pair in itertools.pairwise(words)]
    total = np.zeros(TEXT_SIZE, np.float32)
    for token in tokens:
        total += _signs(token)
    return total / np.float32(max(1.0, len(tokens)) ** 0.5)


@functools.lru_cache(MOST_TEXTS)
def _signs(token: str) -> Float32[np.ndarray, " 64"]:
    digest = hashlib.shake_128(token.encode()).digest(TEXT_SIZE // 8)
    return np.unpackbits(np.frombuffer(digest, np.uint8)).astype(np.float32) * 2 - 1


class Terrain(Encoder):
    """Bits of a grid: for each cell and each of these types, whether the cell has that type."""

    def __init__(self, cells: int, types: Sequence[int]):
        self.size, self.types = cells * len(types), tuple(types)

    def write(self, batch: Shaped[np.ndarray, "n ..."], out: Float32[np.ndarray, "n size"]) -> None:
        first = batch[..., 0] if batch.ndim == 4 else batch
        n = len(batch)
        cells = first.reshape(n, -1)
        for place, kind in enumerate(self.types):
            np.equal(cells, kind, out=out[:, place :: len(self.types)])


@dataclasses.dataclass(frozen=True)
class Vector:
    """Several parts side by side as one vector."""

    parts: tuple[tuple[Source, Encoder], ...]

    @functools.cached_property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(encoder.size for _, encoder in self.parts)

    @functools.cached_property
    def places(self) -> tuple[tuple[Source, Encoder, slice], ...]:
        """Each part with its place in the vector."""
        ends = list(itertools.accumulate(encoder.size for _, encoder in self.parts))
        return tuple(
            (source, encoder, slice(end - encoder.size, end))
            for (source, encoder), end in zip(self.parts, ends, strict=True)
        )

    def read(self, seen: Any, n: int | None) -> Float32[np.ndarray, "n size"]:
        """The vectors of one observation (n = None) or of a batch of n."""
        out = np.empty((n or 1, self.size), np.float32)
        for source, encoder, place in self.places:
            encoder.write(source.read(seen, n), out[:, place])
        if not np.isfinite(out).all():
            bad = int(np.argwhere(~np.isfinite(out))[0, 1])
            key = next(source.key for source, _, place in self.places if bad < place.stop)
            raise not_finite(key)
        return out

    def read_items(self, samples: Sequence[Any], total: int) -> Float32[np.ndarray, "total size"]:
        """The vectors of the items of all samples; each sample is a tuple of items."""
        out = np.empty((total, self.size), np.float32)
        for source, encoder, place in self.places:
            items: Any = [source.find(item) for sample in samples for item in sample]
            batch = items if source.shape is None else source.check(items, total)
            encoder.write(batch, out[:, place])
        return out

    def read_stacked(self, samples: Sequence[Any], total: int) -> Float32[np.ndarray, "total size"]:
        """As `read_items`, of samples that hold arrays with a row for each item."""
        out = np.empty((total, self.size), np.float32)
        for source, encoder, place in self.places:
            found = [source.find(sample) for sample in samples]
            rows = [source.check(array, len(array)) for array in found if len(array)]
            encoder.write(source.check(np.concatenate(rows), total), out[:, place])
        return out


def not_finite(key: str) -> BadInput:
    """What is said of NaN and infinity."""
    return BadInput(f"{name(key)} has NaN or infinity in it: every number must be finite")


Rows = tuple[Float32[np.ndarray, "n count size"], Bool[np.ndarray, "n count"]]


@dataclasses.dataclass(frozen=True)
class FactorPart(abc.ABC):
    """One type of Factors."""

    source: Source
    count: int

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers one Factor has."""

    @abc.abstractmethod
    def read(self, seen: Any, n: int | None) -> Rows:
        """Values and presence, of one observation (n = None) or of a batch of n."""


@dataclasses.dataclass(frozen=True)
class TableRows(FactorPart):
    """The rows of a 2-D array, with a mask, a presence column, or all present."""

    encoder: Encoder
    columns: tuple[int, ...]
    """Those that are shown."""
    presence: int | None
    mask: Source | None
    order: bool

    @property
    def size(self) -> int:
        return self.encoder.size + self.order * self.count

    def read(self, seen: Any, n: int | None) -> Rows:
        batch = self.source.read(seen, n)
        present = self._present(batch, seen, n)
        values = np.zeros((len(batch), self.count, self.size), np.float32)
        rows = np.where(present[..., None], batch, 0)  # absent rows may hold anything
        if self.presence is not None:
            rows = rows[..., self.columns]
        encoded = np.empty((len(batch) * self.count, self.encoder.size), np.float32)
        self.encoder.write(rows.reshape(len(encoded), -1), encoded)
        values[..., : self.encoder.size] = encoded.reshape(*present.shape, -1)
        if self.order:
            values[..., self.encoder.size :] = np.eye(self.count, dtype=np.float32)
        values *= present[..., None]
        if not np.isfinite(values).all():
            raise not_finite(self.source.key)
        return values, present

    def _present(
        self, batch: Shaped[np.ndarray, "n count columns"], seen: Any, n: int | None
    ) -> Bool[np.ndarray, "n count"]:
        if self.mask is not None:
            return self.mask.read(seen, n) > 0.5
        if self.presence is not None:
            return batch[..., self.presence] > 0.5
        return np.ones(batch.shape[:2], bool)


@dataclasses.dataclass(frozen=True)
class Items(FactorPart):
    """The items of a sequence, or the nodes of a graph, with room for `count` of them."""

    vector: Vector
    stacked: bool
    """Whether a sample holds arrays with a row for each item, or is a tuple of items."""
    order: bool

    @property
    def size(self) -> int:
        return self.vector.size + self.order * self.count

    def read(self, seen: Any, n: int | None) -> Rows:
        samples = self.source.read(seen, n)
        lengths = np.array([self._length(sample) for sample in samples])
        if (longest := int(lengths.max())) > self.count:
            raise BadInput(
                f"{name(self.source.key)} has {longest} items, more than the {self.count} there "
                f"is room for: give roles {{{self.source.key!r}: 'factors most={longest}'}}"
            )
        present = np.arange(self.count) < lengths[:, None]
        values = np.zeros((len(samples), self.count, self.size), np.float32)
        if total := int(lengths.sum()):
            read = self.vector.read_stacked if self.stacked else self.vector.read_items
            values[..., : self.vector.size][present] = read(samples, total)
        if self.order:
            values[..., self.vector.size :] = np.eye(self.count) * present[..., None]
        if not np.isfinite(values).all():
            raise not_finite(self.source.key)
        return values, present

    def _length(self, sample: Any) -> int:
        return len(self.vector.parts[0][0].find(sample) if self.stacked else sample)


@dataclasses.dataclass(frozen=True)
class GridCells(FactorPart):
    """The cells of a grid that hold a thing: what is in each, and where it is."""

    counts: tuple[int, ...]
    """How many values each channel has."""
    grid: tuple[int, int]
    """Rows and columns."""
    low: int
    """The smallest value of all channels."""
    skipped: tuple[int, ...] | None
    """Values of the first channel that are no thing. None: a cell of zeros is no thing."""
    anchor: tuple[float, float]
    """Places are relative to this one. The nearest things come first."""
    cut: bool
    """Whether only the nearest are shown where there are too many; otherwise that is refused."""

    @property
    def size(self) -> int:
        return self._places[1].shape[1] + sum(table.shape[1] for table in self._tables)

    @functools.cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        """The vectors of each channel's values: one-hot, or one bit where there are two."""
        eyes = [np.eye(count, dtype=np.float32) for count in self.counts]
        return tuple(eye[:, 1:] if len(eye) == 2 else eye for eye in eyes)

    @functools.cached_property
    def _places(self) -> tuple[Integer[np.ndarray, " cells"], Float32[np.ndarray, "cells place"]]:
        """The cells, nearest first; and for each of these its place: two numbers and one-hot."""
        height, width = self.grid
        rows, columns = (axis.ravel() for axis in np.indices((height, width)))
        y, x = rows - self.anchor[0], columns - self.anchor[1]
        nearest = np.argsort(y**2 + x**2, kind="stable")
        unit = max(1.0, (max(height, width) - 1) / 2)
        place = [y[:, None] / unit, x[:, None] / unit, np.eye(height)[rows], np.eye(width)[columns]]
        return nearest, np.concatenate(place, axis=1)[nearest].astype(np.float32)

    @functools.cached_property
    def _is_thing(self) -> Bool[np.ndarray, " values"]:
        """For each value of the first channel."""
        values = np.arange(self.counts[0]) + self.low
        return ~np.isin(values, np.array(self.skipped or (), int))

    def read(self, seen: Any, n: int | None) -> Rows:
        batch = self.source.read(seen, n)
        cells = batch.reshape(len(batch), -1, len(self.counts))[:, self._places[0]]
        codes = cells - self.low if self.low else cells
        if codes.dtype.kind == "i" and (codes < 0).any():  # as an index it would count from the end
            raise self._unknown(codes)
        try:
            things = cells.any(axis=2) if self.skipped is None else self._is_thing[codes[..., 0]]
            which, cell = np.nonzero(things)
            found = codes[which, cell]
            parts = [table[found[:, i]] for i, table in enumerate(self._tables)]
        except IndexError:
            raise self._unknown(codes) from None
        rows = np.concatenate([*parts, self._places[1][cell]], axis=1)
        number = things.sum(axis=1)
        slot = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
        if (most := int(number.max())) > self.count:
            if not self.cut:
                raise BadInput(
                    f"{name(self.source.key)} has {most} cells with things, more than the "
                    f"{self.count} there is room for: give it the role 'grid most={most}'"
                )
            near = slot < self.count
            which, slot, rows = which[near], slot[near], rows[near]
        values = np.zeros((len(batch), self.count, self.size), np.float32)
        values[which, slot] = rows
        return values, np.arange(self.count) < number[:, None]

    def _unknown(self, codes: Integer[np.ndarray, "n cells channels"]) -> BadInput:
        _, _, channel = np.argwhere((codes >= self.counts) | (codes < 0))[0]
        worst = int(codes[..., channel].max())
        if worst < self.counts[channel]:
            worst = int(codes[..., channel].min())
        return BadInput(
            f"{name(self.source.key)} has the value {worst + self.low} in channel {channel}, which "
            f"may be from {self.low} to {self.low + self.counts[channel] - 1}: if it is a picture, "
            f"give it the role 'image'"
        )


@dataclasses.dataclass(frozen=True)
class Picture:
    """An image, scaled by its bounds, with its channels last."""

    source: Source
    encoder: Scaled
    channels_first: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the image that the agent sees."""
        first, *rest = (*(self.source.shape or ()), 1)[:3]
        return (rest[0], rest[1], first) if self.channels_first else (first, rest[0], rest[1])

    def read(self, seen: Any, n: int | None) -> Float32[np.ndarray, "n width height channels"]:
        """The images of one observation (n = None) or of a batch of n."""
        batch = self.source.read(seen, n)
        out = np.empty((len(batch), self.encoder.size), np.float32)
        self.encoder.write(batch, out)
        if not np.isfinite(out).all():
            raise not_finite(self.source.key)
        if self.channels_first:
            shaped = out.reshape(len(batch), *(self.source.shape or ()))
            return np.ascontiguousarray(np.moveaxis(shaped, 1, -1))
        return out.reshape(len(batch), *self.shape)
