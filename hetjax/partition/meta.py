"""Meta-partitioning: a graph divided by its schema alone (Heta, PVLDB 18(9) 2025, section 5)."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, sizes
from hetjax.partition.assign import assign, mesh, searchable
from hetjax.partition.checks import is_whole, require
from hetjax.partition.cost import Workload
from hetjax.partition.cuts import Cuts, cut_sizes, pieces
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.metatree import Metatree
from hetjax.system.errors import InputError

HOPS = 2


class ModelOptions(TypedDict, total=False):
    """The facts about a model that decide how its relations can be divided.

    Attributes:
      hops: number of its layers; None: the longest metapath's length, or 2.
      targets: the types that seeds have; None: the schema's target.
      self_term: whether nodes are aggregated into themselves; true if it is not given.
      exchange: whether partial aggregates are combined after the `last` layer alone, which is what is done if it is not
        given, or after `every`.
    """

    hops: int | None
    targets: Sequence[str] | None
    self_term: bool
    exchange: Literal["last", "every"]


def partition(
    graph: HetGraph | Sizes | str | os.PathLike,
    parts: int,
    metapaths: Sequence[Sequence[Relation]] | None = None,
    *,
    method: Literal["auto", "exact", "lpt"] = "auto",
    data: int | None = None,
    copied: bool = False,
    workload: Workload | None = None,
    cuts: Cuts | None = None,
    **model: Unpack[ModelOptions],
) -> MetaPartitioning:
    """Divide a graph's relations among partitions, so that each aggregates over whole relations on its own.

    Nothing but counts is read, so the size of the graph does not matter.

    Args:
      graph: a graph, the sizes of one, or the path of a store, which the plan then names.
      parts: number of partitions; beyond the number of sub-metatrees it must be a product, `relation` x `data`.
      metapaths: chains of relations, the one into the target first, that the model aggregates over; None: all relations.
      method: `lpt`, the paper's; `exact`, of least expected cost (`assign.Cost`); `auto`: exact where quick.
      data: replicas of each partition; None: as few as give `parts`.
      copied: whether `save` is to write a store for each partition.
      workload: the training step that costs are expected of.
      cuts: relations to be cut, and into how many pieces; of a metapath none may be.
      **model: what the model does, as in `ModelOptions`.

    Raises:
      InputError: a metapath that is no chain into a target, more partitions than can be used, or a number out of range.
    """
    require(is_whole(parts), "parts", parts, "a whole number")
    path = os.path.abspath(graph) if isinstance(graph, str | os.PathLike) else None
    if isinstance(graph, str | os.PathLike):
        description = store.describe(graph)
    else:
        description = graph if isinstance(graph, Sizes) else sizes(graph)
    cuts = cuts or {}
    if cuts and (copied or metapaths is not None):
        raise InputError("relations that are cut go with no metapaths, and with no stores of partitions' own")
    description = cut_sizes(description, cuts)
    if metapaths is not None:
        metapaths = tuple(tuple(Relation(*relation) for relation in chain) for chain in metapaths)
        if not metapaths:
            raise InputError("no metapath is given; None stands for all relations")
    hops, targets = model.get("hops"), model.get("targets")
    if hops is None:
        hops = HOPS if metapaths is None else max(map(len, metapaths))
    targets = (description.schema.target,) if targets is None else tuple(targets)
    tree = Metatree(
        description.schema, targets, hops, metapaths, model.get("self_term", True), model.get("exchange", "last")
    )
    relation, data = mesh(parts, len(tree.roots), data)
    workload = workload or Workload()
    if data > workload.batch_size:
        raise InputError(
            f"{data} replicas of each partition share a batch of {workload.batch_size}; some would have no seeds"
        )
    owners = assign(description, tree, workload, relation, data, method, [pieces(r, n) for r, n in cuts.items()])
    if method == "auto":
        method = "exact" if searchable(len(tree.roots), relation) else "lpt"
    return MetaPartitioning(description, tree, owners, data, method, workload, path, copied, cuts)
