"""Studies: where they are, what is kept in them, and what is refused."""

import os
import pathlib

import pytest
from tiny import time_limit

pytest.importorskip("optuna")

from optuna.samplers import RandomSampler, TPESampler

from wmg.tools.errors import BadInput
from wmg.tuner import study
from wmg.tuner.sampler import DGDSampler
from wmg.tuner.study import Plan

GRID = {"x": [1, 2, 3], "y": ["a", "b"]}
PLAN = Plan(
    {"any": ["thing"]}, runs=7, average="median", start={"x": 2, "y": "b"}, shapes=("y",), seed=5
)


def test_what_has_no_scheme_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert study.full_url("a.db") == f"sqlite:///{tmp_path}/a.db"
    assert study.full_url("sqlite:///a.db") == "sqlite:///a.db"
    assert study.full_url("postgresql://h/d") == "postgresql+psycopg://h/d"


def test_passwords_are_not_shown():
    assert study.show_url("postgresql://me:secret@h/d") == "postgresql://me:***@h/d"


def test_plan_and_grid_come_back_as_they_were(tmp_path):
    storage = str(tmp_path / "t.db")
    study.create(storage, "s", PLAN, GRID, False)
    with study.opened(storage, "s") as shared:
        assert shared.plan == PLAN and shared.grid == GRID and not shared.maximise
        assert list(shared.grid) == ["x", "y"]
        assert shared.values((2, 0)) == {"x": 3, "y": "a"}
        assert shared.history() == [] and shared.scores() == {}


@pytest.mark.parametrize("name, kind", [
    ("dgd", DGDSampler), ("tpe", TPESampler), ("random", RandomSampler),
])  # fmt: skip
def test_each_sampler_is_made(name, kind):
    assert type(study.make_sampler(Plan({}, sampler=name), GRID)) is kind


def test_history_is_in_the_order_in_which_runs_ended(tmp_path):
    storage = str(tmp_path / "t.db")
    study.create(storage, "s", PLAN, GRID, True)
    with study.opened(storage, "s") as shared:
        trials = [shared.study.ask(DGDSampler(GRID).space) for _ in range(3)]
        for index, score in ((2, 1.0), (0, 2.0), (1, 3.0)):
            shared.study.tell(trials[index], score)
        assert [score for _, score in shared.history()] == [1.0, 2.0, 3.0]


def test_a_file_that_is_deleted_or_replaced_is_noticed(tmp_path):
    path = tmp_path / "t.db"
    study.create(str(path), "s", PLAN, GRID, True)
    with study.opened(str(path), "s") as shared:
        shared.check_there()
        copy = path.read_bytes()
        os.rename(path, tmp_path / "aside.db")
        with pytest.raises(FileNotFoundError, match="is gone"):
            shared.check_there()
        path.write_bytes(copy)
        with pytest.raises(FileNotFoundError, match="is gone"):
            shared.check_there()


def test_a_plan_that_this_version_does_not_know_is_refused(tmp_path):
    storage = str(tmp_path / "t.db")
    study.create(storage, "s", PLAN, GRID, True)
    with study.opened(storage, "s") as shared:
        plan = shared.study.user_attrs[study.PLAN]
        shared.study.set_user_attr(study.PLAN, {**plan, "wings": 2})
    with pytest.raises(BadInput, match="plan has no setting 'wings'"), study.opened(storage, "s"):
        pass


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"there is no folder .* for t.db"):
        study.create(str(tmp_path / "none" / "t.db"), "s", PLAN, GRID, True)
    assert not pathlib.Path(tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_storage_that_is_no_file_is_one_sentence(tmp_path, kind):
    path = "/dev/zero" if kind == "device" else str(tmp_path / "pipe")
    if kind == "pipe":
        os.mkfifo(path)
    with time_limit(5), pytest.raises(BadInput, match=f"{path} is not a file"):
        study.create(path, "s", PLAN, GRID, True)
