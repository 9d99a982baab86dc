"""A graph's edges, features, labels, masks and names in plain arrays, of which objects of other libraries are made."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, nearest

MASKS = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}


def edge_lists(graph: HetGraph) -> Iterator[tuple[Relation, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield source and target numbers, int64, and weights per relation, by target."""
    for relation in graph.schema.relations:
        csc = graph.relations[relation]
        source, target = edges_of(csc)
        yield relation, source.astype(np.int64), target.astype(np.int64), csc.weights


def masks(graph: HetGraph) -> dict[str, np.ndarray]:
    """Return masks, bool `[nodes of the target type]` per split, by the names that PyG and DGL give masks."""
    by_name = {name: np.zeros(len(graph.labels), bool) for name in MASKS.values()}
    for split, name in MASKS.items():
        by_name[name][graph.splits[split]] = True
    return by_name


def node_ids(graph: HetGraph, node_type: str) -> list[Any]:
    """Return the users' ids, or the numbers."""
    return graph.names.of(node_type, graph.schema.nodes[node_type]).to_pylist()


def only_target(labelled: list[str], target: str | None, types: Collection[str]) -> str:
    """Return the node type whose labels are meant; a type that has none may be named, of a graph to predict."""
    if target is not None:
        if target not in types:
            raise InputError(f"target {target!r}: no such node type{nearest(target, sorted(types))}")
        if target not in labelled and labelled:
            raise InputError(f"target {target!r} has no labels; types that have some: {', '.join(labelled) or 'none'}")
        return target
    if len(labelled) != 1:
        raise InputError(
            f"types with labels: {', '.join(labelled) or 'none'}, and there should be one: name it, target=...; so is the one to predict, of a graph without labels"
        )
    return labelled[0]
