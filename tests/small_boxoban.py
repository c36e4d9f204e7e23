"""A Boxoban of a few levels: its text files, and the package made to believe they are all."""

import io
import pathlib
import zipfile
import zlib

import numpy as np
import pytest

from wmg.envs.sokoban import levels

BOARDS: tuple[str, ...] = (
    "##########\n#        #\n# $ .    #\n# $ .  # #\n# $ .    #\n# $ .    #\n#   @    #\n"
    "##########\n##########\n##########\n",
    "##########\n##########\n##  .   ##\n## $$$$ ##\n##  ..  ##\n##  .@  ##\n##########\n"
    "##########\n##########\n##########\n",
    "##########\n#.      .#\n# $    $ #\n#        #\n#   @    #\n#        #\n#        #\n"
    "# $    $ #\n#.      .#\n##########\n",
)


def text_of(*boards: str) -> str:
    """The boards as one of Boxoban's files."""
    return "".join(f"; {index}\n{board}\n" for index, board in enumerate(boards))


def files() -> dict[str, str]:
    """What is in the archive: the training set has two files, every other one."""
    folders = {split.folder: text_of(*BOARDS) for split in levels.BOXOBAN.values()}
    paths = {f"boxoban-levels-master/{path}/000.txt": text for path, text in folders.items()}
    second = "boxoban-levels-master/unfiltered/train/001.txt"
    return {"boxoban-levels-master/README.md": "# Boxoban\n", **paths, second: text_of(BOARDS[2])}


def zipped(contents: dict[str, str]) -> bytes:
    """A zip file of texts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return file.getvalue()


@pytest.fixture
def small_boxoban(monkeypatch, tmp_path):
    """The cache folder, empty, for a package that takes the small Boxoban for the real one."""
    return replace_boxoban(monkeypatch, tmp_path)


def replace_boxoban(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> pathlib.Path:
    """Make the package take the small Boxoban for the real one; its new cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    boards = np.stack([to_board(board) for board in (*BOARDS, BOARDS[2])])
    for bank, split in levels.BOXOBAN.items():
        count = 4 if bank == "unfiltered-train" else 3
        checksum = zlib.crc32(levels.pack(boards[:count]).tobytes())
        monkeypatch.setitem(levels.BOXOBAN, bank, levels.Split(split.folder, count, checksum))
    return folder / "cache" / "wmg"


def to_board(text: str) -> np.ndarray:
    """A board's characters, read as plainly as possible."""
    return np.array([[ord(mark) for mark in line] for line in text.splitlines()], np.uint8)
