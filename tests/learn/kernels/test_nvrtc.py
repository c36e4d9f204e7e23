"""Compiling CUDA C++ at first use, with a compiler that is made up."""

import ctypes
import types

import pytest

from wmg.learn.kernels import nvrtc
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable

PTX = ".version 9.4\n.target sm_90\n.global .align 4 .u32 shared_bytes = 400;\n"


class MadeUp(ctypes.CDLL):
    """NVRTC as far as it is used."""

    def __init__(self, ptx=PTX, log=""):
        self.texts, self.programs, self.options = {"PTX": ptx, "ProgramLog": log}, 0, []

    def nvrtcVersion(self, major, minor):
        major._obj.value, minor._obj.value = 13, 0

    def nvrtcCreateProgram(self, *given):
        self.programs, self.headers = self.programs + 1, list(given[5])
        return 0

    def nvrtcCompileProgram(self, program, count, options):
        self.options = list(options)
        return 6 if self.texts["ProgramLog"] else 0

    def nvrtcDestroyProgram(self, program):
        return 0

    def __getattr__(self, name):
        text = self.texts[name.removeprefix("nvrtcGet").removesuffix("Size")].encode()

        def size(program, into):
            into._obj.value = len(text) + 1
            return 0

        def get(program, into):
            ctypes.memmove(into, text + b"\0", len(text) + 1)
            return 0

        return size if name.endswith("Size") else get


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.cu").write_text("kernel")
    (tmp_path / "b.cuh").write_text("header")
    return tmp_path


def test_a_kernel_is_compiled_once_for_its_sizes(folder, monkeypatch):
    library = MadeUp()
    monkeypatch.setattr(nvrtc, "find_library", lambda: library)
    ptx = nvrtc.compile_ptx(folder, "a.cu", {"SIZE": 3})
    assert ".version 8.3\n" in ptx and library.headers == [b"b.cuh"]
    assert b"-DSIZE=3" in library.options
    assert nvrtc.compile_ptx(folder, "a.cu", {"SIZE": 3}) == ptx and library.programs == 1
    nvrtc.compile_ptx(folder, "a.cu", {"SIZE": 4})
    (folder / "b.cuh").write_text("another header")
    nvrtc.compile_ptx(folder, "a.cu", {"SIZE": 3})
    assert library.programs == 3


def test_a_cache_that_cannot_be_written_is_done_without(folder, monkeypatch):
    (folder / "cache").write_text("no folder")
    library = MadeUp()
    monkeypatch.setattr(nvrtc, "find_library", lambda: library)
    for _ in range(2):
        assert ".version 8.3\n" in nvrtc.compile_ptx(folder, "a.cu", {})
    assert library.programs == 2


def test_sizes_that_do_not_fit_are_said_in_the_words_of_the_source(folder, monkeypatch):
    log = 'a.cu(7): error: static assertion failed with "shared memory"\n1 error detected\n'
    monkeypatch.setattr(nvrtc, "find_library", lambda: MadeUp(log=log))
    with pytest.raises(Unsuitable, match=r"^shared memory$"):
        nvrtc.compile_ptx(folder, "a.cu", {})
    assert not (folder / "cache" / "wmg" / "kernels").exists()
    monkeypatch.setattr(nvrtc, "find_library", lambda: MadeUp(log="a.cu(9): error: expected a ;"))
    with pytest.raises(NoKernel, match=r"^expected a ;") as broken:
        nvrtc.compile_ptx(folder, "a.cu", {})
    assert not isinstance(broken.value, Unsuitable)


def test_exported_numbers_are_read_from_the_ptx():
    assert nvrtc.exported(PTX, "shared_bytes") == 400
    with pytest.raises(NoKernel, match="does not say its work_floats"):
        nvrtc.exported(PTX, "work_floats")


def test_without_nvrtc_it_is_said_where_it_comes_from(monkeypatch):
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(nvrtc.ctypes, "util", types.SimpleNamespace(find_library=lambda name: None))
    with pytest.raises(Unsuitable, match=r"NVRTC is not installed; it is part of jax\[cuda13\]"):
        nvrtc.find_library()
