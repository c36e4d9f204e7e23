"""Importing Boxoban, with a Boxoban of a few levels and a server of our own."""

import contextlib
import http.server
import io
import os
import random
import re
import threading
import tracemalloc
import zipfile

import jax.numpy as jnp
import pytest
from small_boxoban import BOARDS, files, small_boxoban, text_of, zipped  # noqa: F401
from tiny import contents, time_limit

from wmg.envs.sokoban import boxoban, levels
from wmg.tools.errors import BadInput

pytestmark = pytest.mark.usefixtures("small_boxoban")
TEST = "boxoban-levels-master/unfiltered/test/000.txt"
COUNTS = dict.fromkeys(levels.BOXOBAN, 3) | {"unfiltered-train": 4}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "boxoban.zip"
    path.write_bytes(zipped(files()))
    return path


def banks_in(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def text_of_bank(name):
    bank = levels.find(name)
    boards = [levels.to_board(bank.level(jnp.int32(index))) for index in range(len(bank))]
    return [levels.to_text(board) for board in boards]


def test_a_zip_becomes_a_bank_for_each_split(archive, small_boxoban):  # noqa: F811
    shown = []
    assert boxoban.import_boxoban(str(archive), lambda *seen: shown.append(seen)) == COUNTS
    assert banks_in(small_boxoban) == sorted(f"{bank}.npy" for bank in COUNTS)
    assert text_of_bank("hard") == list(BOARDS)
    assert text_of_bank("train") == [*BOARDS, BOARDS[2]]
    assert shown[:3] == [
        ("unfiltered-train", 3, 4),
        ("unfiltered-train", 4, 4),
        ("unfiltered-valid", 3, 3),
    ]


@pytest.mark.parametrize("depth", [0, 1])
def test_a_folder_serves_as_well(depth, tmp_path, archive):
    with zipfile.ZipFile(archive) as inside:
        inside.extractall(tmp_path / "unpacked")
    folder = tmp_path / "unpacked" / ("boxoban-levels-master/unfiltered" if depth else "")
    found = boxoban.import_boxoban(str(folder))
    assert set(found) == {bank for bank in COUNTS if not depth or bank.startswith("unfiltered")}


def test_a_split_that_is_there_is_not_read_again(archive, small_boxoban):  # noqa: F811
    boxoban.import_boxoban(str(archive))
    before = contents(small_boxoban)
    kept = small_boxoban / "boxoban" / "unfiltered-train.npy"
    os.utime(kept, (1, 1))
    (small_boxoban / "boxoban" / "hard.npy").unlink()
    (small_boxoban / "boxoban" / "medium-train.npy").write_bytes(b"half of it")
    shown = []
    boxoban.import_boxoban(str(archive), lambda *seen: shown.append(seen[0]))
    assert shown == ["medium-train", "hard"] and kept.stat().st_mtime == 1
    assert contents(small_boxoban) == before


def npy(header):
    """A file of numpy's with this header, and nothing after it."""
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HEADER = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
DAMAGED = {
    "empty": b"",
    "a zip file": b"PK\x03\x04 and no more",
    "half a header": npy("{'descr': '|u1', 'fortran_order"),
    "no header": npy("{{}}"),
    "931 GiB": npy(HEADER % ("|u1", (66_666_666_666, 15))),
    "beyond counting": npy(HEADER % ("|u1", (10**30, 15))),
    "large items": npy(HEADER % ("|V22222222222", (3, 15))),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_bank_is_listed_and_imported_again(what, archive, small_boxoban):  # noqa: F811
    boxoban.import_boxoban(str(archive))
    before, path = contents(small_boxoban), levels.bank_path("hard")
    path.write_bytes(DAMAGED[what])
    if what == "large items":
        os.truncate(path, 128 + 22_222_222_222 * 45)  # the file is as long as its header says
    found = boxoban.banks()
    assert [bank for bank, about in found.items() if about["damaged"]] == ["hard"]
    assert found["hard"]["file"] is None and found["unfiltered-test"]["file"]
    boxoban.import_boxoban(str(archive))
    assert contents(small_boxoban) == before


def test_a_pipe_in_the_place_of_a_bank_is_replaced(archive, small_boxoban):  # noqa: F811
    boxoban.import_boxoban(str(archive))
    before, path = contents(small_boxoban), levels.bank_path("hard")
    path.unlink()
    os.mkfifo(path)
    with time_limit(30):
        assert boxoban.banks()["hard"]["damaged"]
        boxoban.import_boxoban(str(archive))
    assert contents(small_boxoban) == before


def bad_level(old, new, board=1):
    boards = list(BOARDS)
    assert old in boards[board]
    boards[board] = boards[board].replace(old, new, 1)
    return text_of(*boards)


BAD_FILES = {
    "no player": (bad_level("@", " "), "the level at line 14 has no player"),
    "two players": (bad_level("@ ", "@@"), "the level at line 14 has more than one player"),
    "a box too many": (
        bad_level("@ ", "@$", 0),
        "the level at line 2 has fewer targets than boxes",
    ),
    "a box too few": (bad_level("$", " "), "not every level has 4 boxes and as many targets"),
    "a gap": (
        bad_level("###\n", "## \n"),
        "the level at line 14 is open: its outer wall has a gap",
    ),
    "a character": (bad_level("@", "&"), "line 19: '&' is none of the characters"),
    "a row too long": (bad_level("##\n", "###\n"), "the level at line 14 is not of 10x10 cells"),
    "a row too few": (bad_level("##########\n", ""), "the level at line 14 is not of 10x10 cells"),
    "no text": ("", "there are no levels in it"),
    "another board": (text_of(*BOARDS[::-1]), None),
    "too few boards": (text_of(BOARDS[0]), None),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_in_a_sentence_and_not_imported(case, tmp_path, small_boxoban):  # noqa: F811
    text, complaint = BAD_FILES[case]
    path = tmp_path / "bad.zip"
    path.write_bytes(zipped(files() | {TEST: text}))
    complaint = f"{TEST}: {complaint}" if complaint else "unfiltered/test"
    with pytest.raises(BadInput, match=re.escape(complaint)) as error:
        boxoban.import_boxoban(str(path))
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    assert banks_in(small_boxoban) == ["unfiltered-train.npy", "unfiltered-valid.npy"]


def test_line_ends_of_another_system_do_no_harm(tmp_path):
    path = tmp_path / "windows.zip"
    path.write_bytes(zipped({name: text.replace("\n", "\r\n") for name, text in files().items()}))
    assert boxoban.import_boxoban(str(path)) == COUNTS


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.97])
def test_a_zip_that_is_cut_short_leaves_nothing(share, archive, small_boxoban):  # noqa: F811
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadInput, match="is not a zip file, or only a part of one, or damaged"):
        boxoban.import_boxoban(str(archive))
    assert not small_boxoban.exists()


