import json

import pytest
import tiny

LEVELS = "#####\n#@$.#\n#####\n\n#####\n#.$@#\n#####\n"


@pytest.fixture
def flags(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "levels.txt").write_text(LEVELS)
    return ["--levels", tmp_path / "levels.txt", "--env.bound=5"]


def test_the_solved_share_of_a_file_is_printed_saved_and_compared(flags, tmp_path, capsys):
    limit, out = "--env.max-steps=200", tmp_path / "random.json"
    code, text, err = tiny.command(capsys, "eval", "random", *flags, limit, "--out", out)
    assert (code, err) == (0, "") and text.startswith(
        "random: solved 100.0% (34.2% to 100.0%) of 2"
    )
    assert text.endswith("in 200 steps\n")
    saved = json.loads(out.read_text())
    assert saved["solved_each"] == [1, 1] and saved["env"]["max_steps"] == 200
    code, text, err = tiny.command(
        capsys, "eval", "random", *flags, "--against", out, "--greedy", "--json"
    )
    found = json.loads(text)
    assert (found["solved"], found["max_steps"], found["greedy"]) == (0, 120, True)
    assert found["against"] == {
        "both": 0, "only_this": 0, "only_other": 2, "neither": 0, "sign_test": 0.5,
    }  # fmt: skip


def test_without_boxoban_the_embedded_test_levels_are_played_and_it_says_so(flags, capsys):
    args = ("eval", "random", "--env.levels=test", "--env.max-steps=2", "--episodes=3")
    code, out, err = tiny.command(capsys, *args)
    assert code == 0 and "of 3 levels of embedded-test in 2 steps" in out
    assert err.count("\n") == 1 and "figures comparable with the paper need Boxoban" in err
    assert "wmg data boxoban" in err


@pytest.mark.parametrize(
    "args, complaint",
    {
        ("--levels=hard",): "the levels hard are not here yet",
        ("--levels=frob",): "got 'frob'",
        ("--levels=test", "--episodes=1001"): "episodes must be from 1 to 1,000",
        ("--levels=test", "--thinking=-1"): "thinking must be from 0",
        ("--levels=test", "--against=none.json"): "none.json: No such file",
        ("--env.nodes=7", "--thinking=1"): "are for the levels of Sokoban",
    }.items(),
    ids=str,
)
def test_bad_options_are_one_sentence(args, complaint, flags, capsys):
    code, out, err = tiny.command(capsys, "eval", "random", *args)
    assert (code, out) == (2, "") and complaint in err.splitlines()[-1]
