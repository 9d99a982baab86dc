"""hetjax: exact, fast training of heterogeneous graph neural networks in JAX."""

import sys
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

from hetjax import runtime

if TYPE_CHECKING:
    from hetjax.cache.fetch import fetch_features
    from hetjax.models.hgnn import HGNN
    from hetjax.partition import partition

__all__ = ["HGNN", "__version__", "fetch_features", "partition"]
__version__ = "0.1.0"

if any(argument == "-m" and module.startswith("hetjax.") for argument, module in pairwise(sys.orig_argv)):
    runtime.hush()  # a command, whose modules are imported now


def __getattr__(name: str) -> object:
    """The public face, imported when it is used, so that `hetjax.graph` and its like start without jax."""
    if name == "HGNN":
        from hetjax.models.hgnn import HGNN

        return HGNN
    if name == "fetch_features":
        from hetjax.cache.fetch import fetch_features

        return fetch_features
    if name == "partition":
        return import_module("hetjax.partition")  # a package that can be called
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
