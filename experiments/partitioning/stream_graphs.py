"""The graphs of the experiments with streams of edges: published ones, both ways, and generated ones up to any size."""

import os
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hetjax.partition.stream.run import write_header
from hetjax.system.compiled import compiled

PUBLISHED = ("cora", "citeseer", "pubmed", "coauthor_physics", "tolokers")
AT_ONCE = 2**22  # edges
RMAT = (0.57, 0.19, 0.19)  # Graph500's; the fourth is what is left
TAIL = 2.0  # exponent of Zipf's ranks, as in `edge_cuts`


def published(name: str, loops: bool = True) -> tuple[np.ndarray, int]:
    """Return a graph's edges, both ways, int32 `[edges, 2]` sorted by their first end, and its number of nodes.

    Args:
      loops: with its self loops, each once, as DGL has them.
    """
    with np.load(Path(os.environ["HETJAX_DATA"], name, f"{name}.npz"), allow_pickle=False) as data:
        if "edges" in data:  # each once
            once, nodes = data["edges"], len(data["node_labels"])
            pairs = np.concatenate([once, once[:, ::-1]])
        else:
            prefix = "adj_" if "adj_indptr" in data else ""
            indptr, nodes = data[f"{prefix}indptr"], len(data["labels"])
            pairs = np.stack([np.repeat(np.arange(nodes), np.diff(indptr)), data[f"{prefix}indices"]], axis=1)
        if loops and "self_loops" in data:
            pairs = np.concatenate([pairs, np.repeat(data["self_loops"][:, None], 2, axis=1)])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int32), nodes


def once(pairs: np.ndarray) -> np.ndarray:
    """Return those of edges that are there both ways whose first end is not the larger."""
    return pairs[pairs[:, 0] <= pairs[:, 1]]


def generate(kind: str, nodes: int, edges: int, file: Path, seed: int = 0) -> None:
    """Write a `.npy` of int32 `[edges, 2]`, in order of no meaning.

    Args:
      kind: `rmat` (Chakrabarti et al. 2004, Graph500's parameters; ids scrambled, those beyond `nodes` folded back);
        `zipf`: both ends of rank `floor(nodes u ** 2)`, nothing else; `communities`: the same, but three edges in four stay
        within a community of 1000 nodes.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes).astype(np.int32)
    with open(file, "wb") as stream, tqdm(total=edges, desc=f"{kind}, {edges:,} edges", disable=None) as bar:
        write_header(stream, np.dtype(np.int32), (edges, 2))
        for first in range(0, edges, AT_ONCE):
            count = min(AT_ONCE, edges - first)
            stream.write(order[_ranks(kind, nodes, count, rng)].data)
            bar.update(count)


def _ranks(kind: str, nodes: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    """Return both ends of edges, int64 `[edges, 2]`."""
    if kind == "rmat":
        levels = max(1, int(np.ceil(np.log2(nodes))))
        pairs = np.empty((edges, 2), np.int64)
        _rmat(rng.random((levels, edges), np.float32), pairs)
        return pairs % nodes
    pairs = (nodes * rng.random((edges, 2)) ** TAIL).astype(np.int64)
    if kind == "communities":
        communities = -(-nodes // 1000)
        home = pairs[:, 0] % communities
        within = home + communities * (1000 * rng.random(edges) ** TAIL).astype(np.int64)
        pairs[:, 1] = np.where((rng.random(edges) < 0.75) & (within < nodes), within, pairs[:, 1])
    return pairs


@compiled
def _rmat(draws, pairs):
    a, b, c = RMAT
    for edge in range(len(pairs)):
        u = v = 0
        for level in range(len(draws)):
            draw = draws[level, edge]
            u = 2 * u + (draw >= a + b)
            v = 2 * v + ((a <= draw < a + b) or draw >= a + b + c)
        pairs[edge, 0], pairs[edge, 1] = u, v
