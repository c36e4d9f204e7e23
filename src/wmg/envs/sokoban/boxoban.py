"""Getting Boxoban: from a zip file, a folder or the net, checked, into banks in the cache.

A split is written when all of its levels have been read and checked. An interrupted import
continues with the first split that is missing.
"""

import contextlib
import functools
import io
import os
import pathlib
import re
import struct
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

import numpy as np

from wmg.envs.sokoban import levels
from wmg.envs.sokoban.levels import BOXOBAN, SIZE, Boards, Packed
from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tools.files import read_bounded

URL = "https://github.com/google-deepmind/boxoban-levels/archive/refs/heads/master.zip"
BY_HAND = "try again, or download it in another way and give the file with --from"
LARGEST_FILE = 1_000_000
"""Bytes of a file of levels (Boxoban's have 117,000) and of a zip file's directory (167,000)."""
LARGEST_LEVEL = 200
"""Bytes of text per level of a split, on average; Boxoban has 117."""
LARGEST_DOWNLOAD = 300_000_000
"""Bytes; Boxoban has 31,000,000."""
MOST_FILES = 20_000
"""Files and folders in a zip file or folder; Boxoban has 1,518."""
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compressions that Python's zipfile unpacks piece by piece. With the others, one kilobyte can
become gigabytes in one call."""
DOWNLOAD_PIECE = 1 << 18
TIMEOUT = 30.0
LEVEL_LINES = SIZE + 2
"""A number, the board, a blank line."""

Files = dict[str, Callable[[], bytes]]
"""A function that reads each file, by the file's path from the root of the repository. It raises a
ValueError if the file cannot be used."""
Show = Callable[[str, int, int], None]
"""Is told what is going on, how much is done, and how much there is."""


def import_boxoban(source: str | None, show: Show = lambda *_: None) -> dict[str, int]:
    """Import what splits there are in a zip file, a folder or a URL; the levels of each."""
    source = source or URL
    if not source.startswith(("http://", "https://")):
        return _import_from(pathlib.Path(source), source, show)
    if all(is_imported(bank) for bank in BOXOBAN):
        return {bank: split.levels for bank, split in BOXOBAN.items()}
    archive = download(source, show)
    try:
        counts = _import_from(archive, source, show)
    except BadInput as error:
        archive.unlink()  # fetched again next time
        raise BadInput(f"{error}; {BY_HAND}") from None
    archive.unlink()
    return counts


def _import_from(path: pathlib.Path, name: str, show: Show) -> dict[str, int]:
    with _open(path, name) as files:
        splits = {bank: _split_files(files, split.folder) for bank, split in BOXOBAN.items()}
        splits = {bank: chosen for bank, chosen in splits.items() if chosen}
        if not splits:
            first = f"{BOXOBAN['unfiltered-test'].folder}/000.txt"
            raise BadInput(f"{name} is not Boxoban: there is no file like {first} in it")
        for bank, chosen in splits.items():
            if not is_imported(bank):
                _write_bank(bank, _read_split(bank, chosen, name, show))
    return {bank: BOXOBAN[bank].levels for bank in splits}


def banks() -> dict[str, dict[str, Any]]:
    """The levels of every bank, whether it is damaged and, if it is whole, its file and size."""
    embedded = {
        bank: _about(place.stop - place.start, levels.EMBEDDED_FILE)
        for bank, place in levels.EMBEDDED.items()
    }
    return embedded | {bank: _about_imported(bank) for bank in BOXOBAN}


def _about_imported(bank: str) -> dict[str, Any]:
    path, count = levels.bank_path(bank), BOXOBAN[bank].levels
    if not is_imported(bank):
        return _about(count, None) | {"damaged": os.path.lexists(path)}
    return _about(count, path)


def _about(count: int, path: pathlib.Path | None) -> dict[str, Any]:
    size = 0 if path is None else path.stat().st_size
    file = None if path is None else str(path)
    return {"levels": count, "bytes": size, "file": file, "damaged": False}


def meanings() -> dict[str, str]:
    """The bank that each split means here and now."""
    return {split: levels.resolve(split) for split in levels.SPLITS}


def is_imported(bank: str) -> bool:
    """Whether a split of Boxoban is in the cache, undamaged."""
    try:
        return len(levels.read_bank(bank)) > 0
    except ValueError:
        return False


def _split_files(files: Files, folder: str) -> Files:
    pattern = re.compile(rf"(?:.*/)?{folder}/\d+\.txt")
    return {path: files[path] for path in sorted(files) if pattern.fullmatch(path)}


@contextlib.contextmanager
def _open(path: pathlib.Path, name: str) -> Iterator[Files]:
    """The files of a folder or zip file. Nothing is unpacked, so no path in it can do harm."""
    if path.is_dir():
        yield _files_of_folder(path.resolve(), name)
        return
    if not path.is_file():
        wrong = f"{name} is none of them" if path.exists() else f"there is no {name}"
        raise BadInput(f"--from must be a zip file, a folder or a URL, and {wrong}")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(BoundedFile(path))
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
        except NOT_A_ZIP:
            raise BadInput(f"{name} is not a zip file, or only a part of one, or damaged") from None
        infos = archive.infolist()
        if len(infos) > MOST_FILES:
            raise too_many_files(name)
        yield {info.filename: functools.partial(_read_member, archive, info) for info in infos}


class BoundedFile(io.FileIO):
    """A zip file that is never read in pieces of more than `LARGEST_FILE` bytes.

    `zipfile` reads the directory in one piece, however large it is.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        most = LARGEST_FILE + 1
        data = super().read(most + 1 if size is None or not 0 <= size <= most else size) or b""
        if len(data) > most:
            raise zipfile.BadZipFile("its directory is too large")
        return data


