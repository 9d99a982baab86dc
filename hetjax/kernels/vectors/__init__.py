"""Arithmetic on rows of arrays, several elements at a time, in functions that numba compiles.

Left to itself LLVM adds rows of a few dozen elements one by one: it must fear that arrays overlap, and looks whether they do at
every row. Here vectors are written out, and what is read and written in place is read before it is written.
"""

from hetjax.kernels.vectors.products import SIDE, add_products, dot, dots
from hetjax.kernels.vectors.rows import add_rows, add_scaled, clear, copy
from hetjax.kernels.vectors.softmax import bend, exponentials, shift, total_weights, unbend

__all__ = [
    "SIDE",
    "add_products",
    "add_rows",
    "add_scaled",
    "bend",
    "clear",
    "copy",
    "dot",
    "dots",
    "exponentials",
    "shift",
    "total_weights",
    "unbend",
]
