"""Targets small enough to train here, in one piece and in several."""

import dataclasses
import functools
import json
import shutil
import signal

import numpy as np
import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import registry
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config, Goal
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.paper import outcome, report, reproduce, result_file, verdict
from wmg.paper.reproduce import Scale
from wmg.paper.target import Band, Cell, Claim, Target
from wmg.paper.targets import TARGETS
from wmg.play import evaluate, level_test
from wmg.runs import folder_logs, models
from wmg.runs.progress import Display
from wmg.tools import machine
from wmg.tools.errors import BadInput

CONFIG = tiny.settings(env=PathfindingSettings(nodes=3), steps=96, report_every=8)
TARGET = Target(
    title="Small",
    source="nowhere",
    measure="curve",
    unit="% of reward",
    runs=3,
    cells={"wmg": Cell("WMG", CONFIG, 99.6)},
    claims=(Claim("WMG is above 1%", "wmg", "above", 1.0, full_scale=True),),
    band=Band(100.0, "any score will do", relative=False),
)
NAME = "small"


def shown_by(show):
    return Display(start=lambda: None, show=show)


def refuse(progress):
    raise AssertionError("nothing is left to train")


QUIET, NEVER = shown_by(lambda progress: None), shown_by(refuse)


def run(out, display=QUIET, target=TARGET, **scale):
    return reproduce.run_cell(NAME, target, "wmg", Scale(**scale), out, display)


