"""`wmg view`: what it writes, what it refuses, and that nothing stays behind."""

import http.client
import json
import signal
import sys
import time
import urllib.parse

import jax
import pytest
import tiny
from small_boxoban import small_boxoban  # noqa: F401
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import registry, viewer
from wmg.cli import main as cli
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import checkpoint
from wmg.viewer import server


def refused(capsys, *args):
    """The one sentence of a command that is refused."""
    code, out, err = tiny.command(capsys, "view", *args)
    assert (code, out) == (2, "") and err.startswith("wmg: ") and err.count("\n") == 1
    return err.removeprefix("wmg: ").strip()


def test_a_page_and_a_video_are_written(capsys, tmp_path):
    page, video = tmp_path / "a.html", tmp_path / "a.gif"
    args = ["random", "--env.nodes", "3", "--episodes", "2", "--export", page, "--video", video]
    code, out, err = tiny.command(capsys, "view", *args)
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {page} (0.0") and out.endswith(f"wrote {video}\n")
    assert page.read_text().startswith("<!doctype html>")
    assert video.read_bytes().startswith(b"GIF89a")
    assert sorted(tmp_path.iterdir()) == [video, page]
    written = page.read_bytes()
    assert refused(capsys, *args) == f"{page} already exists"
    assert page.read_bytes() == written


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "name a model"),
        (["nobody"], "there is no model 'nobody'"),
        (["random", "--export", "a.pdf"], "the file must end in .html, got 'a.pdf'"),
        (["random", "--video", "a.avi"], "the file must end in .mp4 or .gif, got 'a.avi'"),
        (["random", "--export", "no/such/a.html"], "there is no folder no/such"),
        (["random", "--episodes", "0"], "episodes must be from 1 to 1,000, got 0"),
        (["random", "--seed", "-1"], "seed must be from 0"),
        (["random", "--seed", "2147483647"], "seed must be from 0 to 2,147,463,647"),
        (["random", "--host", ""], "host must name an address"),
        (["random", "--export", "."], "the file must end in .html"),
        (["random", "--port", "70000"], "port must be from 0 to 65,535, got 70000"),
        (["random", "--fps", "0"], "fps must be from 0.1 to 60"),
        (["random", "--run", "1"], "--run chooses a run of a run folder"),
        (["random", "--frames", "1"], "there is no option --frames"),
        (["pathfinding-wmg", "--env.pattern", "5"], "does not fit the observations"),
        (
            ["random", "--versus", "babyai-level1-wmg"],
            "babyai-level1-wmg plays another environment than Pathfinding",
        ),
        (["random", "--env.level", "GoToObj", "--versus", "depth-1"], "only plays Pathfinding"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(
    capsys, tmp_path, monkeypatch, args, sentence
):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, *args)
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_one_sentence(capsys):
    with server.listening(server.LOOPBACK, 0) as taken:
        port = taken.getsockname()[1]
        said = refused(capsys, "random", "--env.nodes", "3", "--port", str(port), "--no-browser")
    assert said.startswith(f"cannot listen on 127.0.0.1:{port} (Address already in use)")


@pytest.fixture
def without_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "wmg.viewer.server")
    monkeypatch.delattr(viewer, "server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)


@pytest.mark.usefixtures("without_extra")
def test_a_missing_extra_is_one_sentence(capsys):
    said = refused(capsys, "random", "--env.nodes", "3")
    assert said == "the viewer needs starlette and uvicorn: pip install 'wmg[view]'"


@pytest.mark.usefixtures("without_extra")
def test_a_page_needs_no_extra(capsys, tmp_path):
    page = tmp_path / "a.html"
    args = ["random", "--env.nodes", "3", "--episodes", "1", "--export", page]
    assert tiny.command(capsys, "view", *args)[0] == 0 and page.exists()


def test_the_viewer_is_shown_on_the_loopback_address_and_opened(monkeypatch, capsys):
    opened, served = [], []

    class Silent:
        def run(self, sockets):
            served.append(sockets[0].getsockname())

    monkeypatch.setattr(server, "open_browser", opened.append)
    monkeypatch.setattr(server, "make_server", lambda *_: Silent())
    assert cli.main(["view", "random", "--env.nodes", "3"]) == 0
    address, how = capsys.readouterr().out.splitlines()
    ((host, port),) = served
    assert host == "127.0.0.1" and opened == [address] and how == "Ctrl-C ends the viewer"
    parts = urllib.parse.urlsplit(address)
    assert parts.port == port and len(parts.path.strip("/")) >= 16
    assert cli.main(["view", "random", "--env.nodes", "3", "--host", "0.0.0.0"]) == 0
    assert "whoever can reach this machine" in capsys.readouterr().out


def test_sokoban_is_shown_on_levels_that_nothing_was_trained_on(
    small_boxoban,  # noqa: F811
    monkeypatch,
    tmp_path,
):
    settings = tiny.settings(env=SokobanSettings("unfiltered-train", cells=57))
    shapes = registry.make_env(settings.env, shapes_only=True)
    agent = registry.make_agent(settings.agent, shapes.spec, jax.random.key(0))
    checkpoint.save_model(tmp_path / "m.safetensors", agent, settings)
    shown = []
    monkeypatch.setattr(server, "serve", lambda session, *_: shown.append(session))
    assert cli.main(["view", str(tmp_path / "m.safetensors"), "--versus", "random"]) == 0
    assert cli.main(["view", "random", "--env.levels", "embedded-valid"]) == 0
    titles = [session.show()["title"] for session in shown]
    assert titles == ["Sokoban, levels embedded-test", "Sokoban, levels embedded-valid"]


def test_ctrl_c_ends_the_viewer_and_leaves_no_process():
    process = tiny.start("view", "random", "--env.nodes", "3", "--no-browser")
    try:
        address = urllib.parse.urlsplit(process.stdout.readline().strip())
        waiting = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        waiting.request("GET", address.path)
        assert waiting.getresponse().read().startswith(b"<!doctype html>")
        page = {"Origin": f"http://{address.netloc}", "Content-Type": "application/json"}
        waiting.request("POST", f"{address.path}message", json.dumps({"do": "show"}), page)
        assert json.loads(waiting.getresponse().read())["title"] == "Pathfinding, 3 nodes"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)  # while the connection is still open
        _, err = process.communicate(timeout=30)
        waiting.close()
    finally:
        process.kill()
    assert process.returncode == 0 and err == ""
    assert time.monotonic() - began < 10
    with pytest.raises(OSError):
        http.client.HTTPConnection(address.hostname, address.port, timeout=5).connect()
