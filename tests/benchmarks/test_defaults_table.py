"""The page of default settings shows what the results say, and the settings that the code has."""

import importlib.util
import json
import pathlib

import pytest

from wmg.api import defaults
from wmg.config import Config
from wmg.types import Env, EnvSpec, ObservationSpec

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "defaults.md").read_text()


@pytest.fixture
def script():
    path = ROOT / "benchmarks" / "defaults_table.py"
    spec = importlib.util.spec_from_file_location("defaults_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_results(script):
    assert script.with_table(PAGE, script.table(ROOT / "results" / "defaults")) == PAGE


def write(folder, seed, **given):
    data = {"env": "gym:A-v0", "measured": "score", "asked": 475.0, "seconds": 60.0 * (seed + 1)}
    (folder / f"a-{seed}.json").write_text(json.dumps({**data, "seed": seed, **given}))


def test_a_row_has_every_seed_and_counts_those_that_reach_what_is_asked(script, tmp_path):
    assert script.table(tmp_path) == script.HEAD
    write(tmp_path, 10, reached=480.25, holds=True)
    write(tmp_path, 2, reached=475.0, holds=False)
    write(tmp_path, 3, reached=500.0, holds=True)
    row = "| A-v0 | a return of 475 | 475, 500, 480.2 | 2 of 3 | 4.0 |\n"
    assert script.table(tmp_path) == script.HEAD + row


def test_shares_are_percentages_and_the_rest_of_the_page_stays(script, tmp_path):
    write(tmp_path, 0, reached=0.9512, holds=True, measured="success", asked=0.95)
    page = script.with_table(PAGE, script.table(tmp_path))
    assert "| A-v0 | 95% solved | 95.1% | 1 of 1 | 1.0 |\n" in page
    assert script.with_table(page, script.table(ROOT / "results" / "defaults")) == PAGE


class Plain(Env):
    """Enough of an environment for its default settings."""

    @property
    def spec(self):
        return EnvSpec(ObservationSpec(1), 2, 3, "success")

    def reset(self, key):
        raise NotImplementedError

    def step(self, state, action, key):
        raise NotImplementedError


def test_the_page_has_the_settings_of_the_code(monkeypatch):
    monkeypatch.setattr(defaults, "reward_scale", lambda env: 1.0)
    ours, papers = defaults.config_for(Plain(), None), Config()
    agent, batched, hyper = ours.agent, ours.batched, ours.hyper
    rows = [
        f"PPO in {batched.envs} environments",
        f"| window (`t_max`) | {ours.t_max} steps | {papers.t_max} |",
        f"{batched.windows} windows of each environment: "
        f"{batched.envs * batched.windows * ours.t_max:,} steps",
        f"| {batched.passes}, {batched.minibatches} | 1, 1 |",
        f"| {batched.clip:g}, {batched.trace:g} | not used |",
        f"| discount | {hyper.discount:g} | {papers.hyper.discount:g} |",
        f"multiplied by {hyper.anneal:g} nine times on the way",
        f"| entropy bonus | {hyper.entropy:g} | {papers.hyper.entropy:g} |",
        f"| largest norm of the gradient | {hyper.grad_clip:g} | {papers.hyper.grad_clip:g} |",
        f"WMG with {agent.slots} Memos of {agent.memo_size} numbers, {agent.layers} layers, "
        f"{agent.heads} heads of {agent.head_size}, hidden {agent.hidden}; "
        f'initial weights of He et al. (`init="{agent.init}"`) |',
        f"{papers.agent.slots} Memos of {papers.agent.memo_size}, {papers.agent.layers} layers, "
        f"{papers.agent.heads} heads of {papers.agent.head_size}, hidden {papers.agent.hidden}; "
        "PyTorch's initial weights |",
        f"| steps | {ours.steps:,} | {papers.steps:,} |",
    ]
    assert [row for row in rows if row not in PAGE] == []
    assert (hyper.learning_rate, papers.hyper.learning_rate) == (3e-4, 1.6e-4)
    assert papers.agent.init == "pytorch"
    assert hyper.anneal_every == ours.steps / 10 and batched.normalise
    assert defaults.PROBED == 128 and defaults.ENVS == 16
