"""The smallest type of features that holds some numbers."""

import numpy as np

NARROW = tuple(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float16")))  # the smallest first
AT_ONCE = 2**16  # values, which stay in the processor's cache with what is made of them


def narrowest(values: np.ndarray) -> np.dtype:
    """Return the smallest type of features that holds every value, in whichever shape, exactly; float32 if none smaller does."""
    left = [dtype for dtype in NARROW if dtype.itemsize <= values.dtype.itemsize]
    rows = max(1, AT_ONCE // max(1, values[:1].size))
    for start in range(0, len(values), rows):
        chunk = values[start : start + rows]
        with np.errstate(all="ignore"):  # of values that do not fit
            left = [dtype for dtype in left if (chunk.astype(dtype) == chunk).all()]
        if not left:
            return np.dtype(np.float32)
    return left[0] if left else np.dtype(np.float32)