def test_a_zip_with_a_changed_byte_is_noticed(archive):
    whole = bytearray(archive.read_bytes())
    whole[whole.index(b"unfiltered/train/000.txt") + 60] ^= 255
    archive.write_bytes(whole)
    with pytest.raises(BadInput, match="damaged"):
        boxoban.import_boxoban(str(archive))


def test_another_zip_is_not_boxoban(tmp_path, small_boxoban):  # noqa: F811
    path = tmp_path / "photos.zip"
    path.write_bytes(zipped({"photos/1.txt": "no level"}))
    with pytest.raises(
        BadInput, match=r"not Boxoban: there is no file like unfiltered/test/000\.txt"
    ):
        boxoban.import_boxoban(str(path))
    with pytest.raises(BadInput, match="there is no nowhere"):
        boxoban.import_boxoban("nowhere")
    assert not small_boxoban.exists()


def packed_with(compression, contents):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return file.getvalue()


def refusal(path, data_of_it=None):
    """What is said of a source that is not imported, which must not take long or much memory."""
    if data_of_it is not None:
        path.write_bytes(data_of_it)
    tracemalloc.start()
    try:
        with time_limit(20), pytest.raises(BadInput, match=r"^[^\n]*$") as error:
            boxoban.import_boxoban(str(path))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    return str(error.value)


