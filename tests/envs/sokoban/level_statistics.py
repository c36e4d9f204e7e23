"""What levels look like in numbers, to compare our generator's with Boxoban's.

As a script: the numbers of the banks that are named, a line of JSON for each.
"""

import itertools
import json
import sys

import numpy as np

from wmg.envs.sokoban import levels


def describe(boards):
    """Means over boards of 10x10: floor, how open it is, and where things are."""
    floor = boards != ord("#")
    walls = np.pad(~floor, ((0, 0), (1, 1), (1, 1)))[:, 1:-1, 1:-1]
    beside = sum(np.roll(walls, shift, axis) for axis in (1, 2) for shift in (1, -1))
    blocks = floor[:, :-1, :-1] & floor[:, 1:, :-1] & floor[:, :-1, 1:] & floor[:, 1:, 1:]
    boxes, targets, player = (places(boards, mark) for mark in "$.@")
    matched = matching(boxes, targets)
    return {
        "floor": floor.sum(axis=(1, 2)).mean(),
        "floor_deviation": floor.sum(axis=(1, 2)).std(),
        "blocks": blocks.sum(axis=(1, 2)).mean(),
        "matching": matched.mean(),
        "matching_deviation": matched.std(),
        "walls_by_box": beside[boards == ord("$")].mean(),
        "walls_by_target": beside[boards == ord(".")].mean(),
        "player_to_box": np.abs(boxes - player).sum(axis=2).mean(),
    }


def places(boards, mark):
    """Row and column of each such thing, which every board has as many of."""
    return np.argwhere(boards == ord(mark))[:, 1:].reshape(len(boards), -1, 2)


def matching(boxes, targets):
    """The least total distance that boxes have to the targets they are brought to."""
    apart = np.abs(boxes[:, :, None] - targets[:, None]).sum(axis=3)
    orders = itertools.permutations(range(boxes.shape[1]))
    return np.min(
        [sum(apart[:, box, target] for box, target in enumerate(order)) for order in orders],
        axis=0,
    )


def boards_of(bank):
    """The boards of a bank of the compact form, unpacked as plainly as possible."""
    packed = levels.read_bank(bank)
    bits = np.unpackbits(packed, axis=1, bitorder="little")
    places = bits[:, 64:118].reshape(-1, 9, 6) @ (1 << np.arange(6))
    inner = np.where(bits[:, :64], ord("#"), ord(" ")).astype(np.uint8)
    for index, mark in enumerate("$$$$....@"):
        inner[np.arange(len(inner)), places[:, index]] = ord(mark)
    return np.pad(inner.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)), constant_values=ord("#"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        found = describe(boards_of(name))
        print(json.dumps({"bank": name, **{k: round(float(v), 3) for k, v in found.items()}}))
