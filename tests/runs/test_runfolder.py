import builtins
import dataclasses
import errno
import json
import os
import pathlib
import resource
import shutil
import subprocess

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config
from wmg.runs import runfolder, runlog, train
from wmg.tools.errors import BadInput


@pytest.fixture
def folder(tmp_path):
    """A finished run folder of our own."""
    return shutil.copytree(tiny.trained(), tmp_path / "run")


@pytest.fixture
def half(tmp_path):
    """A folder whose two runs have made 3 of their 10 reports."""
    tiny.stop_after(tiny.settings(runs=2), tmp_path / "half", 3)
    return tmp_path / "half"


def test_a_folder_says_what_was_asked_for_and_with_what(folder):
    about = json.loads((folder / "config.json").read_text())
    assert config.from_dict(config.Config, about["config"]) == tiny.settings(runs=2)
    assert about["parent"] is None
    assert {"device", "python", "jax", "wmg", "date"} <= about["made_with"].keys()
    assert runfolder.read_config(folder) == tiny.settings(runs=2)


def test_a_finished_folder_holds_what_its_docstring_says(folder):
    names = tiny.contents(folder).keys() - {".lock"}
    assert names == {
        "config.json", "logs/0000.jsonl", "logs/0001.jsonl", "state.safetensors",
        "best.safetensors",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "dangling link"])
def test_what_exists_is_never_overwritten(tmp_path, capsys, kind):
    place = tmp_path / "there"
    if kind == "folder":
        shutil.copytree(tiny.trained(), place)
    elif kind == "empty folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("precious")
    else:
        place.symlink_to(tmp_path / "nowhere")
    before = tiny.contents(tmp_path)
    code, out, err = tiny.command(capsys, "train", "pathfinding/wmg", *tiny.FLAGS, "--out", place)
    assert code == 2 and out == ""
    assert err == f"wmg: {place} already exists; choose another folder or --resume it\n"
    assert tiny.contents(tmp_path) == before and list(tmp_path.iterdir()) == [place]


def test_a_folder_is_made_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space.*config\.json"):
        runfolder.create(tmp_path / "run", tiny.settings(), None)
    assert list(tmp_path.iterdir()) == []


def test_two_that_make_one_folder_at_once_do_not_share_it(tmp_path, monkeypatch):
    runfolder.create(tmp_path / "run", tiny.settings(), None)
    before = tiny.contents(tmp_path)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # seen before it was made
    with pytest.raises(BadInput, match="already exists"):
        runfolder.create(tmp_path / "run", tiny.settings(seed=1), None)
    assert tiny.contents(tmp_path) == before


def test_a_folder_in_use_is_refused(half, capsys):
    before = tiny.contents(half)
    with runfolder.locked(half):
        code, out, err = tiny.command(capsys, "train", "--resume", half)
    assert (code, out) == (2, "") and err == f"wmg: {half} is in use by another process\n"
    assert tiny.contents(half) == before
    with runfolder.locked(half):
        pass  # it is free again


def test_what_killed_processes_left_half_written_is_removed(half):
    (half / ".state.safetensors.123.tmp").write_bytes(b"half")
    (half / ".best.safetensors.4567.tmp").write_bytes(b"half")
    (half / ".config.json.1.tmp").write_bytes(b"half")
    (half / ".notes.1.tmp").write_bytes(b"somebody's")
    (half / ".state.safetensors.mine.tmp").write_bytes(b"somebody's")
    with runfolder.locked(half):
        left = {name for name in tiny.contents(half) if name.endswith(".tmp")}
    assert left == {".notes.1.tmp", ".state.safetensors.mine.tmp"}


def test_what_another_process_is_writing_is_left_alone(half):
    with runfolder.locked(half):
        (half / ".state.safetensors.123.tmp").write_bytes(b"half")
        with pytest.raises(BadInput, match="in use"), runfolder.locked(half):
            pass
        assert (half / ".state.safetensors.123.tmp").exists()


@pytest.mark.parametrize(
    "flag, sentence",
    [
        ("--agent.slots=4", "agent.slots = 3, not 4"),
        ("--hyper.entropy=0.5", "hyper.entropy = 0.01, not 0.5"),
        ("--env.nodes=9", "env.nodes = 7, not 9"),
        ("--seed=3", "seed = 0, not 3"),
        ("--report-every=10", "report_every = 48, not 10"),
        ("--runs=3", "runs = 2, not 3"),
        ("--steps=240", "steps = 480, more than 240"),
    ],
)
def test_resuming_with_another_setting_is_refused_by_name(folder, capsys, flag, sentence):
    before = tiny.contents(folder)
    code, _, err = tiny.command(capsys, "train", "--resume", folder, flag)
    assert code == 2 and err.startswith(f"wmg: {folder} was made with {sentence}")
    assert err.count("\n") == 1 and tiny.contents(folder) == before


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "sub" / "run"
    code, _, err = tiny.command(capsys, "train", "pathfinding/wmg", *tiny.FLAGS, "--out", place)
    assert code == 2 and err.startswith("wmg: ") and err.count("\n") == 1
    assert "Not a directory" in err and str(tmp_path / "file") in err


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(half, capsys, monkeypatch):
    saved = (half / "state.safetensors").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        code, _, err = tiny.command(capsys, "train", "--resume", half)
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("wmg: ") and "No space left on device" in last
    assert (half / "state.safetensors").read_bytes() == saved
    assert_goes_on_exactly(half, capsys)


