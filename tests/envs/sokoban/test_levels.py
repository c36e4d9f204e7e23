"""Text, packed bytes and levels, against boards written out by hand."""

import os
import pathlib
import time
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_boxoban import BOARDS, small_boxoban, text_of, to_board  # noqa: F401
from tiny import time_limit

from wmg.envs.sokoban import levels

ARCHIVE = pathlib.Path(__file__).resolve().parents[4] / "shared/data/boxoban-levels-master.zip"

ODD = """\
Title: two rooms that are not square

    #####
    #   #
 ####.$@#
 #   *  #
 ########

; the player stands on a target
####
#+ ###
#.$$ #
######
"""


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@jax.jit
def unpack(bank):
    return jax.vmap(bank.level)(jnp.arange(len(bank)))


def texts(bank):
    """The text of each level of a bank."""
    all_levels = jax.device_get(unpack(bank))
    rows = [jax.tree.map(lambda leaf, i=i: leaf[i], all_levels) for i in range(len(bank))]
    return [levels.to_text(levels.to_board(level)) for level in rows]


def find(tmp_path, text, bound=10):
    path = tmp_path / "levels.txt"
    path.write_text(text)
    return levels.find(str(path), bound)


def test_boxobans_text_survives_packing_into_15_bytes(tmp_path):
    bank = find(tmp_path, text_of(*BOARDS))
    assert bank.packed.shape == (3, 15) and bank.packed.dtype == jnp.uint8
    assert texts(bank) == list(BOARDS)


def test_the_packed_form_is_as_described():
    (row,) = levels.pack(to_board(BOARDS[0])[None])
    number = int.from_bytes(row.tobytes(), "little")
    inner = [line[1:-1] for line in BOARDS[0].splitlines()[1:-1]]
    cells = "".join(inner)
    walls = [bool(number >> cell & 1) for cell in range(64)]
    assert walls == [mark == "#" for mark in cells]
    places = [number >> (64 + 6 * index) & 63 for index in range(9)]
    assert [cells[place] for place in places] == ["$"] * 4 + ["."] * 4 + ["@"]
    assert len(set(places)) == 9 and number >> (64 + 54) == 0


def test_one_level_has_its_parts_where_the_text_has_them(tmp_path):
    level = find(tmp_path, text_of(*BOARDS)).level(jnp.int32(1))
    board = to_board(BOARDS[1])
    np.testing.assert_array_equal(level.walls, board == ord("#"))
    np.testing.assert_array_equal(level.targets, board == ord("."))
    np.testing.assert_array_equal(level.boxes, board == ord("$"))
    np.testing.assert_array_equal(level.player, [5, 5])


def test_any_text_loads_with_wall_around_what_it_shows(tmp_path):
    bank = find(tmp_path, ODD, bound=8)
    assert len(bank) == 2 and (bank.height, bank.width) == (8, 8)
    assert texts(bank)[0].splitlines() == [
        "########",
        "####   #",
        "####.$@#",
        "#   *  #",
        *["########"] * 4,
    ]
    assert texts(bank)[1].splitlines() == ["########", "#+ #####", "#.$$ ###", *["########"] * 5]


@pytest.mark.parametrize("bound", [10, 13])
def test_a_larger_bound_adds_wall_below_and_to_the_right(bound, no_cache):
    small, large = levels.find("embedded-test"), levels.find("embedded-test", bound)
    assert large.packed.shape == (1000, 15)
    for one, other in zip(texts(small)[:20], texts(large)[:20], strict=True):
        rows = [line.ljust(bound, "#") for line in one.splitlines()]
        assert other.splitlines() == rows + ["#" * bound] * (bound - 10)


