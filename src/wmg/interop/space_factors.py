"""What parts of a Gymnasium observation become Factors: rows of arrays, items, cells of grids.

As in `wmg.interop.space_parts`, everything is numpy and serves a batch.
"""

import abc
import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Integer, Shaped

from wmg.interop.space_parts import Encoder, Source, Vector, name, not_finite
from wmg.tools.errors import BadInput

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
    """Columns of the array that become numbers of a Factor."""
    presence: int | None
    """The column that says whether a row is there."""
    mask: Source | None
    """The part of the observation that says which rows are there."""
    order: bool
    """Whether a Factor also shows its row's place, as one-hot."""

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
