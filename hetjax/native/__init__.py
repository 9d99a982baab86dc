"""Functions that numba compiles, as operations of XLA's programs on a CPU, which share its threads.

Where the version of jaxlib's interface is not known `usable` says no, and callers keep to what XLA has itself.
"""

# Everything of this folder is imported at once, so that `compiled.digest` of who imports it is the same in every process.
from hetjax.native.compilers import expect_calls
from hetjax.native.frames import argument, arrays, result
from hetjax.native.handler import BLOCK
from hetjax.native.operations import Operation, expect
from hetjax.native.platforms import by_platform, choose, fits, taken, usable

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
