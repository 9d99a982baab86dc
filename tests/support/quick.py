"""Four devices, and programs that compile quickly and are kept for others: for tests, and experiments of many small programs.

To be imported before jax: what is in the environment is for the processes that these start too.
"""

import atexit
import gc
import os
import shutil
import tempfile

from hetjax.system import runtime

os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
runtime.tell_xla(runtime.EXTRA, runtime.OLDER_LOOPS)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="programs_")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import jax

jax.config.update("jax_num_cpu_devices", 4)
gc.set_threshold(
    20_000, 20, 20
)  # tracing makes many objects, few of them in cycles: looking for these took a tenth of the time


def compile_quickly(quickly: bool = True) -> None:
    """Whether XLA leaves out what costs it most, from here on."""
    jax.config.update("jax_disable_most_optimizations", quickly)
