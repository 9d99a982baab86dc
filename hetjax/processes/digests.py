"""What all processes of a run must have alike, and a run that is continued: code, graph and plan, as digests."""

import hashlib
import importlib.util
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Data, data_path
from hetjax.processes.group import ProcessGroup
from hetjax.system.errors import InputError


def of_code(*own: str) -> str:
    """Of hetjax's sources, and of the modules of a model, a task and a strategy of one's own, given as `MODULE:NAME`."""
    files = sorted(Path(__file__).parent.parent.rglob("*.py"))
    for module, _, attribute in (name.partition(":") for name in own):
        try:
            spec = importlib.util.find_spec(module) if attribute else None
        except (ImportError, ValueError):
            spec = None  # whoever imports it says so
        files += [Path(spec.origin)] if spec and spec.origin and spec.has_location else []
    return _digest(*(file.read_bytes() for file in files))


def of_graph(data: Data, graph: HetGraph) -> str:
    """Of a graph's schema and every array: as a store says of its own, of other formats by reading them.

    Args:
      graph: as `data` gives it, or of a store in shape alone.
    """
    shape = [dict(graph.schema.nodes), graph.schema.relations, graph.schema.target, graph.schema.classes]
    shape += [
        [csc.edges for csc in graph.relations.values()],
        {name: matrix.shape for name, matrix in graph.features.items()},
    ]
    checksums: object
    if data.format == "store":
        checksums = store.contents(data_path(data.path))
    else:
        arrays = [array for csc in graph.relations.values() for array in csc.arrays.values()] + list(
            graph.features.values()
        )
        checksums = [zlib.crc32(np.ascontiguousarray(array).data) for array in arrays]
    labels = (np.ascontiguousarray(array) for array in (graph.labels, *graph.splits.values()))
    return _digest(repr((shape, checksums)).encode(), *labels)


def of_arrays(arrays: Iterable[np.ndarray]) -> str:
    """Of the values of arrays."""
    return _digest(*(np.ascontiguousarray(array).data for array in arrays))


def require(what: str, digest: str, group: ProcessGroup) -> None:
    """Raise an InputError where processes have different ones of `what`."""
    for number, other in enumerate(group.all_gather(what, digest)):
        if other != digest:
            raise InputError(
                f"process {number} has another {what}, digest {other} != {digest} of process {group.number}"
            )


def _digest(*pieces) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
