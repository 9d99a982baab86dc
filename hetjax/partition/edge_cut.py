"""Edge-cut partitioning, the baselines of Heta's paper: every node in one partition, at random or by METIS.

METIS sees the graph made homogeneous, as in DGL: all types' nodes numbered on, every edge in both directions, once,
without self loops. All nodes weigh the same, whatever their type, features or split: METIS balances their number, not
the types' nor the training nodes'. `metis` makes the number of cut edges small, `metis-vol` the number of (node, other
partition that has a neighbour of it), both by k-way partitioning (Karypis and Kumar 1998); pymetis gives no node sizes,
so volume is counted in nodes, not in bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hetjax import durable
from hetjax.compiled import compiled
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Schema
from hetjax.graph.sizes import sizes
from hetjax.partition.checks import require_whole
from hetjax.partition.cost import Workload
from hetjax.partition.metatree import MOST_HOPS
from hetjax.partition.plan import EDGE_CUTS, MOST_PARTS, PART, EdgeCut


def edge_cut(
    graph: HetGraph,
    parts: int,
    method: str,
    seed: int = 0,
    hops: int = 2,
    workload: Workload | None = None,
    own: bool = True,
    store: str | None = None,
) -> EdgeCut:
    """Put every node into one of `parts` partitions.

    Args:
      graph: in memory or mapped; METIS reads every edge.
      parts: number of partitions.
      method: `random`, `metis` or `metis-vol`.
      seed: of the random choice, and of METIS.
      hops, workload, own, store: as in `EdgeCut`.

    Raises:
      InputError: another method, more partitions than nodes or than `MOST_PARTS`, more hops than a metatree may have,
        or pymetis is not installed.
    """
    require_whole("hops", hops, MOST_HOPS)
    count = sum(graph.schema.nodes.values())
    if method not in EDGE_CUTS:
        raise InputError(f"method {method!r}, and an edge-cut is one of {', '.join(EDGE_CUTS)}")
    if not 1 <= parts <= min(MOST_PARTS, count):
        raise InputError(f"{parts} partitions of {count} nodes, outside 1..{min(MOST_PARTS, count)}")
    whole = _random(count, parts, seed) if method == "random" else _metis(graph, parts, method, seed)
    ends = np.cumsum(list(graph.schema.nodes.values()))[:-1]
    nodes = dict(zip(graph.schema.nodes, np.split(whole, ends)))
    return EdgeCut(sizes(graph), nodes, parts, method, hops, workload or Workload(), own, store)


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
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            bar.update()
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or "out of memory?"
            raise InputError(f"method {method}: METIS ended with status {done.returncode}: {last}")
        return np.load(Path(folder, metis.FOUND)).astype(PART)


def offsets(schema: Schema) -> dict[str, int]:
    """The number that a type's first node has in the homogeneous graph."""
    starts = np.cumsum([0, *schema.nodes.values()])
    return {name: int(start) for name, start in zip(schema.nodes, starts)}


def homogeneous(graph: HetGraph, dtype=np.int64) -> tuple[np.ndarray, np.ndarray]:
    """The undirected simple graph below all relations, types' nodes numbered on in the schema's order.

    Returns:
      `(indptr [nodes + 1], neighbours)`: the neighbours of node `v` are `neighbours[indptr[v]:indptr[v + 1]]`, rising;
      each edge is there in both directions, once, and there are no self loops.
    """
    start = offsets(graph.schema)
    places = [(start[r.source], start[r.target]) for r in graph.relations]
    indptr = np.zeros(sum(graph.schema.nodes.values()) + 1, dtype)
    for csc, (source, target) in zip(graph.relations.values(), places):
        _count_ends(csc.indptr, csc.indices, source, target, indptr)
    np.cumsum(indptr, out=indptr)
    neighbours, cursor = np.empty(indptr[-1], dtype), indptr[:-1].copy()
    with tqdm(list(zip(graph.relations.values(), places)), "edges, both ways", leave=False, disable=None) as bar:
        for csc, (source, target) in bar:
            _put_ends(csc.indptr, csc.indices, source, target, cursor, neighbours)
    kept = _sort_unique(indptr, neighbours)
    return indptr, neighbours[:kept]


@compiled
def _count_ends(indptr, indices, source, target, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if u != w:
                out[u + 1] += 1
                out[w + 1] += 1


@compiled
def _put_ends(indptr, indices, source, target, cursor, out):
    for v in range(len(indptr) - 1):
        for edge in range(indptr[v], indptr[v + 1]):
            u, w = np.int64(indices[edge]) + source, v + target
            if u != w:
                out[cursor[u]], out[cursor[w]] = w, u
                cursor[u] += 1
                cursor[w] += 1


@compiled
def _sort_unique(indptr, neighbours):
    """Sort each row and drop what stands there twice, in place; returns how many are left."""
    kept, start = 0, 0
    for v in range(len(indptr) - 1):
        stop, first = indptr[v + 1], kept
        neighbours[start:stop].sort()
        for place in range(start, stop):
            if kept == first or neighbours[place] != neighbours[kept - 1]:
                neighbours[kept] = neighbours[place]
                kept += 1
        start = stop
        indptr[v + 1] = kept
    return kept
