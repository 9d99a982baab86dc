"""Labelled pairs of a relation that are left out of message passing, where an edge would tell a model its own label."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.system.logs import log

Hide = Literal["auto", "all", "evaluated", "none"]


def hides(graph: HetGraph, how: Hide, targets: Sequence[str] = ("",)) -> bool:
    """Return whether `hidden` leaves out any edge of a graph, if it has it."""
    return any(_hides(graph.with_target(target), how) for target in targets)


def _hides(graph: HetGraph, how: Hide) -> bool:
    if graph.relation is None or how == "none":
        return False
    weighted = any(graph.relations[r].weights is not None for r in both_ways(graph.relation, graph))
    return weighted or how != "auto"


def hidden(graph: HetGraph, how: Hide, targets: Sequence[str] = ("",)) -> HetGraph:
    """Return the graph without the edges of labelled pairs in the targets' relations, and without their reverses in the reverse relations.

    Args:
      graph: as it was read; where all labels are of nodes it is returned as it is.
      targets: the columns of labels that are predicted; an empty name is the graph's own.
      how: `all`: of all pairs that are in a split; `evaluated`: of validation and test pairs; `none`: of none; `auto`: all where edges have
        weights, which may tell the label, else none.
    """
    for target in targets:
        aimed = graph.with_target(target)
        if _hides(aimed, how):
            graph = replace(graph, relations={**graph.relations, **_left(aimed, how)})
    return graph


def _left(graph: HetGraph, how: Hide) -> dict[Relation, CSC]:
    """Return what is left of the target's relation and of its reverse."""
    assert graph.relation is not None and graph.ends is not None
    splits = ("validation", "test") if how == "evaluated" else tuple(graph.splits)
    rows = np.concatenate([graph.splits[name] for name in splits])
    pairs = tuple(ids[rows] for ids in graph.ends)
    found: dict[Relation, CSC] = {}
    for relation, turned in both_ways(graph.relation, graph).items():
        sources, targets = pairs[::-1] if turned else pairs
        found[relation] = without(graph.relations[relation], sources, targets, graph.schema.nodes[relation.source])
    return found


def describe(before: HetGraph, after: HetGraph) -> None:
    """Say in a line how many edges `hidden` left out, if any."""
    gone = {r: csc.edges - after.relations[r].edges for r, csc in before.relations.items()}
    if words := [f"{count:,} of {r}" for r, count in gone.items() if count]:
        log.info(f"edges of labelled pairs are left out of message passing (task.hide_targets): {', '.join(words)}")


def both_ways(relation: Relation, graph: HetGraph) -> Mapping[Relation, bool]:
    """Return the relations of a graph that have the edges of a relation, each with whether it has them turned around."""
    turned = [r for r in graph.schema.relations if relation == r.reverse or r == relation.reverse]
    return {relation: False} | dict.fromkeys(turned, True)


def without(csc: CSC, sources: np.ndarray, targets: np.ndarray, nodes: int) -> CSC:
    """Return edges without those between some pairs of nodes.

    Args:
      sources, targets: the ends of the pairs.
      nodes: the number of nodes of the source type.
    """
    into = np.repeat(np.arange(len(csc.indptr) - 1, dtype=np.int64), np.diff(csc.indptr))
    kept = ~np.isin(into * nodes + csc.indices, targets.astype(np.int64) * nodes + sources)
    counts = np.bincount(into[kept], minlength=len(csc.indptr) - 1)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    weights = None if csc.weights is None else csc.weights[kept]
    return csc._replace(indptr=indptr, indices=csc.indices[kept], weights=weights)
