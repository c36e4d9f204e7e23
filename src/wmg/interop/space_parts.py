"""What the parts of a Gymnasium observation become: numbers of the Core, and an image.

`wmg.interop.space_factors` has what becomes Factors.

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
from jaxtyping import Float, Float32, Shaped

from wmg.tools.errors import BadInput, quote

MASKS = ("_mask", "_present")
"""How the key of a mask ends."""
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
            if not isinstance(text, str):
                raise BadInput(f"{name(self.key)} must be a text, got a {type(text).__name__}")
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
