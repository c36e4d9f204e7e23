"""`window.cu` on a CPU: compiled by g++, every thread of a block a fiber (emulate.h)."""

import ctypes
import functools
import pathlib
import shutil
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

import wmg.learn.kernels

SOURCE = pathlib.Path(wmg.learn.kernels.__file__).parent / "window.cu"
HERE = pathlib.Path(__file__).parent
MISSING = None if shutil.which("g++") else "there is no g++"


@functools.cache
def build(sizes, **macros) -> ctypes.CDLL:
    """The kernel for these sizes as a library."""
    defined = {**sizes.macros(), "TF32": 0, **macros}
    options = ["-O1", "-std=c++17", "-shared", "-fPIC", "-DEMULATE", f"-I{HERE}"]
    options += [f"-I{SOURCE.parent}", *(f"-D{key}={value}" for key, value in defined.items())]
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/window.so"
        subprocess.run(["g++", *options, "-x", "c++", SOURCE, "-o", library], check=True)
        return ctypes.CDLL(library)


def launcher(layout, sizes, **macros):
    """The kernel's `launch`, emulated."""
    library = build(sizes, **macros)
    work, params = (
        ctypes.c_int.in_dll(library, name).value for name in ("work_floats", "params_floats")
    )
    assert params == len(layout.order)

    def emulate(*given):
        given = [np.array(x) for x in given]
        runs, chunk = given[3].shape[:2]
        work_space = np.full((runs, work), np.nan, np.float32)
        totals = np.full((runs, chunk, 5), np.nan, np.float32)
        made = [*given[:3], work_space, totals, np.full((runs, 2), -1, np.int32)]
        buffers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*given, *made)]
        library.emulate(runs, (ctypes.c_void_p * len(buffers))(*buffers))
        return tuple(made)

    def launch(*given):
        runs, chunk = given[3].shape[:2]
        shapes = [*(x.shape for x in given[:3]), (runs, work), (runs, chunk, 5)]
        results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        return jax.pure_callback(
            emulate, (*results, jax.ShapeDtypeStruct((runs, 2), jnp.int32)), *given
        )

    return launch
