"""Mutants are applied as they were drawn, and the likeliest tests are run first."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_mutant_is_applied_where_it_was_drawn_and_nowhere_else(mutants, tmp_path):
    source, mutated = "a = 1\nb = 2\nc = (\n    b + 1\n)\n", "a = 1\nb = 2\nc = (\n    b - 1\n)\n"
    (tmp_path / "x.py").write_text(source)
    change = {"file": "x.py", **mutants.changed_lines(source, mutated)}
    assert (change["line"], change["before"], change["after"]) == (4, ["    b + 1"], ["    b - 1"])
    mutants.apply(change, tmp_path)
    assert (tmp_path / "x.py").read_text() == mutated
    with pytest.raises(SystemExit, match=r"x\.py line 4 is not as it was"):
        mutants.apply(change, tmp_path)


def test_the_tests_of_a_mutated_module_come_first_and_then_those_that_import_it(mutants, tmp_path):
    (tmp_path / "tests" / "runs").mkdir(parents=True)
    (tmp_path / "tests" / "learn").mkdir()
    files = {
        "learn/test_other.py": "from wmg.runs import task\n" * 9,
        "learn/test_user.py": "from wmg.runs import session, task\n",
        "runs/test_long.py": "import wmg.runs.sessions\n" * 9,
        "runs/test_session.py": "",
    }
    for name, text in files.items():
        (tmp_path / "tests" / name).write_text(text)
    found = mutants.test_files(tmp_path, "src/wmg/runs/session.py")
    expected = ["runs/test_session", "learn/test_user", "learn/test_other", "runs/test_long"]
    assert found == [f"tests/{name}.py" for name in expected]


def test_the_next_mutants_of_the_list_replace_equivalent_ones(mutants):
    assert mutants.chosen(6, 3, {}) == [0, 1, 2]
    assert mutants.chosen(6, 3, {1: "why", 5: "why"}) == [0, 1, 2, 3]
    with pytest.raises(SystemExit, match="too few for 5"):
        mutants.chosen(6, 5, {1: "why", 5: "why"})


def test_the_published_mutants_are_those_that_the_list_of_equivalent_ones_leaves(mutants):
    found = json.loads((ROOT / "results" / "mutants.json").read_text())
    ends = {int(number): one for number, one in found["mutants"].items()}
    equivalent = {number: one["equivalent"] for number, one in ends.items() if "equivalent" in one}
    assert list(ends) == mutants.chosen(len(ends), found["run"], equivalent)
    assert found["killed"] == sum(bool(one.get("killed_by")) for one in ends.values())
    for one in ends.values():
        assert bool(one.get("killed_by")) != ("equivalent" in one)
