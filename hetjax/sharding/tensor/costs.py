"""The costs of a step of tensor parallelism, in closed form: bytes that are sent, operations, and bytes that stay on a device.

`V` nodes on `N` devices are `V' = N ceil(V / N)` rows, `C` columns are `C' = N ceil(C / N)`. An all-to-all of them sends
`4 (N - 1) / N V' C'` bytes in all, in either direction, as the text of a compiled program is counted (`sharding.traffic`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.kernels.cost_model import current
from hetjax.models.layer import Layer
from hetjax.models.traits import Traits
from hetjax.sharding.columns import slice_of
from hetjax.sharding.tensor.folds import sooner
from hetjax.sharding.tensor.slices import heads_folded_by, round_slice
from hetjax.sharding.trainer import Trainer

FLOAT = 4  # bytes


class Attended(NamedTuple):
    """The elements per head that attention sends.

    Attributes:
      source, target: elements of every source and of every target, before the aggregation.
      sums: elements of every target, after it: the sums with their maximum and denominator.
    """

    source: int
    target: int
    sums: int


class Carried(NamedTuple):
    """The content of one all-to-all, for the nodes of a type.

    Attributes:
      nodes: the number of nodes.
      columns: the number of columns of each node that are divided.
      each: elements in a column; of a head, all that it has.
    """

    nodes: int
    columns: int
    each: int = 1

    def bytes(self, parts: int) -> float:
        """Return the bytes that all devices send."""
        rows, columns = (parts * slice_of(count, parts) for count in (self.nodes, self.columns))
        return FLOAT * (parts - 1) / parts * rows * columns * self.each


class Messages(NamedTuple):
    """The messages of a layer: rows that become columns, and columns that become rows; gradients go the other way."""

    to_columns: list[Carried]
    to_rows: list[Carried]


def sent(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """Return the bytes that all devices send in a step, by kind, except for the sum of the weights' gradients."""
    return (decoupled if trainer.model.decoupled else coupled)(trainer, graph, parts)


