"""What holds numbers: numpy's on the host, jax's on devices and inside programs."""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import jax

Array: TypeAlias = "np.ndarray | jax.Array"
