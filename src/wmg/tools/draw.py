"""What pictures are made of: shapes with smooth edges, lines, and text; and their files.

A shape is a mask with several samples for each pixel, along both sides; the share of them that
it covers is how much of a pixel it colours.
"""

import os
import pathlib
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, UInt8

from wmg.tools.errors import BadInput

Frame = UInt8[np.ndarray, "_ _ 3"]
"""A picture: height, width, and red, green and blue."""
Mask = Bool[np.ndarray, "_ _"]
Colour = tuple[int, int, int]

PAPER, INK, QUIET, PALE = (255, 255, 255), (34, 36, 38), (120, 124, 128), (214, 217, 219)

SAMPLES = 4
"""Samples of a pixel, along each side."""


def blank(height: int, width: int, colour: Colour = PAPER) -> Frame:
    """A picture of one colour."""
    return np.full((height, width, 3), colour, np.uint8)


def put(picture: Frame, part: Frame, left: int, top: int) -> None:
    """Lay a smaller picture onto a picture."""
    picture[top : top + part.shape[0], left : left + part.shape[1]] = part


def paint(picture: Frame, mask: Mask, colour: Colour) -> None:
    """Colour what a mask covers."""
    height, width, _ = picture.shape
    blend(picture, mask.reshape(height, SAMPLES, width, SAMPLES).mean((1, 3)), colour)


def blend(picture: Frame, share: Float[np.ndarray, "height width"], colour: Colour) -> None:
    """Mix a share of a colour into every pixel."""
    share = share[..., None]
    picture[:] = np.round(picture * (1 - share) + np.array(colour) * share)


def samples(size: int) -> tuple[Float[np.ndarray, "side side"], Float[np.ndarray, "side side"]]:
    """x and y of every sample of a unit square of `size` pixels."""
    along = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES)
    x, y = np.meshgrid(along, along)
    return x, y


def disc(size: int, x: float, y: float, radius: float) -> Mask:
    """A circle in a square."""
    across, down = samples(size)
    return (across - x) ** 2 + (down - y) ** 2 < radius**2


def slab(size: int, left: float, top: float, right: float, bottom: float) -> Mask:
    """An upright rectangle in a square."""
    x, y = samples(size)
    return (x >= left) & (x < right) & (y >= top) & (y < bottom)


def triangle(size: int, direction: int) -> Mask:
    """An arrow head that points right, turned by `direction` quarters clockwise."""
    x, y = samples(size)
    return np.rot90((x > 0.12) & (np.abs(y - 0.5) < 0.42 * (0.94 - x) / 0.82), -direction)


Point = tuple[float, float]


def line(picture: Frame, start: Point, end: Point, width: float, colour: Colour) -> None:
    """A straight line from one pixel to another, with round ends."""
    left, top = (max(0, int(min(ends) - width)) for ends in zip(start, end, strict=True))
    right, bottom = (int(max(ends) + width) + 1 for ends in zip(start, end, strict=True))
    area = picture[top:bottom, left:right]
    y, x = np.indices(area.shape[:2]) + 0.5
    x, y = x + left - start[0], y + top - start[1]
    dx, dy = end[0] - start[0], end[1] - start[1]
    along = np.clip((x * dx + y * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
    distance = np.hypot(x - along * dx, y - along * dy)
    blend(area, np.clip((width + 1) / 2 - distance, 0, 1), colour)


# Each glyph is its character and nine rows of five dots, a row a digit to the base of 32.
GLYPHS = (
    "a00e1fhf00 bgguhhhu00 c00egghe00 d11fhhhf00 e00ehvge00 f698s88800 g00fhhhf1e hggmphhh00 "
    "i40c444e00 j2062222ic kggikoki00 lc44444e00 m00qllhh00 n00mphhh00 o00ehhhe00 p00uhhhugg "
    "q00fhhhf11 r00mpggg00 s00fge1u00 t88s889600 u00hhhjd00 v00hhha400 w00hhlla00 x00ha4ah00 "
    "y00hhhhf1e z00v248v00 0ehjlphe00 14c4444e00 2eh1248v00 3v2421he00 426aiv2200 5vgu11he00 "
    "668guhhe00 7v12488800 8ehhehhe00 9ehhf12c00 ,000004480 .00000cc00 :00cc0cc00 /01248g000 "
    "?eh1240400 -000v00000 _0000000v0"
)
FONT = {" ": [0] * 9} | {glyph[0]: [int(row, 32) for row in glyph[1:]] for glyph in GLYPHS.split()}
PITCH = 6
"""Dots from one character to the next."""


def write(picture: Frame, text: str, left: int, top: int, colour: Colour, scale: int = 2) -> None:
    """One line of text, cut off at the edge. What the font lacks becomes a question mark."""
    rows = np.array([FONT.get(character, FONT["?"]) for character in text or " "])
    dots = (rows.T[..., None] << 1) >> np.arange(PITCH)[::-1] & 1
    ink = dots.reshape(rows.shape[1], -1).repeat(scale, 0).repeat(scale, 1).astype(bool)
    area = picture[top : top + ink.shape[0], left : left + ink.shape[1]]
    area[ink[:, : area.shape[1]]] = colour


def png(picture: Frame) -> bytes:
    """A picture as a PNG file."""
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)  # 0: a row is stored as it is
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),  # 8 bits of each of RGB
        b"IDAT": zlib.compress(rows),
        b"IEND": b"",
    }
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def gif(frames: Sequence[Frame], path: str | os.PathLike[str], fps: float = 6.0) -> None:
    """Write an animation that starts again at its end."""
    try:
        from PIL import Image
    except ImportError as error:
        raise BadInput("animations need pillow: pip install 'wmg[plot]'") from error
    if not frames:
        raise BadInput("there is no frame to animate")
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    # Without dithering, which would add noise to areas of one colour.
    images = [Image.fromarray(f).quantize(dither=Image.Dither.NONE) for f in frames]
    first, rest = images[0], images[1:]
    duration = round(1000 / fps)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=duration, loop=0)