@pytest.mark.parametrize("lost", ["logs/0001.jsonl", "logs", ""])
def test_what_is_deleted_in_mid_run_ends_the_training_in_one_sentence(half, capsys, lost):
    log, write = half / "logs" / "0001.jsonl", runlog.RunLog.write

    def write_after_loss(self, record):
        if record["steps"] == 384 and self.path == log:
            gone = half / lost
            gone.unlink() if gone.is_file() else shutil.rmtree(gone)
        write(self, record)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runlog.RunLog, "write", write_after_loss)
        code, _, err = tiny.command(capsys, "train", "--resume", half)
    last = err.splitlines()[-1]
    assert code == 2 and last == f"wmg: {log}: No such file or directory" and not log.exists()


def refuse_writing(folder, patched):
    """From now on the folder is on a file system that is read-only, as after an error of a disk."""
    known = builtins.open, os.replace, os.truncate

    def within(path):
        return not isinstance(path, int) and pathlib.Path(path).is_relative_to(folder)

    def refusing(do, writes):
        def call(path, *others, **named):
            if within(path) and writes(*others):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return do(path, *others, **named)

        return call

    opened, *changed = known
    patched.setattr(
        builtins, "open", refusing(opened, lambda mode="r", *_: set(mode) & set("wax+"))
    )
    for do in changed:
        patched.setattr(os, do.__name__, refusing(do, lambda *_: True))


def make_immutable(folder, patched):
    """What `chmod a-w` is for others, `chattr +i` is for root, too: no file can be added."""
    subprocess.run(["chattr", "+i", folder], check=True)


def can_be_immutable(folder):
    """Whether this user may do that here."""
    if shutil.which("chattr") is None:
        return False
    done = [subprocess.run(["chattr", sign, folder], capture_output=True) for sign in ("+i", "-i")]
    return all(each.returncode == 0 for each in done)


READ_ONLY = {
    "the file system": (refuse_writing, "logs/0001.jsonl: Read-only file system"),
    "the folder": (make_immutable, "state.safetensors: Operation not permitted"),
}


@pytest.mark.parametrize("what", READ_ONLY)
def test_what_becomes_read_only_in_mid_run_loses_nothing(half, capsys, what):
    make_read_only, sentence = READ_ONLY[what]
    if what == "the folder" and not can_be_immutable(half):
        pytest.skip("chattr +i is not possible here")
    log, write = half / "logs" / "0001.jsonl", runlog.RunLog.write

    def write_after_change(self, record):
        if record["steps"] == 384 and self.path == log:
            make_read_only(half, patched)
        write(self, record)

    saved = (half / "state.safetensors").read_bytes()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runlog.RunLog, "write", write_after_change)
            ended = tiny.command(capsys, "train", "--resume", half)
        with pytest.MonkeyPatch.context() as patched:  # it still is when it is resumed
            make_read_only(half, patched)
            resumed = tiny.command(capsys, "train", "--resume", half)
    finally:
        if what == "the folder":
            subprocess.run(["chattr", "-i", half], check=True)
    assert ended[0] == resumed[0] == 2
    assert ended[2].splitlines()[-1] == f"wmg: {half / sentence}"
    assert resumed[2].splitlines()[-1].startswith(f"wmg: {half}")
    if what == "the folder":
        assert resumed[2] == f"wmg: {half} is read-only: training could not save anything there\n"
    assert "Traceback" not in ended[2] + resumed[2]
    assert (half / "state.safetensors").read_bytes() == saved
    assert_goes_on_exactly(half, capsys)


def test_a_file_that_may_not_grow_leaves_the_last_checkpoint(half, capsys):
    saved = (half / "state.safetensors").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(saved) // 2, hard))
    try:
        code, _, err = tiny.command(capsys, "train", "--resume", half)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    last = err.splitlines()[-1]
    assert code == 2 and last == f"wmg: {half / 'state.safetensors'}: File too large"
    assert (half / "state.safetensors").read_bytes() == saved
    assert_goes_on_exactly(half, capsys)


def assert_goes_on_exactly(folder, capsys):
    assert tiny.command(capsys, "train", "--resume", folder)[0] == 0
    assert tiny.differing(tiny.arrays(folder), tiny.arrays(tiny.trained())) == []
    assert tiny.lines(folder) == tiny.lines(tiny.trained())
    leftovers = [name for name in tiny.contents(folder) if name.endswith(".tmp")]
    assert leftovers == []


def change_config(folder, change):
    file = folder / "config.json"
    about = json.loads(file.read_text())
    change(about["config"])
    file.write_text(json.dumps(about))


