import json

import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import bench


@pytest.fixture(scope="module")
def measured():
    return bench.measure(tiny.settings(), seconds=1.0)


def test_a_measurement_says_what_was_measured_and_on_what(measured):
    assert measured["runs"] == 1 and measured["agent"] == "wmg"
    assert {"device", "jax", "wmg", "date"} <= measured["hardware"].keys()


def test_the_rate_is_the_median_of_the_chunks(measured):
    chunks = measured["steps_per_second_each_chunk"]
    assert min(chunks) > 0
    assert measured["steps_per_second"] == pytest.approx(np.median(chunks), abs=0.1)


def test_memory_is_read_after_each_chunk(measured):
    memory = measured["memory_bytes_each_chunk"]
    assert len(memory) == len(measured["steps_per_second_each_chunk"])
    assert all(0 < now <= measured["peak_memory_bytes"] for now in memory)


def test_compiling_is_timed_apart(measured):
    assert measured["compile_seconds"] > 0


def test_a_measurement_is_plain_json(measured):
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured
