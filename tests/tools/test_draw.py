"""Shapes, lines and letters, pixel by pixel."""

import io
import sys

import numpy as np
import pytest

from wmg.tools import draw
from wmg.tools.draw import INK, PAPER
from wmg.tools.errors import BadInput

BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def share_of(picture):
    """How much of each pixel is ink, for black on white."""
    return 1 - picture[..., 0] / 255


def painted(mask, size):
    picture = draw.blank(size, size, WHITE)
    draw.paint(picture, mask, BLACK)
    return share_of(picture)


@pytest.mark.parametrize(
    ("mask", "area"),
    [
        (draw.disc(40, 0.5, 0.5, 0.3), np.pi * 0.09),
        (draw.slab(40, 0.1, 0.2, 0.5, 0.9), 0.4 * 0.7),
        (draw.triangle(40, 0), 0.82 * 0.84 / 2),
    ],
    ids=["disc", "slab", "triangle"],
)
def test_a_shape_covers_the_area_it_should(mask, area):
    assert painted(mask, 40).mean() == pytest.approx(area, rel=0.01)


def test_edges_are_smooth_and_the_inside_is_solid():
    share = painted(draw.disc(40, 0.5, 0.5, 0.3), 40)
    assert share[20, 20] == 1 and share[0, 0] == 0
    assert ((share > 0.1) & (share < 0.9)).sum() > 30


@pytest.mark.parametrize(
    ("direction", "tip"), [(0, (1, 0)), (1, (0, 1)), (2, (-1, 0)), (3, (0, -1))]
)
def test_a_triangle_points_where_its_direction_says(direction, tip):
    y, x = np.nonzero(painted(draw.triangle(40, direction), 40) > 0.5)
    along = (x - 19.5) * tip[0] + (y - 19.5) * tip[1]
    across = np.abs((x - 19.5) * tip[1] + (y - 19.5) * tip[0])
    assert across[along > 14].max() < across[along < -10].max() / 3


def test_a_line_runs_from_one_end_to_the_other_and_no_further():
    picture = draw.blank(20, 30, WHITE)
    draw.line(picture, (5.0, 10.0), (25.0, 10.0), 4.0, BLACK)
    share = share_of(picture)
    assert (share[9:11, 5:25] == 1).all() and (share[:7] == 0).all() and (share[13:] == 0).all()
    assert (share[:, :2] == 0).all() and (share[:, 28:] == 0).all()


def test_a_line_that_leaves_the_picture_is_cut_off():
    picture = draw.blank(10, 10, WHITE)
    draw.line(picture, (-5.0, 5.0), (30.0, 5.0), 2.0, BLACK)
    assert (share_of(picture)[4:6] == 1).all() and (share_of(picture)[:3] == 0).all()


GO = """
............
............
.####..###..
#...#.#...#.
#...#.#...#.
#...#.#...#.
.####..###..
....#.......
.###........
"""


def test_letters_are_drawn_as_they_look():
    picture = draw.blank(9, 12)
    draw.write(picture, "go", 0, 0, INK, scale=1)
    drawn = np.array([[dot == "#" for dot in row] for row in GO.split()])
    np.testing.assert_array_equal((picture == INK).all(-1), drawn)
    np.testing.assert_array_equal((picture == PAPER).all(-1), ~drawn)


def test_letters_grow_with_their_scale():
    small, large = draw.blank(9, 12), draw.blank(27, 36)
    draw.write(small, "go", 0, 0, INK, scale=1)
    draw.write(large, "go", 0, 0, INK, scale=3)
    np.testing.assert_array_equal(large, small.repeat(3, 0).repeat(3, 1))


def test_a_character_that_is_not_in_the_font_is_a_question_mark():
    known, unknown = draw.blank(9, 6), draw.blank(9, 6)
    draw.write(known, "?", 0, 0, INK, scale=1)
    draw.write(unknown, "é", 0, 0, INK, scale=1)
    np.testing.assert_array_equal(known, unknown)


def test_text_is_cut_off_at_the_edge():
    wide, narrow = draw.blank(9, 60), draw.blank(9, 20)
    draw.write(wide, "key and ball", 4, 0, INK, scale=1)
    draw.write(narrow, "key and ball", 4, 0, INK, scale=1)
    np.testing.assert_array_equal(narrow, wide[:, :20])


def test_no_two_characters_look_the_same():
    assert len({tuple(rows) for rows in draw.FONT.values()}) == len(draw.FONT) == 44


def frames():
    pictures = [draw.blank(10, 20, colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    pictures[1][2:5, 3:9] = (10, 20, 30)
    return pictures


def test_a_png_file_holds_the_picture():
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    with image.open(io.BytesIO(draw.png(picture))) as file:
        assert (file.format, file.mode) == ("PNG", "RGB")
        np.testing.assert_array_equal(np.array(file), picture)


def test_an_animation_holds_the_frames_at_their_speed_for_ever(tmp_path):
    image = pytest.importorskip("PIL.Image")
    draw.gif(frames(), tmp_path / "new" / "a.gif", fps=5.0)
    with image.open(tmp_path / "new" / "a.gif") as file:
        assert file.n_frames == 3 and file.info["loop"] == 0
        for index, frame in enumerate(frames()):
            file.seek(index)
            assert file.info["duration"] == 200
            np.testing.assert_allclose(np.array(file.convert("RGB")), frame, atol=4)


def test_an_animation_needs_frames_and_pillow(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="there is no frame to animate"):
        draw.gif([], tmp_path / "a.gif")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match=r"animations need pillow: pip install 'wmg\[plot\]'"):
        draw.gif(frames(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []
