"""Sokoban levels: reading and checking text, packing into banks, and finding banks by name.

Text is the usual form: `#` wall, `@` player, `$` box, `.` target, `*` box on a target, `+` player
on a target, and a space for floor. A *board* is a level as an array of these characters. A *bank*
is many levels packed into bytes, in one of two forms:

compact    15 bytes: a bit for each wall of the inner 8x8 cells, then nine numbers of 6 bits, the
           inner cells of four boxes, four targets and the player. For boards of 10x10 as Boxoban's.
general    three bits a cell (walls, targets, boxes), then the player's row and column.
"""

import dataclasses
import importlib.resources
import lzma
import os
import pathlib
import re
import zlib
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from wmg.tools import files

WALL, FLOOR, TARGET, BOX, STORED, PLAYER, PLAYER_ON_TARGET = b"# .$*@+"
MARKS = np.isin(np.arange(256), tuple(b"# .$*@+"))
"""Whether a byte is one of these characters."""
SIZE, BOXES = 10, 4
"""Boards of the compact form have this height and width, and this many boxes and targets."""
INNER = SIZE - 2
COMPACT_BYTES = 15
LARGEST = 64
"""The largest height and width of a board."""
LONGEST_HEADER = 1024
"""Bytes of the header of a bank's file; numpy writes 128."""
LARGEST_FILE = 10_000_000
"""Bytes of a text file: room for 85,000 levels of Boxoban."""
MOST_LEVELS, MOST_CELLS = 200_000, 20_000_000
"""Levels of a text, and cells of all of them together: 4,800 levels have 64x64 cells."""


@dataclasses.dataclass(frozen=True)
class Split:
    """A bank of Boxoban: its folder in the repository, its number of levels, and the checksum of
    its packed bytes."""

    folder: str
    levels: int
    checksum: int


SPLITS = ("train", "valid", "test")
BOXOBAN = {
    "unfiltered-train": Split("unfiltered/train", 900_000, 0x022A0570),
    "unfiltered-valid": Split("unfiltered/valid", 100_000, 0x9FD27D01),
    "unfiltered-test": Split("unfiltered/test", 1_000, 0xA081B1AA),
    "medium-train": Split("medium/train", 450_000, 0x52A7B5A8),
    "medium-valid": Split("medium/valid", 50_000, 0x2A8359A5),
    "hard": Split("hard", 3_332, 0xEF659BAC),
}
EMBEDDED = {
    "embedded-train": slice(0, 10_000),
    "embedded-valid": slice(10_000, 11_000),
    "embedded-test": slice(11_000, 12_000),
}
"""The banks that come with the package, made by `generate`: their places in one file."""
EMBEDDED_FILE = pathlib.Path(str(importlib.resources.files("wmg"))) / "envs/sokoban/embedded.xz"

Boards = UInt8[np.ndarray, "levels height width"]
Packed = UInt8[np.ndarray, "levels bytes"]


class Level(eqx.Module):
    """One level. What a smaller board leaves of the bound, below and to the right, is wall."""

    walls: Bool[Array, "height width"]
    targets: Bool[Array, "height width"]
    boxes: Bool[Array, "height width"]
    player: Int[Array, "2"]
    """Row and column."""


class Levels(eqx.Module):
    """A bank of levels. Its bytes are an argument of every program that has one, never part."""

    packed: UInt8[Array, "levels bytes"]
    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    compact: bool = eqx.field(static=True)

    def __len__(self) -> int:
        return self.packed.shape[0]

    def level(self, index: Int[Array, ""]) -> Level:
        """The level at a place of the bank."""
        row = self.packed[index]
        unpack = _unpack_compact if self.compact else _unpack_general
        return unpack(row, self.height, self.width)


def _bits(row: UInt8[Array, " bytes"]) -> Bool[Array, " bits"]:
    return ((row[:, None] >> jnp.arange(8, dtype=jnp.uint8)) & 1).astype(bool).reshape(-1)


