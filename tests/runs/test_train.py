import dataclasses
import json
import os
import random
import shutil
import signal
import threading
import time
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from probes import PaysActionOne
from small_boxoban import files, small_boxoban, zipped  # noqa: F401
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config, registry
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban import boxoban
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.play.goal_test import GoalTest
from wmg.runs import checkpoint, hardware, runfolder, task, train
from wmg.runs import session as session_module
from wmg.tools import signals
from wmg.tools.errors import BadInput

SAVED_PARTS = (
    "agent.", "optimizer.", "scene.state.", "scene.observation.", "scene.memory.", "key",
    "steps", "diverged",
)  # fmt: skip


@pytest.fixture
def whole():
    """Two runs that were never interrupted."""
    return tiny.trained()


def test_a_checkpoint_holds_every_part_of_a_run(whole):
    names = tiny.arrays(whole)
    for part in SAVED_PARTS:
        assert any(name.startswith(part) for name in names), part


@pytest.mark.parametrize("in_folder", [True, False])
def test_reports_are_kept_in_memory_only_without_a_folder(tmp_path, monkeypatch, in_folder):
    sessions, save = [], session_module.Session.save

    def remember(session, *args):
        sessions.append(session)
        return save(session, *args)

    monkeypatch.setattr(session_module.Session, "save", remember)
    result = train.train(tiny.settings(runs=2), tmp_path / "run" if in_folder else None)
    assert result.scores.shape == (2, 10) and result.steps.shape == (10,)
    store = sessions[-1].store
    if in_folder:
        assert isinstance(store, runfolder.Store)
    else:
        assert isinstance(store, runfolder.NoFolder)
        assert [len(log) for log in store.logs] == [10, 10]


@pytest.mark.parametrize("times", [1, 2])  # `timeout -s INT` sends it to a process and its group
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_chunk_and_resuming_is_exact(whole, tmp_path, number, times):
    folder, shown = tmp_path / "run", []

    def interrupt(progress):
        shown.append(progress.steps)
        for _ in range(times if len(shown) in (3, 4) else 0):
            signal.raise_signal(number)

    before = signal.getsignal(number)
    for reports in (3, 4):
        result = train.train(tiny.settings(runs=2), folder, resume=folder.exists(), show=interrupt)
        assert not result.finished and len(shown) == reports
        assert signal.getsignal(number) == before
        assert not (folder / runfolder.BEST).exists()
    result = train.train(tiny.settings(runs=2), folder, resume=True)
    assert result.finished and not result.stopped
    assert tiny.differing(tiny.arrays(folder), tiny.arrays(whole)) == []
    assert tiny.lines(folder) == tiny.lines(whole)
    assert (folder / runfolder.BEST).read_bytes() == (whole / runfolder.BEST).read_bytes()


def test_a_signal_in_the_last_chunk_is_not_forgotten():
    settings = tiny.settings(steps=48)
    stop = lambda progress: signal.raise_signal(signal.SIGTERM)  # noqa: E731
    assert (result := train.train(settings, show=stop)).finished and result.stopped


@pytest.mark.parametrize("twin", [signal.SIGINT, signal.SIGTERM])
def test_a_twin_that_arrives_once_all_is_saved_counts_as_one(monkeypatch, twin):
    late, save = [], session_module.Session.save

    def save_then_send(session, *args):
        threading.Timer(0.1, os.kill, (os.getpid(), twin)).start()
        return save(session, *args)

    monkeypatch.setattr(session_module.Session, "save", save_then_send)
    before = signal.signal(twin, lambda number, frame: late.append(number))
    try:
        interrupt = lambda progress: signal.raise_signal(signal.SIGINT)  # noqa: E731
        assert train.train(tiny.settings(), show=interrupt).stopped
        time.sleep(0.1)
    finally:
        signal.signal(twin, before)
    assert late == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_two_signals_at_once_a_third_ends_at_once(monkeypatch, number):
    monkeypatch.setattr(signals, "ONE_SIGNAL", 0.05)

    def interrupt(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.06)
        signal.raise_signal(number)

    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train.train(tiny.settings(), show=interrupt)
    finally:
        signal.signal(number, before)


