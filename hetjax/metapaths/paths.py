"""Metapaths: sequences of relations that end at a target type."""

from typing import NamedTuple

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation, Schema
from hetjax.system.errors import InputError

MOST_PATHS = 512
MOST_EDGES = 2**28  # of a metapath whose first type has no features
BACK = "<-"  # between the types of a metapath, in its name


class Metapath(NamedTuple):
    """Relations that follow each other, the last hop first.

    Attributes:
      target: the type where it ends.
      relations: the first leads into `target`, every other one into the source of the one before; none: every node alone.
    """

    target: str
    relations: tuple[Relation, ...] = ()

    @property
    def source(self) -> str:
        """The type where it begins."""
        return self.relations[-1].source if self.relations else self.target

    def name(self, schema: Schema) -> str:
        """Return a name such as `author<-paper<-venue`; where several relations join two types, each has its name too: `author<-[writes]-paper`."""
        text = self.target
        for relation in self.relations:
            alike = [r for r in schema.relations if (r.source, r.target) == (relation.source, relation.target)]
            text += BACK + relation.source if len(alike) == 1 else f"{BACK}[{relation.name}]-{relation.source}"
        return text


def metapaths(schema: Schema, hops: int, source: str | None = None) -> list[Metapath]:
    """Return all metapaths of at most `hops` relations into the target type, the shorter ones first.

    Args:
      source: the type where they begin; None: any.

    Raises:
      InputError: there are more than `MOST_PATHS`.
    """
    found = [Metapath(schema.target)]
    longest = found
    for hop in range(hops):
        longest = [Metapath(p.target, (*p.relations, r)) for p in longest for r in schema.into(p.source)]
        found = found + longest
        if len(found) > MOST_PATHS:
            raise InputError(
                f"there are {len(found):,} metapaths of up to {hop + 1} relations into {schema.target!r} > {MOST_PATHS}: give a smaller data.metapath_hops"
            )
    return [path for path in found if source in (None, path.source)]


def bearable(graph: HetGraph, hops: int) -> bool:
    """Return whether the metapaths of at most `hops` relations are few, and none that becomes a relation has too many edges."""
    try:
        found = metapaths(graph.schema, hops)
    except InputError:
        return False
    return all(p.source in graph.features or expected_edges(graph, p) <= MOST_EDGES for p in found)


def expected_edges(graph: HetGraph, path: Metapath) -> int:
    """Estimate the edges that a metapath has as one relation: as many as there are walks, and pairs of nodes at most."""
    nodes = graph.schema.nodes
    walks: float = nodes[path.target]
    for relation in path.relations:
        walks *= graph.relations[relation].edges / max(1, nodes[relation.target])
    return min(int(walks), nodes[path.target] * nodes[path.source])


def expected_sizes(graph: HetGraph, hops: int, label_hops: int) -> tuple[int, int]:
    """Estimate the edges, and the values of features, that the graph of a graph's metapaths has."""
    edges, count = 0, graph.schema.nodes[graph.schema.target]
    labels = metapaths(graph.schema, label_hops, graph.schema.target)[1:]
    values = len(labels) * count * graph.schema.classes
    for path in metapaths(graph.schema, hops):
        if path.source in graph.features:
            edges, values = edges + count, values + count * graph.features[path.source].shape[1]
        else:
            edges += expected_edges(graph, path)
    return edges + len(labels) * count, values
