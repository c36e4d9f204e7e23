"""Episodes as moving pictures: the environment, what the Core attends to, policy and value."""

import contextlib
import itertools
import os
import pathlib
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from wmg.tools.draw import INK, PALE, PAPER, QUIET, Colour, Frame, blank, blend, gif, put, write
from wmg.tools.errors import BadInput
from wmg.viewer import recording
from wmg.viewer.play import Player, Track
from wmg.viewer.recording import RecordedStep, Thought

GAIN = 4.0
"""A square that is as large as a cell stands for a quarter of the attention, as on the page."""
MARGIN, SLOT, LINE, BAR = 16, 40, 24, 150
SIDE = 3 * MARGIN + 250
SLOT_FLOOR: Colour = (58, 63, 69)
BARS: Colour = (0, 114, 178)
ACROSS = 4
"""Slots of memory in a row."""
PAUSE = 3
"""Number of frames that show the end of an episode."""


def save(path: pathlib.Path, episodes: list[list[Track]], fps: float) -> None:
    """Write episodes, one after the other, as a .gif or .mp4 file; agents are side by side."""
    if path.suffix not in WRITERS:
        raise BadInput(f"a video must end in {' or '.join(WRITERS)}, got {str(path)!r}")
    frames = (frame for tracks in episodes for frame in draw(tracks))
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        WRITERS[path.suffix](frames, temporary, fps)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def draw(tracks: list[Track]) -> Iterator[Frame]:
    """A frame for each step of an episode; the last one stays a while."""
    longest = max(len(track.steps) for track in tracks)
    for time in range(longest + PAUSE - 1):
        at = [min(time, len(track.steps) - 1) for track in tracks]
        parts = [
            draw_step(track.player, track.snapshots[now].state, track.steps[now])
            for track, now in zip(tracks, at, strict=True)
        ]
        yield side_by_side(parts)


def draw_step(player: Player, state: Any, step: RecordedStep) -> Frame:
    """The environment with squares over its Factors; beside it Core, memory, policy, value."""
    scene = player.env.picture(state)
    height = max(len(scene), panel_height(player))
    panel = blank(height, SIDE)
    top = draw_name(panel, player)
    if step.thought is not None:
        shares = None
        if step.thought.attention is not None:
            shares = recording.shares(step.thought.attention)
            overlay(scene, player, step, shares)
        top = draw_nodes(panel, player, shares, top)
        draw_policy(panel, player, step.thought, top)
    else:
        write(panel, step.end or "", MARGIN, top, INK)
    whole = blank(height, scene.shape[1] + SIDE)
    put(whole, scene, 0, 0)
    put(whole, panel, scene.shape[1], 0)
    return whole


def panel_height(player: Player) -> int:
    """Room for the name, nodes, a line for each action, the value, and space between."""
    rows = 1 + (player.slots - 1) // ACROSS if player.slots else 1
    return 2 * MARGIN + rows * (SLOT + 4) + (len(player.scenery.actions) + 4) * LINE


def draw_name(panel: Frame, player: Player) -> int:
    """What the agent is called, a file without its folder; returns where there is room below."""
    name = pathlib.Path(player.name).resolve().name.removesuffix(".safetensors")
    write(panel, name.lower(), MARGIN, MARGIN, INK)
    return MARGIN + LINE


def overlay(scene: Frame, player: Player, step: RecordedStep, shares: np.ndarray) -> None:
    """White squares on the cells of the Factors."""
    if player.scenery.squares is None:
        return
    for place, share in zip(step.scene["places"], shares[1:], strict=False):
        if place is not None:
            left, top, side = player.scenery.squares(place)
            square(scene, left + side / 2, top + side / 2, side, float(share))


def square(picture: Frame, x: float, y: float, cell: int, share: float) -> None:
    """A square whose area is GAIN times a share of a cell, its middle at x and y."""
    half = cell * np.sqrt(GAIN * share) / 2
    edges = np.round([y - half, y + half, x - half, x + half]).astype(int)
    top, bottom, left, right = np.maximum(edges, 0)
    inside = picture[top:bottom, left:right]
    blend(inside, np.full(inside.shape[:2], 0.75), PAPER)
    for edge in (slice(top, top + 1), slice(bottom - 1, bottom)):
        picture[edge, left:right] = 0
    for edge in (slice(left, left + 1), slice(right - 1, right)):
        picture[top:bottom, edge] = 0


def draw_nodes(panel: Frame, player: Player, shares: np.ndarray | None, top: int) -> int:
    """The Core and the slots of memory, newest first; returns where there is room below."""
    if shares is None:
        return top
    slots = shares[len(shares) - player.slots :]
    write(panel, "core", MARGIN, top, QUIET)
    write(panel, "memos", MARGIN + 80, top, QUIET)
    top += LINE
    cells = [(MARGIN, top, SLOT, shares[0])]
    for i, share in enumerate(slots):
        row, column = divmod(i, ACROSS)
        cells.append((MARGIN + 80 + column * (SLOT + 4), top + row * (SLOT + 4), SLOT, share))
    for left, upper, side, _ in cells:
        panel[upper : upper + side, left : left + side] = SLOT_FLOOR
    for left, upper, side, share in cells:
        square(panel, left + side / 2, upper + side / 2, SLOT, float(share))
    return max(upper + side for _, upper, side, _ in cells) + MARGIN


def draw_policy(panel: Frame, player: Player, thought: Thought, top: int) -> None:
    """A bar for each action, blue for the chosen one, and the value."""
    for i, (name, _) in enumerate(player.scenery.actions):
        y = top + i * LINE
        chosen = i == thought.choice
        write(panel, name, MARGIN, y, INK if chosen else QUIET)
        left = MARGIN + 100
        panel[y : y + LINE - 8, left : left + BAR] = PALE
        width = round(BAR * float(thought.policy[i]))
        panel[y : y + LINE - 8, left : left + width] = BARS if chosen else QUIET
    y = top + len(player.scenery.actions) * LINE
    write(panel, f"value {thought.value:.2f}", MARGIN, y, INK)


def side_by_side(parts: list[Frame]) -> Frame:
    """Pictures on one paper, whose sides are even, as videos want them."""
    height, width = max(map(len, parts)), sum(part.shape[1] for part in parts)
    paper, left = blank(height + height % 2, width + width % 2), 0
    for part in parts:
        put(paper, part, left, 0)
        left += part.shape[1]
    return paper


def write_gif(frames: Iterable[Frame], path: pathlib.Path, fps: float) -> None:
    """Write an animation."""
    gif(list(frames), path, fps)


def write_mp4(frames: Iterable[Frame], path: pathlib.Path, fps: float) -> None:
    """Write a video, with the ffmpeg that comes with imageio-ffmpeg."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise BadInput("mp4 files need imageio-ffmpeg: pip install 'wmg[view]'") from error
    frames = iter(frames)
    first = next(frames)
    shape = f"{first.shape[1]}x{first.shape[0]}"
    program = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error"]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", shape, "-r", str(fps), "-i", "-"]
    target = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(path)]
    with subprocess.Popen([*program, *source, *target], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why by its code
            for frame in itertools.chain([first], frames):
                process.stdin.write(frame.tobytes())
            process.stdin.close()
    if process.returncode:
        raise BadInput(f"ffmpeg could not write {path.name}: it ended with {process.returncode}")


WRITERS = {".gif": write_gif, ".mp4": write_mp4}
