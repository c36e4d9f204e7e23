"""`wmg list`."""

import json

import tiny

from wmg import paper
from wmg.paper.targets import TARGETS


def test_the_list_has_the_papers_parameter_counts(capsys):
    code, out, _ = tiny.command(capsys, "list", "--json")
    listing = json.loads(out)
    assert code == 0 and listing["presets"].keys() == paper.PRESETS.keys()
    counts = {name: row["parameters"] for name, row in listing["presets"].items()}
    assert counts["pathfinding/wmg"] == 132_507
    assert counts["pathfinding/nr-wmg"] == 204_963
    assert counts["pathfinding/gru"] == 1_139_459
    assert counts["babyai/level3/cnn-gru"] == 709_260
    rows = listing["presets"]
    assert rows["babyai/level4/wmg-factored"]["goal"] == 0.99
    assert rows["pathfinding/wmg"]["goal"] is None
    assert list(listing["targets"]) == list(TARGETS)


def test_the_list_for_people_has_presets_targets_and_models(capsys):
    out = tiny.command(capsys, "list")[1]
    for name in [*paper.PRESETS, *TARGETS, "random", "depth-N", "132,507"]:
        assert name in out


def test_the_list_for_people_is_aligned_and_says_what_a_run_stops_at(capsys):
    lines = tiny.command(capsys, "list")[1].splitlines()
    rows = [line for line in lines if line.split()[0] in paper.PRESETS and " steps" in line]
    assert len(rows) == len(paper.PRESETS) and max(map(len, rows)) <= 100
    assert len({line.index(" parameters ") for line in rows}) == 1
    assert rows[0].endswith(" 20,000,000 steps")
    (solved,) = [line for line in rows if " babyai/level1/wmg-factored " in line]
    assert solved.endswith(" 635,592 parameters      8,000 steps at most, to 99%")