BAD = {
    "no player": ("####\n#$.#\n####\n", "the level at line 1 has no player"),
    "two players": ("#####\n#@$.#\n#  @#\n#####\n", "the level at line 1 has more than one player"),
    "two players, one on a target": ("#####\n#@$+#\n#####\n", "has more than one player"),
    "no boxes": ("\n\n####\n#@.#\n####\n", "the level at line 3 has no boxes"),
    "solved": ("####\n#@*#\n####\n", "is solved already: every box is on a target"),
    "too few targets": ("#####\n#@$.#\n#$  #\n#####\n", "has fewer targets than boxes"),
    "a gap": ("#####\n#@$. \n#####\n", "is open: its outer wall has a gap"),
    "a gap in a corner that no step goes through": ("#####\n#@$.#\n#### \n", None),
    "a strange character": ("#####\n#@$x#\n#####\n", "line 2: 'x' is none of the characters"),
    "too large": ("######\n#@ $.#\n######\n", "has 3x6 cells: bound must be at least 6, got 5"),
    "nothing": ("just words\n", "there are no levels in it"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_level_is_refused_in_a_sentence(case, tmp_path):
    text, complaint = BAD[case]
    if complaint is None:
        assert len(find(tmp_path, text, 5)) == 1
        return
    with pytest.raises(ValueError, match=r"levels\.txt cannot be used as levels") as error:
        find(tmp_path, text, 5)
    assert complaint in str(error.value) and "\n" not in str(error.value)


TOO_LARGE = {
    "rows": ("#\n" * 6_000, "the level at line 1 has more than 64 rows"),
    "rows of a second level": (f"{BOARDS[0]}\n" + "#\n" * 65, "at line 12 has more than 64 rows"),
    "columns": ("#" * 12_000, "the level at line 1 has more than 64 columns"),
    "a diagonal": (
        "".join(" " * row + "#\n" for row in range(64)) + " " * 64 + "#\n",
        "the level at line 1 has more than 64 rows",
    ),
    "columns with the indentation of other rows": (
        "#\n" + " " * 5_000 + "#\n",
        "the level at line 1 has more than 64 columns",
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_board_that_is_too_large_is_refused_before_it_is_padded(case, tmp_path):
    text, complaint = TOO_LARGE[case]
    with time_limit(2), pytest.raises(ValueError, match=complaint):
        find(tmp_path, text, bound=64)


def room(height, width):
    """The text of one room with a box, a target and the player in it."""
    inside = ["#" + "@$.".ljust(width - 2) + "#", *["#" + " " * (width - 2) + "#"] * (height - 3)]
    return "\n".join(["#" * width, *inside, "#" * width]) + "\n"


def test_the_largest_board_is_read_wherever_its_rows_begin(tmp_path):
    indented = "".join(" " * 900 + line + "\n" for line in room(64, 64).splitlines())
    for text in (room(64, 64), indented):
        assert texts(find(tmp_path, text, bound=64)) == [room(64, 64)]


def winding(size):
    """A level above a passage from outside that winds through the rest of the board."""
    rows = ["#" * size, "#@$.".ljust(size, "#"), "#" * size]
    gaps = ("# ".ljust(size, "#"), " #".rjust(size, "#"))
    while len(rows) < size - 1:
        rows += ["#" + " " * (size - 2) + "#", gaps[len(rows) // 2 % 2]]
    return "\n".join(rows)


def test_a_passage_outside_that_winds_through_the_board_is_wall(tmp_path):
    (text,) = texts(find(tmp_path, winding(64), bound=64))
    assert text.splitlines() == ["#" * 64, "#@$.".ljust(64, "#"), *["#" * 64] * 62]


def plainly_walled(board):
    """The board with floor that is reached from outside as wall: cell by cell."""
    height, width = board.shape
    around = [(y, x) for y in range(-1, height + 1) for x in range(-1, width + 1)]
    inside = {(y, x) for y, x in around if 0 <= y < height and 0 <= x < width}
    free = {cell for cell in around if cell not in inside or board[cell] != levels.WALL}
    outside, new = set(), [(-1, -1)]
    while new:
        y, x = cell = new.pop()
        if cell in free - outside:
            outside.add(cell)
            new += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    walled = board.copy()
    for cell in outside & inside:
        if board[cell] in b"@+":
            return board
        if board[cell] == levels.FLOOR:
            walled[cell] = levels.WALL
    return walled


def test_outside_floor_of_random_boards_is_found_as_by_a_plain_search():
    chance, changed = np.random.default_rng(0), 0
    for _ in range(200):
        shares = [chance.uniform(0.5, 5), 2, 0.1, 0.1, 0.05, 0.05, 0.02]
        size = chance.integers(1, 13, 2)
        marks = np.frombuffer(b"# .$*@+", np.uint8)
        board = chance.choice(marks, size, p=np.divide(shares, sum(shares)))
        walled = levels._wall_outside(board)
        np.testing.assert_array_equal(walled, plainly_walled(board))
        changed += not np.array_equal(walled, board)
    assert 50 < changed < 150


def cpu_time(text):
    began = time.process_time()
    assert len(levels.read_text(text, 64)) == 100
    return time.process_time() - began


def test_boards_with_a_winding_passage_take_no_longer_than_others():
    straight = winding(64).splitlines()[:3] + [" " + "#" * 63] * 61
    texts = ["\n\n".join([board] * 100) for board in (winding(64), "\n".join(straight))]
    levels.read_text(texts[0], 64)  # imports what it needs
    winded, straight = (min(cpu_time(text) for _ in range(3)) for text in texts)
    assert winded < 2 * straight


def test_a_file_with_too_many_levels_or_bytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "MOST_CELLS", 3 * 10**2)
    assert len(find(tmp_path, text_of(*BOARDS))) == 3
    complaint = r"levels\.txt cannot be used as levels: it has more than 3 levels"
    with pytest.raises(ValueError, match=complaint):
        find(tmp_path, text_of(*BOARDS, BOARDS[0]))
    monkeypatch.setattr(levels, "LARGEST_FILE", 100)
    with pytest.raises(ValueError, match=r"levels\.txt is too large: it has more than 100 bytes"):
        find(tmp_path, text_of(*BOARDS))


def test_a_file_of_tiny_levels_is_bounded_by_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "MOST_LEVELS", 3)
    assert len(find(tmp_path, room(4, 5) + "\n", 5)) == 1
    with pytest.raises(ValueError, match="it has more than 3 levels, the most for bound = 5"):
        find(tmp_path, (room(4, 5) + "\n") * 4, 5)


def test_tiny_levels_are_checked_together():
    count, before = 10_000, time.process_time()
    assert len(levels.read_text((room(4, 5) + "\n") * count, 5)) == count
    assert time.process_time() - before < 4


def test_the_first_level_with_a_fault_is_named_whatever_its_size_and_fault():
    boards = [room(5, 6), room(6, 6)] * 4
    bad = {5: boards[5].replace("$", " "), 6: boards[6].replace("@", " "), 7: "######\n"}
    for places, complaint in (
        ((5, 6), "line 33 has no boxes"),
        ((6,), "line 40 has no player"),
        ((7, 6), "line 40 has no player"),
    ):
        text = "\n".join(bad[i] if i in places else one for i, one in enumerate(boards))
        with pytest.raises(ValueError, match=complaint):
            levels.read_text(text, 6)


def test_pipes_and_devices_are_no_levels(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        for name in (str(path), f"{path}@00000000"):
            with time_limit(5), pytest.raises(ValueError, match="levels must be a text file or"):
                levels.find(name)


def test_marks_of_other_editors_do_no_harm(tmp_path):
    path = tmp_path / "levels.txt"
    path.write_bytes(b"\xef\xbb\xbf" + BOARDS[0].replace("\n", "\r\n").encode())
    assert texts(levels.find(str(path))) == [BOARDS[0]]


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ValueError, match="it is not text"):
        levels.find(str(path))


def test_a_name_that_means_nothing_is_refused_with_those_that_do(no_cache):
    with pytest.raises(ValueError, match=r"one of train, .*embedded-test, got 'trian'"):
        levels.find("trian")


def test_a_bank_that_is_not_there_says_how_to_get_it(no_cache):
    with pytest.raises(ValueError, match="hard are not here yet: get them with `wmg data boxoban`"):
        levels.find("hard")


def test_a_bound_below_the_boards_is_refused(no_cache):
    with pytest.raises(ValueError, match=r"bound must be at least 10 .* got 9: name a text file"):
        levels.find("train", 9)
    with pytest.raises(ValueError, match="bound must be from 3 to 64, got 65"):
        levels.find("train", 65)


def test_without_boxoban_a_split_means_the_embedded_bank(no_cache):
    assert [levels.resolve(split) for split in levels.SPLITS] == list(levels.EMBEDDED)
    assert [len(levels.find(split)) for split in levels.SPLITS] == [10_000, 1000, 1000]


def save_bank(name, boards):
    path = levels.bank_path(name)
    path.parent.mkdir(parents=True)
    np.save(path, levels.pack(np.stack([to_board(board) for board in boards])))
    return path


def test_with_boxoban_it_means_boxobans(small_boxoban):  # noqa: F811
    save_bank("unfiltered-test", BOARDS)
    assert levels.resolve("test") == "unfiltered-test"
    assert levels.resolve("train") == "embedded-train"
    assert texts(levels.find("test")) == list(BOARDS)


@pytest.mark.parametrize("change", ["cut", "flip", "other"])
def test_a_damaged_bank_is_refused(change, small_boxoban):  # noqa: F811
    path = save_bank("unfiltered-test", BOARDS if change != "other" else BOARDS[:2])
    data = bytearray(path.read_bytes())
    if change == "flip":
        data[-3] ^= 4
    path.write_bytes(data[: len(data) // 2] if change == "cut" else data)
    with pytest.raises(ValueError, match="is damaged: import it again with `wmg data boxoban`"):
        levels.find("test")


def test_a_bank_whose_header_asks_for_all_memory_is_refused(small_boxoban):  # noqa: F811
    path = save_bank("unfiltered-test", BOARDS)
    huge = b"(9999999999999, 15), }"
    small = b"(3, 15), }".ljust(len(huge))
    assert small in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(small, huge))
    with pytest.raises(ValueError, match="is damaged: import it again"):
        levels.find("test")


@pytest.mark.parametrize("kind", ["pipe", "archive"])
def test_a_bank_that_is_no_array_is_refused(kind, small_boxoban):  # noqa: F811
    path = save_bank("unfiltered-test", BOARDS)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            np.savez(file, np.zeros(3))
    with time_limit(5), pytest.raises(ValueError, match="wmg data boxoban"):
        levels.find("unfiltered-test")


def test_a_file_is_named_with_its_checksum_and_refused_once_changed(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(ODD)
    name = levels.resolve(str(path))
    assert name.startswith(f"{path}@") and levels.resolve(name) == name
    assert len(levels.find(name)) == 2
    path.write_text(ODD + "\n")
    with pytest.raises(ValueError, match=r"mine\.txt has changed since its levels were first used"):
        levels.find(name)


def test_embedded_levels_are_all_different_and_as_they_should_be():
    packed = np.concatenate([levels.read_bank(name) for name in levels.EMBEDDED])
    assert packed.shape == (12_000, 15)
    assert len(np.unique(packed, axis=0)) == 12_000
    assert levels.EMBEDDED_FILE.stat().st_size < 150_000


@pytest.mark.slow
@pytest.mark.parametrize("bank", levels.BOXOBAN)
def test_every_level_of_boxoban_survives(bank, monkeypatch, tmp_path):
    if not ARCHIVE.exists():
        pytest.skip("no shared folder beside the repository")
    from wmg.envs.sokoban import boxoban

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with zipfile.ZipFile(ARCHIVE) as archive:
        folder = f"boxoban-levels-master/{levels.BOXOBAN[bank].folder}/"
        names = [name for name in archive.namelist() if name.startswith(folder)]
        originals = [archive.read(name) for name in sorted(names) if name.endswith(".txt")]
    for original in originals:
        bank_of_file = levels.Levels(
            jnp.asarray(levels.pack(boxoban.read_boards(original))), 10, 10, True
        )
        assert text_of(*texts(bank_of_file)).encode() == original
