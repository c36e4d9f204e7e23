"""How much there is to read: what the figures count."""

import importlib.util
import pathlib
import textwrap

import pytest

import wmg

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "structure.py"
ROOT = pathlib.Path(wmg.__file__).parent


@pytest.fixture
def structure():
    spec = importlib.util.spec_from_file_location("structure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_of_a_package(structure, tmp_path):
    quiet = "# noqa: E731"
    made = {
        "__init__.py": "",
        "one.py": f"class A: ...\n\nf = lambda: 0  {quiet}\n",
        "room/__init__.py": "",
        "room/two.py": "class A:\n    def g(self):\n        a = 1\n        return a\n",
        "data/levels.txt": "",
    }
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    sizes = {path: len(path.read_text().splitlines()) for path in sorted(tmp_path.rglob("*.py"))}
    assert structure.read(tmp_path, sizes) == {
        "modules": 1,
        "folders": 1,
        "files": 4,
        "lines": 7,
        "longest function": (3, "two.g"),
        "class names twice": ["A"],
        "suppressions": 1,
    }


def test_a_profile_sees_the_functions_from_the_first_to_the_last(structure):
    package = str(pathlib.Path(__file__).parent)

    def before(): ...

    def begin():
        inner()
        end()
        after()

    def inner(): ...

    def end(): ...

    def after(): ...

    profile = structure.Profile(package, begin.__code__, end.__code__)
    structure.sys.setprofile(profile)
    try:
        before()
        begin()
    finally:
        structure.sys.setprofile(None)
    names = {code.co_name for code in profile.step}
    assert names == {"begin", "inner", "end"}
    assert {code.co_name for code in profile.all} == {*names, "before", "after"}


def test_the_package_has_short_functions_and_no_suppressions(structure):
    sizes = {path: len(path.read_text().splitlines()) for path in sorted(ROOT.rglob("*.py"))}
    found = structure.read(ROOT, sizes)
    assert found["longest function"][0] < 60
    assert found["suppressions"] == 0


def test_training_is_not_too_much_to_read(structure):
    files = structure.run_traced(ROOT.parent)["files"]
    lines = {
        what: sum(len(pathlib.Path(file).read_text().splitlines()) for file in files[what])
        for what in ("one step", "wmg train")
    }
    assert len(files["one step"]) <= 7
    assert lines["one step"] <= 1_200
    assert lines["wmg train"] < 5_497  # the package in one flat folder had 5,497
