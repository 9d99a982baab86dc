"""Edge-cut partitioning: every node in one partition, at random, by METIS, in ranges of ids, or by Fennel.

The baselines of Heta's paper are the first two. `contiguous` and `fennel` (modules of these names) are two of the three that
NeutronStar (SIGMOD 2022, section 5.7) compares, METIS being the third.

METIS sees the graph made homogeneous, as in DGL: all types' nodes numbered on, every edge in both directions, once,
without self loops. All nodes weigh the same, whatever their type, features or split: METIS balances their number, not
the types' nor the training nodes'. `metis` makes the number of cut edges small, `metis-vol` the number of (node, other
partition that has a neighbour of it), both by k-way partitioning (Karypis and Kumar 1998); pymetis gives no node sizes,
so volume is counted in nodes, not in bytes.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.homogeneous import homogeneous, split
from hetjax.graph.sizes import Sizes, sizes
from hetjax.partition.checks import is_whole, require, require_whole
from hetjax.partition.contiguous import contiguous
from hetjax.partition.cost import Workload
from hetjax.partition.fennel import fennel, random_order
from hetjax.partition.metatree import MOST_HOPS
from hetjax.partition.owned import Owned
from hetjax.partition.partitioning import Partitioning, workload_of
from hetjax.system import durable
from hetjax.system.errors import InputError

PART = np.dtype(np.uint8)  # of a node's partition
MOST_PARTS = 64  # of an edge-cut, whose readers of a node are the bits of a word


@dataclass(frozen=True)
class EdgeCut(Partitioning):
    """An edge-cut partitioning: every node lies in one partition, and every edge where its target lies.

    Attributes:
      sizes: of the graph.
      nodes: per node type the partition of every node, uint8 `[nodes]`.
      parts: number of partitions.
      method: `random`, `metis`, `metis-vol`, `contiguous` or `fennel`.
      hops: number of layers of the model that costs are expected of.
      workload: the step that they are expected of.
      reads_own: whether that model reads nodes' own embeddings, as self terms do.
      store: as in `Partitioning`.
    """

    methods: ClassVar[tuple[str, ...]] = ("random", "metis", "metis-vol", "contiguous", "fennel")

    sizes: Sizes
    nodes: Mapping[str, np.ndarray]
    parts: int
    method: str
    hops: int = 2
    workload: Workload = field(default_factory=Workload)
    reads_own: bool = True
    store: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))
        if self.method not in self.methods:
            raise InputError(f"method {self.method!r}, and an edge-cut is one of {', '.join(self.methods)}")
        require_whole("parts", self.parts, MOST_PARTS)
        require_whole("hops", self.hops, MOST_HOPS)
        if list(self.nodes) != list(self.sizes.schema.nodes):
            raise InputError(
                f"partitions of the types {list(self.nodes)} != {list(self.sizes.schema.nodes)} of the graph"
            )
        for name, count in self.sizes.schema.nodes.items():
            array = self.nodes[name]
            if array.shape != (count,) or array.dtype != PART or (count and array.max() >= self.parts):
                raise InputError(
                    f"partitions of type {name!r} are {array.dtype} {array.shape}, and should be {PART} ({count},) under {self.parts}"
                )

    @cached_property
    def owned(self) -> Owned:
        """The place of every node's rows."""
        return Owned(self.nodes, self.parts)

    def json(self) -> dict:
        """Return the manifest, as plain values; the arrays lie beside it."""
        arrays = {
            name: {
                "file": f"nodes_{number}.npy",
                "sha256": hashlib.sha256(np.ascontiguousarray(array).data).hexdigest(),
            }
            for number, (name, array) in enumerate(self.nodes.items())
        }
        return self.header() | {"hops": self.hops, "reads_own": self.reads_own, "parts": self.parts, "nodes": arrays}

    @classmethod
    def from_json(cls, given: Mapping[str, Any], sizes: Sizes, folder: Path) -> "EdgeCut":
        counts = sizes.schema.nodes
        nodes = {
            name: store.map_array(folder / f"nodes_{number}.npy", PART, (counts[name],), f"partitions of {name!r}")
            for number, name in enumerate(counts)
        }
        require(isinstance(given["reads_own"], bool), "reads_own", given["reads_own"], "true or false")
        model = given["hops"], workload_of(given), given["reads_own"]
        return cls(sizes, nodes, given["parts"], given["method"], *model, given["store"])

    def write(self, folder: Path, graph: HetGraph | None) -> None:
        for number, array in enumerate(self.nodes.values()):
            durable.write_array(folder / f"nodes_{number}.npy", array)


