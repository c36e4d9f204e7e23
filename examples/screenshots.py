"""Take the pictures of the viewer in docs/images, of the models that come with the package.

Needs Chromium, playwright and pillow: python examples/screenshots.py [FOLDER]
"""

import dataclasses
import io
import pathlib
import shutil
import sys

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from wmg.cli.view import make_player
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import models
from wmg.viewer import server
from wmg.viewer.play import Player
from wmg.viewer.session import ViewerSession

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "images"
FIRST_MEMO_OF_PATHFINDING = 1


def shipped(name: str) -> Player:
    """A model of the package; on Sokoban, with the package's own levels."""
    agent, settings = models.find(name)
    env = settings.env
    assert env is not None
    if isinstance(env, SokobanSettings):
        env = dataclasses.replace(env, levels="embedded-test")
    return make_player(name, agent, settings, env, greedy=False)


def take(
    browser: Browser, player: Player, seed: int, keys: str, off: int | None, scheme: str
) -> bytes:
    """A picture of the page after some keys, with a node switched off."""
    with server.serving(ViewerSession([player], seed)) as address:
        window = browser.new_context(viewport={"width": 1060, "height": 680})
        page: Page = window.new_page()
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        for key in keys:
            page.keyboard.press(key)
            page.wait_for_selector("body[data-busy=false]")
        if off is not None:
            page.locator(f".node[data-node='{off}']").click()
            page.wait_for_selector("body[data-busy=false]")
        picture = page.screenshot(full_page=True)
        window.close()
    return picture


def save(picture: bytes, path: pathlib.Path) -> None:
    """Write a picture with few colours, which is half the size."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(160, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path} ({path.stat().st_size / 1000:.0f} kB)")


def main(folder: pathlib.Path) -> None:
    """Take them all."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no chromium here")
    wanted = {
        "viewer-pathfinding.png": (
            shipped("pathfinding-wmg"),
            0,
            "lllllll",
            FIRST_MEMO_OF_PATHFINDING,
            "light",
        ),
        "viewer-babyai.png": (shipped("babyai-level4-wmg"), 0, "lllll", None, "dark"),
        "viewer-sokoban.png": (shipped("sokoban-wmg"), 0, "lllllll", None, "light"),
    }
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, what in wanted.items():
            save(take(browser, *what), folder / name)
        browser.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
