"""The files that make the viewer's page."""

import functools
import importlib.resources


@functools.cache
def page_files() -> dict[str, str]:
    """The files of the page, by their path in it."""
    root = importlib.resources.files("wmg.viewer") / "page"
    inner = [(f"scenes/{item.name}", item) for item in (root / "scenes").iterdir()]
    outer = [(item.name, item) for item in root.iterdir() if item.name != "scenes"]
    return {name: item.read_text(encoding="utf-8") for name, item in sorted(outer + inner)}
