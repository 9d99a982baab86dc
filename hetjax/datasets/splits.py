"""Dividing labelled nodes where a data set itself names only training and test nodes."""

import numpy as np


def hold_out(train: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Take a random `fraction` of `train` as validation.

    Returns:
      `(train, validation)`, disjoint, their union the `train` given; the same for the same seed.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    size = round(fraction * len(train))
    return np.sort(train[order[size:]]), np.sort(train[order[:size]])
