"""The code of docs/library.md runs: the first block with what the page defines, then all others.

The page's files are written to a folder. Training is cut short, except in the slow test.
"""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
import tiny

import wmg

keys_may_be_split_up = tiny.keys_may_be_split_up
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "library.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
FILES = {
    found[1]: block for block in BLOCKS if (found := re.match(r"# (\w+\.py)\n", block)) is not None
}
BEFORE = """
import jax
from coins import Coins as MyEnv
from my_lstm import MyLSTM
from wmg import paper, registry

memory, key = None, jax.random.key(1)
env = registry.make_env(paper.find_preset("babyai/level1/wmg-factored").env)
_, observation = env.reset(jax.random.key(0))
"""
SHORT = {
    "agent": wmg.WMGSettings(
        slots=2, memo_size=4, layers=1, heads=1, head_size=4, hidden=4, actor_critic=4
    ),
    "report_every": 50,
    "goal": None,
}
ROUND = {"envs": 2, "windows": 1, "passes": 1, "minibatches": 1}
real = wmg.train


def train_shortly(preset=None, folder=None, **given):
    """`wmg.train` with 1/200 of the steps, and a small network unless an agent is given."""
    steps = min(given.get("steps", 20_000) // 200, 300)
    if given.get("resume") or given.get("branch_from"):
        return real(preset, folder, **{**given, "steps": steps})
    if preset is None:
        given = {"batched": ROUND, "t_max": 4, **given}
    agent = {} if isinstance(given.get("agent"), type) else {"agent": SHORT["agent"]}
    return real(preset, folder, **{**SHORT, **given, **agent, "steps": steps})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the page's files in it; what was imported from it is forgotten."""
    pytest.importorskip("minigrid")
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(wmg, "train", train_shortly)
    before = set(sys.modules)
    known = dict(importlib.import_module("wmg.registry").ENVS)
    monkeypatch.setattr("wmg.registry.ENVS", known)
    monkeypatch.setattr("wmg.registry.GIVEN", {})
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ("coins", "market", "my_lstm", "my_package"):
            del sys.modules[name]


def write(folder):
    for name, block in FILES.items():
        (folder / name).write_text(block)
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").touch()
    (folder / "my_package" / "my_module.py").write_text("from market import Market as MyEnv\n")


def test_the_first_block_runs_with_what_the_page_defines(folder):
    found = {}
    exec(BEFORE + BLOCKS[0].replace("episodes=1_000", "episodes=10"), found)
    result, model = found["result"], found["model"]
    assert result.config.env.path == "my_package.my_module:MyEnv" and result.finished
    assert isinstance(result.agent, found["MyLSTM"])
    assert model.config.env.label == "BabyAI GoToObj" and 0 <= int(found["action"]) < 7
    assert (folder / "mine.safetensors").is_file()


def test_every_other_block_runs_in_the_order_of_the_page(folder):
    found = {"wmg": wmg}
    for block in BLOCKS[1:]:
        if block not in FILES.values():
            exec(block, found)
    assert {path.name for path in (folder / "runs").iterdir()} == {"mine", "slower"}
    settings = importlib.import_module("coin_settings")
    assert settings.CONFIG.env == settings.CoinsSettings()


def code_lines(text):
    """Lines of code, without blank ones, comments and the docstring."""
    text = re.sub(r'"""[^"]*"""', "", text)
    return [x for x in text.splitlines() if x.strip() and not x.lstrip().startswith("#")]


def test_a_users_own_parts_need_few_lines_besides_the_environment():
    after = {block[: block.index("\n")]: BLOCKS[i + 1] for i, block in enumerate(BLOCKS[:-1])}
    assert len(code_lines(after["# market.py"])) <= 5
    assert len(code_lines(after["# coins.py"])) <= 3
    assert len(code_lines(FILES["my_lstm.py"])) <= 40


SCRIPT = """
import wmg
real = wmg.train
wmg.train = lambda preset=None, **given: real(preset, **{"steps": 2_000, **given})
"""


@pytest.mark.slow
def test_the_first_block_takes_less_than_three_minutes(tmp_path):
    pytest.importorskip("minigrid")
    write(tmp_path)
    block = BLOCKS[0].replace("steps=200_000", "steps=2_000")
    (tmp_path / "block.py").write_text(SCRIPT + BEFORE + block)
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, env=quick
    )
    assert done.returncode == 0, done.stderr
    assert "over 1,000 episodes" in done.stdout
    assert time.monotonic() - began < 180
