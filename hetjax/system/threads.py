"""Functions that other threads run as this one would."""

from collections.abc import Callable
from typing import Any

import jax


def as_here(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that another thread calls with the floats and the precision of this one: jax keeps both by thread."""
    wide: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]

    def called(*arguments: Any) -> Any:
        with jax.enable_x64(wide), jax.default_matmul_precision(precision):
            return run(*arguments)

    return called
