"""The viewer's page with recorded episodes inside: one file, without server or network."""

import base64
import gzip
import hashlib
import json
import pathlib
import re
from typing import Any

from wmg.viewer.page_files import page_files

IMPORT = re.compile(r"^import (\{[^}]*\}|\* as \w+) from \"\./([.\w]+)\";\n", re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function|const) (\w+))", re.MULTILINE)
FIRST = "app.js"


def export(file: dict[str, Any], drawing: pathlib.Path) -> str:
    """A page that shows the episodes of a file, with that drawing of the environment."""
    files = page_files(drawing)
    script, style = bundle(files), files["style.css"]
    text = json.dumps(file, separators=(",", ":"), ensure_ascii=False)
    packed = gzip.compress(text.encode(), mtime=0)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        '<meta charset="utf-8">': (
            '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        ),
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        'id="episodes"></script>': f'id="episodes">{base64.b64encode(packed).decode()}</script>',
        f'<script type="module" src="{FIRST}"></script>': (
            f'<script type="module">{script}</script>'
        ),
    }
    page = files["index.html"]
    for there, instead in parts.items():
        assert page.count(there) == 1, there
        page = page.replace(there, instead)
    return page


def bundle(files: dict[str, str]) -> str:
    """All modules as one script: each becomes a function that is called once and returns what
    it exports, since a page from a file may not load modules from other files."""
    done: list[str] = []

    def add(name: str) -> None:
        text = files[name]
        for _, other in IMPORT.findall(text):
            if other not in done:
                add(other)
        text = IMPORT.sub(_import, text)
        exported = ", ".join(found for _, found in EXPORT.findall(text))
        text = EXPORT.sub(r"\1", text)
        modules.append(f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n')
        done.append(name)

    modules = ["const modules = {};\n"]
    add(FIRST)
    return "\n".join(modules)


def _import(found: re.Match[str]) -> str:
    names, other = found.groups()
    return f'const {names.removeprefix("* as ")} = modules["{other}"];\n'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