def decoupled(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """Return the bytes of decoupled models, as `sent`: one split of every type that is read, one gather of the root types, and the same backward."""
    model, nodes = trainer.model, graph.schema.nodes
    assert model.decoupled
    heads = heads_folded_by(model.layers[0])

    def carried(node_type: str, columns: int) -> float:
        return Carried(nodes[node_type], parts * round_slice(parts, columns, heads)).bytes(parts)

    split = sum(carried(t, read) for t, read in model.layers[0].widths.items())
    gather = sum(carried(t, model.decoupled.widths[-1]) for t in model.roots)
    return {"rows_to_columns": 2 * split, "columns_to_rows": 2 * gather}


def coupled(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """Return the bytes of coupled layers, as `sent`.

    The heads of attention are divided evenly among the devices. Every message has one of gradients that goes the other way, unless it
    has features alone. Every device keeps its columns of features that never change, so these are not sent.
    """
    found, kept = {"rows_to_columns": 0.0, "columns_to_rows": 0.0}, still(trainer, graph)
    for depth, layer in enumerate(trainer.model.layers):
        learns = depth or trainer.model.transforms or _learns(layer, trainer, graph, parts)
        for kind, carried in zip(found, of_layer(layer, graph, parts, frozenset() if depth else kept)):
            found[kind] += (2 if learns else 1) * sum(one.bytes(parts) for one in carried)
    return {kind: sent for kind, sent in found.items() if sent}


def _learns(layer: Layer, trainer: Trainer, graph: HetGraph, parts: int) -> bool:
    """Return whether a gradient flows to any input of the first layer's aggregation."""
    relations = tuple(_relations(layer, graph))
    return bool(layer.traits.logit) or any(
        relation.source in trainer.learnable or first(layer, relation, graph, parts) for relation in relations
    )


def still(trainer: Trainer, graph: HetGraph) -> frozenset[str]:
    """Return the types whose features the first layer's relations read as they are, at every step the same."""
    model = trainer.model
    changed = model.transforms or model.input_dropout or not model.layers[0].traits.linear_fold
    return frozenset() if changed else frozenset(t for t in trainer.widths if t in graph.features)


def of_layer(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str] = frozenset()) -> Messages:
    """Return the messages of a layer's aggregations, without those of types in `kept`.

    Raises:
      KeyError: the traits of the layer do not say how it aggregates.
    """
    if layer.traits.logit:
        return _of_attention(layer, graph)
    if not layer.traits.linear_fold:
        raise KeyError(
            f"{type(layer).__name__}: its traits have neither linear_fold nor logit, so its messages are not known"
        )
    nodes, there, back = graph.schema.nodes, {}, {}
    for relation in _relations(layer, graph):
        source, target, width = relation.source, relation.target, layer.widths[relation.source]
        matrix = source if layer.traits.one_matrix else relation.key
        if first(layer, relation, graph, parts, kept):
            there[source, matrix] = Carried(nodes[source], layer.features)
            back[target, ""] = Carried(nodes[target], layer.features)
        else:
            if source not in kept:
                there[source, ""] = Carried(nodes[source], width)
            back[target, matrix] = Carried(nodes[target], width)
    return Messages(list(there.values()), list(back.values()))


def _of_attention(layer: Layer, graph: HetGraph) -> Messages:
    """Return the messages of attention, per head: keys, and values that differ from them; of targets an offset, and a query that differs; the sums."""
    nodes, there, back = graph.schema.nodes, [], []
    heads, attended = layer.traits.heads, numbers_per_head(layer)
    for relation in _relations(layer, graph):
        there += [Carried(nodes[t], heads, count) for t, count in zip(relation[::2], attended)]
        back.append(Carried(nodes[relation.target], heads, attended.sums))
    return Messages(there, back)


def numbers_per_head(layer: Layer) -> Attended:
    """Return the elements that attention sends for each head; dropped weights need a second denominator, except with additive logits."""
    traits: Traits = layer.traits
    dropping = bool(getattr(layer, "attention_dropout", 0)) and traits.logit != "additive"
    source, target = {
        "scores": (traits.head_width, 1),
        "additive": (traits.head_width, traits.head_width),
        "query": (2 * traits.head_width, traits.head_width + 1),
    }[traits.logit]
    return Attended(source, target, traits.head_width + 2 + dropping)


def operations(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str] = frozenset()) -> dict[str, float]:
    """Return the operations of the device that has most, in the linear aggregations of a layer: elements that edges add, and multiplications of matrices."""
    edges = dense = 0.0
    for relation in _relations(layer, graph):
        width, sooner = layer.widths[relation.source], first(layer, relation, graph, parts, kept)
        edges += graph.relations[relation].edges * slice_of(layer.features if sooner else width, parts)
        multiplied = graph.schema.nodes[relation.source if sooner else relation.target]
        dense += slice_of(multiplied, parts) * width * layer.features
    return {"folded": edges, "multiplied": dense}


def resident(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, int]:
    """Return the bytes that stay on every device: edges, and rows of features and tables with two moments and a count each."""
    topology = 0
    for relation in {r for layer in trainer.model.layers for r in _relations(layer, graph)}:
        rows = sum(parts * slice_of(graph.schema.nodes[t], parts) + 1 for t in (relation.source, relation.target))
        edges = graph.relations[relation].edges
        topology += 4 * (rows + (3 + (graph.relations[relation].weights is not None)) * edges)
    rows = 0
    for t, width in trainer.widths.items():
        of_row = FLOAT * (3 * width + 1) if t in trainer.learnable else graph.features[t].dtype.itemsize * width
        rows += slice_of(graph.schema.nodes[t], parts) * of_row
    return {"topology": topology, "rows": rows}


def _relations(layer: Layer, graph: HetGraph) -> Iterator[Relation]:
    return (relation for relation in layer.relations if relation in graph.relations)


def first(layer: Layer, relation: Relation, graph: HetGraph, parts: int, kept: frozenset[str] = frozenset()) -> bool:
    """Return whether a relation's sources are multiplied before they are aggregated."""
    if relation.source in layer.traits.learnable_widths:  # rows of matrices
        return True
    rows, targets = (max(1, slice_of(graph.schema.nodes[t], parts)) for t in (relation.source, relation.target))
    work, width = (rows, targets, graph.relations[relation].edges / parts), layer.widths[relation.source]
    sent = 0 if relation.source in kept else rows, targets
    return width < parts or sooner(current(), work, sent, width, layer.features)