def test_the_handler_of_a_library_in_c_becomes_the_default(monkeypatch):
    set_handler, restored = signal.signal, []

    def forget(number, handler):
        restored.append(handler)
        set_handler(number, handler)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "signal", forget)
    try:
        with train.stop_on_signals():
            pass
    finally:
        set_handler(signal.SIGINT, before[0])
        set_handler(signal.SIGTERM, before[1])
    assert restored[2:] == [signal.SIG_DFL] * 2


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(tmp_path, first, monkeypatch):
    monkeypatch.setattr(signals, "ONE_SIGNAL", -1.0)

    def interrupt_twice(progress):
        signal.raise_signal(first)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            train.train(tiny.settings(), tmp_path / "run", show=interrupt_twice)
    finally:
        signal.signal(signal.SIGINT, before)


def test_log_lines_after_the_last_checkpoint_are_cut_on_resume(whole, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "run" / "logs" / "0001.jsonl"
    tiny.stop_after(tiny.settings(runs=2), folder, 4)
    record = json.dumps({**tiny.lines(folder)[1][-1], "steps": 10**6})
    log.write_text(log.read_text() + record + "\n" + '{"steps": 1, "sco')
    train.train(tiny.settings(runs=2), folder, resume=True)
    assert tiny.lines(folder) == tiny.lines(whole)


def test_a_run_killed_at_random_moments_ends_as_if_it_was_not(tmp_path, capsys):
    longer = ["--steps=5000", "--report-every=100", "--runs=2", "--seed=7"]
    args = ["train", "pathfinding/wmg", *tiny.FLAGS[:-2], *longer]
    folder, state = tmp_path / "killed", tmp_path / "killed" / runfolder.STATE
    draw = random.Random(20)
    go_on = [*args, "--out", folder]
    for kill in range(3):
        saved = written(state)
        process = tiny.start(*go_on, "--save-seconds=0")
        # Once before anything was saved; then at some moment after a new checkpoint.
        ready = folder.exists if kill == 0 else lambda old=saved: written(state) != old
        wait_for(ready)
        time.sleep(draw.uniform(0.0, 0.25) if kill else 0.0)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert folder.exists()
        go_on = ["train", "--resume", folder]
    assert tiny.command(capsys, *go_on)[0] == 0
    assert tiny.command(capsys, *args, "--out", tmp_path / "whole")[0] == 0
    assert tiny.differing(tiny.arrays(folder), tiny.arrays(tmp_path / "whole")) == []
    assert tiny.lines(folder) == tiny.lines(tmp_path / "whole")
    assert len(tiny.lines(folder)[0]) == 50


def written(path):
    return path.stat().st_mtime_ns if path.exists() else None


def wait_for(happened, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_a_run_is_the_same_alone_or_among_others(tmp_path):
    vary = ("learning_rate=1e-4,3e-4,1e-3", "entropy=0.01,0.05,0.02")
    group = train.train(tiny.settings(runs=3, seed=5, vary=vary), tmp_path / "group")
    alone = config.Hyper(learning_rate=1e-3, entropy=0.02)
    one = train.train(tiny.settings(seed=7, hyper=alone), tmp_path / "one")
    last = {name: x[2:] for name, x in tiny.arrays(tmp_path / "group").items()}
    assert tiny.differing(last, tiny.arrays(tmp_path / "one")) == []
    assert tiny.lines(tmp_path / "group")[2] == tiny.lines(tmp_path / "one")[0]
    np.testing.assert_array_equal(group.scores[2], one.scores[0])


def test_runs_with_other_numbers_or_seeds_are_other_runs(tmp_path):
    vary = ("learning_rate=1e-4,1e-3",)
    runs = train.train(tiny.settings(runs=2, vary=vary)).runs
    first, second = (hardware.take(runs.agent, i) for i in range(2))
    assert not np.array_equal(first.core_embedding.weight, second.core_embedding.weight)


@pytest.fixture(scope="module")
def half_diverged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diverged") / "run"
    some = tiny.settings(runs=2, vary=("learning_rate=1.6e-4,1e30",))
    return train.train(some, folder)


def test_a_run_that_diverges_leaves_the_others_alone(half_diverged, whole):
    assert half_diverged.finished
    assert np.asarray(half_diverged.runs.diverged).tolist() == [False, True]
    healthy = {n: x[:1] for n, x in tiny.arrays(half_diverged.folder).items()}
    assert tiny.differing(healthy, {n: x[:1] for n, x in tiny.arrays(whole).items()}) == []
    assert tiny.lines(half_diverged.folder)[0] == tiny.lines(whole)[0]


def test_a_run_that_diverges_says_so_once_and_keeps_finite_weights(half_diverged):
    log = tiny.lines(half_diverged.folder)[1]
    assert [line["diverged"] for line in log] == [False] * (len(log) - 1) + [True]
    assert len(log) < 10 and np.isnan(half_diverged.scores[1, len(log) :]).all()
    for name, array in tiny.arrays(half_diverged.folder).items():
        if array.dtype.kind == "f":
            assert np.isfinite(array).all(), name
    assert half_diverged.best == 0


def test_a_diverged_run_is_shown_as_such(tmp_path):
    shown = []
    some = tiny.settings(runs=2, vary=("learning_rate=1e-4,1e30",))
    train.train(some, show=shown.append)
    assert shown[-1].diverged == 1
    assert [len(each.scores) for each in shown] == [2 - each.diverged for each in shown]
    assert [progress.finished for progress in shown] == [False] * (len(shown) - 1) + [True]


def test_training_stops_early_when_all_have_diverged(tmp_path):
    hyper = config.Hyper(learning_rate=1e30)
    shown = []
    result = train.train(tiny.settings(hyper=hyper), tmp_path / "run", show=shown.append)
    assert result.finished and len(shown) < 10
    again = train.train(tiny.settings(hyper=hyper), tmp_path / "run", resume=True)
    assert again.finished and len(tiny.lines(tmp_path / "run")[0]) == len(shown)


def test_learning_rates_beyond_the_range_of_numbers_leave_finite_weights():
    result = train.train(tiny.settings(hyper=config.Hyper(learning_rate=3e38)))
    assert result.runs.diverged.all()
    for leaf in jax.tree.leaves(result.runs.agent):
        assert np.isfinite(leaf).all()


def test_a_branch_has_its_parents_state_and_other_numbers(whole, tmp_path):
    before, folder = tiny.contents(whole), tmp_path / "branch"
    hyper = config.Hyper(learning_rate=1e-3)
    longer = tiny.settings(runs=2, steps=720, hyper=hyper)
    result = train.train(longer, folder, branch_from=whole)
    assert tiny.contents(whole) == before
    about = json.loads((folder / runfolder.CONFIG).read_text())
    assert about["parent"] == {"folder": str(whole), "steps": [480, 480]}
    assert about["config"]["hyper"]["learning_rate"] == 1e-3
    assert [line["steps"] for line in tiny.lines(folder)[0]] == [528, 576, 624, 672, 720]
    assert result.scores.shape == (2, 5)


def test_a_branch_without_changes_is_the_run_gone_on_with(whole, tmp_path):
    longer = tiny.settings(runs=2, steps=600)
    train.train(longer, tmp_path / "branch", branch_from=whole)
    train.train(longer, tmp_path / "straight")
    branch, straight = (tiny.arrays(tmp_path / name) for name in ("branch", "straight"))
    assert tiny.differing(branch, straight) == []
    assert tiny.lines(tmp_path / "branch")[1] == tiny.lines(tmp_path / "straight")[1][10:]


def test_a_branch_may_report_at_other_steps(whole, tmp_path):
    often = tiny.settings(runs=2, steps=540, report_every=12)
    train.train(often, str(tmp_path / "branch"), branch_from=str(whole))
    steps = [line["steps"] for line in tiny.lines(tmp_path / "branch")[0]]
    assert steps == [492, 504, 516, 528, 540]


def test_a_branch_that_was_killed_at_once_goes_on_from_its_parent(whole, tmp_path):
    def die(progress):
        raise KeyboardInterrupt

    longer = tiny.settings(runs=2, steps=600)
    with pytest.raises(KeyboardInterrupt):
        train.train(longer, tmp_path / "branch", branch_from=whole, show=die)
    train.train(longer, tmp_path / "branch", resume=True)
    assert tiny.lines(tmp_path / "branch")[0][0]["steps"] == 528


def test_a_folder_is_resumed_or_a_branch_but_not_both(whole, tmp_path):
    longer = tiny.settings(runs=2, steps=600)
    with pytest.raises(BadInput, match="resumed or branched from another, not both"):
        train.train(longer, whole, resume=True, branch_from=whole)


def test_a_run_that_diverged_goes_on_in_a_branch(whole, tmp_path):
    parent = shutil.copytree(whole, tmp_path / "parent")
    settings = tiny.settings(runs=2, steps=528)
    like = jax.eval_shape(lambda: task.start_runs(settings, registry.make_env(settings.env)))
    state = runfolder.load_state(parent, like)
    assert state is not None
    runs, header = state
    stuck = eqx.tree_at(lambda run: run.diverged, runs, jnp.array([True, False]))
    checkpoint.save(parent / runfolder.STATE, stuck, "resume", header)
    result = train.train(settings, tmp_path / "branch", branch_from=parent)
    assert not result.diverged.any() and result.runs.steps.tolist() == [528, 528]


def test_a_branch_without_its_parents_state_is_not_begun_from_scratch(whole, tmp_path):
    folder = tmp_path / "branch"
    runfolder.create(folder, tiny.settings(), {"folder": str(whole), "steps": [480]})
    with pytest.raises(BadInput, match="branch anew"):
        train.train(tiny.settings(), folder, resume=True)


@pytest.mark.parametrize(
    "change, name",
    [
        ({"agent": dataclasses.replace(tiny.AGENT, slots=4)}, "agent.slots = 3, not 4"),
        ({"env": PathfindingSettings(nodes=8)}, "env.nodes = 7, not 8"),
        ({"t_max": 8}, "t_max = 16, not 8"),
        ({"runs": 3}, "runs = 2, not 3"),
        ({"seed": 7}, "seed = 0, not 7"),
    ],
)
def test_a_branch_cannot_change_shapes_or_seeds(whole, tmp_path, change, name):
    before = tiny.contents(whole)
    with pytest.raises(BadInput, match=name):
        train.train(tiny.settings(**{"runs": 2, **change}), tmp_path / "b", branch_from=whole)
    assert not (tmp_path / "b").exists() and tiny.contents(whole) == before


def test_a_branch_needs_more_steps_than_its_parent_has_taken(whole, tmp_path):
    other = tiny.settings(runs=2, hyper=config.Hyper(learning_rate=1e-3))
    with pytest.raises(BadInput, match="has taken 480 steps: a branch of it needs more than"):
        train.train(other, tmp_path / "b", branch_from=whole)
    assert not (tmp_path / "b").exists()


def test_nothing_can_branch_from_a_folder_without_a_state(tmp_path):
    runfolder.create(tmp_path / "new", tiny.settings(), None)
    with pytest.raises(BadInput, match="no saved state"):
        train.train(tiny.settings(), tmp_path / "b", branch_from=tmp_path / "new")


def test_an_end_between_two_reports_is_no_end_once_more_steps_are_asked_for(tmp_path):
    straight = train.train(tiny.settings(steps=110), tmp_path / "straight")
    train.train(tiny.settings(steps=60), tmp_path / "run")
    result = train.train(tiny.settings(steps=80), tmp_path / "run", resume=True)
    assert result.finished and 80 <= int(result.runs.steps[0]) < 96
    result = train.train(tiny.settings(steps=110), tmp_path / "run", resume=True)
    assert int(result.runs.steps[0]) == int(straight.runs.steps[0])
    ends = [line["steps"] for line in tiny.lines(tmp_path / "run")[0]]
    assert len(ends) == 5 and ends == sorted(set(ends))
    for one, other in zip(
        *map(jax.tree.leaves, (result.runs.agent, straight.runs.agent)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_resuming_with_more_steps_goes_on_and_is_recorded(tmp_path):
    folder = tmp_path / "run"
    train.train(tiny.settings(steps=96), folder)
    train.train(tiny.settings(steps=144), folder, resume=True)
    assert runfolder.read_config(folder).steps == 144
    assert len(tiny.lines(folder)[0]) == 3
    with pytest.raises(BadInput, match="steps = 144, more than 96"):
        train.train(tiny.settings(steps=96), folder, resume=True)


def test_the_best_model_stays_until_a_later_end_replaces_it(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    best, longer = folder / runfolder.BEST, tiny.settings(runs=2, steps=720)
    before = best.read_bytes()
    tiny.stop_after(longer, folder, 2, resume=True)
    assert best.read_bytes() == before
    assert train.train(longer, folder, resume=True).finished
    assert checkpoint.read_header(best, "release")["steps"] == 720


def test_a_run_that_dies_after_its_first_report_has_a_state_to_go_on_from(whole, tmp_path):
    def die(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.train(tiny.settings(runs=2), tmp_path / "run", show=die)
    assert (
        len(tiny.lines(tmp_path / "run")[0]) == 1
        and not tiny.arrays(tmp_path / "run")["steps"].any()
    )
    train.train(tiny.settings(runs=2), tmp_path / "run", resume=True)
    assert tiny.lines(tmp_path / "run") == tiny.lines(whole)
    assert tiny.differing(tiny.arrays(tmp_path / "run"), tiny.arrays(whole)) == []


SMALL = GRUSettings(embedding=2, size=2, actor_critic=4)
"""An agent that compiles quickly, where any will do."""


def test_a_window_longer_than_the_episode_or_the_report_is_no_trouble():
    result = train.train(tiny.settings(agent=SMALL, steps=60, report_every=5, t_max=100))
    assert result.steps.tolist() == sorted(result.steps) and result.steps[-1] == 60


def test_short_windows_cut_episodes(tmp_path):
    result = train.train(tiny.settings(agent=SMALL, steps=96, t_max=5), tmp_path / "run")
    assert int(result.runs.steps[0]) >= 96
    assert sum(line["episodes"] for line in tiny.lines(tmp_path / "run")[0]) == 8


def test_sizes_that_cannot_fit_are_refused_before_anything_is_made(tmp_path):
    huge = tiny.settings(agent=WMGSettings(memo_size=65_536, heads=65_536, head_size=1024))
    with pytest.raises(BadInput, match=r"1 run\(s\) .* need about [\d,]+ GiB"):
        train.train(huge, tmp_path / "run")
    memories = tiny.settings(agent=WMGSettings(memo_size=65_536, slots=65_536))
    with pytest.raises(BadInput, match="GiB"):
        train.train(memories, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("t_max", "steps"), [(4, 4), (100, 12)])
def test_runs_need_four_copies_of_their_weights_and_a_scene_for_each_step(
    monkeypatch, t_max, steps
):
    settings = tiny.settings(runs=3, t_max=t_max)  # episodes have 12 steps
    made = train.make_task(settings, None)
    runs = made.start()
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(runs.agent))
    scene = 4 * sum(leaf.size for leaf in jax.tree.leaves(runs.scene))
    memory = {"SC_PHYS_PAGES": 4 * weights + steps * scene, "SC_PAGE_SIZE": 1}
    monkeypatch.setattr(train.os, "sysconf", memory.get)
    train.check_size(settings, made, made.shape())
    memory["SC_PHYS_PAGES"] -= 1
    with pytest.raises(BadInput, match=r"3 run\(s\) .* need about 0 GiB, and there are 0"):
        train.check_size(settings, made, made.shape())


@pytest.mark.parametrize(("takes", "next_after"), [(0.5, 60.0), (3.0, 60.0), (5.0, 100.0)])
def test_saving_takes_at_most_a_twentieth_of_the_time(monkeypatch, takes, next_after):
    now = [1000.0]

    class Slow:
        def save(self, *_):
            now[0] += takes

    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(session_module, "time", clock)
    settings = tiny.settings()
    made = train.make_task(settings, None)
    session = session_module.Session(settings, made, made.start())
    session.store = Slow()
    assert session.save(save_seconds=60.0) == now[0] + next_after


def test_training_without_a_goal_spends_no_time_on_tests(half_diverged):
    assert half_diverged.testing == 0.0 < half_diverged.seconds


def test_resuming_and_branching_need_a_folder(tmp_path):
    with pytest.raises(BadInput, match="need a run folder"):
        train.train(tiny.settings(), resume=True)
    with pytest.raises(BadInput, match="need a run folder"):
        train.train(tiny.settings(), branch_from=tmp_path)


BUTTON = PaysActionOne(actions=2)
"""Solved by the second action: an agent that learns does so within a few dozen steps."""
GOAL = config.Goal(0.95, 60)


def aims(**changes):
    """Runs with a goal: one learns quickly, one slowly, one not at all, and one diverges."""
    rates = "learning_rate=0.05,0.01,1e-9,1e38"
    base = {"env": None, "agent": SMALL, "steps": 300, "report_every": 12, "goal": GOAL}
    return config.Config(**{**base, "runs": 4, "seed": 5, "vary": (rates,), **changes})


def test_what_a_branch_needs_for_its_goal_counts_from_where_it_began(tmp_path):
    quick = {"runs": 1, "vary": (), "hyper": config.Hyper(learning_rate=0.05)}
    train.train(aims(goal=None, **quick), tmp_path / "parent", env=BUTTON)
    further = aims(steps=324, **quick)
    folder, parent = tmp_path / "branch", tmp_path / "parent"
    result = train.train(further, folder, branch_from=parent, env=BUTTON)
    (steps,) = result.crossings
    assert len(result.tests[0]) == 1 and steps and 300 < steps <= 312
    again = train.train(further, folder, resume=True, env=BUTTON)
    assert again.crossings == result.crossings


def test_a_damaged_test_in_a_log_is_named(tmp_path):
    quick = aims(runs=1, vary=(), steps=24)
    train.train(quick, tmp_path / "run", env=BUTTON)
    log = tmp_path / "run" / "logs" / "0000.jsonl"
    text = log.read_text()
    log.write_text(text.replace('"test_solved"', '"test_sloved"', 1))
    longer = dataclasses.replace(quick, steps=48)
    with pytest.raises(BadInput, match="a log is damaged"):
        train.train(longer, tmp_path / "run", resume=True, env=BUTTON)


@pytest.fixture(scope="module")
def aimed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aimed") / "run"
    shown = []
    result = train.train(aims(), folder, env=BUTTON, show=shown.append)
    return result, shown


def test_a_run_stops_when_it_meets_its_goal_and_others_go_on(aimed):
    result, shown = aimed
    quick, slow, never, _ = result.tests
    assert result.finished and len(shown) == 25
    assert len(quick) < len(slow) < len(never) == 25
    assert quick[-1].meets(GOAL) and slow[-1].meets(GOAL) and not never[-1].meets(GOAL)
    steps = np.asarray(result.runs.steps)
    assert steps.tolist()[:3] == [quick[-1].steps, slow[-1].steps, 300]


def test_a_run_is_tested_at_every_report_until_it_is_solved_and_not_again(aimed):
    result, _ = aimed
    for tests in result.tests[:3]:
        assert [t.steps for t in tests] == [12 * (i + 1) for i in range(len(tests))]
        assert not any(t.meets(GOAL) for t in tests[:-1])


def test_steps_to_the_goal_are_none_for_runs_that_did_not_reach_it(aimed):
    result, _ = aimed
    quick, slow, never, wild = result.crossings
    assert never is None and wild is None
    for steps, tests in ((quick, result.tests[0]), (slow, result.tests[1])):
        before = tests[-2].steps if len(tests) > 1 else 0
        assert before < steps <= tests[-1].steps


def open_session(some, runs):
    return session_module.Session(some, task.CompiledTask(some, BUTTON), runs)


def test_the_last_test_of_a_run_that_diverged_is_not_shown():
    session = session_module.Session(
        aims(), task.CompiledTask(aims(), BUTTON), task.start_runs(aims(), BUTTON)
    )
    session.goals.recall([[GoalTest(12, 3, 4)] for _ in range(4)])
    session.diverged[3] = True
    assert session.progress(12, 1.0, [0.0] * 4).scores == [75.0] * 3


def test_a_run_that_diverges_is_counted_and_tested_no_more(aimed):
    result, shown = aimed
    assert np.asarray(result.runs.diverged).tolist() == [False, False, False, True]
    log = tiny.lines(result.folder)[3]
    assert log[-1]["diverged"] and log[-1]["test_episodes"] is None and log[-1]["score"] is None
    assert len(result.tests[3]) == len(log) - 1
    assert (shown[-1].solved, shown[-1].diverged) == (2, 1)


def test_a_log_holds_each_test(aimed):
    result, _ = aimed
    for log, tests in zip(tiny.lines(result.folder)[:3], result.tests[:3], strict=True):
        told = [(line["steps"], line["test_solved"], line["test_episodes"]) for line in log]
        assert told == [(t.steps, t.solved, t.episodes) for t in tests]
        assert [line["score"] for line in log] == [100 * t.rate for t in tests]


def test_a_solved_run_keeps_its_last_score_and_is_the_best(aimed):
    result, shown = aimed
    assert result.scores.shape == (4, 25)
    for run in (0, 1):
        ended, last = len(result.tests[run]), 100 * result.tests[run][-1].rate
        assert (result.scores[run, ended - 1 :] == last).all()
        assert last in shown[-1].scores
    rates = [tests[-1].rate for tests in result.tests[:2]]
    assert result.best == int(np.argmax(rates))
    assert 0 < result.testing < result.seconds


def test_going_on_with_goals_is_exact(aimed, tmp_path):
    whole, folder = aimed[0], tmp_path / "run"
    for reports in (2, 4):
        tiny.stop_after(aims(), folder, reports, env=BUTTON, resume=folder.exists())
    result = train.train(aims(), folder, env=BUTTON, resume=True)
    assert result.tests == whole.tests and result.crossings == whole.crossings
    assert tiny.differing(tiny.arrays(folder), tiny.arrays(whole.folder)) == []
    assert tiny.lines(folder) == tiny.lines(whole.folder)
    assert (folder / runfolder.BEST).read_bytes() == (whole.folder / runfolder.BEST).read_bytes()
    assert result.testing < result.seconds
    again = train.train(aims(), folder, env=BUTTON, resume=True)
    assert again.finished and again.tests == whole.tests and again.testing == result.testing


def test_a_run_with_a_goal_is_the_same_alone(aimed, tmp_path):
    whole = aimed[0]
    numbers = config.Hyper(learning_rate=0.01)
    alone = aims(runs=1, seed=6, vary=(), hyper=numbers)
    result = train.train(alone, tmp_path / "one", env=BUTTON)
    assert result.tests[0] == whole.tests[1] and len(result.scores[0]) == len(result.tests[0])
    mine = {name: x[1:2] for name, x in tiny.arrays(whole.folder).items()}
    assert tiny.differing(mine, tiny.arrays(tmp_path / "one")) == []
    assert tiny.lines(tmp_path / "one")[0] == tiny.lines(whole.folder)[1]


def test_in_memory_a_goal_gives_the_same(aimed):
    result = train.train(aims(), env=BUTTON)
    assert result.tests == aimed[0].tests
    np.testing.assert_array_equal(result.scores, aimed[0].scores)


def test_tests_come_at_the_first_window_end_at_or_after_each_interval():
    # Windows of three steps in episodes of four end at 3, 4, 7, 8, 11, 12, 15, 16, 19, 20.
    numbers = config.Hyper(learning_rate=1e-9)
    some = aims(runs=1, vary=(), hyper=numbers, t_max=3, steps=20, report_every=5)
    result = train.train(some, env=PaysActionOne(length=4, actions=2))
    assert [t.steps for t in result.tests[0]] == [7, 11, 15, 20]


@pytest.mark.parametrize(("worth", "batches"), [(2, {8, 2}), (8, {8})])
def test_where_runs_are_one_program_finished_ones_leave_it(worth, batches, monkeypatch):
    # ... after so many updates with few left as another program costs: 8 are more than 120 steps.
    monkeypatch.setattr(session_module, "WORTH_COMPILING", worth)
    rates = "learning_rate=0.05,1e-9,0.05,0.05,0.05,0.05,0.05,0.05"
    some = aims(runs=8, vary=(rates,), steps=120)
    expected = train.train(some, env=BUTTON)
    sizes, parts, report = [], set(), session_module.Session.report

    def counted(session, *args):
        sizes.append(len(session.batch.names))
        parts.add(session.goals.tester.at_once)
        return report(session, *args)

    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    monkeypatch.setattr(session_module.Session, "report", counted)
    result = train.train(some, env=BUTTON)
    few_since = sorted(tests[-1].steps for tests in expected.tests)[5]
    pays = [12 * reports - few_since >= worth * some.t_max for reports in range(10)]
    assert sizes == [2 if small else 8 for small in pays] and set(sizes) == batches
    assert parts == {8}
    assert result.tests == expected.tests
    assert result.runs.steps.tolist() == expected.runs.steps.tolist()
    agents = (jax.tree.leaves(r.runs.agent) for r in (result, expected))
    for one, other in zip(*agents, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)


def test_who_leaves_a_batch_is_the_same_after_an_interruption(monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    monkeypatch.setattr(session_module, "WORTH_COMPILING", 2)
    many = aims(runs=16, vary=(), t_max=6)  # so a program pays after 12 steps, a report
    solved, runs = GoalTest(12, 60, 60), task.start_runs(many, BUTTON)
    ends = {3: 12, 9: 12, 0: 24, 1: 24, 2: 24, 4: 24, 5: 24, 6: 24, 7: 24, 8: 36, 10: 36, 11: 36}
    ends |= {12: 60, 13: 60, 14: 72}  # and 15 goes on: four are left after 36, one after 72

    def session_at(reports):
        """As it is opened when runs have ended so."""
        here = {run: end for run, end in ends.items() if end <= 12 * reports}
        steps = np.full(16, 12 * reports)
        steps[list(here)] = list(here.values())
        session = session_module.Session(
            many, task.CompiledTask(many, BUTTON), eqx.tree_at(lambda r: r.steps, runs, steps)
        )
        session.reports = reports
        session.diverged[9] = 9 in here
        session.goals.recall([[solved] if run in here and run != 9 else [] for run in range(16)])
        return session

    whole = session_at(0)
    for reports in range(1, 9):
        later = session_at(reports)
        whole.reports, whole.taken = reports, later.taken
        whole.diverged = later.diverged
        whole.goals.recall(later.goals.tests)
        whole.shrink()
        later.shrink()
        size = 16 if reports < 4 else 4 if reports < 7 else 1
        assert len(whole.batch.names) == size and 15 in whole.batch.names
        np.testing.assert_array_equal(whole.batch.names, later.batch.names)


def test_a_run_keeps_its_levels_when_others_become_available(small_boxoban, tmp_path):  # noqa: F811
    agent = WMGSettings(memory="none", layers=1, heads=1, head_size=4, hidden=4, actor_critic=4)
    asked = Config(SokobanSettings(), agent, t_max=4, steps=48, report_every=16)
    tiny.stop_after(asked, tmp_path / "run", 1)
    (tmp_path / "boxoban.zip").write_bytes(zipped(files()))
    boxoban.import_boxoban(str(tmp_path / "boxoban.zip"))
    saved = runfolder.read_config(tmp_path / "run")
    assert saved.env == SokobanSettings(levels="embedded-train")
    with pytest.raises(
        BadInput, match=r"made with env\.levels = 'embedded-train', not 'unfiltered"
    ):
        train.train(asked, tmp_path / "run", resume=True)
    result = train.train(saved, tmp_path / "run", resume=True)
    assert result.finished and result.config == saved


GRIDDED = {"goal": dataclasses.replace(GOAL, grids=(48,)), "t_max": 4}


def test_runs_go_on_until_they_pass_on_every_grid_tested_on_those_alone(tmp_path):
    goal = GRIDDED["goal"]
    plain = train.train(aims(t_max=4), env=BUTTON)
    result = train.train(aims(**GRIDDED), tmp_path / "run", env=BUTTON)
    for run in (0, 1):
        before, tests = plain.tests[run], result.tests[run]
        assert tests[: len(before)] == before  # the same run, that goes on
        assert [t.steps % 48 for t in tests[len(before) :]] == [0] * (len(tests) - len(before))
        assert tests[-1].meets(goal) and tests[-1].steps % 48 == 0
    assert result.crossings == plain.crossings
    untested = [line for line in tiny.lines(result.folder)[0] if line["test_episodes"] is None]
    assert [line["score"] for line in untested] == [None] * len(untested)


def test_going_on_between_grids_is_exact(tmp_path):
    settings, folder = aims(**GRIDDED), tmp_path / "parts"
    whole = train.train(settings, tmp_path / "whole", env=BUTTON)
    for reports in (5, 2):
        tiny.stop_after(settings, folder, reports, env=BUTTON, resume=folder.exists())
    parts = train.train(settings, folder, env=BUTTON, resume=True)
    assert parts.tests == whole.tests
    assert tiny.differing(tiny.arrays(parts.folder), tiny.arrays(whole.folder)) == []
