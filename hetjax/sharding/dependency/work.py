"""Counts of the rows that partitions compute and send in a step: the terms of NeutronStar's equations 1 and 2."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import relations_of
from hetjax.sharding.dependency.shares import Share


class Work(NamedTuple):
    """The work of the partitions in one layer; each an int64 `[parts]`, an entry per partition, by node type or by relation.

    Attributes:
      fetched: rows of the layer below that come from their masters: `C_i^l`.
      computed: targets that the partition computes.
      copied: targets among these that others own: `V_i^l` without `V_i`.
      edges: the edges that it aggregates.
      copied_edges: edges among these into nodes of others: `E_i^l` without `E_i`.
      kept: rows of features of others that lie here; for the first layer alone.
      here: rows of the layer below that lie here, own ones and copies.
    """

    fetched: Mapping[str, np.ndarray]
    computed: Mapping[str, np.ndarray]
    copied: Mapping[str, np.ndarray]
    edges: Mapping[Relation, np.ndarray]
    copied_edges: Mapping[Relation, np.ndarray]
    kept: Mapping[str, np.ndarray]
    here: Mapping[str, np.ndarray]


def work(
    graph: HetGraph, owned: Owned, layers: Sequence[tuple[Share, ...]], seeds: Sequence[Mapping[str, np.ndarray]]
) -> list[Work]:
    """Return the work of a step, per layer.

    Args:
      layers: the shares of every partition.
      seeds: the seeds that each partition computes in the last layer, per root type.
    """
    parts, found = range(owned.parts), list[Work]()
    for depth in range(len(layers[0])):
        last = depth == len(layers[0]) - 1
        targets = [seeds[part] if last else layers[part][depth + 1].here for part in parts]
        shares = [layers[part][depth] for part in parts]
        others = [{t: owned.owner[t][ids] != part for t, ids in targets[part].items()} for part in parts]
        degrees = [_degrees(share, graph) for share in shares]
        relations = list(degrees[0])
        kept = {
            t: np.array([np.count_nonzero(owned.owner[t][shares[part].here[t]] != part) for part in parts])
            for t in ([] if depth else shares[0].here)
        }
        found.append(
            Work(
                {t: np.array([np.count_nonzero(shares[p].origin[t] != p) for p in parts]) for t in shares[0].needed},
                {t: np.array([len(targets[p][t]) for p in parts]) for t in targets[0]},
                {t: np.array([np.count_nonzero(others[p][t]) for p in parts]) for t in targets[0]},
                {r: np.array([degrees[p][r].sum() for p in parts]) for r in relations},
                {r: np.array([degrees[p][r][others[p][r.target]].sum() for p in parts]) for r in relations},
                kept,
                {t: np.array([len(share.here[t]) for share in shares]) for t in shares[0].here},
            )
        )
    return found


def _degrees(share: Share, graph: HetGraph) -> dict[Relation, np.ndarray]:
    return {r: np.diff(share.block.adjacency[r.key].indptr) for r in relations_of(share.block.adjacency, graph)}


def added(one: Sequence[Work], other: Sequence[Work]) -> list[Work]:
    """Return the sum of both."""

    def both(name: str, a: Work, b: Work) -> dict[Any, np.ndarray]:
        mine, theirs = getattr(a, name), getattr(b, name)
        return {key: mine[key] + theirs[key] for key in mine}

    return [Work(*(both(name, a, b) for name in Work._fields)) for a, b in zip(one, other)]


def described(layers: Sequence[Work], steps: int) -> list[dict[str, Any]]:
    """Return the work of all partitions per layer, on average, by node type and relation, as plain values."""

    def rows(counts: Mapping[Any, np.ndarray]) -> dict[str, float]:
        return {str(key): round(float(count.sum()) / steps, 3) for key, count in counts.items()}

    return [
        {"layer": n} | {key: rows(value) for key, value in one._asdict().items() if value}
        for n, one in enumerate(layers, 1)
    ]
