"""All reports at once: from the committed results, and from hand-made ones."""

import json
import pathlib
import shutil

import jaxtyping
import numpy as np
import pytest
import tiny
from paper.made_up import RACE, write_race
from paper.test_outcome import RUNS, by_brute_force, write_gridded

from wmg.paper import overview
from wmg.paper.targets import TARGETS
from wmg.tools.errors import BadInput

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"
TABLES = ("verdicts", "test-intervals")


@pytest.fixture(scope="module")
def remade(tmp_path_factory):
    """Every report, made from nothing but the results, and without the check of types."""
    out = tmp_path_factory.mktemp("remade")
    for file in RESULTS.rglob("result.json"):
        place = out / file.relative_to(RESULTS)
        place.parent.mkdir(parents=True)
        shutil.copy(file, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        overview.report_all(out)
    return out


def committed(pattern):
    return sorted(path.relative_to(RESULTS) for path in RESULTS.glob(pattern))


@pytest.mark.parametrize("file", [*committed("*/report.*"), *committed("verdicts.*"),
                                  *committed("test-intervals.*")], ids=str)  # fmt: skip
def test_committed_reports_are_what_the_committed_results_say(remade, file):
    assert (remade / file).read_text() == (RESULTS / file).read_text()


@pytest.mark.parametrize("file", committed("*/*.png"), ids=str)
def test_committed_figures_are_what_the_committed_results_say(remade, file):
    """Another version of matplotlib may draw some pixels otherwise; before 3.10, all text."""
    image = pytest.importorskip("PIL.Image")
    drawn = tuple(map(int, pytest.importorskip("matplotlib").__version__.split(".")[:2]))
    limit = 2.0 if drawn >= (3, 10) else 4.0
    one, two = (np.asarray(image.open(folder / file), float) for folder in (remade, RESULTS))
    assert one.shape == two.shape and np.abs(one - two).mean() < limit


def test_there_is_a_report_for_every_target_that_has_results(remade):
    names = [name for name in TARGETS if (remade / name).exists()]
    assert len(names) >= 11
    assert all((remade / name / "report.md").exists() for name in names)


def test_results_are_smaller_than_12_megabytes():
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 12e6


@pytest.fixture
def race(tmp_path, monkeypatch):
    monkeypatch.setattr("wmg.paper.targets.TARGETS", {"race": RACE})
    monkeypatch.setattr(overview, "TARGETS", {"race": RACE})
    return tmp_path


def test_the_table_of_verdicts_names_first_what_does_not_match(race):
    write_race(race, "wmg", 0, [1600.0] * 20, seed=0)
    write_race(race, "gru", 0, [3000.0] * 20, seed=0)
    write_race(race, "cnn", 0, [3000.0] * 20, seed=0)  # the paper has no number for it
    rows = overview.report_all(race)
    assert [row["cell"] for row in rows] == ["wmg", "gru"]
    lines = overview.verdict_table(rows).splitlines()
    assert "Of 2 cells of trained runs 1 is worse, 1 matches" in lines[2]
    assert [line.split(" | ")[1] for line in lines[-2:]] == ["GRU", "WMG"]
    assert json.loads((race / "verdicts.json").read_text()) == rows


def test_verdicts_are_counted_in_words():
    rows = [{"verdict": verdict} for verdict in ["not judged", "matches", "worse", "worse"]]
    assert overview._counts(rows) == "2 are worse, 1 is not judged, 1 matches"
    assert overview._counts(rows + rows[:2]) == "2 are worse, 2 are not judged, 2 match"


def test_the_table_of_intervals_has_what_can_be_regridded(race):
    write_gridded(race, RUNS)
    write_race(race, "gru", 0, [3000.0] * 20, seed=0)
    (row,) = overview.interval_rows(race)
    for times in (1, 4):
        needed = [by_brute_force(tests, 25 * times) or np.inf for tests in RUNS]
        found = row["grids"][f"{times}x"]
        assert found["interval"] == 25 * times
        assert found["median"] == pytest.approx(np.median(needed) / 1000)
    assert row["grids"]["16x"] == {"interval": 400}
    assert "cannot be re-gridded" in overview.interval_table([row])
    row["grids"]["4x"] = {"interval": 100, "median": None, "95%": [3.5, None]}
    assert "| not passed by half of the runs (100 steps) |" in overview.interval_table([row])


def test_without_results_there_is_nothing_to_report(tmp_path):
    with pytest.raises(BadInput, match="there are no results in"):
        overview.report_all(tmp_path)


def test_regridded_nothing_is_written(race, capsys):
    write_gridded(race, RUNS)
    before = tiny.contents(race)
    code, out, _ = tiny.command(
        capsys, "reproduce", "--report-only", "--test-interval", 50, "--out", race
    )
    assert code == 0 and "All cells beside the paper" in out
    assert tiny.contents(race) == before
