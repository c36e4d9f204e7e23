"""Which program trains the runs: the window kernel or XLA's."""

import pytest
import tiny

from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable
from wmg.runs import hardware, task
from wmg.tools.errors import BadInput


def compiled(kernel):
    return task.make_task(tiny.settings(kernel=kernel), None)


def raise_error(error):
    def find_kernel(*given):
        raise error

    return find_kernel


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda backend=None: False)


def test_on_a_cpu_there_is_no_choice_and_no_kernel():
    made = compiled("auto")
    assert made.find_kernel() is None and made.engine == ""
    with pytest.raises(BadInput, match="kernel = on cannot be: there is no NVIDIA GPU"):
        compiled("on").find_kernel()


def test_a_kernel_that_does_not_fit_is_left_out_in_silence(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(Unsuitable("another agent")))
    assert compiled("auto").find_kernel() is None  # a warning would be an error here
    with pytest.raises(BadInput, match="kernel = on cannot be: another agent"):
        compiled("on").find_kernel()


def test_a_kernel_that_fails_is_one_warning_unless_it_was_asked_for(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(NoKernel("no launch")))
    with pytest.warns(UserWarning, match="the window kernel failed, XLA trains instead: no launch"):
        assert compiled("auto").find_kernel() is None
    with pytest.raises(BadInput, match="kernel = on cannot be: no launch"):
        compiled("on").find_kernel()


def test_a_kernel_that_is_switched_off_is_not_looked_for(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(AssertionError()))
    assert compiled("off").find_kernel() is None
