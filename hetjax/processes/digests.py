"""Digests of what all processes of a run, and a run that is continued, must have alike: code, graph and plan."""

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


def of_code(*names: str) -> str:
    """Return the digest of hetjax's sources, and of the modules of a user's own model, task and strategy, given as `MODULE:NAME`."""
    files = sorted(Path(__file__).parent.parent.rglob("*.py"))
    for module, _, attribute in (name.partition(":") for name in names):
        try:
            spec = importlib.util.find_spec(module) if attribute else None
        except (ImportError, ValueError):
            spec = None  # whoever imports it says so
        files += [Path(spec.origin)] if spec and spec.origin and spec.has_location else []
    return _digest(*(file.read_bytes() for file in files))


def of_graph(data: Data, graph: HetGraph) -> str:
    """Return the digest of a graph's schema and every array: the one in a store's metadata, or, of other formats, of what is read.

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
        found = store.contents(data_path(data.path))  # other columns of labels may be added
        checksums = found and {name: crc for name, crc in found.items() if not name.startswith("column_")}
    else:
        arrays = [array for csc in graph.relations.values() for array in csc.arrays.values()] + list(
            graph.features.values()
        )
        checksums = [zlib.crc32(np.ascontiguousarray(array).data) for array in arrays]
    labels = (np.ascontiguousarray(array) for array in (graph.labels, *graph.splits.values()))
    return _digest(repr((shape, checksums)).encode(), *labels)


def of_arrays(arrays: Iterable[np.ndarray]) -> str:
    """Return the digest of the values of arrays."""
    return _digest(*(np.ascontiguousarray(array).data for array in arrays))


def require(what: str, digest: str, group: ProcessGroup) -> None:
    """Raise an InputError where processes have different values of `what`."""
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
