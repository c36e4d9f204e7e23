"""`wmg plot`: curves of run folders in one figure."""

import json
import shutil

import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.tools import plots


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two run folders; the second one's second run diverged before its last report."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        shutil.copytree(tiny.trained(), tmp_path / name)
    log = tmp_path / "b" / "logs" / "0001.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    records[-1]["score"] = None
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


def test_the_numbers_of_a_curve_are_those_of_the_logs(folders, capsys):
    code, out, err = tiny.command(capsys, "plot", "a", "b", "--json")
    assert (code, err) == (0, "") and not (folders / "curves.png").exists()
    first, second = json.loads(out)
    logs = [[record["score"] for record in log] for log in tiny.lines(folders / "a")]
    assert first["folder"] == "a" and first["runs"] == 2
    assert first["steps"][0] == 48 and first["steps"][-1] == 480
    assert np.allclose(first["mean"], np.mean(logs, axis=0))
    assert np.allclose(first["standard_deviation"], np.std(logs, axis=0, ddof=1))
    assert second["runs_with_a_score"][-2:] == [2, 1] and second["mean"][-1] == logs[0][-1]


def test_the_figure_names_each_folder_and_says_what_the_band_is(folders, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    code, out, _ = tiny.command(capsys, "plot", "a", "b/", "--out=c.png", "--title=Mine")
    assert (code, out) == (0, "learning curves: c.png\n")
    (axes,) = drawn[0].axes
    assert axes.get_title(loc="left") == "Mine"
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"a, 2 runs", "b, 2 runs (1/2 runs)"}
    (legend,) = drawn[0].legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["mean over runs", "±1 standard deviation over runs"]


def test_folders_with_the_same_last_part_have_their_own_curves(folders, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    for name in ("a", "b"):
        shutil.copytree(folders / name, folders / "again" / name)
    assert tiny.command(capsys, "plot", "a", "again/a", "b")[0] == 0
    texts = {text.get_text() for text in drawn[0].axes[0].texts}
    assert texts == {"a, 2 runs", "again/a, 2 runs", "b, 2 runs (1/2 runs)"}


@pytest.mark.parametrize("name", ["new/curves.png", "curves.svg"])
def test_a_figure_is_written_once_and_is_the_same_each_time(folders, capsys, name):
    assert tiny.command(capsys, "plot", "a", "b", "--out", name)[0] == 0
    written = (folders / name).read_bytes()
    assert b"PNG" in written[:8] or b"standard deviation" in written
    code, _, err = tiny.command(capsys, "plot", "a", "--out", name)
    assert code == 2 and "already exists" in err
    assert tiny.command(capsys, "plot", "a", "b", f"--out=again-{name.replace('/', '-')}")[0] == 0
    assert (folders / f"again-{name.replace('/', '-')}").read_bytes() == written


@pytest.mark.parametrize(
    "args, complaint",
    {
        (): "name the run folders whose curves are drawn",
        ("a", "a"): "a is named twice",
        ("a", "b", "./a/"): "a is named twice",
        ("a", "none"): "none",
        ("a", "--out=a.pdf"): "a figure's name must end in .png or .svg, got 'a.pdf'",
    }.items(),
    ids=str,
)
def test_bad_input_is_one_sentence(args, complaint, folders, capsys):
    code, out, err = tiny.command(capsys, "plot", *args)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


def test_a_folder_without_a_report_has_no_curve(folders, capsys):
    for log in (folders / "a" / "logs").iterdir():
        log.write_text("")
    code, _, err = tiny.command(capsys, "plot", "a")
    assert code == 2 and err == "wmg: a has no report yet: there is no curve to draw\n"
