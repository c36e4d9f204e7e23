"""CUDA C++ to PTX by NVRTC, the compiler library that comes with jax[cuda13]: no nvcc is needed."""

import contextlib
import ctypes
import ctypes.util
import hashlib
import importlib.util
import pathlib
import re
from collections.abc import Callable

from wmg.tools import files

OPTIONS = (
    "--gpu-architecture=compute_90",
    "--std=c++17",
    "--device-as-default-execution-space",
    "-prec-sqrt=false",
    "-prec-div=false",
    "-ftz=true",
)
PTX_VERSION = "8.3"
"""The first version with all that NVRTC makes of the kernels. A driver refuses PTX that names a
version newer than itself, and NVRTC names its own."""


class NoKernel(Exception):
    """Why a kernel cannot be used here."""


class Unsuitable(NoKernel):
    """The kernel is not made for this: nothing is wrong."""


def compile_ptx(folder: pathlib.Path, name: str, macros: dict[str, int]) -> str:
    """The PTX of a source file with these macros, from the cache if it was compiled before."""
    sources = {path.name: path.read_bytes() for path in sorted(folder.glob("*.cu*"))}
    options = [*OPTIONS, *(f"-D{key}={value}" for key, value in macros.items())]
    library = find_library()
    digest = hashlib.sha256(repr((name, sources, options, version(library))).encode()).hexdigest()
    kept = files.cache_folder() / "kernels" / f"{digest[:32]}.ptx"
    if kept.exists():
        return kept.read_text()
    ptx = run_nvrtc(library, name, sources, options)
    with contextlib.suppress(OSError):  # a folder that cannot be written costs the time to compile
        kept.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(kept, ptx.encode())
    return ptx


def find_library() -> ctypes.CDLL:
    """NVRTC, from the NVIDIA packages beside jax or from the system."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [str(path) for at in folders for path in pathlib.Path(at).glob("*/lib/libnvrtc.so*")]
    for path in [*sorted(found, reverse=True), ctypes.util.find_library("nvrtc")]:
        try:
            if path:
                return ctypes.CDLL(path)
        except OSError:
            continue
    raise Unsuitable("NVRTC is not installed; it is part of jax[cuda13]")


def version(library: ctypes.CDLL) -> tuple[int, int]:
    """The version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def run_nvrtc(
    library: ctypes.CDLL, name: str, sources: dict[str, bytes], options: list[str]
) -> str:
    """The PTX of `sources[name]`, which may include the others."""
    headers = {key: text for key, text in sources.items() if key != name}
    program, count = ctypes.c_void_p(), len(headers)
    texts = (ctypes.c_char_p * count)(*headers.values())
    names = (ctypes.c_char_p * count)(*(key.encode() for key in headers))
    check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), sources[name], name.encode(), count, texts, names
        )
    )
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), given):
            log = read(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
            raise refusal(log)
        ptx = read(library.nvrtcGetPTXSize, library.nvrtcGetPTX, program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return re.sub(r"^\.version .*$", f".version {PTX_VERSION}", ptx, count=1, flags=re.MULTILINE)


def read(size_of: Callable, get: Callable, program: ctypes.c_void_p) -> str:
    """One of the texts that a program of NVRTC has."""
    size = ctypes.c_size_t()
    check(size_of(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    check(get(program, text))
    return text.value.decode()


def check(code: int) -> None:
    """Refuse to go on after an error of NVRTC itself."""
    if code:
        raise NoKernel(f"NVRTC failed with error {code}")


def refusal(log: str) -> NoKernel:
    """The first error of a compiler's log. Sizes that do not fit fail a static assertion."""
    errors = [line for line in log.splitlines() if "error" in line]
    message = re.sub(r"^.*?error:\s*", "", errors[0] if errors else log.strip()[:200])
    asserted = re.search(r'^static assertion failed with "(.*)"$', message)
    return Unsuitable(asserted.group(1)) if asserted else NoKernel(message)


def exported(ptx: str, name: str) -> int:
    """The initial value of an integer that the source exports."""
    found = re.search(rf"\.global \.align 4 \.[ub]32 {name} = (\d+);", ptx)
    if not found:
        raise NoKernel(f"the compiled kernel does not say its {name}")
    return int(found.group(1))
