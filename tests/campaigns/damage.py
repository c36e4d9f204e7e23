"""Damaged files: each file that the package reads, changed in some place, and read.

A reader must refuse in one sentence, or accept. Where a file has a checksum, what it accepts must
be what was written.
"""

import dataclasses
import io
import json
import pathlib
import random
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import small_boxoban
import tiny
from interop import pth

from campaigns.tally import LIMIT, Tally
from wmg import config
from wmg.envs.sokoban import boxoban, levels
from wmg.interop import official, official_settings
from wmg.paper import result_file
from wmg.runs import checkpoint, runfolder, runlog
from wmg.runs.train import make_task
from wmg.tools.errors import BadInput
from wmg.tools.files import cache_folder

STRANGE = [
    *(None, True, -1, 0, 1, 0.5, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf")),
    *("", "x", "x" * 5000, "\x00", "float32", "../..", [], [[]], {}, {"name": "x"}),
]
"""Values to put into JSON data."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """A kind of file: its intact bytes, and what reads it."""

    data: bytes
    read: Callable[[pathlib.Path], Any]
    """Returns a number that depends on what was read, or None where any content may be right."""
    name: str
    change: Callable[[random.Random, bytes], bytes]
    """A change that knows the format."""


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Damage each kind of file equally often."""
    tallies = {}
    with pytest.MonkeyPatch.context() as patch:
        small_boxoban.replace_boxoban(patch, folder)
        subjects = make_subjects(folder)
        for kind, subject in subjects.items():
            draw, count = random.Random(f"{seed} {kind}"), -(-cases // len(subjects))
            tallies[kind] = try_subject(subject, count, draw, folder / "damaged")
    return tallies


def try_subject(subject: Subject, cases: int, draw: random.Random, folder: pathlib.Path) -> Tally:
    """Damage one kind of file many times."""
    folder.mkdir(exist_ok=True)
    path, tally = folder / subject.name, Tally()
    path.write_bytes(subject.data)
    began = time.monotonic()
    intact = subject.read(path)
    limit = LIMIT + time.monotonic() - began

    def read() -> str | None:
        found = subject.read(path)
        return "is accepted, but is not what was written" if found != intact else None

    for case in range(cases):
        change = subject.change if draw.random() < 0.5 else damage_bytes
        damaged = subject.data
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            damaged = change(draw, damaged)
        path.write_bytes(damaged)
        tally.attempt(f"{subject.name} {case}", read, limit)
    path.unlink()
    return tally


def damage_bytes(draw: random.Random, data: bytes) -> bytes:
    """Bytes that are flipped, set, cut, doubled, inserted or moved."""
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice((1, 1, 2, 8, 100, len(data))))
    part = data[start:end]
    changed = {
        "flip": bytes(byte ^ (1 << draw.randrange(8)) for byte in part[:1]) + part[1:],
        "set": bytes([draw.choice((0, 10, 34, 48, 57, 127, 255))] * len(part)),
        "delete": b"",
        "double": part * 2,
        "insert": draw.randbytes(draw.choice((1, 4, 64))) + part,
        "reverse": part[::-1],
    }[draw.choice(("flip", "flip", "set", "delete", "double", "insert", "reverse"))]
    if draw.random() < 0.1:
        return data[:start]
    return data[:start] + changed + data[end:]


def damage_json(draw: random.Random, data: bytes) -> bytes:
    """Some value of the data is replaced, removed or moved."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return damage_bytes(draw, data)
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in list(items):
            places.append((node, key))
            if isinstance(value, dict | list):
                visit(value)

    if isinstance(tree, dict | list):
        visit(tree)
    if not places:
        return json.dumps(draw.choice(STRANGE)).encode()
    node, key = draw.choice(places)
    if isinstance(node, dict) and draw.random() < 0.2:
        node[draw.choice(("x", "", "name", "version"))] = node.pop(key)
    elif draw.random() < 0.2:
        del node[key]
    else:
        node[key] = draw.choice(STRANGE)
    return json.dumps(tree).encode()


def damage_lines(draw: random.Random, data: bytes) -> bytes:
    """One line of a log is changed as JSON."""
    rows = data.split(b"\n")
    at = draw.randrange(len(rows))
    rows[at] = damage_json(draw, rows[at])
    return b"\n".join(rows)


def damage_safetensors(draw: random.Random, data: bytes) -> bytes:
    """The header is changed: types, shapes and offsets of arrays, and the metadata."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        return damage_bytes(draw, data)
    header = data[8 : 8 + length]
    if draw.random() < 0.4:
        for old, new in draw.sample([(b"F32", b"I32"), (b"I32", b"U32"), (b"BOOL", b"U8")], 1):
            header = header.replace(old, new, draw.choice((1, -1)))
    elif draw.random() < 0.5:
        header = damage_bytes(draw, header)
    else:
        header = damage_json(draw, header)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def damage_zip(draw: random.Random, data: bytes) -> bytes:
    """A member of the archive is damaged, and its checksum made to fit."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:
        return damage_bytes(draw, data)
    if not members:
        return damage_bytes(draw, data)
    name = draw.choice(sorted(members))
    members[name] = damage_bytes(draw, members[name])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return made.getvalue()


def damage_text(draw: random.Random, data: bytes) -> bytes:
    """Lines of a text are cut, doubled, swapped or lengthened."""
    rows = data.split(b"\n")
    at = draw.randrange(len(rows))
    rows[at] = draw.choice((b"", rows[at] * 2, rows[at][::-1], rows[at] + b" " * 70, b"#" * 80))
    if draw.random() < 0.3:
        rows = rows * draw.choice((2, 40))
    return b"\n".join(rows)


def make_subjects(folder: pathlib.Path) -> dict[str, Subject]:
    """Every kind of file, as the package writes it, and how it is read."""
    run = tiny.trained()
    settings = runfolder.read_config(run)
    like = make_task(settings, None).shape()
    results = pathlib.Path(__file__).parents[2] / "results" / "babyai-table"
    result = results / "level1-gru-flat" / "group-000" / result_file.NAME
    agent, trained = checkpoint.load_model(run / "best.safetensors")
    weights = official.export_weights(agent)
    authors = pth.zip_form(pth.state_code(pth.entries(weights)), weights)
    spec = official_settings.format_settings(official_settings.settings_from_config(trained))

    def read_state(path: pathlib.Path) -> int:
        found = runfolder.load_state(path.parent, like)
        assert found is not None
        return fingerprint(found[0])

    return {
        "model": Subject(
            (run / "best.safetensors").read_bytes(),
            lambda path: fingerprint(checkpoint.load_model(path)[0]),
            "best.safetensors",
            damage_safetensors,
        ),
        "state of runs": Subject(
            (run / runfolder.STATE).read_bytes(), read_state, runfolder.STATE, damage_safetensors
        ),
        "config": Subject(
            (run / "config.json").read_bytes(), read_config, "config.json", damage_json
        ),
        "log": Subject(
            (run / "logs" / "0000.jsonl").read_bytes(), read_log, "0000.jsonl", damage_lines
        ),
        "result": Subject(result.read_bytes(), read_result, "result.json", damage_json),
        "levels": Subject(
            small_boxoban.text_of(*small_boxoban.BOARDS).encode(),
            read_levels,
            "levels.txt",
            damage_text,
        ),
        "levels in a zip": Subject(
            small_boxoban.zipped(small_boxoban.files()), import_levels, "levels.zip", damage_zip
        ),
        "authors' model": Subject(authors, read_pth, "model.pth", damage_zip),
        "authors' settings": Subject(spec.encode(), read_spec, "settings.txt", damage_text),
    }


def fingerprint(tree: Any) -> int:
    """A checksum of all arrays."""
    value = 0
    for leaf in jax.tree.leaves(tree):
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        value = zlib.crc32(np.ascontiguousarray(leaf).tobytes(), value)
    return value


def read_config(path: pathlib.Path) -> None:
    config.to_dict(runfolder.read_config(path.parent))


def read_log(path: pathlib.Path) -> None:
    runlog.read(path)


def read_result(path: pathlib.Path) -> None:
    result = result_file.read(path)
    result_file.precision_of(result)
    result_file.commit_of(result)
    if result_file.has_tests(result):
        result_file.tests_of(result)


def read_levels(path: pathlib.Path) -> None:
    try:
        levels.find(str(path))
    except ValueError as error:  # the registry makes it a BadInput
        raise BadInput(str(error)) from None


def import_levels(path: pathlib.Path) -> None:
    shutil.rmtree(cache_folder(), ignore_errors=True)  # what is there is not imported again
    for bank in boxoban.import_boxoban(str(path)):
        levels.read_bank(bank)  # compares its checksum


def read_pth(path: pathlib.Path) -> None:
    official.load(path, heads=2)


def read_spec(path: pathlib.Path) -> None:
    official_settings.config_from_settings(official_settings.read_settings(path))
