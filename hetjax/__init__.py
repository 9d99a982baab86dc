"""hetjax: exact, fast training of heterogeneous graph neural networks in JAX."""

import sys
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

from hetjax.system import runtime
from hetjax.system.version import __version__

if TYPE_CHECKING:
    from hetjax.cache.fetch import fetch_features
    from hetjax.inference.predicting import predict
    from hetjax.inference.serve import Served, load
    from hetjax.inference.trained import Trained
    from hetjax.models.hgnn import HGNN
    from hetjax.objects.arrays import from_arrays
    from hetjax.objects.dgl import from_dgl, to_dgl
    from hetjax.objects.frames import from_pandas, to_pandas
    from hetjax.objects.networkx import from_networkx, to_networkx
    from hetjax.objects.pyg import from_pyg, to_pyg
    from hetjax.partition import partition
    from hetjax.train_graph import train_graph as train

__all__ = [
    "HGNN",
    "Served",
    "Trained",
    "__version__",
    "fetch_features",
    "from_arrays",
    "from_dgl",
    "from_networkx",
    "from_pandas",
    "from_pyg",
    "load",
    "partition",
    "predict",
    "to_dgl",
    "to_networkx",
    "to_pandas",
    "to_pyg",
    "train",
]

if any(argument == "-m" and module.startswith("hetjax.") for argument, module in pairwise(sys.orig_argv)):
    runtime.hush()  # a command, whose modules are imported now
    if sys.argv[0] == "-m":
        runtime.use_utf8()


CALLED = "partition", "predict", "train"  # modules that can be called
PLACES = {
    "Trained": "hetjax.inference.trained",
    "HGNN": "hetjax.models.hgnn",
    "Served": "hetjax.inference.serve",
    "load": "hetjax.inference.serve",
    "fetch_features": "hetjax.cache.fetch",
    "from_arrays": "hetjax.objects.arrays",
    "from_dgl": "hetjax.objects.dgl",
    "from_networkx": "hetjax.objects.networkx",
    "from_pandas": "hetjax.objects.frames",
    "from_pyg": "hetjax.objects.pyg",
    "to_dgl": "hetjax.objects.dgl",
    "to_networkx": "hetjax.objects.networkx",
    "to_pandas": "hetjax.objects.frames",
    "to_pyg": "hetjax.objects.pyg",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is used, so that `hetjax.graph` and its like start without jax."""
    if name in CALLED:
        return import_module(f"hetjax.{name}")
    if name in PLACES:
        return getattr(import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names alone; nothing is imported for them."""
    return sorted(__all__)