NOT_A_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
)
"""What zipfile raises of damaged files."""


def too_many_files(name: str) -> BadInput:
    """The complaint about an archive or folder that cannot be Boxoban alone."""
    return BadInput(f"{name} is not Boxoban alone: there are more than {MOST_FILES:,} files in it")


def _files_of_folder(path: pathlib.Path, name: str) -> Files:
    found, seen = {}, 0
    for folder, folders, names in os.walk(path):
        seen += len(folders) + len(names)
        if seen > MOST_FILES:
            raise too_many_files(name)
        for file in (pathlib.Path(folder, each) for each in names):
            if file.suffix == ".txt" and file.is_file():
                place = file.relative_to(path.parent).as_posix()
                found[place] = functools.partial(read_bounded, file, LARGEST_FILE)
    return found


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in COMPRESSIONS:
        raise ValueError(
            "its compression is not supported: unpack the zip file and give the folder"
        )
    try:
        with archive.open(info) as member:
            data = member.read(LARGEST_FILE + 1)
    except NOT_A_ZIP:
        raise ValueError("it is damaged or encrypted") from None
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it is too large: it has more than {LARGEST_FILE:,} bytes")
    return data


def _read_split(bank: str, files: Files, name: str, show: Show) -> Packed:
    split, pieces, done, size = BOXOBAN[bank], [], 0, 0
    for path, read in files.items():
        try:
            data = read()
            pieces.append(levels.pack(read_boards(data)))
        except ValueError as error:
            raise BadInput(f"{name}, {path}: {error}") from None
        done, size = done + len(pieces[-1]), size + len(data)
        show(bank, done, split.levels)
        if done > split.levels or size > LARGEST_LEVEL * split.levels:
            raise BadInput(f"{name} is not Boxoban: {split.folder} has more in it than it should")
    packed = np.concatenate(pieces)
    if len(packed) != split.levels:
        raise BadInput(
            f"{name} is not all of Boxoban: {split.folder} has {len(packed):,} levels in it, "
            f"and should have {split.levels:,}"
        )
    if zlib.crc32(packed.tobytes()) != split.checksum:
        raise BadInput(f"{name} has other levels in {split.folder} than Boxoban: wrong checksum")
    return packed


def read_boards(data: bytes) -> Boards:
    """The boards of one of Boxoban's files, checked."""
    boards, starts = _read_regular(data) or _read_slowly(data)
    levels.check(boards, starts)
    if not levels.fits_compact(boards):
        raise ValueError(f"not every level has {levels.BOXES} boxes and as many targets")
    return boards


def _read_regular(data: bytes) -> tuple[Boards, list[int]] | None:
    """The boards and the lines where they start, or None if a line is not as it should be."""
    lines = data.split(b"\n")
    rows = [lines[index::LEVEL_LINES] for index in range(1, SIZE + 1)]
    blank = not any(lines[LEVEL_LINES - 1 :: LEVEL_LINES]) and len(lines) % LEVEL_LINES == 1
    if not blank or any(set(map(len, row)) != {SIZE} for row in rows):
        return None
    columns = [np.frombuffer(b"".join(row), np.uint8).reshape(-1, SIZE) for row in rows]
    boards = np.stack(columns, axis=1)
    starts = list(range(2, len(lines), LEVEL_LINES))
    return (boards, starts) if levels.MARKS[boards].all() else None


def _read_slowly(data: bytes) -> tuple[Boards, list[int]]:
    found, starts = [], []
    for board, start in levels.read_boards(data.decode("latin-1")):
        if board.shape != (SIZE, SIZE):
            raise ValueError(f"the level at line {start} is not of {SIZE}x{SIZE} cells")
        found.append(board)
        starts.append(start)
    if not found:
        raise ValueError("there are no levels in it")
    return np.stack(found), starts


def _write_bank(bank: str, packed: Packed) -> None:
    path = levels.bank_path(bank)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    np.save(file, packed, allow_pickle=False)
    files.write_atomically(path, file.getvalue())


def download(url: str, show: Show) -> pathlib.Path:
    """The file at a URL, in the cache. What an earlier try has left is gone on from."""
    folder = files.cache_folder() / "boxoban"
    whole = folder / f"download-{zlib.crc32(url.encode()):08x}.zip"
    part = whole.with_suffix(".part")
    if whole.exists():
        return whole
    there = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={there}-"} if there else {}
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            folder.mkdir(parents=True, exist_ok=True)
            goes_on = there and answer.status == 206
            done = there if goes_on else 0
            length = int(answer.headers.get("Content-Length") or 0)
            with open(part, "ab" if goes_on else "wb") as file:
                total = done + length if length else 0
                while piece := answer.read(DOWNLOAD_PIECE):
                    if max(total, done + len(piece)) > LARGEST_DOWNLOAD:
                        part.unlink()
                        raise HTTPException(f"it has more than {LARGEST_DOWNLOAD:,} bytes")
                    file.write(piece)
                    done += len(piece)
                    show("download", done, total)
            if done < total:
                raise HTTPException(f"it broke off after {done:,} of {total:,} bytes")
    except urllib.error.HTTPError as error:
        part.unlink(missing_ok=True)
        raise BadInput(
            f"cannot download {url}: the server says {error.code} {error.reason}; {BY_HAND}"
        ) from None
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise BadInput(f"cannot download {url}: {reason}; {BY_HAND}") from None
    part.rename(whole)
    return whole