def results(out):
    files = sorted((out / NAME / "wmg").glob("*/result.json"))
    return {file.parent.name: json.loads(file.read_text()) for file in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three runs in one group."""
    out = tmp_path_factory.mktemp("whole")
    assert run(out)
    return out


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """The same runs in two groups: the second first, the first with an interruption."""
    out = tmp_path_factory.mktemp("pieces")
    left = iter(range(4))

    def interrupt(progress):
        if next(left, None) is None:
            signal.raise_signal(signal.SIGTERM)

    assert run(out, group_size=2, groups=(1,))
    assert not run(out, shown_by(interrupt), group_size=2, groups=(0,))
    assert list(results(out)) == ["group-001"]
    assert run(out, group_size=2)
    return out


def test_a_stop_with_the_last_report_of_a_group_is_one(pieces, tmp_path):
    shutil.copytree(pieces, tmp_path / "out")
    for result in (tmp_path / "out").rglob("group-000/result.json"):
        result.unlink()
    longer = functools.partial(run, tmp_path / "out", group_size=2, groups=(0,), steps=104)
    stop = shown_by(lambda progress: signal.raise_signal(signal.SIGTERM))
    assert not longer(stop) and list(results(tmp_path / "out")) == ["group-001"]
    assert longer() and sorted(results(tmp_path / "out")) == ["group-000", "group-001"]


def test_groups_have_disjoint_seeds(pieces):
    seeds = {
        name: (r["config"]["seed"], r["config"]["runs"]) for name, r in results(pieces).items()
    }
    assert seeds == {"group-000": (0, 2), "group-001": (2, 1)}


def test_groups_and_an_interruption_change_no_bit_of_any_run(whole, pieces):
    one = tiny.arrays(whole / NAME / "wmg" / "group-000" / "train")
    two = [tiny.arrays(pieces / NAME / "wmg" / f"group-00{i}" / "train") for i in (0, 1)]
    joined = {name: np.concatenate([part[name] for part in two]) for name in one}
    assert tiny.differing(one, joined) == []


def test_groups_pool_into_the_report_of_one_big_group(whole, pieces):
    one, two = (report.report(NAME, TARGET, out) for out in (whole, pieces))
    for data in (one, two):
        assert data["cells"]["wmg"].pop("seconds") > 0
    for key in ("scale", "cells", "claims"):
        assert two[key] == one[key]


def test_a_report_is_of_the_scores_in_the_logs(whole):
    logs = tiny.lines(whole / NAME / "wmg" / "group-000" / "train")
    finals = [np.mean([line["score"] for line in log[-10:]]) for log in logs]
    row = report.report(NAME, TARGET, whole)["cells"]["wmg"]
    assert row["value"] == pytest.approx(np.mean(finals), abs=1e-3)
    assert row["standard_error"] == pytest.approx(np.std(finals, ddof=1) / 3**0.5, abs=1e-3)


def test_a_report_needs_the_results_alone(whole, tmp_path):
    place = tmp_path / NAME / "wmg" / "group-000"
    place.mkdir(parents=True)
    there = whole / NAME / "wmg" / "group-000" / "result.json"
    (place / "result.json").write_bytes(there.read_bytes())
    assert report.report(NAME, TARGET, tmp_path) == report.report(NAME, TARGET, whole)


def test_what_is_there_is_not_run_again(whole):
    before = tiny.contents(whole)
    assert run(whole, NEVER)
    assert tiny.contents(whole) == before


def test_what_is_there_is_refused_if_something_else_is_asked_for(whole):
    with pytest.raises(BadInput) as refusal:
        run(whole, NEVER, steps=48)
    path = whole / NAME / "wmg" / "group-000" / "result.json"
    assert str(refusal.value) == (
        f"{path} has steps = 96, not 48: run it beside that with --again, or choose another --out"
    )


def test_a_damaged_result_is_refused(whole, tmp_path):
    damaged = tmp_path / NAME / "wmg" / "group-000" / "result.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text('{"config": {"env"')
    with pytest.raises(BadInput, match=r"result.json is damaged: it does not hold a result$"):
        run(tmp_path, NEVER)


def test_at_the_papers_scale_everything_is_judged(whole, monkeypatch):
    monkeypatch.setattr(verdict, "FEWEST", 3)  # of three runs
    data = report.report(NAME, TARGET, whole)
    assert data["scale"] == "3 of 3 runs: wmg"
    assert data["claims"][0]["verdict"] == "holds"
    assert data["cells"]["wmg"]["verdict"] == "matches"


def test_a_smaller_scale_is_said_in_json_and_markdown(whole):
    config = dataclasses.replace(CONFIG, steps=20_000_000)
    paper = dataclasses.replace(TARGET, runs=100, cells={"wmg": Cell("WMG", config, 99.6)})
    data = report.report(NAME, paper, whole)
    said = "3 of 100 runs, 96 of 20,000,000 steps: wmg"
    assert data["scale"] == said and data["claims"][0]["verdict"] == "not judged"
    assert said in (whole / NAME / "report.md").read_text()


def test_fewer_steps_and_runs_are_trained_where_asked_for(tmp_path):
    assert run(tmp_path, runs=1, steps=16)
    (result,) = results(tmp_path).values()
    assert (result["config"]["runs"], result["config"]["steps"]) == (1, 16)
    assert result["steps"] == [8, 16] and np.shape(result_file.scores_of(result)) == (1, 2)


def test_runs_are_split_into_groups_with_a_remainder():
    assert Scale(runs=7, group_size=3).groups_of(TARGET) == [(0, 0, 3), (1, 3, 3), (2, 6, 1)]


def test_by_default_there_are_as_many_runs_as_in_the_paper():
    assert Scale().groups_of(TARGET) == [(0, 0, 3)]


def test_a_group_that_does_not_exist_is_refused():
    with pytest.raises(BadInput, match=r"^there is no group 3: 7 runs make 3 groups$"):
        Scale(runs=7, group_size=3, groups=(0, 3)).groups_of(TARGET)


def test_a_run_that_diverged_has_no_final_score(tmp_path):
    wild = dataclasses.replace(CONFIG.hyper, learning_rate=1e38, adam_eps=0.0)
    cells = {"wmg": Cell("WMG", dataclasses.replace(CONFIG, hyper=wild))}
    target = dataclasses.replace(TARGET, runs=1, cells=cells)
    assert run(tmp_path, target=target)
    data = report.report(NAME, target, tmp_path)
    assert data["scale"] == "1 of 1 runs, 1 diverged: wmg"
    assert data["cells"]["wmg"]["value"] is None


LONGER = Target(
    title="Longer",
    source="nowhere",
    measure="transfer",
    unit="% of reward",
    runs=3,
    cells={
        "wmg": Cell(
            "WMG", dataclasses.replace(CONFIG, env=PathfindingSettings(nodes=4)), trained="wmg",
            enlarged=True,
        ),
    },
    models=NAME,
)  # fmt: skip


def test_trained_runs_are_tested_on_longer_episodes(whole, monkeypatch):
    monkeypatch.setattr(reproduce, "TRANSFER_EPISODES", 50)
    assert reproduce.run_cell("longer", LONGER, "wmg", Scale(), whole, NEVER)
    result = json.loads((whole / "longer" / "wmg" / "group-000" / "result.json").read_text())
    found, settings = models.find(str(whole / NAME / "wmg" / "group-000" / "train"), 1)
    env, agent = models.fit(found, settings, PathfindingSettings(nodes=4))
    agent = models.lengthen(agent, 5, 3, "as oldest")  # six steps: five are past in the last
    played = evaluate.evaluate(env, agent, 1, 50)
    assert len(result["scores"]) == 3
    assert result["scores"][1] == [pytest.approx(played.reward.mean() / 3 * 100, abs=1e-3)]


def test_a_test_on_longer_episodes_needs_trained_runs(tmp_path):
    with pytest.raises(BadInput, match=r"train does not hold trained models, which this scores"):
        reproduce.run_cell("longer", LONGER, "wmg", Scale(), tmp_path, NEVER)


def test_the_papers_parameter_counts_hold(tmp_path):
    target = TARGETS["parameter-counts"]
    for cell in target.cells:
        assert reproduce.run_cell("parameter-counts", target, cell, Scale(), tmp_path, NEVER)
    data = report.report("parameter-counts", target, tmp_path)
    assert [row["verdict"] for row in data["cells"].values()] == ["matches"] * 3
    assert data["scale"] == "full"


def test_depth_baselines_run_through(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "BASELINE_EPISODES", 250)
    target = TARGETS["depth-baselines"]
    for cell in ("depth-1", "depth-6"):
        assert reproduce.run_cell("depth-baselines", target, cell, Scale(), tmp_path, NEVER)
    data = report.report("depth-baselines", target, tmp_path)
    rows = data["cells"]
    assert rows["depth-6"]["value"] == 100 and rows["depth-6"]["standard_error"] == 0
    assert abs(rows["depth-1"]["value"] - 86.9) < 5 * rows["depth-1"]["standard_error"]
    assert rows["depth-6"]["verdict"] == "matches"
    assert rows["depth-1"]["verdict"] != "better" and len(data["not_run"]) == 5


# With two nodes chance solves a half: a goal of 60% in 20 episodes is met sooner or later.
TOY = Config(
    env=PathfindingSettings(nodes=2),
    agent=WMGSettings("none", 0, 0, layers=1, heads=1, head_size=2, hidden=2, actor_critic=2),
    t_max=4,
    steps=50,
    report_every=8,
    goal=Goal(0.6, 20),
)
RACE = Target(
    title="Race",
    source="nowhere",
    measure="efficiency",
    unit="thousand interactions",
    runs=100,
    cells={"toy": Cell("Toy", TOY, 1.4), "other": Cell("Other", TOY)},
    claims=(Claim("Toy needs fewer than 1.75 thousand", "toy", "below", 1.4, times=1.25),),
)


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """Three runs with a goal in two groups, the first of them stopped after two reports."""
    out = tmp_path_factory.mktemp("raced")
    scale, left = Scale(runs=3, group_size=2), iter(range(1))

    def interrupt(progress):
        if next(left, None) is None:
            signal.raise_signal(signal.SIGTERM)

    assert not reproduce.run_cell("race", RACE, "toy", scale, out, shown_by(interrupt))
    assert not list(out.rglob("result.json"))
    return out


def race(capsys, monkeypatch, out):
    monkeypatch.setitem(TARGETS, "race", RACE)
    args = ["reproduce", "race", "--cells", "toy", "--runs=3", "--group-size=2", "--out", out]
    code, text, _ = tiny.command(capsys, *args, "--json")
    assert code == 0
    return json.loads(text, parse_constant=pytest.fail)


def test_a_race_that_was_stopped_goes_on_and_is_reported(raced, capsys, monkeypatch):
    data = race(capsys, monkeypatch, raced)
    groups = [raced / "race" / "toy" / f"group-00{i}" for i in (0, 1)]
    results = [json.loads((g / "result.json").read_text()) for g in groups]
    assert [len(result["crossings"]) for result in results] == [2, 1]
    for group, result in zip(groups, results, strict=True):
        logs = tiny.lines(group / "train")
        for log, steps, taken, tests in zip(
            logs, result["crossings"], result["steps_taken"], result_file.tests_of(result),
            strict=True,
        ):  # fmt: skip
            last = tests[-1]
            assert (steps is not None) == (last.solved >= 12 and last.episodes == 20)
            assert taken == log[-1]["steps"] and (steps is None or steps <= taken)
            told = [(line["steps"], line["test_solved"], line["test_episodes"]) for line in log]
            assert told == [(t.steps, t.solved, t.episodes) for t in tests]
        assert result["diverged"] == 0 and 0 < result["testing_seconds"] <= result["seconds"]
        assert result["config"]["goal"] == {"success": 0.6, "episodes": 20, "grids": []}
        assert result["precision"] == "float32" and result["started"] <= result["ended"]
        first = result["config"]["seed"]
        assert result["seeds"] == [first, first + result["config"]["runs"] - 1]
        assert {"commit", "cuda", "jax", "device", "python"} <= result["hardware"].keys()
        assert result["command"].startswith("wmg reproduce race --cells toy --runs 3 --steps 50 ")
    row = data["cells"]["toy"]
    found = [x for result in results for x in result["crossings"] if x is not None]
    assert (row["runs"], row["solved"], row["test_every"]) == (3, len(found), 8)
    assert len(found) >= 2 and row["value"] == pytest.approx(
        np.median([*found, *[np.inf] * (3 - len(found))]) / 1000
    )
    assert data["not_run"] == {"other": "wmg reproduce race --cells other"}


def test_a_race_that_has_ended_is_not_run_again(raced, capsys, monkeypatch):
    race(capsys, monkeypatch, raced)
    before = tiny.contents(raced)
    monkeypatch.setattr(reproduce.train, "train", NEVER)
    race(capsys, monkeypatch, raced)
    assert tiny.contents(raced) == before


def test_a_race_in_pieces_is_the_same_as_in_one(raced, capsys, monkeypatch, tmp_path):
    race(capsys, monkeypatch, raced)
    assert reproduce.run_cell("race", RACE, "toy", Scale(runs=3), tmp_path, QUIET)
    one = json.loads((tmp_path / "race/toy/group-000/result.json").read_text())
    parts = [json.loads((raced / f"race/toy/group-00{i}/result.json").read_text()) for i in (0, 1)]
    for name in ("crossings", "steps_taken"):
        assert one[name] == [x for part in parts for x in part[name]]
    assert result_file.tests_of(one) == [x for part in parts for x in result_file.tests_of(part)]


def toys(out, **scale):
    return reproduce.run_cell("race", RACE, "toy", Scale(**{"runs": 1, **scale}), out, QUIET)


def test_a_rerun_is_kept_beside_the_first_and_never_in_its_place(tmp_path):
    cell = tmp_path / "race" / "toy"
    assert toys(tmp_path)
    first = tiny.contents(cell)
    for number in (1, 2):
        assert toys(tmp_path, again=True)
        place = cell / f"again-{number:02d}" / "group-000" / "result.json"
        result = result_file.read(place)
        assert result["command"].endswith(" --again")
        assert result["crossings"] == result_file.read(cell / "group-000/result.json")["crossings"]
    assert {path: data for path, data in tiny.contents(cell).items() if path in first} == first
    with pytest.raises(BadInput, match="holds a result already"):
        result_file.write(cell / "group-000" / "result.json", result)
    assert len(outcome.pool("race", RACE, tmp_path)["toy"]) == 3


def test_an_interrupted_rerun_goes_on_where_it_was(tmp_path):
    assert toys(tmp_path, runs=2, group_size=1)
    assert toys(tmp_path, runs=2, group_size=1, groups=(0,), again=True)
    assert toys(tmp_path, runs=2, group_size=1, again=True)
    found = sorted(str(f.parent.relative_to(tmp_path)) for f in tmp_path.rglob("result.json"))
    assert found == [
        "race/toy/again-01/group-000", "race/toy/again-01/group-001",
        "race/toy/group-000", "race/toy/group-001",
    ]  # fmt: skip


def test_a_rerun_of_several_cells_goes_on_in_the_cell_where_it_stopped(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(TARGETS, "race", RACE)
    args = ["reproduce", "race", "--runs=1", "--again", "--out", tmp_path]
    stopped, real = [], reproduce.run_cell

    def stop_in_the_second(name, target, cell, *rest):
        stopped.append(cell)
        return real(name, target, cell, *rest) if cell == "toy" else False

    monkeypatch.setattr(reproduce, "run_cell", stop_in_the_second)
    tiny.command(capsys, *args)
    monkeypatch.setattr(reproduce, "run_cell", real)
    tiny.command(capsys, *args)
    found = sorted(str(f.parent.relative_to(tmp_path)) for f in tmp_path.rglob("result.json"))
    assert stopped == ["toy", "other"]
    assert found == ["race/other/again-01/group-000", "race/toy/again-01/group-000"]


def test_a_rerun_with_other_settings_is_a_series_of_its_own(tmp_path):
    assert toys(tmp_path, runs=2, group_size=1, groups=(0,), again=True)
    other = {"runs": 2, "group_size": 1, "precision": "tf32", "again": True}
    assert toys(tmp_path, **other, groups=(1,))
    assert toys(tmp_path, **other, groups=(0,))
    found = sorted(str(f.parent.relative_to(tmp_path)) for f in tmp_path.rglob("result.json"))
    assert found == [
        "race/toy/again-01/group-000", "race/toy/again-02/group-000", "race/toy/again-02/group-001",
    ]  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
def test_an_empty_folder_that_a_kill_left_is_no_obstacle(tmp_path, again):
    series = tmp_path / "race" / "toy" / ("again-01" if again else "")
    (series / "group-000").mkdir(parents=True)
    assert toys(tmp_path, again=again)
    assert (series / "group-000" / "result.json").exists()


def test_seeds_of_another_group_are_refused_before_anything_is_trained(tmp_path):
    assert toys(tmp_path, runs=3, group_size=3)
    with pytest.raises(BadInput, match=r"group-000/result\.json holds the run of seed 2 already"):
        toys(tmp_path, runs=4, group_size=2, groups=(1,))
    assert not (tmp_path / "race/toy/group-001").exists()


def test_other_settings_can_be_run_beside_what_is_there(tmp_path):
    assert toys(tmp_path)
    with pytest.raises(BadInput, match="has precision = 'float32', not 'tf32': run it beside"):
        toys(tmp_path, precision="tf32")
    assert toys(tmp_path, precision="tf32", again=True)
    assert result_file.read(tmp_path / "race/toy/again-01/group-000/result.json")["command"].count(
        "--precision tf32"
    )


def test_a_measured_value_is_not_replaced_either(tmp_path):
    target = TARGETS["parameter-counts"]
    for scale in (Scale(), Scale(), Scale(again=True)):
        before = tiny.contents(tmp_path)
        assert reproduce.run_cell("parameter-counts", target, "wmg", scale, tmp_path, NEVER)
        after = tiny.contents(tmp_path)
        assert before.items() <= after.items()
    found = sorted(tmp_path.rglob("result.json"))
    assert [file.parent.name for file in found] == ["again-01", "wmg"]


def test_a_speed_of_another_precision_is_measured_beside_what_is_there(tmp_path, monkeypatch):
    def speed(cell, scale):
        precision = scale.precision or "float32"
        return {"value": 9.0, "precision": precision, "hardware": machine.describe()}

    monkeypatch.setitem(reproduce.MEASURES, "speed", speed)
    target = dataclasses.replace(TARGET, measure="speed", claims=())
    with tiny.made_for("gpu"):
        assert run(tmp_path, target=target) and run(tmp_path, target=target)
        with pytest.raises(BadInput, match="has precision = 'float32', not 'tf32': run it beside"):
            run(tmp_path, target=target, precision="tf32")
        for precision in ("tf32", "float32"):
            assert run(tmp_path, target=target, precision=precision, again=True)
    found = sorted(tmp_path.rglob("again-*/result.json"))
    assert [result_file.read(file)["command"] for file in found] == [
        f"wmg reproduce small --cells wmg --precision {precision} --again"
        for precision in ("tf32", "float32")
    ]
    with tiny.made_for("cpu"):  # which computes in float32 in either case
        assert not reproduce.other_precision(found[1], target, "wmg", Scale(precision="tf32"))


def test_runs_go_on_until_they_pass_on_the_coarsest_grid(tmp_path):
    goal = dataclasses.replace(TOY.goal, grids=(16, 32))
    cell = Cell("Toy", dataclasses.replace(TOY, goal=goal, steps=200))
    target = dataclasses.replace(RACE, cells={"toy": cell}, claims=())
    assert reproduce.run_cell("race", target, "toy", Scale(runs=3), tmp_path, QUIET)
    result = result_file.read(tmp_path / "race/toy/group-000/result.json")
    for tests, taken in zip(result_file.tests_of(result), result["steps_taken"], strict=True):
        passed = [t.steps // 8 * 8 for t in tests if t.meets(goal)]
        assert passed and taken == tests[-1].steps
        assert any(steps % 32 == 0 for steps in passed)
        later = [t.steps // 8 * 8 for t in tests if t.steps > passed[0] + 8]
        assert all(steps % 16 == 0 for steps in later)


CORRIDORS = "\n\n".join(["######\n#@$ .#\n######", "######\n#.$ @#\n######"] * 2)


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory):
    """A small target that is tested on levels, and where its results are to be."""
    out = tmp_path_factory.mktemp("puzzles")
    (out / "levels.txt").write_text(CORRIDORS)
    env = SokobanSettings(str(out / "levels.txt"), bound=6, cells=4, max_steps=8)
    settings = dataclasses.replace(TOY, env=env, steps=64, report_every=16, goal=None)
    target = Target(
        title="Puzzles",
        source="nowhere",
        measure="levels",
        unit="% of levels",
        runs=2,
        cells={"wmg": Cell("WMG", settings, 84.0)},
        claims=(Claim("WMG solves more than 84%", "wmg", "above", 84.0, full_scale=True),),
        published={"Other": {10: 1.0, 20: 2.5, 1_000_000: 99.0}},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce, "TEST_EVERY", 32)
        assert reproduce.run_cell("puzzles", target, "wmg", Scale(), out, QUIET)
    return target, out


def test_runs_are_tested_on_all_levels_as_often_as_asked(puzzles):
    target, out = puzzles
    group = out / "puzzles" / "wmg" / "group-000"
    result = json.loads((group / "result.json").read_text())
    assert result["steps"] == [32, 64]
    own = target.cells["wmg"].config.env
    longer = dataclasses.replace(own, max_steps=240)
    last = {}
    for name, env in (("scores", own), ("scores_in_240_steps", longer)):
        assert len(result[name]) == 2
        for run, scores in enumerate(result[name]):
            agent, _ = models.find(str(group / "train"), run)
            played = level_test.play_levels(registry.make_env(env), agent, seed=run)
            assert scores[-1] == 100 * played.success.mean()
            assert {score % 25 for score in scores} == {0.0}  # there are four levels
        last[name] = np.mean([scores[-1] for scores in result[name]])
    assert last["scores_in_240_steps"] > last["scores"]


def test_tests_on_levels_are_not_taken_twice(puzzles, monkeypatch):
    target, out = puzzles
    (out / "puzzles" / "wmg" / "group-000" / "result.json").unlink()
    monkeypatch.setattr(reproduce, "TEST_EVERY", 32)
    monkeypatch.setattr(reproduce.train, "train", NEVER)
    assert reproduce.run_cell("puzzles", target, "wmg", Scale(), out, QUIET)


@pytest.mark.parametrize("text", ['[{"st', "[1]", '[{"steps": 96}]'])
def test_damaged_tests_on_levels_are_refused(puzzles, tmp_path, text):
    target, out = puzzles
    group = shutil.copytree(out / "puzzles", tmp_path / "puzzles") / "wmg" / "group-000"
    (group / "result.json").unlink()
    (group / "tests.json").write_text(text)
    with pytest.raises(BadInput, match=r"tests\.json is damaged: it does not hold tests"):
        reproduce.run_cell("puzzles", target, "wmg", Scale(), tmp_path, QUIET)


@pytest.mark.parametrize(
    ("scale", "complaint"),
    [
        (Scale(steps=32), r"tests\.json has a test after 64 steps, not steps = 32"),
        (Scale(runs=1), "train has runs = 2, not 1: run it beside that with --again"),
    ],
)
def test_tests_on_levels_are_not_those_of_other_runs(puzzles, tmp_path, scale, complaint):
    target, out = puzzles
    group = shutil.copytree(out / "puzzles", tmp_path / "puzzles") / "wmg" / "group-000"
    (group / "result.json").unlink(missing_ok=True)
    with pytest.raises(BadInput, match=complaint):
        reproduce.run_cell("puzzles", target, "wmg", scale, tmp_path, QUIET)
    assert not (group / "result.json").exists()


def test_a_result_has_what_was_solved_while_learning(puzzles):
    target, out = puzzles
    group = out / "puzzles" / "wmg" / "group-000"
    learning = json.loads((group / "result.json").read_text())["on_training_levels"]
    steps, scores = folder_logs.read_scores(group / "train", target.runs)
    assert len(steps) == 4 and learning["steps"] == [round(x) for x in steps]
    np.testing.assert_array_equal(result_file.scores_of(learning), scores.round(3))
    assert scores.max() > 0
    curve = outcome.pool("puzzles", target, out)["wmg"][0].training
    assert curve is not None and curve.scores.shape == (2, 4)


def test_more_steps_go_on_from_what_was_run_and_keep_its_tests(puzzles, tmp_path):
    target, out = puzzles
    group = shutil.copytree(out / "puzzles", tmp_path / "puzzles") / "wmg" / "group-000"
    before = json.loads((group / "result.json").read_text())
    (group / "result.json").unlink()
    assert reproduce.run_cell("puzzles", target, "wmg", Scale(steps=80), tmp_path, QUIET)
    after = json.loads((group / "result.json").read_text())
    assert after["steps"] == [32, 64, 80]
    assert [row[:2] for row in after["scores"]] == before["scores"]
    assert len(after["on_training_levels"]["steps"]) == 5


def test_the_report_of_levels_has_the_last_test_and_what_others_reach(puzzles):
    target, out = puzzles
    data = report.report("puzzles", target, out)
    result = json.loads((out / "puzzles/wmg/group-000/result.json").read_text())
    assert data["cells"]["wmg"]["value"] == np.mean([row[-1] for row in result["scores"]])
    assert [claim["verdict"] for claim in data["claims"]] == ["not judged"]
    rows = [f"| % of levels | {' | '.join(f'{m:g}M' for m in (1e-5, 2e-5, 3.2e-5, 6.4e-5, 1))} |"]
    for label, scores in (("WMG", "scores"), ("WMG, 240 steps", "scores_in_240_steps")):
        means = " | ".join(str(round(mean, 1)) for mean in np.mean(result[scores], axis=0))
        rows.append(f"| {label} | - | - | {means} | - |")
    rows.append("| Other | 1.0 | 2.5 | - | - | 99.0 |")
    text = (out / "puzzles" / "report.md").read_text()
    assert [row for row in rows if row not in text] == []
    for figure in ("figure.png", "training.png"):
        assert (out / "puzzles" / figure).stat().st_size > 1000


def test_only_sokoban_has_held_out_levels():
    with pytest.raises(BadInput, match="only Sokoban has held-out levels, got Pathfinding"):
        reproduce.held_out_levels(CONFIG)
