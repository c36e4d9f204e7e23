"""Models in PyTorch's files, read without PyTorch; nothing in them is run."""

import os
import pickle
import zipfile

import numpy as np
import pytest
from interop import pth
from interop.pth import state_code, tensor_code
from tiny import time_limit

from wmg.interop import torch_file
from wmg.tools.errors import BadInput

TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.bias": np.array([0.5, -1.0], np.float32),
    "count": np.array([7], np.int64),
}


def entries():
    return pth.entries(TENSORS)


def old_form(code, tensors=TENSORS):
    return pth.old_form(code, tensors)


def zip_form(code, tensors=TENSORS, **options):
    return pth.zip_form(code, tensors, **options)


def read(folder, data):
    path = folder / "model.pth"
    path.write_bytes(data)
    return torch_file.read_pth(path)


def assert_refused(folder, data, reason=""):
    with pytest.raises(BadInput) as error:
        read(folder, data)
    message = str(error.value)
    assert "model.pth" in message and reason in message and "\n" not in message


FORMS = pytest.mark.parametrize("form", [old_form, zip_form])


@FORMS
def test_a_state_dict_is_read(tmp_path, form):
    tensors = read(tmp_path, form(state_code(entries())))
    assert list(tensors) == list(TENSORS)
    for name, array in TENSORS.items():
        assert tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(tensors[name], array)


@FORMS
def test_a_transposed_tensor_is_read(tmp_path, form):
    array = TENSORS["a.weight"]
    code = state_code({"t": tensor_code("0", array, shape=(3, 2), strides=(1, 3))})
    tensors = {"t": array}
    np.testing.assert_array_equal(read(tmp_path, form(code, tensors))["t"], array.T)


class Exploit:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@FORMS
@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_an_exploit_is_refused_and_nothing_runs(tmp_path, form, protocol):
    trace = tmp_path / "trace"
    for exploit in (
        Exploit(os.system, f"touch {trace}"),
        Exploit(eval, f"open({str(trace)!r}, 'w')"),
        Exploit(os.mkdir, str(trace)),
    ):
        assert_refused(tmp_path, form(pickle.dumps({"a": exploit}, protocol)))
        assert_refused(tmp_path, pickle.dumps(exploit, protocol))
    assert not trace.exists()


def test_the_refusal_names_what_an_exploit_asks_for(tmp_path):
    code = pickle.dumps({"a": Exploit(eval, "1")}, 2)
    assert_refused(tmp_path, old_form(code), "eval")


@FORMS
@pytest.mark.parametrize(
    "place",
    [
        {"offset": 1},
        {"offset": -1},
        {"shape": (2, 4)},
        {"shape": (2, 3), "strides": (4, 1)},
        {"shape": (2, 3), "strides": (-3, 1)},
        {"shape": (2, 3), "strides": (3,)},
        {"shape": (2**30, 2**30), "strides": (0, 0)},
        {"shape": (0, 3), "strides": (3, 1)},
        {"shape": (1,) * 40, "strides": (1,) * 40},
    ],
)
def test_a_tensor_outside_its_storage_is_refused(tmp_path, form, place):
    array = TENSORS["a.weight"]
    code = state_code({"t": tensor_code("0", array, **place)})
    assert_refused(tmp_path, form(code, {"t": array}))


@FORMS
def test_a_storage_larger_than_the_file_is_refused(tmp_path, form):
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**30,), (0,))
    code = state_code({"t": tensor_code("0", huge)})
    assert_refused(tmp_path, form(code, {"t": np.zeros(4, np.float32)}))


@FORMS
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path, form):
    whole = form(state_code(entries()))
    for size in range(0, len(whole) - 1, 7):
        assert_refused(tmp_path, whole[:size])


@FORMS
def test_a_damaged_file_is_read_or_refused_but_nothing_else(tmp_path, form):
    whole = form(state_code(entries()))
    draw = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        data[draw.integers(len(data))] = draw.integers(256)
        try:
            read(tmp_path, bytes(data))
        except BadInput as error:
            assert "\n" not in str(error)


def test_foreign_files_are_refused(tmp_path):
    assert_refused(tmp_path, b"")
    assert_refused(tmp_path, b"LEARNING_RATE = 0.1\n")
    assert_refused(tmp_path, pickle.dumps({"a": 1}, 2), "does not begin as one")
    assert_refused(tmp_path, old_form(pickle.dumps({"a": 1}, 2)), "'a' is not a tensor")
    assert_refused(tmp_path, b"\x80\x02" + b")" + b"\x85" * 100_000 + b".")
    assert_refused(
        tmp_path,
        zip_form(state_code(entries()), compression=zipfile.ZIP_DEFLATED),
        "compressed",
    )
    with pytest.raises(BadInput, match=r"nowhere\.pth"):
        torch_file.read_pth(tmp_path / "nowhere.pth")
    with pytest.raises(BadInput):
        torch_file.read_pth(tmp_path)


def test_a_written_file_is_read_back_or_torch_is_asked_for(tmp_path):
    path = tmp_path / "out.pth"
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        with pytest.raises(BadInput, match=r"needs torch: pip install 'wmg\[official\]'"):
            torch_file.write_pth(path, TENSORS)
        assert not path.exists()
        return
    torch_file.write_pth(path, TENSORS)
    ours, theirs = torch_file.read_pth(path), torch.load(path, weights_only=True)
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(ours[name], array)
        np.testing.assert_array_equal(theirs[name].numpy(), array)
    with pytest.raises(BadInput, match="cannot be written"):
        torch_file.write_pth(tmp_path / "no" / "out.pth", TENSORS)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    with open(tmp_path / "model.pth", "wb") as file:
        file.truncate(1 << 40)
    with time_limit(1), pytest.raises(BadInput, match=r"model\.pth is too large"):
        torch_file.read_pth(tmp_path / "model.pth")


def test_a_pickle_of_too_many_objects_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_file, "MOST_OPCODES", 1000)
    path = tmp_path / "model.pth"
    path.write_bytes(b"\x80\x02" + b"]" * 1000 + b".")
    with pytest.raises(BadInput, match="its pickle has more than 1,000 opcodes"):
        torch_file.read_pth(path)
