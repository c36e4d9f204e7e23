"""What there is to count in a level, for levels of the compiled and of the plain generators."""

import pathlib
import sys

import numpy as np
from envs.babyai.plain_levels import Generator
from plain import chi_square_limit

from wmg.envs.babyai.settings import LEVELS
from wmg.envs.babyai.vocabulary import COLOURS, LOCATIONS, TYPES
from wmg.envs.babyai.world import LYING

GOLDEN = pathlib.Path(__file__).with_name("golden_levels.npz")
"""Counts of GOLDEN_LEVELS levels of each kind by the plain generators; written by
`python tests/envs/babyai/level_statistics.py`."""
GOLDEN_LEVELS = 100_000


def from_states(states):
    """The arrays that are counted, of a batch of compiled levels."""
    present = np.asarray(states.status[0] == LYING)
    fields = ("agent", "direction", "mission_colour", "mission_type", "location")
    arrays = {name: np.asarray(getattr(states, name)) for name in fields}
    for name in ("position", "type", "colour", "target"):
        arrays[name] = np.asarray(getattr(states, name))[:, present]
    return arrays


def from_plain(levels):
    """The same arrays of plain levels."""
    colours, locations = (*COLOURS, None), (*LOCATIONS, None)
    rows = {
        "agent": [level.agent for level in levels],
        "direction": [level.direction for level in levels],
        "mission_colour": [colours.index(level.colour) for level in levels],
        "mission_type": [TYPES.index(level.type) for level in levels],
        "location": [locations.index(level.location) for level in levels],
        "position": [[(x, y) for _, _, x, y in level.things] for level in levels],
        "type": [[TYPES.index(type) for type, *_ in level.things] for level in levels],
        "colour": [[COLOURS.index(colour) for _, colour, *_ in level.things] for level in levels],
        "target": [level.targets for level in levels],
    }
    return {name: np.array(values) for name, values in rows.items()}


def seen_from_agent(level):
    """How far ahead and to the right each thing is, and whether it is in the 7x7 view."""
    x, y = np.moveaxis(level["position"] - level["agent"][:, None], -1, 0)
    dx, dy = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])[level["direction"]].T[..., None]
    ahead, right = x * dx + y * dy, y * dx - x * dy
    return ahead, right, (ahead >= 0) & (ahead <= 6) & (abs(right) <= 3)


def statistics(level):
    """Counts, by name: each level falls into one bin of each."""
    ahead, right, visible = seen_from_agent(level)
    distance = abs(ahead) + abs(right)
    cell = level["position"] @ np.array([1, 8])
    gaps = abs(level["position"][:, :, None] - level["position"][:, None]).sum(-1)
    edge = ((level["position"] == 1) | (level["position"] == 6)).any(-1)
    kind = 6 * (level["type"] - 1) + level["colour"]
    far = np.where(level["target"], distance, 99)
    described = level["mission_colour"] + 7 * (level["mission_type"] - 1)
    values = {
        "agent": level["agent"] @ np.array([1, 8]),
        "direction": level["direction"],
        "first thing": cell[:, 0],
        "last thing": cell[:, -1],
        "first thing from agent": (ahead[:, 0] + 5) * 11 + right[:, 0] + 5,
        "nearest thing": distance.min(1),
        "nearest target": far.min(1),
        "visible": visible.sum(1),
        "touching things": (gaps == 1).sum((1, 2)) // 2,
        "things at the wall": edge.sum(1),
        "first kind": kind[:, 0],
        "last kind": kind[:, -1],
        "different kinds": (np.diff(np.sort(kind, 1), axis=1) != 0).sum(1),
        "targets": level["target"].sum(1),
        "description": described + 21 * level["location"],
    }
    return {name: np.bincount(value, minlength=128) for name, value in values.items()}


def differences(counts, expected):
    """The statistics in which two samples differ more than chance allows, with how much."""
    found = {}
    for name in expected:
        a, b = pooled(counts[name], expected[name])
        scale = (b.sum() / a.sum()) ** 0.5
        value = float(((scale * a - b / scale) ** 2 / (a + b)).sum())
        if len(a) > 1 and value > chi_square_limit(len(a) - 1):
            found[name] = round(value / (len(a) - 1), 1)
    return found


def pooled(one, other):
    """Both counts, with all bins in one where the smaller sample would expect less than five."""
    size = max(len(one), len(other))
    one, other = (np.pad(counts, (0, size - len(counts))) for counts in (one, other))
    share = min(one.sum(), other.sum()) / (one.sum() + other.sum())
    common = (one + other) * share >= 5
    parts = [(counts[common], [counts[~common].sum()]) for counts in (one, other)]
    a, b = (np.concatenate(part).astype(float) for part in parts)
    occupied = a + b > 0
    return a[occupied], b[occupied]


def plain(level, seeds):
    """The statistics of one plain level for each seed."""
    return statistics(from_plain([Generator(seed).level(level) for seed in seeds]))


def golden(level):
    """The stored statistics of a level."""
    stored = np.load(GOLDEN)
    prefix = f"{level}/"
    return {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}


if __name__ == "__main__":
    found = {level: plain(level, range(GOLDEN_LEVELS)) for level in LEVELS}
    counts = {f"{level}/{name}": n for level in found for name, n in found[level].items()}
    np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else GOLDEN, **counts)
