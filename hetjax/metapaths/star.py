"""A graph in which every metapath is one relation into the target type: what is left to train is one layer.

Every metapath whose first type has features becomes a node type of its own, with the target's nodes and the neighbour means as features, and
a relation from each of its nodes to the same node of the target. A metapath whose first type has no features becomes one relation from
that type: the model learns features, and takes their means. Metapaths of labels carry the training labels, without a node's own.

All of it is a graph, so every strategy trains it as any other. Under RAF a partition owns relations into the target: here, metapaths.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_propagation import known
from hetjax.graph.schema import Relation, Schema
from hetjax.metapaths.means import composed, means, means_of_others, one_hot
from hetjax.metapaths.paths import BACK, metapaths
from hetjax.system.errors import InputError

ITSELF, MEANS, LABELS = "itself", "means", "labels"  # relations into the target type


def of_metapaths(schema: Schema) -> bool:
    """Return whether every relation is a metapath already, as `along_metapaths` makes them: one of them is every node alone."""
    return any(map(is_own, schema.relations)) and all(
        r.target == schema.target and is_metapath(r) for r in schema.relations
    )


def is_own(relation: Relation) -> bool:
    """Return whether this is the metapath without a hop."""
    return ITSELF in (relation.name, relation.source.removeprefix(f"{relation.target} "))


def is_metapath(relation: Relation) -> bool:
    """Return whether a relation into the target type may be a metapath: one from the target type itself is named as such."""
    source, name, target = relation
    return source != target or name == ITSELF or name.startswith(target + BACK)


def along_metapaths(
    graph: HetGraph, hops: int, label_hops: int = 0, features: Collection[str] | None = None, ones: bool = False
) -> HetGraph:
    """Return the graph of a graph's metapaths.

    Args:
      graph: in memory or mapped into it.
      hops: most relations of a metapath of features.
      label_hops: most relations of a metapath of training labels; 0: labels are no inputs.
      features: the node types whose features are computed; the others have them in shape alone. None: all.
      ones: types other than the target that have no features have one-hot ones.

    Raises:
      InputError: there are too many metapaths, or too many edges or one-hot features of one whose first type has no features.
    """
    schema, target = graph.schema, graph.schema.target
    count, builder = schema.nodes[target], _GraphBuilder(graph, features)
    for path in metapaths(schema, hops):
        name = path.name(schema)
        if path.source in graph.features:
            x = graph.features[path.source]
            name = name if path.relations else f"{target} {ITSELF}"
            builder.add(name, MEANS, x.shape[1], lambda path=path, x=x: means(graph, path, x) if path.relations else x)
        elif ones and path.source != target:
            builder.add(name, MEANS, schema.nodes[path.source], lambda path=path: one_hot(graph, path))
        else:
            builder.nodes[path.source] = schema.nodes[path.source]
            edges = composed(graph, path) if path.relations else builder.loops
            builder.relate(Relation(path.source, name if path.relations else ITSELF, target), edges)
    labels = known(graph, graph.splits["train"])[:, : schema.classes] if label_hops else np.zeros((count, 0))
    train = graph.splits["train"]
    for path in metapaths(schema, label_hops, target)[1:]:
        name = f"{LABELS} {path.name(schema)}"
        builder.add(name, LABELS, schema.classes, lambda path=path: means_of_others(graph, path, labels, train))
    names = replace(graph.names, nodes={t: ids for t, ids in graph.names.nodes.items() if t in builder.nodes})
    new = replace(schema, nodes=builder.nodes, relations=tuple(builder.relations))
    return replace(graph, schema=new, relations=builder.relations, features=builder.features, names=names, columns={})


class _GraphBuilder:
    """Types, relations and features, as they are added."""

    def __init__(self, graph: HetGraph, wanted: Collection[str] | None):
        self.target, self.wanted = graph.schema.target, wanted
        self.count = graph.schema.nodes[self.target]
        self.nodes: dict[str, int] = {self.target: self.count}
        self.relations: dict[Relation, CSC] = {}
        self.features: dict[str, np.ndarray] = {}
        ids = np.arange(self.count, dtype=index_dtype(self.count))
        self.loops = CSC(np.arange(self.count + 1, dtype=np.int64), ids)

    def relate(self, relation: Relation, edges: CSC) -> None:
        """Add a relation."""
        if relation in self.relations:
            raise InputError(f"two metapaths are called {relation}: give types and relations other names")
        self.relations[relation] = edges

    def add(self, name: str, relation: str, width: int, compute) -> None:
        """Add a type with the target's nodes, and a relation from each to the same node of the target."""
        if name in self.nodes:
            raise InputError(
                f"a metapath is called {name!r}, and so is another, or a node type: give types other names"
            )
        self.nodes[name] = self.count
        self.relate(Relation(name, relation, self.target), self.loops)
        asked = self.wanted is None or name in self.wanted
        self.features[name] = compute() if asked else np.broadcast_to(np.float32(0), (self.count, width))
