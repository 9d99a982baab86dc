"""Graphs in one `.npz` that hetjax and its peers read alike.

`nodes|TYPE` holds a count; `edges|SOURCE|NAME|TARGET` int32 `[2, edges]`; `features|TYPE` float32 `[nodes, width]`;
`labels|TYPE` int32 `[nodes]` and `train|TYPE` int32 ids, of the target type alone.
"""

import os

import numpy as np

from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.schema import Relation, Schema


def read(file: str | os.PathLike) -> HetGraph:
    """The graph in a file; without validation or test nodes."""
    with np.load(file, allow_pickle=False) as arrays:
        found = {tuple(key.split("|")): arrays[key] for key in arrays.files}
    nodes = {key[1]: int(count) for key, count in found.items() if key[0] == "nodes"}
    edges = {Relation(*key[1:]): tuple(ends) for key, ends in found.items() if key[0] == "edges"}
    features = {key[1]: matrix for key, matrix in found.items() if key[0] == "features"}
    (target,) = (key[1] for key in found if key[0] == "labels")
    labels, nobody = found["labels", target], np.zeros(0, np.int32)
    splits = {"train": found["train", target], "validation": nobody, "test": nobody}
    return build(Schema(nodes, tuple(edges), target, int(labels.max()) + 1), edges, features, labels, splits)
