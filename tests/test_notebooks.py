"""The notebooks of examples/ run from the first cell to the last, with fewer steps of training."""

import json
import pathlib
import re

import pytest
import tiny

import wmg

keys_may_be_split_up = tiny.keys_may_be_split_up
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the code of a notebook in an empty folder and returns its variables."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context({"backend": "agg"}):
        yield lambda name, **changes: execute(EXAMPLES / name, changes)
        import matplotlib.pyplot

        matplotlib.pyplot.close("all")


def execute(path, changes):
    found = {"__name__": path.stem}
    for cell in json.loads(path.read_text())["cells"]:
        code = "".join(cell["source"])
        for name, value in changes.items():
            code = re.sub(rf"^{name} = .*$", f"{name} = {value}", code, flags=re.MULTILINE)
        if cell["cell_type"] == "code":
            exec(compile(code.replace("plt.show()", ""), path.name, "exec"), found)
    return found


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_kept_without_output(name):
    cells = json.loads((EXAMPLES / name).read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_an_environment_of_ones_own_is_trained_in_a_notebook(run, monkeypatch, capsys):
    real = wmg.train
    short = {"agent": tiny.AGENT, "report_every": 64, "t_max": 4}
    small = wmg.Batched(envs=4, windows=1, minibatches=1)
    monkeypatch.setattr(
        wmg, "train", lambda env, **given: real(env=env, **short, batched=small, **given)
    )
    found = run("own_environment.ipynb", STEPS=128)
    assert found["result"].steps.tolist() == [64, 128] and found["played"].episodes == 1000
    assert pathlib.Path("shelf.safetensors").is_file()
    assert f"the agent says {int(found['answer'])}" in capsys.readouterr().out


def test_a_notebook_shows_what_a_trained_agent_attends_to(run):
    found = run("look_inside.ipynb", EPISODE=2)
    written, right = found["written"], found["right"]
    assert sum(right) >= 0.8 * len(right) / 2
    assert written.shape == (len(right), len(right)) and (written[0] == 0).all()
    assert all(0 < row.sum() < 1 for row in written[1:])
    assert len(found["figure"].axes) == 5
