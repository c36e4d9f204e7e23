"""`wmg compare`: two models in the same episodes."""

import json
import shutil

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401


def compare(capsys, *args):
    code, out, _ = tiny.command(capsys, "compare", *args, "--json")
    assert code == 0
    return json.loads(out)


def test_a_model_does_not_differ_from_itself(capsys):
    found = compare(capsys, "depth-1", "depth-1", "--env.nodes=3", "--episodes=50")
    assert found["difference"] == 0 and found["interval"] == [0, 0] and found["p_value"] == 1
    assert [side["model"] for side in found["models"]] == ["depth-1", "depth-1"]


def test_the_scores_are_those_of_wmg_eval_and_the_interval_holds_their_difference(capsys):
    args = "--episodes=400", "--env.nodes=5", "--test-seed=3"
    found = compare(capsys, "depth-2", "random", *args)
    each = [json.loads(tiny.command(capsys, "eval", name, *args, "--json")[1])["score"]
            for name in ("depth-2", "random")]  # fmt: skip
    assert [side["score"] for side in found["models"]] == pytest.approx(each)
    low, high = found["interval"]
    assert found["difference"] == pytest.approx(each[0] - each[1])
    assert (
        0 < low < found["difference"] < high
        and found["p_value"] < 0.001
        and found["test"] == "sign-flip test"
    )


def test_where_an_episode_is_solved_or_not_both_are_counted(capsys):
    args = "--env.level=GoToObj", "--episodes=40"
    code, out, err = tiny.command(capsys, "compare", "random", "random", *args)
    lines = out.splitlines()
    assert code == 0 and err.splitlines()[-1] == "episodes: 40 of 40"
    assert lines[0].startswith("random: ") and lines[0].endswith("% over 40 episodes")
    assert lines[2].startswith("difference +0.00 points, 95% interval -")
    assert "p = 1 (sign test)" in lines[2] and "only random 0" in lines[3]


def test_all_runs_of_two_folders_are_compared_by_their_means(capsys, tmp_path):
    other = shutil.copytree(tiny.trained(), tmp_path / "other")
    args = "--all-runs", "--episodes=20"
    found = compare(capsys, tiny.trained(), other, *args)
    assert found["difference"] == 0 and found["test"] == "rank test"
    assert [side["runs"] for side in found["models"]] == [2, 2]
    text = tiny.command(capsys, "compare", tiny.trained(), other, *args)[1]
    assert f"{other}: " in text and "over 2 runs, each 20 episodes" in text


@pytest.mark.parametrize(
    "args, complaint",
    {
        ("random",): "name two models to compare, got 1",
        ("random", "random", "depth-1"): "name two models to compare, got 3",
        ("random", "random", "--episodes=1"): "episodes must be from 2 to 100,000, got 1",
        ("random", "random", "--test-seed=-1"): "test_seed must be from 0",
        ("random", "random", "--all-runs"): "random is not one",
        ("random", "random", "--all_runs"): "random is not one",
        ("random", "none.safetensors"): "none.safetensors",
    }.items(),
    ids=str,
)
def test_bad_input_is_one_sentence(args, complaint, capsys):
    code, out, err = tiny.command(capsys, "compare", *args)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


def test_models_of_different_environments_are_not_compared(capsys):
    code, _, err = tiny.command(capsys, "compare", tiny.trained(), "sokoban-wmg")
    assert code == 2 and "plays Pathfinding and sokoban-wmg plays Sokoban" in err
