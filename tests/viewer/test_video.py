"""Videos show the squares the numbers say, and are what their name says."""

import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from viewer import players

from wmg.tools.draw import INK, PAPER, write
from wmg.tools.errors import BadInput
from wmg.viewer import recording, video
from wmg.viewer.play import Track


@pytest.fixture(scope="module")
def room():
    track = Track(players.babyai(), 0)
    for action in (0, 0, 0):
        track.act(len(track.steps) - 1, action, ())
    return track


@pytest.fixture(scope="module")
def graph():
    track = Track(players.random(), 0)
    while not track.over:
        track.act(len(track.steps) - 1, None, ())
    return track


def test_a_square_has_the_area_its_share_says():
    picture = np.zeros((200, 200, 3), np.uint8)
    video.square(picture, 100.0, 100.0, 40, 0.5)
    side = 40 * np.sqrt(video.GAIN * 0.5)
    rows = np.flatnonzero(picture.any((1, 2)))
    assert abs(rows[-1] - rows[0] + 3 - side) <= 1.5  # its rim is black


def test_factors_have_squares_on_their_cells(room):
    for moment, step in zip(room.snapshots, room.steps, strict=True):
        (place,) = step.scene["places"]
        frame = video.draw_step(room.player, moment.state, step)
        plain = room.player.env.picture(moment.state)
        height, width, _ = plain.shape
        changed = (frame[:height, :width] != plain).any(-1)
        assert changed.any() == (place is not None)
        if place:
            left, top, side = room.player.scenery.squares(place)
            y, x = np.argwhere(changed).mean(0)
            assert abs(x - left - side / 2) < 2 and abs(y - top - side / 2) < 2
            share = recording.shares(step.thought.attention)[1]
            reach = np.ptp(np.argwhere(changed), axis=0).max() + 1
            assert abs(reach - side * np.sqrt(video.GAIN * share)) < 3


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("depth-1", "depth-1"),
        ("runs/My_best.safetensors", "my_best"),
        ("a" * 40, "a" * 40),
        (".", pathlib.Path().resolve().name.lower()),
    ],
)
def test_every_frame_names_the_agent(graph, name, written):
    player = dataclasses.replace(graph.player, name=name)
    line = np.full((video.LINE, video.SIDE, 3), PAPER, np.uint8)
    write(line, written, video.MARGIN, 0, INK)
    for time in (0, -1):
        frame = video.draw_step(player, graph.snapshots[time].state, graph.steps[time])
        top = frame[video.MARGIN : video.MARGIN + video.LINE, -video.SIDE :]
        assert (top == line).all()


def test_the_last_frame_says_how_it_ended_and_stays(graph):
    frames = list(video.draw([graph]))
    assert len(frames) == 12 + video.PAUSE
    assert all((frame == frames[-1]).all() for frame in frames[-video.PAUSE :])


def test_a_gif_has_a_frame_for_each_step(graph, tmp_path):
    image = pytest.importorskip("PIL.Image")
    video.save(tmp_path / "a.gif", [[graph]], fps=3.0)
    with image.open(tmp_path / "a.gif") as made:
        assert made.format == "GIF" and made.n_frames >= 12
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


def test_an_mp4_holds_all_frames(graph, tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    video.save(tmp_path / "a.mp4", [[graph], [graph]], fps=5.0)
    program = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(tmp_path / "a.mp4"), "-f", "null", "-"]
    said = subprocess.run(program, capture_output=True, text=True).stderr
    assert "h264" in said and f"frame={2 * (12 + video.PAUSE):>5}" in said
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_another_ending_is_refused(graph, tmp_path):
    with pytest.raises(BadInput, match=r"\.gif or \.mp4"):
        video.save(tmp_path / "a.webm", [[graph]], fps=5.0)
    assert list(tmp_path.iterdir()) == []


def test_without_ffmpeg_it_says_what_is_missing(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(BadInput, match=r"mp4 files need imageio-ffmpeg: pip install 'wmg\[view\]'"):
        video.save(tmp_path / "a.mp4", [[graph]], fps=5.0)
    assert list(tmp_path.iterdir()) == []


def test_an_ffmpeg_that_fails_is_named(graph, tmp_path, monkeypatch):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: "false")
    with pytest.raises(BadInput, match=r"ffmpeg could not write .*mp4: it ended with 1"):
        video.save(tmp_path / "a.mp4", [[graph]], fps=5.0)


def test_two_agents_are_side_by_side_until_both_have_ended(graph, room):
    frames = list(video.draw([room, graph]))
    assert len(frames) == len(graph.steps) + video.PAUSE - 1
    for time in (0, 9):
        left, right = (
            video.draw_step(one.player, one.snapshots[now].state, one.steps[now])
            for one, now in ((room, min(time, 3)), (graph, time))
        )
        height, width, _ = left.shape
        assert (frames[time][:height, :width] == left).all()
        assert (frames[time][: len(right), width : width + right.shape[1]] == right).all()
        assert frames[time].shape[0] % 2 == frames[time].shape[1] % 2 == 0
