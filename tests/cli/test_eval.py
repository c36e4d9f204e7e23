"""`wmg eval`: scores of episodes, and solved levels of Sokoban."""

import dataclasses
import json

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import registry
from wmg.runs import checkpoint, models

RANDOM_SCORE = 50.0


def test_evaluation_prints_a_score_with_its_error(capsys):
    code, out, err = tiny.command(capsys, "eval", tiny.trained(), "--episodes=50")
    assert code == 0 and err.splitlines()[0] == "compiling ..."
    assert err.splitlines()[-1] == "episodes: 50 of 50"
    assert out.startswith(f"{tiny.trained()}: ") and "over 50 episodes of 12 steps" in out


@pytest.mark.parametrize("command", ["eval", "view", "convert"])
def test_a_model_of_an_environment_of_ones_own_is_for_python_alone(capsys, tmp_path, command):
    agent, settings = models.find(str(tiny.trained()))
    file, target = tmp_path / "m.safetensors", tmp_path / "new.safetensors"
    checkpoint.save_model(file, agent, dataclasses.replace(settings, env=None))
    code, _, err = tiny.command(capsys, command, file, *([target] if command == "convert" else []))
    assert code == 2 and not target.exists()
    assert err == f"wmg: {registry.NOT_NAMED}\n"


def evaluate(capsys, *args):
    code, out, _ = tiny.command(capsys, "eval", *args, "--json")
    assert code == 0
    return json.loads(out)


def test_the_random_agent_gets_half(capsys):
    result = evaluate(capsys, "random", "--episodes=1000")
    assert abs(result["score"] - RANDOM_SCORE) < 4 * result["standard_error"]
    assert result["model"] == "random" and result["episodes"] == 1000


def test_evaluation_takes_settings_of_the_environment(capsys):
    result = evaluate(capsys, "depth-2", "--episodes=200", "--env.nodes=13")
    assert result["mean_length"] == 24 and 90 < result["score"] < 97.6


@pytest.mark.parametrize(("level", "score"), [("GoToObj", 23.0), ("PickupLoc", 14.8)])
def test_the_random_agent_plays_the_environment_that_options_name(capsys, level, score):
    result = evaluate(capsys, "random", "--episodes=1000", "--env.level", level)
    assert abs(result["score"] - score) < 4 * result["standard_error"]


def test_evaluation_is_repeatable_and_greedy_play_is_another(capsys):
    args = [tiny.trained(), "--run=0", "--episodes=200"]
    sampled, greedy = evaluate(capsys, *args), evaluate(capsys, *args, "--greedy")
    assert sampled == evaluate(capsys, *args) != greedy
    assert evaluate(capsys, *args, "--test-seed=2") != sampled


def test_slots_can_be_added_for_evaluation(capsys):
    args = [tiny.trained(), "--episodes=50", "--slots=11", "--older=without age", "--oldest-age=2"]
    assert evaluate(capsys, *args)["episodes"] == 50


LEVELS = "#####\n#@$.#\n#####\n\n#####\n#.$@#\n#####\n"


@pytest.fixture
def flags(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "levels.txt").write_text(LEVELS)
    return ["--levels", tmp_path / "levels.txt", "--env.bound=5"]


def test_the_solved_share_of_a_file_is_printed_saved_and_compared(flags, tmp_path, capsys):
    limit, out = "--env.max-steps=200", tmp_path / "random.json"
    code, text, _ = tiny.command(capsys, "eval", "random", *flags, limit, "--out", out)
    assert code == 0 and text.startswith("random: solved 100.0% (34.2% to 100.0%) of 2")
    assert text.endswith("in 200 steps\n")
    saved = json.loads(out.read_text())
    assert saved["solved_each"] == [1, 1] and saved["env"]["max_steps"] == 200
    args = "eval", "random", *flags, "--against", out, "--greedy"
    text = tiny.command(capsys, *args, "--json")[1]
    found = json.loads(text)
    assert (found["solved"], found["max_steps"], found["greedy"]) == (0, 120, True)
    counts = [found["against"][key] for key in ("both", "only_first", "only_second", "neither")]
    assert counts == [0, 0, 2, 0] and found["against"]["p_value"] == 0.5
    text = tiny.command(capsys, *args)[1]
    assert "difference -100.00 points" in text and f"only {out} 2, neither 0" in text


def test_tries_are_printed_with_the_figure_of_the_first_and_saved_level_by_level(
    flags, tmp_path, capsys
):
    out = tmp_path / "tries.json"
    args = "eval", "random", *flags, "--env.max-steps=2", "--test-seed=2", "--tries=40"
    code, text, _ = tiny.command(capsys, *args, "--out", out)
    first, second = text.splitlines()
    assert code == 0 and first.startswith("random: solved 100.0% (34.2% to 100.0%) of 2 levels")
    assert first.endswith("in 2 steps, in one of 40 tries")
    saved = json.loads(out.read_text())
    tries, by_try = saved["try_each"], saved["solved_by_try"]
    assert saved["tries"] == 40 and saved["solved_each"] == [1, 1] and max(tries) > 1
    assert by_try == [sum(number <= tried for number in tries) for tried in range(1, 41)]
    assert second.startswith(f"in the first try: {by_try[0] / 2:.1%} (")
    printed = json.loads(tiny.command(capsys, *args, "--json")[1])
    assert printed["solved_by_try"] == by_try and printed["solved"] == 2


def test_thinking_is_for_episodes_as_well(capsys):
    args = [tiny.trained(), "--run=0", "--episodes=20", "--thinking"]
    assert evaluate(capsys, *args, 3)["mean_length"] == 12
    code, out, err = tiny.command(capsys, "eval", *args, 10_001)
    assert (code, out) == (2, "") and "thinking must be from 0 to 10,000, got 10001" in err


def test_without_boxoban_the_embedded_test_levels_are_played_and_it_says_so(flags, capsys):
    args = ("eval", "random", "--env.levels=test", "--env.max-steps=2", "--episodes=3")
    code, out, err = tiny.command(capsys, *args)
    assert code == 0 and "of 3 levels of embedded-test in 2 steps" in out
    assert "figures comparable with the paper need Boxoban" in err
    assert "wmg data boxoban" in err


@pytest.mark.parametrize(
    "args, complaint",
    {
        ("--levels=hard",): "the levels hard are not here yet",
        ("--levels=frob",): "got 'frob'",
        ("--levels=test", "--episodes=1001"): "episodes must be from 1 to 1,000",
        ("--levels=test", "--thinking=-1"): "thinking must be from 0",
        ("--levels=test", "--thinking=2"): "thinking has no effect on an agent without memory",
        ("--levels=test", "--tries=0"): "tries must be from 1 to 1,000, got 0",
        ("--levels=test", "--tries=2", "--greedy"): "tries differ by their samples",
        ("--levels=test", "--against=none.json"): "none.json: No such file",
        ("--env.nodes=7", "--thinking=1"): "thinking has no effect on an agent without memory",
        ("--env.nodes=7", "--tries=2"): "are for the levels of Sokoban",
    }.items(),
    ids=str,
)
def test_bad_options_are_one_sentence(args, complaint, flags, capsys):
    code, out, err = tiny.command(capsys, "eval", "random", *args)
    assert (code, out) == (2, "") and complaint in err.splitlines()[-1]
