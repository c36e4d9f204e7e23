"""Options with which XLA compiles training for each kind of hardware."""

import functools
import platform

import jax
import jax.numpy as jnp


def for_cpu() -> dict[str, bool | str]:
    """Loops are not split over threads: splitting took a quarter of the time of small networks, and
    the program depended on the number of threads. No 512-bit code: small products are slower."""
    options: dict[str, bool | str] = {
        "xla_cpu_multi_thread_eigen": False,
        "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    }
    if platform.machine() in ("x86_64", "AMD64"):
        options["xla_cpu_max_isa"] = "AVX2"
    return options


@functools.cache
def for_gpu() -> dict[str, bool | str]:
    """Independent kernels of a program run concurrently, if this version of XLA can do that: 10% to
    20% faster where kernels are small."""
    options: dict[str, bool | str] = {
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        "xla_gpu_graph_min_graph_size": "1",
    }
    if jax.default_backend() != "gpu":
        return {}
    try:
        jax.jit(jnp.negative, compiler_options=options).lower(1.0).compile()
    except jax.errors.JaxRuntimeError:  # there is no such option
        return {}
    return options
