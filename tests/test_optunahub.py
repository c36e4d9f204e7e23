"""The package for OptunaHub: complete, in the registry's form, and working without wmg."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("optuna")
import yaml  # Optuna needs it, too

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "packages" / "optunahub"
WITHOUT_WMG = """
import importlib, runpy, sys, types
sys.modules["wmg"] = None
sys.modules["optunahub"] = types.SimpleNamespace(
    load_module=lambda name: importlib.import_module(name.replace("/", "."))
)
runpy.run_path("samplers/dgd/example.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry's folder of packages, with ours in it."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run([sys.executable, PACKAGE / "make.py", folder], check=True)
    return folder


def test_the_package_has_the_files_of_the_registrys_template_and_both_sources(registry):
    package, sources = registry / "samplers" / "dgd", ROOT / "src" / "wmg" / "tuner"
    assert {path.name for path in package.iterdir()} == {
        "LICENSE", "README.md", "__init__.py", "dgd.py", "example.py", "sampler.py",
    }  # fmt: skip
    for name in ("dgd.py", "sampler.py"):
        assert (package / name).read_bytes() == (sources / name).read_bytes()


def test_no_source_is_kept_twice():
    assert not {path.name for path in PACKAGE.rglob("*.py")} & {"dgd.py", "sampler.py"}


def test_the_readme_has_the_front_matter_of_the_registry(registry):
    text = (registry / "samplers" / "dgd" / "README.md").read_text()
    _, front, body = re.split(r"^---$", text, flags=re.MULTILINE)
    about = yaml.safe_load(front)
    assert about.keys() == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert all(isinstance(about[name], str) for name in ("author", "title", "description"))
    assert all(isinstance(each, str) for each in about["tags"] + about["optuna_versions"])
    assert "sampler" in about["tags"] and about["license"] == "MIT License"
    sections = ["Abstract", "Class or Function Names", "Example", "Others"]
    assert re.findall(r"^## (.*)$", body, flags=re.MULTILINE) == sections


def test_the_readme_shows_the_example(registry):
    package = registry / "samplers" / "dgd"
    (code,) = re.findall(r"```python\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    assert code == (package / "example.py").read_text()


def test_the_example_finds_the_best_configuration_without_this_project(registry):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_WMG], cwd=registry, capture_output=True, text=True
    )
    assert done.stdout.split("\n") == ["learning_rate 0.0004", "layers 3", "activation gelu", ""]
