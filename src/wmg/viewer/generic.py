"""How the viewer shows an environment that has no scene of its own.

The page has its picture, if it has one, else the numbers of the Core; and under it a table of the
Factors.
"""

import base64
import functools
import pathlib
import string
from typing import Any

import numpy as np

from wmg.envs.scenery import Scenery
from wmg.tools import draw
from wmg.tools.errors import BadInput
from wmg.types import Observation

DRAWING = pathlib.Path(__file__).with_name("generic.js")
KEYS = string.digits + "abcdefghimopqstuvwxyz"
"""Of the actions; the other letters are keys of the page."""
ACROSS = 10
"""Numbers of the Core in a row."""


def scenery_of(env: Any) -> Scenery:
    """The environment's own scenery or, if it has none, the generic one."""
    return env.scene() or Scenery(
        drawing=DRAWING,
        actions=tuple((f"action {i}", KEYS[i : i + 1]) for i in range(env.spec.actions)),
        describe=functools.partial(describe, env),
    )


def describe(env: Any, state: Any, observation: Observation) -> dict[str, Any]:
    """Picture and numbers. The place of a Factor is its row in the table."""
    picture = picture_of(env, state)
    rows = [] if picture else core_rows(observation)
    places: list[list[int] | None] = []
    for name, factors in observation.factors.items():
        for values, there in zip(factors.values, factors.present, strict=True):
            places.append([len(rows)] if there else None)
            if there:
                rows.append({"name": name, "numbers": rounded(values)})
    counts = [f"{f.present.sum()} of {f.present.size} {n}" for n, f in observation.factors.items()]
    return {
        "says": f"Factors present: {', '.join(counts)}." if counts else "",
        "brief": "",
        "places": places,
        "picture": picture,
        "rows": rows,
    }


def picture_of(env: Any, state: Any) -> dict[str, Any] | None:
    """Size and data of the environment's picture; None if it has no pictures."""
    try:
        picture = env.picture(state)
    except BadInput:
        return None
    height, width, _ = picture.shape
    data = base64.b64encode(draw.png(picture)).decode()
    return {"width": width, "height": height, "data": f"data:image/png;base64,{data}"}


def core_rows(observation: Observation) -> list[dict[str, Any]]:
    """The numbers of the Core, some in each row."""
    numbers = rounded(observation.core)
    parts = [numbers[i : i + ACROSS] for i in range(0, len(numbers), ACROSS)]
    return [{"name": "" if i else "core", "numbers": part} for i, part in enumerate(parts)]


def rounded(numbers: Any) -> list[float]:
    """Numbers as JSON."""
    return [round(float(number), 3) for number in np.asarray(numbers)]
