import json

import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config
from wmg.envs.babyai.settings import BabyAISettings
from wmg.runs import bench
from wmg.tools.errors import BadInput


@pytest.fixture(scope="module")
def trained():
    return bench.measure(tiny.settings(), seconds=1.0)


@pytest.fixture(scope="module")
def alone():
    return bench.measure_env(BabyAISettings("GoToObj"), seconds=1.0, at_once=64)


@pytest.fixture(params=["trained", "alone"])
def measured(request):
    return request.getfixturevalue(request.param)


def test_a_measurement_of_training_says_what_was_measured(trained):
    assert trained["runs"] == 1 and trained["agent"] == "wmg"


def test_a_measurement_of_an_environment_says_what_was_measured(alone):
    assert alone["at_once"] == 64
    assert alone["env"]["name"] == "babyai" and alone["env"]["level"] == "GoToObj"


def test_episodes_end_and_begin_while_an_environment_is_measured(alone):
    chunks, rates = len(alone["memory_bytes_each_chunk"]), alone["steps_per_second_each_chunk"]
    least = chunks * min(rates) * 0.5  # a chunk lasts that long
    assert least / 64 < alone["episodes"]


def test_runs_that_diverge_have_no_speed():
    wild = config.Hyper(learning_rate=1e38, reward_scale=1e30)
    with pytest.raises(BadInput, match="every run has diverged, so there is no speed to measure"):
        bench.measure(tiny.settings(hyper=wild), seconds=1.0)


def test_a_measurement_says_on_what_it_was_made(measured):
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


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(bench.machine, "cores", lambda: 2)


@pytest.mark.parametrize("at_once", [0, 1, 2**24 - 1, 2**24 + 2])
def test_a_number_of_environments_that_cannot_be_is_refused(two_cores, at_once):
    with pytest.raises(BadInput, match=f"must be a multiple of 2 up to 2.24, got {at_once}$"):
        bench.measure_env(BabyAISettings("GoToObj"), at_once=at_once)


@pytest.mark.parametrize("at_once", [2, 2**24])
def test_the_fewest_and_the_most_environments_are_shared_by_the_cores(
    two_cores, at_once, monkeypatch
):
    class MadeError(Exception):
        pass

    def make(env, size):
        raise MadeError(size)

    monkeypatch.setattr(bench, "Batch", make)
    with pytest.raises(MadeError, match=f"^{at_once // 2}$"):
        bench.measure_env(BabyAISettings("GoToObj"), at_once=at_once)


def test_an_environment_alone_is_measured_by_command(capsys):
    args = ["bench", "pathfinding/wmg", "--env-only", "--at-once=8", "--seconds=0.01"]
    code, text, _ = tiny.command(capsys, *args)
    assert code == 0 and text.startswith("pathfinding/wmg, environment alone, 8 at once: ")


def test_a_number_of_environments_is_refused_for_training(capsys):
    code, _, complaint = tiny.command(capsys, "bench", "pathfinding/wmg", "--at-once=8")
    assert code == 2 and "it needs --env-only" in complaint
