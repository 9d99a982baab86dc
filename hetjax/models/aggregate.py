"""The aggregation of a layer: its relations, its self terms and their combination, inside a method of the layer or the model."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels import orders
from hetjax.kernels.tables import rows_at
from hetjax.models.dropout import Masks, NodeMasks
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.system.arrays import Array

Layer = Any  # a `hetjax.models.layer.Layer`, whose module imports this one
Groups = Sequence[
    tuple[Mapping[str, Adjacency], Mapping[str, Any]]
]  # edges per relation key, and source inputs per type


def aggregate(
    layer: Layer,
    block: Block,
    sources: Any,
    own: Mapping[str, jax.Array],
    selves: Container[str],
    masks: Masks | None = None,
    exchange: Exchange = LOCAL,
) -> dict[str, Any]:
    """Return the combined partial aggregates of a block's targets, per target type that anything is aggregated into.

    Args:
      block: only its adjacency and its targets are read.
      sources: the source inputs per node type, or as the exchange returns them.
      own: the targets' own embeddings of the layer below, `[T, width]` per type.
      selves: the types whose targets are aggregated into themselves.
      masks: of the step, in training; the block then names its targets.
      exchange: divides the edges into groups.
    """
    groups = [(edges, shared_inputs(layer, edges, rows)) for edges, rows in exchange.pieces(block, sources)]
    contributions = [(t, layer.aggregate_self(t, own[t])) for t in layer.selves if t in selves]
    alone = edges_of(layer.relations, groups)
    types = dict.fromkeys([*(r.target for r in alone), *(t for group in block.together for t, _ in group.rows)])
    asked: dict[str, Any] = {}
    if layer.traits.reads_target:
        into = {t: [r for r in alone if r.target == t] for t in types}
        asked = {t: target_inputs(layer, t, own[t], relations, exchange) for t, relations in into.items()}
    for relation, edges in alone.items():
        partial = aggregate_edges(layer, relation, edges, block, asked.get(relation.target), masks)
        contributions.append((relation.target, relation_total(layer, partial)))
    if grouped := layer.traits.grouped:
        for group in block.together:
            contributions += grouped.aggregate(layer, group, sources, asked).items()
    parts: dict[str, list[Any]] = {}
    for target, partial in contributions:
        parts.setdefault(target, []).append(partial)
    return {target: layer.traits.monoid.combined(of_target) for target, of_target in parts.items()}


def edges_of(relations: Sequence[Relation], groups: Groups) -> dict[Relation, list[tuple[Adjacency, Any]]]:
    """Return the groups of edges of every relation that has any, each with its source inputs."""
    found = {r: [(edges[r.key], rows[r.source]) for edges, rows in groups if r.key in edges] for r in relations}
    return {relation: edges for relation, edges in found.items() if edges}


def aggregate_edges(
    layer: Layer,
    relation: Relation,
    edges: Sequence[tuple[Adjacency, Any]],
    block: Block,
    targets: Any,
    masks: Masks | None,
) -> Any:
    """Return the partial aggregate of a relation's edges, or of some of them.

    Args:
      edges: in groups, each with its source inputs.
      targets: the target inputs; None unless the layer reads its targets.
      block, masks: as in `aggregate`.
    """
    target_masks = masks and masks.of(block.targets[relation.target])
    with orders.named("" if layer.is_initializing() else f"{layer.name}, {relation}"):
        partials = [layer.relation(relation, adjacency, rows, targets, target_masks) for adjacency, rows in edges]
    if len(partials) == 1:
        return partials[0]
    assert layer.traits.edge_monoid, "only a layer with an edge_monoid aggregates a relation's edges in groups"
    return layer.traits.edge_monoid.combined(partials)


def relation_total(layer: Layer, partial: Any) -> Any:
    """Return the partial aggregate that relations combine, from the result of `relation` for all edges of one relation."""
    monoid, edge_monoid = layer.traits.monoid, layer.traits.edge_monoid
    if edge_monoid is None or edge_monoid == monoid:
        return partial
    return monoid.lift(edge_monoid.total(partial))


def total(layer: Layer, partial: Any, targets: jax.Array) -> jax.Array:
    """Return the embeddings' input, `[T, features]`, from the combined aggregate by `Monoid.total`; zeros where `partial` is None."""
    if partial is None:
        return jnp.zeros((len(targets), layer.features), jnp.result_type(targets, jnp.float32))
    return layer.traits.monoid.total(partial)


def finished(layer: Layer, node_type: str, partial: Any, targets: Any, masks: NodeMasks | None) -> jax.Array:
    """Return the embeddings of a type's targets from their combined partial aggregates; None: they have none."""
    return layer.finish(node_type, total(layer, partial, targets), targets, masks)


def source_inputs(layer: Layer, x: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Return what relations read of the source embeddings, per node type."""
    prepare = layer.traits.source_inputs
    return {t: prepare(layer, t, rows) if prepare else rows for t, rows in x.items()}


def target_inputs(
    layer: Layer, node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange = LOCAL
) -> Any:
    """Return what relations into a type read of its targets' own embeddings."""
    prepare = layer.traits.target_inputs
    return prepare(layer, node_type, targets, relations, exchange) if prepare else targets


def shared_inputs(layer: Layer, adjacency: Mapping[str, Adjacency], sources: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the source inputs with products that relations share over these edges."""
    share = layer.traits.shared_inputs
    return share(layer, adjacency, sources) if share else sources


def own_embeddings(block: Block, x: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Return the targets' own embeddings of the layer below, floats `[T, width]` per target type of the block.

    A type may be absent from `x` if nothing reads its embeddings. Its width is 0 then; the value is None where every row is a target.
    """
    return {t: _own(x.get(t), rows) for t, rows in block.self_rows.items()}


def _own(x: jax.Array | None, rows: "Array | None") -> Any:
    """Return rows of `x` `[S, width]`, all of them where `rows` is None; zeros for a row out of range."""
    if x is None:
        return None if rows is None else jnp.zeros((len(rows), 0))
    return rows_at(x, rows).astype(jnp.promote_types(x.dtype, jnp.float32))  # floats, so that a gradient flows back