def edge_cut(
    graph: HetGraph,
    parts: int,
    method: str,
    seed: int = 0,
    hops: int = 2,
    workload: Workload | None = None,
    reads_own: bool = True,
    store: str | None = None,
) -> EdgeCut:
    """Put every node into one of `parts` partitions.

    Args:
      graph: in memory or mapped; METIS and Fennel read every edge.
      parts: number of partitions.
      method: `random`, `metis`, `metis-vol`, `contiguous` or `fennel`.
      seed: of the random choice, of METIS, and of the order in which Fennel takes the nodes; contiguous ranges need none.
      hops, workload, reads_own, store: as in `EdgeCut`.

    Raises:
      InputError: another method, more partitions than nodes or than `MOST_PARTS`, more hops than a metatree may have,
        or pymetis is not installed.
    """
    require_whole("hops", hops, MOST_HOPS)
    require(is_whole(parts), "parts", parts, "a whole number")
    count = sum(graph.schema.nodes.values())
    if method not in EdgeCut.methods:
        raise InputError(f"method {method!r}, and an edge-cut is one of {', '.join(EdgeCut.methods)}")
    if not 1 <= parts <= min(MOST_PARTS, count):
        raise InputError(f"{parts} partitions of {count} nodes, outside 1..{min(MOST_PARTS, count)}")
    nodes = _ranges(graph, parts) if method == "contiguous" else _as_one(graph, parts, method, seed)
    return EdgeCut(sizes(graph), nodes, parts, method, hops, workload or Workload(), reads_own, store)


def _ranges(graph: HetGraph, parts: int) -> dict[str, np.ndarray]:
    numbers = np.arange(parts, dtype=PART)
    return {name: np.repeat(numbers, np.diff(starts)) for name, starts in contiguous(graph, parts).items()}


def _as_one(graph: HetGraph, parts: int, method: str, seed: int) -> dict[str, np.ndarray]:
    """Divide the nodes by a method to which all nodes are of one kind."""
    counts = list(graph.schema.nodes.values())
    if method == "random":
        owners = _random(sum(counts), parts, seed)
    elif method == "fennel":
        indptr, neighbours = homogeneous(graph)
        owners = fennel(indptr, neighbours, counts, parts, random_order(sum(counts), seed))
    else:
        owners = _metis(graph, parts, method, seed)
    return split(graph.schema, owners)


def _random(count: int, parts: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(seed)).integers(0, parts, count, PART)


def _metis(graph: HetGraph, parts: int, method: str, seed: int) -> np.ndarray:
    try:
        import pymetis

        from hetjax.partition import metis
    except ImportError:
        raise InputError(f"method {method} needs pymetis: pip install 'hetjax[metis]'") from None
    with tempfile.TemporaryDirectory(prefix="hetjax-metis-") as folder:
        indptr, neighbours = homogeneous(graph, pymetis.zero_copy_dtype())
        edges = len(neighbours) // 2
        with durable.writing(folder):
            durable.write_array(Path(folder, metis.INDPTR), indptr)
            durable.write_array(Path(folder, metis.NEIGHBOURS), neighbours)
        del indptr, neighbours
        command = [sys.executable, "-P", metis.__file__, folder, parts, "VOL" if method == "metis-vol" else "CUT", seed]
        with tqdm(total=1, desc=f"METIS, {edges:,} edges", leave=False, disable=None) as bar:
            done = subprocess.run(
                list(map(str, command)), capture_output=True, encoding="utf-8", errors="backslashreplace"
            )
            bar.update()
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or "out of memory?"
            raise InputError(f"method {method}: METIS ended with status {done.returncode}: {last}")
        return np.load(Path(folder, metis.FOUND)).astype(PART)
