"""Functions that numba compiles, as operations of XLA's programs on a CPU, which share its threads.

Where the version of jaxlib's interface is not known `usable` says no, and callers keep to what XLA has itself.
"""

# Everything of this folder is imported at once, so that `compiled.digest` of who imports it is the same in every process.
from hetjax.kernels.native.compilers import expect_calls
from hetjax.kernels.native.frames import argument, arrays, result
from hetjax.kernels.native.handler import BLOCK
from hetjax.kernels.native.operations import Operation, expect
from hetjax.kernels.native.platforms import by_platform, choose, fits, taken, usable

__all__ = [
    "BLOCK",
    "Operation",
    "argument",
    "arrays",
    "by_platform",
    "choose",
    "expect",
    "expect_calls",
    "fits",
    "result",
    "taken",
    "usable",
]
