"""Streams of edges that are skewed and in communities."""

import numpy as np

NODES, EDGES = 40, 150


def stream_of(seed: int, edges: int = EDGES) -> np.ndarray:
    """Skewed, in communities, with loops, parallel edges and nodes without any."""
    rng = np.random.default_rng(seed)
    pairs = ((NODES - 2) * rng.random((edges, 2)) ** 2).astype(np.int32)
    near = rng.random(edges) < 0.6
    pairs[near, 1] = np.minimum(pairs[near, 0] // 8 * 8 + rng.integers(0, 8, near.sum()), NODES - 3)
    return pairs
