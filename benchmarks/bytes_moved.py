"""The bytes that an R-GCN's training step has to move, and how fast this machine moves bytes."""

import time
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.sampling.blocks import NO_NODE, Batch

NUMBER = 4  # bytes of a float32, and of an int32


def of_rgcn(batch: Batch, graph: HetGraph, widths: Mapping[str, int], hidden: int) -> int:
    """Bytes read and written by the step of a two-layer or deeper R-GCN without self terms, of real rows and edges alone.

    Whatever is computed from rows reads each of them once and writes its result once, as one operation after the other: an edge
    reads its index and a row as wide as the sum; sums are written, read by the product with the matrix, and what that gives is
    written and added up; on the way back a target's gradient is read and written by the product, once more for the matrix'
    gradient beside the sums, and once by every edge if the sources have a gradient, which is written. Learnable rows are taken
    (read and written), and updated with both moments and their count (all of them and the gradient read, all but it written).
    Indices of the reverse edges count, weights and logits do not: they are few.

    Args:
      widths: of the features of every type.
      hidden: width of all embeddings.
    """
    total, rows = 0, {t: int(np.sum(np.asarray(ids) != NO_NODE)) for t, ids in batch.inputs.items()}
    for t, count in rows.items():
        total += NUMBER * count * (2 * widths[t] + 2 * (3 * widths[t] + 1) + widths[t])
    for depth, block in enumerate(batch.blocks):
        for relation in graph.schema.relations:
            if relation.key not in block.adjacency:
                continue
            adjacency = block.adjacency[relation.key]
            indptr = np.asarray(adjacency.indptr)
            edges, targets = int(indptr[-1]), int(np.sum(np.diff(indptr) > 0))
            width = hidden if depth else widths[relation.source]
            total += NUMBER * (edges * (1 + width) + targets * (2 * width + 2 * hidden))
            total += NUMBER * targets * (2 * hidden + 2 * width)
            if adjacency.reverse_indptr is not None:
                sources = int(np.sum(np.diff(np.asarray(adjacency.reverse_indptr)) > 0))
                total += NUMBER * (edges * (1 + width) + sources * width)
    return total


def bandwidth(size: int = 2**27, repeats: int = 15) -> float:
    """Bytes per second of a copy, read and written, of `size` bytes: the median."""
    copy, x = jax.jit(lambda x: x + 1), jnp.zeros(size // NUMBER, jnp.float32)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(copy(x))
        times.append(time.perf_counter() - started)
    return 2 * size / float(np.median(times[2:]))
