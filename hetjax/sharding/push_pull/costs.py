"""The bytes that a step of push-pull sends, and those that stay on a device, in closed form.

`N` devices divide the columns in each of `G` groups. A collective is counted as in `sharding.traffic`; elements are float32.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.models.layer import Layer
from hetjax.models.traits import width_made
from hetjax.sharding.columns import slice_of
from hetjax.sharding.push_pull.first import FirstLayer
from hetjax.sharding.spmd import SpmdBatch
from hetjax.sharding.trainer import Trainer

FLOAT = 4  # bytes


class Sizes(NamedTuple):
    """The rows and edges of a group's step, padding included.

    Attributes:
      own: the number of rows at the cut of each replica, per type.
      targets: the number of the group's targets, which the first layer makes, per type; empty where replicas are given whole rows.
      sources: the number of rows of features that the group reads, per type.
      edges: the number of edges of the first layer per relation, by its key; likewise.
    """

    own: Mapping[str, int]
    targets: Mapping[str, int]
    sources: Mapping[str, int]
    edges: Mapping[str, int]


def sizes(batch: SpmdBatch, first: FirstLayer, groups: int) -> Sizes:
    """Return the sizes of a batch."""
    own = {t: picks.shape[1] for t, picks in batch.rows.picks.items()}
    sources = {t: ids.shape[0] // groups for t, ids in batch.local.inputs.items()}
    if not first.division:
        return Sizes(own, {}, sources, {})
    block = batch.local.blocks[0]
    targets = {t: rows.shape[0] // groups for t, rows in block.self_rows.items() if rows is not None}
    edges = {key: edges.indices.shape[0] // groups for key, edges in block.adjacency.items()}
    return Sizes(own, targets, sources, edges)


def sent(trainer: Trainer, first: FirstLayer, step: Sizes, groups: int = 1) -> dict[str, float]:
    """Return the bytes that all devices send in a step, forward and backward, by kind, except for gradients of weights, and of rows between groups."""
    layer, parts = trainer.model.layers[0], first.parts
    if not first.division:
        return _of_rows(trainer, {t: (step.own[t], trainer.widths[t]) for t in step.sources}, parts, groups)
    relations = [r for r in layer.relations if r.key in step.edges]
    made = {r.target for r in relations} | (set(layer.selves) & set(step.targets))
    products = sum(step.own[t] * width_made(layer, t) for t in made)
    found: dict[str, float] = {"partial_products": 2 * FLOAT * groups * parts * (parts - 1) * products}
    again = {t: (step.own[t], width) for t, width in first.read_again.items() if t in step.targets}
    if again:
        found |= _of_rows(trainer, again, parts, groups)
    summed = 2 * 2 * FLOAT * groups * (parts - 1)
    if layer.traits.logit:
        logits = sum(_logits(layer, relation, step) for relation in relations)
        found["attention_logits"] = summed * layer.traits.heads * logits
    if layer.traits.logit == "query":
        found["queries"] = summed * layer.features * sum(step.targets[t] for t in {r.target for r in relations})
    return found


def _logits(layer: Layer, relation: Relation, step: Sizes) -> int:
    """Return the elements per head that are summed over the slices: per edge, or per source and target where logits are sums of these."""
    edges, rows = step.edges[relation.key], step.sources[relation.source] + step.targets[relation.target]
    return edges if layer.traits.logit == "query" else min(edges, rows)


def _of_rows(trainer: Trainer, rows: Mapping[str, tuple[int, int]], parts: int, groups: int) -> dict[str, float]:
    """Return the bytes of whole rows from their number and width per type: rows are sent once, and gradients go back if any row is learned."""
    one_way = (
        FLOAT * groups * (parts - 1) * sum(count * parts * slice_of(width, parts) for count, width in rows.values())
    )
    learned = bool(trainer.learnable.keys() & rows.keys()) or trainer.model.transforms
    return {"columns_to_rows": one_way * (1 + learned)}


def of_weights(trainer: Trainer, devices: int) -> float:
    """Return the bytes that all devices send to sum the gradients of the weights, and the loss."""
    state = jax.eval_shape(lambda: trainer.weights(jnp.int32(0)))
    return 2 * (devices - 1) * FLOAT * (1 + sum(leaf.size for leaf in jax.tree.leaves(state.params)))


def resident(trainer: Trainer, graph: HetGraph, parts: int) -> int:
    """Return the bytes of features and tables on every device: its columns of every row, and for tables two moments and a count."""
    total = 0
    for t, width in trainer.widths.items():
        columns = slice_of(width, parts)
        of_row = 3 * FLOAT * columns + FLOAT if t in trainer.learnable else graph.features[t].dtype.itemsize * columns
        total += max(1, graph.schema.nodes[t]) * of_row  # as `slices.sliced` has them
    return total