def test_a_small_zip_with_a_large_board_is_refused_at_once(tmp_path):
    for board in ("#\n" * 400_000, "#" * 900_000):
        assert "the level at line 1 has more than 64" in refusal(
            tmp_path / "large.zip", zipped({TEST: board})
        )


@pytest.mark.parametrize("declared", [None, 500])
def test_a_zip_bomb_is_not_unpacked(declared, tmp_path):
    bomb = packed_with(zipfile.ZIP_DEFLATED, {TEST: b" " * 300_000_000})
    if declared is not None:
        bomb = bomb.replace((300_000_000).to_bytes(4, "little"), declared.to_bytes(4, "little"))
    assert len(bomb) < 300_000
    complaint = (
        "it is too large: it has more than 1,000,000 bytes" if declared is None else "damaged"
    )
    assert complaint in refusal(tmp_path / "bomb.zip", bomb)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("harm", ["a bomb", "damage"])
def test_other_compressions_are_refused_before_anything_is_unpacked(compression, harm, tmp_path):
    content = b" " * 40_000_000 if harm == "a bomb" else random.Random(1).randbytes(2000)
    packed = packed_with(compression, {TEST: content})
    packed = packed.replace((40_000_000).to_bytes(4, "little"), (500).to_bytes(4, "little"))
    if harm == "damage":
        middle = packed.index(b".txt") + 60
        packed = packed[:middle] + b"\xff" * 8 + packed[middle + 8 :]
    assert refusal(tmp_path / "other.zip", packed) == (
        f"{tmp_path / 'other.zip'}, {TEST}: its compression is not supported: unpack the zip file "
        "and give the folder"
    )


def test_an_archive_with_too_many_files_is_refused(tmp_path, archive, monkeypatch):
    monkeypatch.setattr(boxoban, "MOST_FILES", 5)
    complaint = "is not Boxoban alone: there are more than 5 files in it"
    assert complaint in refusal(archive)
    with zipfile.ZipFile(archive) as inside:
        inside.extractall(tmp_path / "unpacked")
    assert complaint in refusal(tmp_path / "unpacked")


def test_a_zip_whose_directory_is_too_large_is_refused(archive, monkeypatch):
    monkeypatch.setattr(boxoban, "LARGEST_FILE", 300)
    assert "is not a zip file, or only a part of one, or damaged" in refusal(archive)


def test_a_split_with_more_than_it_should_have_is_refused(tmp_path):
    more = text_of(*BOARDS, BOARDS[0])
    empty = text_of(BOARDS[0]) + "\n" * 700
    for text in (more, empty):
        assert "unfiltered/test has more in it than it should" in refusal(
            tmp_path / "more.zip", zipped(files() | {TEST: text})
        )


def test_a_large_file_of_a_folder_is_not_read_whole(tmp_path):
    folder = tmp_path / "boxoban" / "hard"
    folder.mkdir(parents=True)
    with open(folder / "000.txt", "wb") as file:
        file.truncate(1 << 40)
    assert "000.txt is too large: it has more than 1,000,000 bytes" in refusal(folder.parent)


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        wanted = "--from must be a zip file, a folder or a URL, and"
        assert refusal(path) == f"{wanted} {path} is none of them"
    folder = tmp_path / "boxoban" / "hard"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "000.txt")
    assert "there is no file like" in refusal(folder.parent)


def test_a_damaged_directory_of_a_zip_is_one_sentence(archive):
    whole = bytearray(archive.read_bytes())
    place = whole.rindex(b"PK\x05\x06") + 16  # where the directory is said to begin
    whole[place : place + 4] = b"\xff\xff\xff\x7f"
    assert "damaged" in refusal(archive, bytes(whole))


def test_paths_in_a_zip_lead_nowhere(tmp_path, small_boxoban):  # noqa: F811
    path = tmp_path / "tricks.zip"
    names = ["../../../unfiltered/test/000.txt", "/hard/000.txt"]
    path.write_bytes(zipped({name: text_of(*BOARDS) for name in names}))
    before = sorted(tmp_path.rglob("*"))
    assert boxoban.import_boxoban(str(path)) == {"unfiltered-test": 3, "hard": 3}
    new = set(tmp_path.rglob("*")) - set(before)
    assert {file for file in new if file.is_file()} == {
        small_boxoban / "boxoban" / name for name in ("unfiltered-test.npy", "hard.npy")
    }


