"""The page is small, asks for nothing from outside, and never takes text for markup."""

import re

import pytest

from wmg.envs.babyai.scene import SCENERY as BABYAI
from wmg.envs.pathfinding.scene import SCENERY as PATHFINDING
from wmg.envs.sokoban.scene import SCENERY as SOKOBAN
from wmg.viewer import generic
from wmg.viewer.page_files import page_files

DRAWINGS = [BABYAI.drawing, PATHFINDING.drawing, SOKOBAN.drawing, generic.DRAWING]
PAGES = [page_files(drawing) for drawing in DRAWINGS]
FILES = PAGES[0] | {str(path): page["scene.js"] for path, page in zip(DRAWINGS, PAGES, strict=True)}
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def test_page_and_scripts_are_under_150_kilobytes():
    for page in PAGES:
        assert sum(len(text.encode()) for text in page.values()) < 150_000


@pytest.mark.parametrize("name", FILES)
def test_no_address_outside_is_named(name):
    addresses = re.findall(r"\b(?:https?|wss?|ftp)?://[^\s\"'`]+", FILES[name])
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "@import" not in FILES[name] and not re.search(r"url\((?!data:)", FILES[name])


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name):
    danger = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    assert not re.search(danger, FILES[name])
    assert not re.search(r"setAttribute\(\s*[\"'`]on", FILES[name])


def test_every_script_that_is_imported_is_there():
    for name in SCRIPTS:
        for path in re.findall(r'from "([^"]+)"', FILES[name]):
            assert path.startswith("./") and path[2:] in PAGES[0]


@pytest.mark.parametrize("drawing", DRAWINGS, ids=str)
def test_the_drawing_is_the_scene_of_the_page(drawing):
    assert page_files(drawing)["scene.js"] == drawing.read_text()
    assert re.search(r"^export const drawing = {", drawing.read_text(), re.MULTILINE)
