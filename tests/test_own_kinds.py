"""An environment and an agent from outside of the package, through the whole of their lives.

They are in two files of the current folder: `own.py` and `mine.py`. Each command is a process.
"""

import base64
import dataclasses
import gzip
import json
import pathlib
import re
import shutil
import signal
import sys
import types

import pytest
import safetensors
import tiny
from own import Bag, BagSettings
from runs.test_train import wait_for

from wmg import config, registry
from wmg.cli import options
from wmg.runs import runfolder
from wmg.settings import AgentSettings, EnvSettings
from wmg.tools.errors import BadInput

HERE = pathlib.Path(__file__).parent
PYTHON = """
import dataclasses, sys
sys.path.append("")
import mine
from wmg.play import evaluate
from wmg.runs import models, train
from wmg import registry

env = dataclasses.replace(mine.CONFIG.env, coins=2)
agent = dataclasses.replace(mine.CONFIG.agent, width=8)
settings = dataclasses.replace(mine.CONFIG, env=env, agent=agent)
train.train(settings, "whole")
trained, settings = models.find("whole")
print(evaluate.evaluate(registry.make_env(settings.env), trained, 1, 100).success.mean())
"""


def start(folder, *args):
    """A command in that folder, as a shell starts it: Python does not look for modules there."""
    return tiny.start_python("-P", "-m", "wmg", *args, cwd=folder)


def wmg(folder, *args):
    """Exit code, output and complaints of a command in that folder."""
    process = start(folder, *args)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two files, and a run that was killed half way."""
    folder = tmp_path_factory.mktemp("own")
    for file in ("own.py", "mine.py"):
        shutil.copy(HERE / file, folder)
    (folder / "dataclasses.py").write_text("raise ValueError('Python's own comes first')")
    flags = ["--env.coins=2", "--agent.width=8", "--out", "run", "--save-seconds=0"]
    process = start(folder, "train", "mine:CONFIG", *flags)
    log = folder / "run" / "logs" / "0000.jsonl"
    wait_for(lambda: (log.exists() and log.stat().st_size > 0) or process.poll() is not None)
    process.kill()
    assert process.communicate() and process.returncode == -signal.SIGKILL
    return folder


def test_it_is_killed_and_goes_on_to_the_same_end(folder):
    saved = (folder / "run" / runfolder.STATE).stat().st_mtime_ns
    before = json.loads((folder / "run" / runfolder.CONFIG).read_text())["config"]
    assert before["env"] == {"name": "purse", "import": "mine:PurseSettings", "coins": 2}
    assert before["agent"] == {"name": "adder", "import": "mine:AdderSettings", "width": 8}
    with safetensors.safe_open(folder / "run" / runfolder.STATE, "numpy") as file:
        assert file.get_tensor("steps")[0] < 4000
    code, out, err = wmg(folder, "train", "--resume", "run")
    assert code == 0 and out.startswith("run: last score "), err
    assert (folder / "run" / runfolder.STATE).stat().st_mtime_ns > saved
    done = tiny.start_python("-P", "-c", PYTHON, cwd=folder)
    share, err = done.communicate()
    assert done.returncode == 0, err
    assert tiny.differing(*(tiny.arrays(folder / name) for name in ("run", "whole"))) == []
    assert tiny.lines(folder / "run") == tiny.lines(folder / "whole")
    code, out, err = wmg(folder, "eval", "run", "--episodes=100", "--json")
    assert code == 0, err
    assert json.loads(out)["score"] == pytest.approx(100 * float(share))


def test_it_is_shown_and_measured(folder):
    args = ["--run=0", "--episodes=1", "--export", "page.html"]
    code, _, err = wmg(folder, "view", "run", *args)
    assert code == 0, err
    (packed,) = re.findall(r'id="episodes">([^<]+)<', (folder / "page.html").read_text())
    shown = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert shown["title"] == "Purse" and len(shown["episodes"]) == 1
    code, out, err = wmg(folder, "bench", "mine:CONFIG", "--seconds=0.1", "--json")
    assert code == 0, err
    assert json.loads(out)["preset"] == "mine:CONFIG" and json.loads(out)["agent"] == "adder"


def test_without_its_module_nothing_is_lost(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    before = tiny.contents(tmp_path)
    code, out, err = wmg(tmp_path, "train", "--resume", "run")
    assert (code, out) == (2, "") and tiny.contents(tmp_path) == before
    assert err == (
        "wmg: run/config.json.env 'purse' needs the module mine, which cannot be imported: "
        "No module named 'mine'\n"
    )


# In this process


@pytest.fixture
def module(monkeypatch):
    """A module of that name, and what it has."""

    def make(name, **contents):
        made = types.ModuleType(name)
        vars(made).update(contents)
        monkeypatch.setitem(sys.modules, name, made)

    return make


def test_a_module_that_needs_another_one_says_which(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=r"module needy, which.*No module named 'not_installed'"):
        registry.load("needy:CONFIG", "a preset")


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("ours:CONFIG", "ours:CONFIG must be an environment: one that"),
        ("ours:OTHER", "a preset needs OTHER, which the module ours does not have"),
        ("ours:", "a preset must be an import path, module:name, got 'ours:'"),
        ("nobodys:CONFIG", "a preset needs the module nobodys, which cannot be imported: No mod"),
    ],
)
@pytest.mark.parametrize("command", ["train", "bench"])
def test_a_path_that_leads_to_no_config_is_refused(module, capsys, command, name, sentence):
    module("ours", CONFIG=3)
    code, out, err = tiny.command(capsys, command, name)
    assert (code, out) == (2, "") and err.startswith(f"wmg: {sentence}")


def test_a_module_that_does_not_register_what_it_should(module):
    module("ours", BagSettings=BagSettings)
    data = {"env": {"name": "bag", "import": "ours:BagSettings"}}
    with pytest.raises(BadInput, match="'bag' is not registered by the module of ours:Bag"):
        config.from_dict(config.Config, data)


def test_settings_without_the_decorator_or_a_title_are_refused():
    class Plain(BagSettings):
        size: int = 3

    with pytest.raises(BadInput, match="settings of an env must be a dataclass of EnvSettings"):
        registry.register_env(Plain, Bag)
    nameless = dataclasses.make_dataclass("Nameless", [], bases=(EnvSettings,), frozen=True)
    with pytest.raises(BadInput, match="Nameless must have a name"):
        registry.register_env(nameless, Bag)
    nameless.name = "nameless"
    with pytest.raises(BadInput, match="Nameless must have a title"):
        registry.register_env(nameless, Bag)
    nameless.name, nameless.title = "sokoban", "Mine"
    with pytest.raises(BadInput, match="wmg has an env called 'sokoban': choose another name"):
        registry.register_env(nameless, Bag)


def test_settings_of_a_script_are_found_under_its_name(module, monkeypatch):
    made = BagSettings()
    monkeypatch.setattr(BagSettings, "__module__", "__main__")
    module("__main__", __file__="/somewhere/shelf.py", __spec__=None)
    assert registry.import_path(made) == "shelf:BagSettings"
    module("__main__")  # an interactive session
    assert registry.import_path(made) == "__main__:BagSettings"


def test_options_of_a_module_without_a_file_have_no_text(module):
    module("ours")
    assert options.field_texts.__wrapped__("ours") == {}
    assert options.field_texts.__wrapped__(AgentSettings.__module__)
