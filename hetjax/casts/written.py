"""Texts that are whole numbers as Python writes them: `7` and `-12`, and not `007`, `+7`, ` 7` or `0x7`, which are other ids."""

import numpy as np
import pyarrow as pa

from hetjax.graph.arrow import parts
from hetjax.system.compiled import compiled

MINUS, ZERO, NINE = (ord(c) for c in "-09")
DIGITS, MOST = 19, np.uint64(2**63)  # of a number of 64 bits, and the largest


def whole_numbers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers that texts are, int64 `[texts]`, and which are none, bool `[texts]`, as what is missing is.

    Args:
      texts: large_string.
    """
    numbers, wrong = np.empty(len(texts), np.int64), np.empty(len(texts), bool)
    _read(*parts(texts), numbers, wrong)
    if texts.null_count:
        wrong |= texts.is_null().to_numpy(zero_copy_only=False)
    return numbers, wrong


@compiled
def _read(ends, content, numbers, wrong):
    for row in range(len(numbers)):
        at, end = ends[row], ends[row + 1]
        minus = at < end and content[at] == MINUS
        at += minus
        size, value = end - at, np.uint64(0)
        right = 0 < size <= DIGITS and not (content[at] == ZERO and (size > 1 or minus))
        if right:
            for place in range(at, end):
                byte = content[place]
                right = right and ZERO <= byte <= NINE
                value = np.uint64(10) * value + np.uint64(byte - ZERO)
        right = right and (value < MOST or (minus and value == MOST))
        numbers[row] = (-np.int64(value) if minus else np.int64(value)) if right else 0
        wrong[row] = not right
