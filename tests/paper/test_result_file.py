"""What a `result.json` holds, packed and read back, and what version 0.1 wrote."""

import functools
import json
import os
import random

import numpy as np
import pytest
from paper.made_up import RACE, TARGET, flat, write, write_race
from paper.test_outcome import RUNS, write_gridded
from tiny import time_limit

from wmg.paper import report, result_file
from wmg.play.goal_test import GoalTest
from wmg.tools.errors import BadInput


@pytest.mark.parametrize("seed", range(5))
def test_packed_rows_come_back_as_they_were(seed):
    draw = np.random.default_rng(seed)
    rows = [draw.integers(-(2**30), 2**30, (n, 3)).tolist() for n in (0, 1, 7, 100)]
    packed = json.loads(json.dumps(result_file.pack(rows, 3)))
    assert [row.tolist() for row in result_file.unpack(packed)] == rows
    assert result_file.unpack(result_file.pack([], 3)) == []


def test_tests_and_scores_come_back_as_they_were():
    tests = [[GoalTest(25, 60, 64), GoalTest(51, 9_950, 10_000)], [], [GoalTest(25, 0, 3)]]
    assert result_file.tests_of({"tests": result_file.pack_tests(tests)}) == tests
    scores = np.array([[0.0, 99.9994, np.nan], [12.3456, np.nan, 100.0]])
    (one, two) = result_file.scores_of({"scores": result_file.pack_scores(scores)})
    np.testing.assert_array_equal(one, [0.0, 99.999, np.nan])
    np.testing.assert_array_equal(two, [12.346, np.nan, 100.0])


def test_a_thousand_tests_of_a_hundred_runs_take_less_than_half_a_megabyte():
    draw = np.random.default_rng(0)
    solved = draw.integers(40, 64, (100, 1000))
    runs = [[GoalTest(25 * (i + 1), int(x), 64) for i, x in enumerate(row)] for row in solved]
    assert len(json.dumps(result_file.pack_tests(runs))) < 500_000


def spoil(packed, **changes):
    return {**packed, **changes}


PACKED = result_file.pack_tests([[GoalTest(25, 60, 64)], [GoalTest(25, 61, 64)]])


@pytest.mark.parametrize(
    "tests",
    [
        None, 7, {}, [], spoil(PACKED, data=PACKED["data"][:-8]), spoil(PACKED, data="%%%"),
        spoil(PACKED, lengths=[1]), spoil(PACKED, lengths=[1, 2]), spoil(PACKED, lengths="ab"),
        spoil(PACKED, width=2), spoil(PACKED, width=None), result_file.pack_tests([[]]),
    ],
    ids=str,
)  # fmt: skip
def test_torn_tests_are_refused(tmp_path, tests):
    path = write_race(tmp_path, "wmg", 0, [1000.0, None], seed=0, about={"tests": tests})
    with pytest.raises(BadInput, match="is damaged: it does not hold a result"):
        result_file.read(path)


def test_rows_that_unpack_to_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(result_file, "LARGEST", 100)
    packed = result_file.pack([[[0]] * 1000], 1)
    with pytest.raises(ValueError, match="torn"):
        result_file.unpack(packed)


def test_a_result_is_never_replaced(tmp_path):
    path = write(tmp_path, "wmg", 0, [flat(10)], seed=0)
    before = path.read_bytes()
    with pytest.raises(BadInput, match=r"result\.json holds a result already"):
        result_file.write(path, {"value": 1})
    assert path.read_bytes() == before


GPU, CPU = {"hardware": {"devices": 1}}, {"hardware": {"devices": None}}


@pytest.mark.parametrize(
    ("result", "precision"),
    [
        ({**GPU, "precision": "float32"}, "float32"),
        ({**GPU, "config": {}}, "tf32"),
        ({**CPU, "config": {}}, "float32"),
        ({**GPU, "config": {"batched": {"precision": "bfloat16"}}}, "bfloat16"),
        ({**GPU, "config": {"batched": {"precision": "float32"}}}, "tf32"),
    ],
)
def test_precision_is_written_down_and_of_older_results_it_is_jaxs_default(result, precision):
    assert result_file.precision_of(result) == precision


def test_results_of_version_0_1_are_read_and_known_to_have_no_tests(tmp_path):
    result = result_file.read(write_race(tmp_path, "wmg", 0, [1500.0], seed=0))
    assert not result_file.has_tests(result) and result_file.commit_of(result) is None
    old = result_file.read(write(tmp_path, "wmg", 0, [[1.0, None]], seed=0))
    np.testing.assert_array_equal(result_file.scores_of(old), [[1.0, np.nan]])


JUNK = (None, True, -1, 1e308, float("nan"), 10**400, "x", [], {}, [None], [[1, "x"]])


def places(data, before=()):
    items = data.items() if isinstance(data, dict) else enumerate(data[:2])
    for key, value in items:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def spoilt(data, draw):
    """The same data with something left out, or replaced by junk."""
    data = json.loads(json.dumps(data))
    *way, last = draw.choice(list(places(data)))
    inner = functools.reduce(lambda found, key: found[key], way, data)
    if isinstance(inner, dict) and draw.random() < 0.3:
        del inner[last]
    else:
        inner[last] = draw.choice(JUNK)
    return data


@pytest.mark.parametrize("kind", ["curve", "race"])
def test_whatever_is_in_a_result_it_is_reported_or_refused_in_one_sentence(tmp_path, kind):
    draw, counts = random.Random(0), {"reported": 0, "refused": 0}
    if kind == "curve":
        path, name, target = write(tmp_path, "wmg", 0, [flat(90)] * 2, seed=0), "made-up", TARGET
    else:
        path, name, target = write_gridded(tmp_path, RUNS), "race", RACE
    whole = json.loads(path.read_text())
    for _ in range(150):
        path.write_text(json.dumps(spoilt(whole, draw)))
        try:
            report.markdown(report.make(name, target, tmp_path, draw.choice([None, 50])))
            counts["reported"] += 1
        except BadInput as refusal:
            assert "\n" not in str(refusal)
            counts["refused"] += 1
    assert counts["refused"] > 50 and counts["reported"] > 10


def test_a_pipe_is_not_a_result(tmp_path):
    os.mkfifo(tmp_path / "result.json")
    with time_limit(5), pytest.raises(BadInput, match="is damaged: it does not hold a result"):
        result_file.read(tmp_path / "result.json")
