"""Mirrors show what the logs hold."""

import math
import sys
import types

import pytest

from wmg.runs import mirrors
from wmg.tools.errors import BadInput

RECORD = {"steps": 10008, "episodes": 834, "reward": 2530.0, "success": 0.01, "rate": 3011.0}


def test_tags_are_those_of_cleanrl():
    record = RECORD | {
        "score": 50.6,
        "policy_loss": math.nan,
        "entropy": 1.5,
        "value_loss": 2,
    }
    assert mirrors.tagged(record | {"diverged": True, "seconds": 12.3}) == {
        "charts/SPS": 3011.0,
        "charts/score": 50.6,
        "charts/episodes": 834.0,
        "charts/episodic_return": pytest.approx(2530 / 834),
        "losses/entropy": 1.5,
        "losses/value_loss": 2.0,
        "losses/diverged": 1.0,
        "eval/success_rate": 0.01,
    }


def test_an_interval_without_episodes_has_no_return():
    assert mirrors.tagged({"steps": 5, "reward": 2.0, "episodes": 0}) == {"charts/episodes": 0.0}


def test_tensorboard_files_hold_the_records(tmp_path):
    mirror = mirrors.open_mirror("tensorboard", tmp_path, {"seed": 0})
    mirror.write(0, RECORD)
    mirror.write(12, {"steps": 7, "rate": 5.0})
    mirror.close()
    assert scalars(tmp_path / "tensorboard" / "0012") == {("charts/SPS", 7, 5.0)}
    assert ("charts/SPS", 10008, 3011.0) in scalars(tmp_path / "tensorboard" / "0000")


def scalars(folder):
    """(tag, step, value) of every scalar; a TFRecord is length, crc, data, crc."""
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportMissingImports]

    (path,) = folder.iterdir()
    data, found = path.read_bytes(), set()
    while data:
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                found.add((value.tag, event.step, value.simple_value))
    return found


class FakeWandb(types.ModuleType):
    """Records what W&B would be told, so that no network or account is needed."""

    def __init__(self):
        super().__init__("wandb")
        self.opened, self.logged, self.finished = [], [], 0

    def init(self, *, name, group, config, **_):
        self.opened.append((name, group, config))
        return self

    def define_metric(self, *_, **__):
        pass

    def log(self, values):
        self.logged.append(values)

    def finish(self):
        self.finished += 1


def test_wandb_has_one_run_for_each_of_ours(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    mirror = mirrors.open_mirror("wandb", tmp_path / "try", {"lr": math.inf})
    mirror.write(0, {"steps": 5, "rate": 2.0})
    mirror.write(3, {"steps": 5})
    mirror.write(0, {"steps": 9})
    mirror.close()
    first, second = fake.opened
    assert first == ("try-0000", "try", {"lr": None, "run": 0})
    assert second == ("try-0003", "try", {"lr": None, "run": 3})
    assert fake.logged[0] == {"global_step": 5, "charts/SPS": 2.0}
    assert fake.logged[1:] == [{"global_step": 5}, {"global_step": 9}]
    assert fake.finished == 2


@pytest.mark.parametrize(("kind", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_names_its_extra(tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"pip install 'wmg\[{kind}\]'"):
        mirrors.open_mirror(kind, tmp_path, {})
