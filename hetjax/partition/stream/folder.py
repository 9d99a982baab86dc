"""A partitioning of a stream on disk, as `python -m hetjax.partition --stream` writes it, read back."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph import versioned
from hetjax.graph.homogeneous import offsets
from hetjax.graph.npy import load_array
from hetjax.graph.sizes import Sizes
from hetjax.partition.checks import require, require_whole
from hetjax.partition.stream.run import Streamed
from hetjax.partition.stream.state import MOST_PARTS, part_dtype
from hetjax.system.errors import InputError, reading

FORMAT, VERSION = "hetjax-stream-partition", 1
MANIFEST, OWNERS, EDGES = "manifest.json", "owners.npy", "edges.npy"


class StreamPart(NamedTuple):
    """The nodes and edges of one partition; all arrays are mapped.

    Attributes:
      nodes: int32 `[n]`, their ids, rising.
      own: bool `[n]`, whether the partition trains them.
      edges: int32 `[edges, 2]`, places of both ends in `nodes`.
      features: rows of features by the name of the file; of a store's types `features_0.npy` and so on, in the schema's order.
    """

    nodes: np.ndarray
    own: np.ndarray
    edges: np.ndarray
    features: dict[str, np.ndarray]


def manifest(
    division: Streamed, hops: int, directed: bool, sizes: Sizes | None, features: list[str], more: dict[str, Any]
) -> dict:
    """Return what `manifest.json` says, as plain values."""
    parts = division.method.options.parts
    counts = {"parts": parts, "nodes": division.nodes, "edges": division.edges, "hops": hops, "directed": directed}
    types = {} if sizes is None else {"types": offsets(sizes.schema.nodes), "graph_digest": sizes.digest}
    return (
        {"format": FORMAT, "version": VERSION, "method": division.method.name}
        | counts
        | types
        | {"features": features}
        | more
    )


def read(path: str | os.PathLike) -> tuple[dict, np.ndarray]:
    """Return the manifest, and the partition of every node, mapped.

    Raises:
      InputError: a missing or damaged file, or arrays of another shape than the manifest says.
    """
    file = Path(path) / MANIFEST
    content = versioned.read(file, FORMAT, VERSION, "a manifest", "`python -m hetjax.partition --stream` makes one")
    with reading(file):
        require_whole("parts", content["parts"], MOST_PARTS)
        require_whole("nodes", content["nodes"], 2**31 - 1)
        require(type(content["hops"]) is int and content["hops"] >= 0, "hops", content["hops"], "a whole number")
        names = content["features"]
        require(isinstance(names, list) and all(map(_plain, names)), "features", names, "names of files")
    owners = _array(Path(path, OWNERS), part_dtype(content["parts"]), (content["nodes"],))
    if len(owners) and owners.max() >= content["parts"]:
        raise InputError(f"{Path(path, OWNERS)}: partition {owners.max()}, and there are {content['parts']}")
    return content, owners


def read_part(path: str | os.PathLike, part: int) -> StreamPart:
    """Return what a partition has.

    Raises:
      InputError: as `read`; or no such partition, or none was written.
    """
    content, owners = read(path)
    if not content["hops"] or not 0 <= part < content["parts"]:
        kept = f"0..{content['parts'] - 1}" if content["hops"] else "none, as hops is 0"
        raise InputError(f"{Path(path, MANIFEST)}: no partition {part}; there are {kept}")
    place = Path(path, f"part_{part}")
    nodes = _array(place / "nodes.npy", np.dtype(np.int32), None)
    trained, edges = (
        _array(place / "own.npy", np.dtype(bool), nodes.shape),
        _array(place / EDGES, np.dtype(np.int32), None),
    )
    rising = len(nodes) == 0 or (nodes[0] >= 0 and nodes[-1] < len(owners) and bool((np.diff(nodes) > 0).all()))
    if nodes.ndim != 1 or not rising or not np.array_equal(trained, owners[nodes] == part):
        raise InputError(f"{place}: nodes that are not those of {OWNERS}")
    if edges.ndim != 2 or edges.shape[1] != 2 or (len(edges) and not 0 <= edges.min() <= edges.max() < len(nodes)):
        raise InputError(f"{place / EDGES}: {edges.shape}, or ends that are no places among {len(nodes)} nodes")
    return StreamPart(nodes, trained, edges, {name: load_array(place / name) for name in content["features"]})


def _plain(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("features") and os.path.basename(name) == name


def _array(file: Path, dtype: np.dtype, shape: tuple[int, ...] | None) -> np.ndarray:
    found = load_array(file)
    if found.dtype != dtype or (shape is not None and found.shape != shape):
        raise InputError(f"{file}: {found.dtype} {found.shape} != {dtype} {shape or '(any)'} of the manifest")
    return found
