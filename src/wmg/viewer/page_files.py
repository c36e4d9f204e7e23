"""The files that make the viewer's page."""

import functools
import importlib.resources
import pathlib


@functools.cache
def page_files(drawing: pathlib.Path) -> dict[str, str]:
    """The files of a page with that drawing of the environment, by their names in it."""
    page = importlib.resources.files("wmg.viewer") / "page"
    files = {item.name: item.read_text(encoding="utf-8") for item in page.iterdir()}
    return dict(sorted(files.items())) | {"scene.js": drawing.read_text(encoding="utf-8")}