DAMAGE = {
    "no steps": (
        lambda f: change_config(f, lambda settings: settings.pop("steps")),
        "config.json is damaged: its config has no steps",
    ),
    "a seed of 400 digits": (
        lambda f: change_config(f, lambda settings: settings.update(seed=10**400)),
        "config.json is damaged",
    ),
    "a discount of 400 digits": (
        lambda f: change_config(f, lambda settings: settings["hyper"].update(discount=10**400)),
        "config.json is damaged",
    ),
    "no config": (lambda f: (f / "config.json").unlink(), "is not a run folder"),
    "config cut": (lambda f: (f / "config.json").write_text('{"conf'), "is damaged"),
    "config not text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "is damaged"),
    "config too deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "is damaged"),
    "config of digits": (lambda f: (f / "config.json").write_text("9" * 5_000), "is damaged"),
    "config a list": (lambda f: (f / "config.json").write_text("[1]"), "is damaged"),
    "config of another kind": (
        lambda f: (f / "config.json").write_text('{"config": {"stepz": 3}}'),
        "has no setting 'stepz'",
    ),
    "log missing": (lambda f: (f / "logs" / "0001.jsonl").unlink(), "0001.jsonl is damaged"),
    "log cut": (lambda f: (f / "logs" / "0001.jsonl").write_text("{}\n"), "is damaged"),
    "state cut": (
        lambda f: (f / "state.safetensors").write_bytes(
            (f / "state.safetensors").read_bytes()[:-100]
        ),
        "is damaged",
    ),
    "state gone": (
        lambda f: (f / "state.safetensors").unlink(),
        "has been trained, but its state.safetensors is missing: put that file back",
    ),
    "state and logs gone": (
        lambda f: [(f / "state.safetensors").unlink(), shutil.rmtree(f / "logs")],
        "its state.safetensors is missing",
    ),
    "state and best model gone": (
        lambda f: [(f / f"{name}.safetensors").unlink() for name in ("state", "best")],
        "its state.safetensors is missing",
    ),
    "state a dangling link": (
        lambda f: [
            (f / "state.safetensors").unlink(),
            (f / "state.safetensors").symlink_to("nowhere"),
        ],
        "its state.safetensors is missing",
    ),
    "state of a model": (
        lambda f: shutil.copy(f / "best.safetensors", f / "state.safetensors"),
        "holds one model, not the state of runs",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_and_left_as_it_was(folder, capsys, damage):
    harm, sentence = DAMAGE[damage]
    harm(folder)
    before = tiny.contents(folder)
    for more in ([], ["--steps=960"]):
        code, _, err = tiny.command(capsys, "train", "--resume", folder, *more)
        assert code == 2 and err.startswith("wmg: ") and err.count("\n") == 1
        assert sentence in err and tiny.contents(folder) == before


def test_a_pipe_in_the_place_of_the_lock_or_a_log_is_refused(folder, capsys):
    for name, sentence in {
        ".lock": ".lock: No such device or address",
        "logs/0001.jsonl": "0001.jsonl is damaged",
    }.items():
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with tiny.time_limit(60):
            code, _, err = tiny.command(capsys, "train", "--resume", folder)
        assert code == 2 and sentence in err and err.count("\n") == 1
        (folder / name).unlink()
        (folder / name).touch()


def test_resume_without_any_checkpoint_starts_from_the_beginning(tmp_path):
    runfolder.create(tmp_path / "run", tiny.settings(runs=2), None)
    train.train(tiny.settings(runs=2), tmp_path / "run", resume=True)
    assert tiny.lines(tmp_path / "run") == tiny.lines(tiny.trained())


def test_a_longer_resume_changes_the_recorded_steps_alone(folder):
    before = json.loads((folder / "config.json").read_text())
    longer = dataclasses.replace(tiny.settings(runs=2), steps=960)
    runfolder.update_config(folder, longer)
    after = json.loads((folder / "config.json").read_text())
    before["config"]["steps"] = 960
    assert after == before


def test_the_best_run_is_not_that_of_an_earlier_end(folder):
    best = folder / runfolder.BEST
    before = best.read_bytes()
    runfolder.update_config(folder, tiny.settings(runs=2))
    assert runfolder.final_model(folder) == best
    runfolder.update_config(folder, dataclasses.replace(tiny.settings(runs=2), steps=960))
    assert runfolder.final_model(folder) is None and best.read_bytes() == before


def test_a_folder_that_has_not_ended_has_no_final_model(half):
    assert runfolder.final_model(half) is None


@pytest.mark.parametrize("parent", [{}, {"steps": 3}, {"steps": [3]}, {"steps": [3, "4"]}])
def test_a_branch_that_does_not_say_where_it_began_is_damaged(tmp_path, parent):
    runfolder.create(tmp_path / "run", tiny.settings(runs=2), parent)
    with pytest.raises(BadInput, match=r"config\.json is damaged: .* where a parent was left"):
        runfolder.parent_steps(tmp_path / "run")
