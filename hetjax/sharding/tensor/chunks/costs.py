"""The bytes that a step in chunks sends, in closed form; the static plan says how often."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hetjax.graph.hetgraph import HetGraph
from hetjax.models.layer import Layer
from hetjax.sharding.columns import slice_of
from hetjax.sharding.tensor.chunks.plan import Sending, Sizes
from hetjax.sharding.tensor.costs import FLOAT, first, numbers_per_head, still
from hetjax.sharding.tensor.slices import heads_folded_by, round_slice
from hetjax.sharding.trainer import Trainer


class Numbers(NamedTuple):
    """The elements per node of a type on each device: those sent before aggregation, and those of the sums."""

    sent: Mapping[str, int]
    summed: Mapping[str, int]


def sent(
    trainer: Trainer,
    graph: HetGraph,
    parts: int,
    sendings: Sequence[Sequence[Sequence[Sending]]],
    most: Sequence[Mapping[str, int]],
    sizes: Mapping[str, Sizes],
    again: bool = True,
) -> dict[str, float]:
    """Return the bytes that all devices send in a step, by kind, except for the sum of the weights' gradients.

    The heads of coupled attention are divided evenly, those of decoupled attention are padded. A portion of `m` rows of each device is `4 (N - 1) N m c` bytes, `c` being the
    elements of a node; likewise for the rows of a chunk. Gradients go the other way.

    Args:
      sendings, most: the sendings of every layer, as `plan.sendings` gives them.
      sizes: the sizes of the chunks of every type.
      again: whether the step is not the first one: data that never change were sent, and wait on the host.
    """
    model, kept = trainer.model, still(trainer, graph)
    found = {"rows_to_columns": 0.0, "columns_to_rows": 0.0}
    for depth, layer in enumerate(model.layers):
        last = depth == len(model.layers) - 1
        if model.decoupled:
            heads = heads_folded_by(layer)
            width = round_slice(parts, model.decoupled.widths[-1], heads)
            splits = {t: round_slice(parts, read, heads) for t, read in layer.widths.items()} if not depth else {}
            numbers, never = Numbers(splits, dict.fromkeys(model.roots, width) if last else {}), frozenset[str]()
        else:
            of_layer = attended if layer.traits.logit else folded
            constant = frozenset() if depth else kept
            numbers, never = of_layer(layer, graph, parts, constant), _unchanged(layer, graph, parts, constant)
        portions = [portion.node_type for chunk in sendings[depth] for portion in chunk]
        for t, count in numbers.sent.items():
            times = (0 if again else 1) if t in never else 2
            found["rows_to_columns"] += times * portions.count(t) * _bytes(parts, most[depth].get(t, 0), count)
        for t, count in numbers.summed.items():
            found["columns_to_rows"] += 2 * sizes[t].chunks * _bytes(parts, sizes[t].rows, count)
    return {kind: count for kind, count in found.items() if count}


def _bytes(parts: int, rows: int, numbers: int) -> float:
    return FLOAT * (parts - 1) * parts * rows * numbers


def folded(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str]) -> Numbers:
    """Return the elements of linear aggregations: products by the matrices of relations, of GIN by that of the type, or embeddings as they are."""
    there: dict[tuple[str, str], int] = {}
    back: defaultdict[str, int] = defaultdict(int)
    for relation in (r for r in layer.relations if r in graph.relations):
        sooner, width = first(layer, relation, graph, parts, kept), layer.widths[relation.source]
        columns = slice_of(layer.features if sooner else width, parts)
        matrix = (relation.source if layer.traits.one_matrix else relation.key) if sooner else ""
        there[relation.source, matrix] = columns
        back[relation.target] += columns
    of_types: defaultdict[str, int] = defaultdict(int)
    for (t, _), columns in there.items():
        of_types[t] += columns
    return Numbers(of_types, back)


def attended(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str]) -> Numbers:
    """Return the elements of attention by heads: keys and values of sources, inputs of targets, and sums with their maxima and denominators."""
    there: defaultdict[str, int] = defaultdict(int)
    back: defaultdict[str, int] = defaultdict(int)
    heads, numbers = slice_of(layer.traits.heads, parts), numbers_per_head(layer)
    for relation in (r for r in layer.relations if r in graph.relations):
        there[relation.source] += heads * numbers.source
        there[relation.target] += heads * numbers.target
        back[relation.target] += heads * numbers.sums
    return Numbers(there, back)


def _unchanged(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str]) -> frozenset[str]:
    """Return the types whose features all aggregations read unchanged."""
    changed = {r.source for r in layer.relations if r in graph.relations and first(layer, r, graph, parts, kept)}
    return kept - changed if kept else frozenset()
