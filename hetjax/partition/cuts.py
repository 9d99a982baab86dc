"""Relations that are cut: the edges of one on several partitions, each a relation of the plan (a "large mono-relation subgraph").

Heta (section 5) leaves open what becomes of a relation that is too large for a host. Here its edges are dealt out one by one to as many
pieces, so that pieces are even and every target has edges in all of them (a vertex-cut). In a plan a piece is a relation like any
other; in the model all pieces are one relation with one set of weights, whose partial aggregates combine edge by edge.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from hetjax.graph.csc import Piece, cut
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import Sizes
from hetjax.system.errors import InputError

Cuts = Mapping[Relation, int]  # of every relation that is cut the number of pieces


def pieces(relation: Relation, count: int) -> tuple[Relation, ...]:
    """Return what stands in a plan for the pieces of a relation."""
    names = (f"{relation.name} ({number + 1} of {count})" for number in range(count))
    return tuple(Relation(relation.source, name, relation.target) for name in names)


def cut_sizes(sizes: Sizes, cuts: Cuts) -> Sizes:
    """Return the sizes of a graph whose relations are cut.

    Raises:
      InputError: a relation that the graph does not have, that has weights, or that cannot be cut into so many.
    """
    for relation, count in cuts.items():
        if relation not in sizes.edges:
            raise InputError(f"relation {relation} is to be cut, and the graph has {', '.join(map(str, sizes.edges))}")
        if not 2 <= count <= max(2, sizes.edges[relation]):
            raise InputError(f"relation {relation} of {sizes.edges[relation]} edges is to be cut into {count} pieces")
        if relation in sizes.weighted:
            raise InputError(
                f"relation {relation} is to be cut, and its edges have weights: set edge_weights of its reader false"
            )
        for piece in pieces(relation, count):
            if piece in sizes.edges:
                raise InputError(
                    f"relation {relation} is to be cut into {count} pieces, and the graph has {piece}, as one of them "
                    "would be called: give that relation another name, or cut into another number"
                )
    edges = {}
    for relation, total in sizes.edges.items():
        count = cuts.get(relation, 1)
        for number, piece in enumerate(pieces(relation, count) if count > 1 else (relation,)):
            edges[piece] = Piece(number, count, relation.key).edges(total)
    return Sizes(_schema(sizes.schema, edges), edges, sizes.features, sizes.labels, sizes.weighted)


def uncut(relations: Collection[Relation], cuts: Cuts) -> list[Relation]:
    """Return the relations of a graph that some of a plan are, or are pieces of."""
    relation_of = {piece: relation for relation, count in cuts.items() for piece in pieces(relation, count)}
    return list(dict.fromkeys(relation_of.get(relation, relation) for relation in relations))


def cut_graph(graph: HetGraph, cuts: Cuts, relations: Collection[Relation]) -> HetGraph:
    """Return some relations of a plan, from a graph with the relations that these are, or are pieces of."""
    found = {}
    for relation in uncut(relations, cuts):
        if relation not in cuts:
            found[relation] = graph.relations[relation]
        for number, piece in enumerate(pieces(relation, cuts.get(relation, 0))):
            if piece in relations:
                found[piece] = cut(graph.relations[relation], Piece(number, cuts[relation], relation.key))
    found = {relation: found[relation] for relation in relations}
    return replace(graph, schema=_schema(graph.schema, found), relations=found)


def _schema(schema: Schema, relations: Collection[Relation]) -> Schema:
    return replace(schema, relations=tuple(relations))