def _unpack_compact(row: UInt8[Array, " bytes"], height: int, width: int) -> Level:
    bits = _bits(row)
    numbers = bits[INNER**2 : INNER**2 + 6 * (2 * BOXES + 1)].reshape(-1, 6)
    places = (numbers << jnp.arange(6)).sum(axis=1)
    marks = places[:, None] == jnp.arange(INNER**2)
    planes = jnp.stack([bits[: INNER**2], marks[BOXES:-1].any(axis=0), marks[:BOXES].any(axis=0)])
    around = ((0, 0), (1, height - INNER - 1), (1, width - INNER - 1))
    walls, targets, boxes = jnp.pad(planes.reshape(3, INNER, INNER), around)
    inside = jnp.pad(jnp.ones((INNER, INNER), bool), around[1:])
    player = jnp.stack([places[-1] // INNER + 1, places[-1] % INNER + 1])
    return Level(walls | ~inside, targets, boxes, player)


def _unpack_general(row: UInt8[Array, " bytes"], height: int, width: int) -> Level:
    planes = _bits(row[:-2])[: 3 * height * width].reshape(3, height, width)
    return Level(planes[0], planes[1], planes[2], row[-2:].astype(jnp.int32))


def pack(boards: Boards) -> Packed:
    """Boards, which have been checked, as rows of a bank: compact where all can be."""
    return _pack_compact(boards) if fits_compact(boards) else _pack_general(boards)


def fits_compact(boards: Boards) -> bool:
    """Whether boards can be packed into 15 bytes each."""
    counts = [_count(boards, BOX, STORED), _count(boards, TARGET, STORED, PLAYER_ON_TARGET)]
    return boards.shape[1:] == (SIZE, SIZE) and all((count == BOXES).all() for count in counts)


def _pack_compact(boards: Boards) -> Packed:
    inner = boards[:, 1:-1, 1:-1].reshape(len(boards), -1)
    kinds = ((BOX, STORED), (TARGET, STORED, PLAYER_ON_TARGET), (PLAYER, PLAYER_ON_TARGET))
    places = [np.nonzero(np.isin(inner, kind))[1].reshape(len(boards), -1) for kind in kinds]
    numbers = np.concatenate(places, axis=1)[..., None] >> np.arange(6) & 1
    numbers = np.packbits(numbers.reshape(len(boards), -1), axis=1, bitorder="little")
    return np.concatenate([np.packbits(inner == WALL, axis=1, bitorder="little"), numbers], axis=1)


def _pack_general(boards: Boards) -> Packed:
    kinds = ((WALL,), (TARGET, STORED, PLAYER_ON_TARGET), (BOX, STORED))
    planes = np.stack([np.isin(boards, kind) for kind in kinds], axis=1)
    bits = np.packbits(planes.reshape(len(boards), -1), axis=1, bitorder="little")
    player = np.argwhere(np.isin(boards, (PLAYER, PLAYER_ON_TARGET)))[:, 1:]
    return np.concatenate([bits, player.astype(np.uint8)], axis=1)


def to_board(level: Level) -> UInt8[np.ndarray, "height width"]:
    """The characters of a level."""
    walls, targets, boxes = (np.asarray(x) for x in (level.walls, level.targets, level.boxes))
    player = np.zeros_like(walls)
    player[tuple(np.asarray(level.player))] = True
    # Of what may share a cell, a target is worth one and a box or the player two or four.
    shown = np.frombuffer(b" .$*@+", np.uint8)[targets + 2 * boxes + 4 * player]
    return np.where(walls, np.uint8(WALL), shown)


def to_text(board: UInt8[np.ndarray, "height width"]) -> str:
    """A board as lines of text."""
    return "\n".join(row.tobytes().decode("ascii") for row in board) + "\n"


def read_boards(text: str) -> Iterator[tuple[UInt8[np.ndarray, "height width"], int]]:
    """Yield each board of a text, not checked yet, and its first line, counted from 1.

    A board ends with a line that is blank or, like `; 3` or a title, has other characters.
    Floor outside the outer wall becomes wall, since a text does not say where a board ends.
    """
    rows = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        line = line.rstrip()
        if line and not set(line) - set("# .$*@+"):
            rows.append(line.encode())
            _require_size(number - len(rows) + 1, len(rows), len(line.lstrip()))
        elif line.lstrip().startswith("#"):
            odd = next(mark for mark in line if mark not in "# .$*@+")
            raise ValueError(
                f"line {number}: {odd!r} is none of the characters # @ $ . * + of a level"
            )
        elif rows:
            yield _to_rectangle(rows, number - len(rows)), number - len(rows)
            rows = []


def _require_size(start: int, height: int, width: int) -> None:
    """Refuse a board that is too large before its rows are padded to a rectangle."""
    for count, name in ((height, "rows"), (width, "columns")):
        if count > LARGEST:
            raise ValueError(f"the level at line {start} has more than {LARGEST} {name}")


def _to_rectangle(rows: list[bytes], start: int) -> UInt8[np.ndarray, "height width"]:
    """The board of some lines, without their common margin."""
    margin = min(len(row) - len(row.lstrip()) for row in rows)
    width = max(map(len, rows)) - margin
    _require_size(start, len(rows), width)
    rows = [row[margin:].ljust(width) for row in rows]
    board = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    edges = rows[0] + rows[-1] + b"".join(row[:1] + row[-1:] for row in rows)
    return _wall_outside(board) if edges.strip(b"#") else board


def _wall_outside(board: UInt8[np.ndarray, "height width"]) -> UInt8[np.ndarray, "height width"]:
    """The board with floor that is reached from outside as wall, unless the player is there."""
    from scipy import ndimage  # late, because few boards need it

    around = np.pad(board, 1, constant_values=FLOOR)
    rooms = np.zeros(around.shape, np.int32)
    ndimage.label(around != WALL, output=rooms)  # numbers cells that are connected by their sides
    outside = rooms == rooms[0, 0]
    if np.isin(around[outside], (PLAYER, PLAYER_ON_TARGET)).any():
        return board
    return np.where(outside & (around == FLOOR), np.uint8(WALL), around)[1:-1, 1:-1]


def _count(boards: Boards, *kinds: int) -> Int[np.ndarray, " levels"]:
    return np.sum([(boards == kind).sum(axis=(1, 2)) for kind in kinds], axis=0)


def _closed(boards: Boards) -> Bool[np.ndarray, " levels"]:
    """Whether all cells at the edge of each board are walls."""
    edges = (boards[:, 0], boards[:, -1], boards[:, :, 0], boards[:, :, -1])
    return (np.concatenate(edges, axis=1) == WALL).all(axis=1)


def check(boards: Boards, starts: Sequence[int] | Int[np.ndarray, " levels"]) -> None:
    """Refuse boards that are not levels: the first one, by the line where it starts."""
    if fault := _first_fault(boards):
        raise ValueError(f"the level at line {starts[fault[0]]} {fault[1]}")


def _first_fault(boards: Boards) -> tuple[int, str] | None:
    """The place of the first board that is no level, and what is wrong with it."""
    players = _count(boards, PLAYER, PLAYER_ON_TARGET)
    boxes = _count(boards, BOX, STORED)
    targets = _count(boards, TARGET, STORED, PLAYER_ON_TARGET)
    faults = {
        "has no player": players == 0,
        "has more than one player": players > 1,
        "has no boxes": boxes == 0,
        "is solved already: every box is on a target": _count(boards, BOX) == 0,
        "has fewer targets than boxes": targets < boxes,
        "is open: its outer wall has a gap": ~_closed(boards),
    }
    wrong = np.flatnonzero(np.any([*faults.values()], axis=0))
    if not len(wrong):
        return None
    return int(wrong[0]), next(what for what, those in faults.items() if those[wrong[0]])


def _check_all(boards: list[UInt8[np.ndarray, "_ _"]], starts: list[int]) -> None:
    """Like `check`, for boards of any sizes. Those of one size are checked together, for speed."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, board in enumerate(boards):
        groups.setdefault(board.shape, []).append(place)
    faults = []
    for places in groups.values():
        if fault := _first_fault(np.stack([boards[place] for place in places])):
            faults.append((starts[places[fault[0]]], fault[1]))
    if faults:
        start, what = min(faults)
        raise ValueError(f"the level at line {start} {what}")


def read_text(text: str, bound: int) -> Packed:
    """The levels of a text, checked and packed for boards of `bound` by `bound` cells."""
    found, starts, most = [], [], min(MOST_LEVELS, MOST_CELLS // bound**2)
    for board, start in read_boards(text):
        height, width = board.shape
        if max(board.shape) > bound:
            raise ValueError(
                f"the level at line {start} has {height}x{width} cells: bound must be at least "
                f"{max(board.shape)}, got {bound}"
            )
        found.append(board)
        starts.append(start)
        if len(found) > most:
            raise ValueError(f"it has more than {most:,} levels, the most for bound = {bound}")
    if not found:
        raise ValueError("there are no levels in it")
    _check_all(found, starts)
    boards = np.full((len(found), bound, bound), WALL, np.uint8)
    for padded, board in zip(boards, found, strict=True):
        padded[: board.shape[0], : board.shape[1]] = board
    return pack(boards)


def from_text(text: str, bound: int) -> Levels:
    """The levels of a text, as a bank."""
    return _bank(read_text(text, bound), bound)


def _bank(packed: Packed, bound: int) -> Levels:
    compact = packed.shape[1] == COMPACT_BYTES  # no square board of the general form has as many
    return Levels(jnp.asarray(packed), bound, bound, compact)


def bank_path(name: str) -> pathlib.Path:
    """Where the bank of a split of Boxoban is, once it has been imported."""
    return files.cache_folder() / "boxoban" / f"{name}.npy"


def resolve(name: str) -> str:
    """The name of the very levels that `name` means here and now.

    'train', 'valid' and 'test' become a bank, Boxoban's if it has been imported and the embedded
    one if not; a text file gets its checksum appended, and `find` will refuse another content.
    """
    if name in SPLITS:
        imported = bank_path(f"unfiltered-{name}").exists()
        return f"{'unfiltered' if imported else 'embedded'}-{name}"
    if name in BOXOBAN or name in EMBEDDED or PINNED.fullmatch(name):
        return name
    return f"{pathlib.Path(name).absolute()}@{zlib.crc32(_read_file(name)):08x}"


PINNED = re.compile(r"(.+)@([0-9a-f]{8})")


def find(name: str, bound: int = SIZE) -> Levels:
    """The levels called `name`: a split, a bank, or the path of a text file."""
    if not 3 <= bound <= LARGEST:
        raise ValueError(f"bound must be from 3 to {LARGEST}, got {bound}")
    name = resolve(name)
    if pinned := PINNED.fullmatch(name):
        data = _read_file(pinned[1])
        if zlib.crc32(data) != int(pinned[2], 16):
            raise ValueError(f"{pinned[1]} has changed since its levels were first used")
        try:
            packed = read_text(data.decode("utf-8-sig"), bound)
        except ValueError as error:
            wrong = "it is not text" if isinstance(error, UnicodeError) else str(error)
            raise ValueError(f"{pinned[1]} cannot be used as levels: {wrong}") from None
    elif bound < SIZE:
        raise ValueError(
            f"bound must be at least {SIZE} for the levels {name}, got {bound}: name a text file "
            "of smaller levels, or raise it"
        )
    else:
        packed = read_bank(name)
    return _bank(packed, bound)


def _read_file(name: str) -> bytes:
    if not pathlib.Path(name).is_file():
        known = ", ".join([*SPLITS, *BOXOBAN, *EMBEDDED])
        raise ValueError(f"levels must be a text file or one of {known}, got {name!r}")
    return files.read_bounded(name, LARGEST_FILE)


def read_bank(name: str) -> Packed:
    """The packed levels of a bank that is embedded or has been imported, whole or not at all."""
    if name in EMBEDDED:
        columns = np.frombuffer(lzma.decompress(EMBEDDED_FILE.read_bytes()), np.uint8)
        return columns.reshape(COMPACT_BYTES, -1).T[EMBEDDED[name]]
    path = bank_path(name)
    if not os.path.lexists(path):
        raise ValueError(f"the levels {name} are not here yet: get them with `wmg data boxoban`")
    packed = _read_npy(path, BOXOBAN[name])
    if packed is None:
        raise ValueError(f"{path} is damaged: import it again with `wmg data boxoban`")
    return packed


def _read_npy(path: pathlib.Path, split: Split) -> Packed | None:
    """The levels in the file of a bank; None if it is not the file that was written.

    numpy's own reader allocates whatever memory a header asks for, and a damaged header raises
    many kinds of errors. The size of the file is known, so the header is only compared.
    """
    size = split.levels * COMPACT_BYTES
    try:
        data = files.read_bounded(path, LONGEST_HEADER + size)
    except (OSError, ValueError):
        return None
    header, body = data[:-size], data[-size:]
    shape = f"'shape': ({split.levels}, {COMPACT_BYTES})"
    if shape.encode() not in header or zlib.crc32(body) != split.checksum:
        return None
    return np.frombuffer(body, np.uint8).reshape(split.levels, COMPACT_BYTES)
