"""Recorded numbers of the authors' implementation, replayed value by value."""

import pathlib
import shutil
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import replay  # noqa: E402

NAMES = sorted(path.name for path in (HERE / "data").glob("*.npz"))
SHARED = HERE.parents[2] / "shared" / "parity"


def changed(folder, source="gru_flat", **values):
    """A copy of a small recording with some of its arrays replaced."""
    with np.load(HERE / "data" / f"{source}.npz") as file:
        data = {name: file[name] for name in file.files}
    path = folder / "changed.npz"
    np.savez(path, **data | {name.replace("__", "/"): v for name, v in values.items()})
    return path


def test_five_recordings_of_networks_and_three_of_environments_are_here():
    environments = {"babyai_encodings.npz", "sokoban_episodes.npz", "sokoban_solved.npz"}
    assert len(NAMES) == 8 and environments < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_numbers_come_out(name):
    errors = replay.replay(HERE / "data" / name, check_gradient="gru" in name)
    assert max(errors.values()) <= replay.LIMIT, errors


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_are_the_shared_ones(name):
    if not SHARED.is_dir():
        pytest.skip("no shared folder beside the repository")
    assert (SHARED / name).read_bytes() == (HERE / "data" / name).read_bytes()


def test_another_reward_gives_other_weights(tmp_path):
    with np.load(HERE / "data" / "gru_flat.npz") as file:
        reward = file["reward"].copy()
    reward[2] += 1.0
    path = changed(tmp_path, reward=reward)
    errors = replay.replay(path, check_gradient=False)
    assert errors["updated"] > replay.LIMIT >= errors["update steps"]


@pytest.mark.parametrize("error", [1.1e-5, float("inf"), float("nan")])
def test_an_error_above_the_limit_is_a_failure(monkeypatch, capsys, error):
    monkeypatch.setattr(replay, "replay", lambda path: {"value": 0.0, "logits": error})
    assert replay.main(["some.npz"]) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"settings": np.array("{")}, "not JSON"),
        ({"settings": np.array('{"AGENT_NET": "LSTM"}')}, "AGENT_NET"),
        ({"action": np.full(26, 9)}, "action must be whole numbers"),
        ({"reward": np.zeros(3)}, "reward has shape"),
        ({"weights__rnn.bias_hh": np.zeros(2, np.float32)}, "rnn.bias_hh has shape (2,)"),
    ],
)
def test_a_malformed_recording_is_refused_in_one_sentence(tmp_path, capsys, values, reason):
    assert replay.main([str(changed(tmp_path, **values))]) == 2
    output = capsys.readouterr().err
    assert reason in output and output.count("\n") == 1


def test_a_file_of_another_form_is_refused(tmp_path, capsys):
    np.savez(tmp_path / "other.npz", grid=np.zeros(3))
    assert replay.main([str(tmp_path / "other.npz")]) == 2
    assert "form not known" in capsys.readouterr().err


def test_a_truncated_file_is_refused(tmp_path, capsys):
    path = shutil.copy(HERE / "data" / "gru_flat.npz", tmp_path)
    whole = pathlib.Path(path).read_bytes()
    for size in (0, 10, len(whole) // 2):
        pathlib.Path(path).write_bytes(whole[:size])
        assert replay.main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_every_encoding_of_babyai_is_identical():
    errors = replay.replay(HERE / "data" / "babyai_encodings.npz")
    assert errors == dict.fromkeys(("core", "factors", "num_factors", "flat", "cnn_vector"), 0.0)


@pytest.mark.parametrize("key", ["core", "factors", "num_factors", "flat", "cnn_vector"])
def test_one_number_that_differs_by_little_is_a_failure(tmp_path, capsys, key):
    with np.load(HERE / "data" / "babyai_encodings.npz") as file:
        values = file[key].copy()
    small = 1 if values.dtype.kind == "i" else np.float32(1e-6)
    values[(-1,) * values.ndim] += small
    path = changed(tmp_path, "babyai_encodings", **{key: values})
    assert replay.main([str(path)]) == 1
    assert f"{key} inf" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"mission": np.array(["fetch the ball"] * 508)}, "'fetch the ball' is not in BabyAI's"),
        ({"direction": np.full(508, 4)}, "direction must be whole numbers from 0 to 3"),
        ({"last_action": np.full(508, -2)}, "last_action must be whole numbers from -1 to 6"),
        ({"image": np.zeros((508, 7, 7), int)}, "image has shape (508, 7, 7)"),
        ({"image": np.full((508, 7, 7, 3), 8)}, "image[..., 1] must be whole numbers from 0 to 5"),
        ({"factors": np.zeros((508, 1, 29))}, "things are in view, and there is room for 1"),
        ({"factors": np.zeros(508)}, "factors has shape (508,)"),
        ({"flat": np.zeros((508, 3))}, "flat has shape (508, 3), expected (508, 929)"),
    ],
)
def test_malformed_encodings_are_refused_in_one_sentence(tmp_path, capsys, values, reason):
    assert replay.main([str(changed(tmp_path, "babyai_encodings", **values))]) == 2
    output = capsys.readouterr().err
    assert reason in output and output.count("\n") == 1


SOKOBAN = ("sokoban_episodes", "sokoban_solved")
PARTS = ("core", "factors", "num_factors", "room_state", "reward", "done")


@pytest.mark.parametrize("name", SOKOBAN)
def test_every_step_of_sokoban_is_identical(name):
    assert replay.replay(HERE / "data" / f"{name}.npz") == dict.fromkeys(PARTS, 0.0)


@pytest.mark.parametrize("key", PARTS)
def test_one_number_of_sokoban_that_differs_is_a_failure(tmp_path, capsys, key):
    with np.load(HERE / "data" / "sokoban_solved.npz") as file:
        values, last = file[key].copy(), file["length"][-1]
    place = (-1, last - (key in ("reward", "done")), *(0,) * (values.ndim - 2))
    values[place] = 1 - values[place]
    assert replay.main([str(changed(tmp_path, "sokoban_solved", **{key: values}))]) == 1
    assert f"{key} inf" in capsys.readouterr().out


def test_what_lies_behind_the_end_of_an_episode_is_not_compared(tmp_path):
    with np.load(HERE / "data" / "sokoban_solved.npz") as file:
        core, length = file["core"].copy(), file["length"]
    core[-1, length[-1] + 1 :] += 1
    errors = replay.replay(changed(tmp_path, "sokoban_solved", core=core))
    assert set(errors.values()) == {0.0}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"level": np.array(["#####\n#@$.#\n#####"] * 5 + ["###"])}, "has no player"),
        ({"level": np.array(["#####\n#@$.#\n#####\n\n"] * 5 + [""])}, "5 levels, expected 6"),
        ({"action": np.full((6, 45), 5)}, "action must be whole numbers from 0 to 4"),
        ({"length": np.full(6, 46)}, "length must be whole numbers from 0 to 45"),
        ({"core": np.zeros((6, 46, 12))}, "core has shape (6, 46, 12), expected (6, 46, 11)"),
        ({"factors": np.zeros(6)}, "factors has shape (6,)"),
        ({"room_state": np.zeros((6, 46))}, "room_state has shape (6, 46)"),
    ],
)
def test_malformed_episodes_are_refused_in_one_sentence(tmp_path, capsys, values, reason):
    assert replay.main([str(changed(tmp_path, "sokoban_solved", **values))]) == 2
    output = capsys.readouterr().err
    assert reason in output and output.count("\n") == 1