class Answer(http.server.BaseHTTPRequestHandler):
    """Serves `server.body`, with ranges; of the first answer only `server.first` bytes."""

    def do_GET(self):
        server = self.server
        body, asked = server.body, self.headers.get("Range")
        server.asked.append(asked)
        if body is None:
            return self.send_error(404, "Not Found")
        at = int(asked.split("=")[1].rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body) - at))
        self.end_headers()
        sent = server.first if len(server.asked) == 1 else None
        self.wfile.write(body[at:sent])

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(body, first=None):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.body, server.first, server.asked = body, first, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}/master.zip"
        finally:
            server.shutdown()
            thread.join()


def test_a_download_is_imported_and_not_kept(small_boxoban):  # noqa: F811
    shown = []
    with serving(zipped(files())) as (server, url):
        assert boxoban.import_boxoban(url, lambda *seen: shown.append(seen)) == COUNTS
        assert boxoban.import_boxoban(url) == COUNTS
    assert server.asked == [None]
    assert banks_in(small_boxoban) == sorted(f"{bank}.npy" for bank in COUNTS)
    size = len(zipped(files()))
    assert shown[0] == ("download", size, size)


def test_a_download_that_broke_off_goes_on(small_boxoban):  # noqa: F811
    with serving(zipped(files()), first=700) as (server, url):
        with pytest.raises(BadInput, match=r"broke off after 700 of .* --from"):
            boxoban.import_boxoban(url)
        assert boxoban.import_boxoban(url) == COUNTS
    assert server.asked == [None, "bytes=700-"]


def test_a_download_of_something_else_is_not_kept(small_boxoban):  # noqa: F811
    for body, complaint in (
        (b"<html>sign in first</html>", "not a zip file"),
        (zipped(files() | {TEST: text_of(*BOARDS[::-1])}), "wrong checksum"),
    ):
        with serving(body) as (_, url), pytest.raises(BadInput, match=complaint) as error:
            boxoban.import_boxoban(url)
        assert str(error.value).endswith("give the file with --from")
    assert banks_in(small_boxoban) == ["unfiltered-train.npy", "unfiltered-valid.npy"]


@pytest.mark.parametrize("length", [True, False])
def test_a_download_without_end_is_broken_off(length, small_boxoban, monkeypatch):  # noqa: F811
    monkeypatch.setattr(boxoban, "LARGEST_DOWNLOAD", 1000)
    if not length:
        monkeypatch.setattr(Answer, "send_header", lambda *_: None)
    with serving(b" " * 5000) as (_, url), pytest.raises(BadInput, match="more than 1,000 bytes"):
        boxoban.import_boxoban(url)
    assert banks_in(small_boxoban) == []


def test_a_page_that_is_not_there_and_a_server_that_is_not(small_boxoban):  # noqa: F811
    with serving(None) as (_, url), pytest.raises(BadInput, match="the server says 404 Not Found"):
        boxoban.import_boxoban(url)
    with pytest.raises(BadInput, match=r"cannot download .*/master\.zip: .*refused; .* --from"):
        boxoban.import_boxoban(url)
    assert not small_boxoban.exists()


def test_the_banks_are_listed_with_what_is_there(archive):
    before = boxoban.banks()
    assert list(before) == [*levels.EMBEDDED, *levels.BOXOBAN]
    assert before["hard"] == {"levels": 3, "bytes": 0, "file": None, "damaged": False}
    assert before["embedded-train"]["levels"] == 10_000
    assert boxoban.meanings() == {split: f"embedded-{split}" for split in levels.SPLITS}
    boxoban.import_boxoban(str(archive))
    after = boxoban.banks()["hard"]
    assert after["file"] == str(levels.bank_path("hard"))
    assert after["bytes"] == 3 * 15 + 128
    assert boxoban.meanings() == {split: f"unfiltered-{split}" for split in levels.SPLITS}
