"""What a step of tensor parallelism costs, in closed form: bytes that are sent, operations, and bytes that stay on a device.

`V` nodes on `N` devices are `V' = N ceil(V / N)` rows, `C` columns are `C' = N ceil(C / N)`. An all-to-all of them sends
`4 (N - 1) / N V' C'` bytes in all, in either direction, as the text of a compiled program is counted (`sharding.traffic`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.models.gat import GATLayer
from hetjax.models.gatv2 import GATv2Layer
from hetjax.models.gcn import GCNLayer
from hetjax.models.gin import GINLayer
from hetjax.models.hgt import HGTLayer
from hetjax.models.layer import Layer
from hetjax.models.rgat import RGATLayer
from hetjax.models.rgcn import RGCNLayer
from hetjax.models.sage import SAGELayer
from hetjax.sharding.columns import slice_of
from hetjax.sharding.heads import heads_of
from hetjax.sharding.tensor.folds import sooner
from hetjax.sharding.tensor.slices import heads_folded_by, round_slice
from hetjax.sharding.trainer import Trainer

FLOAT = 4  # bytes
LINEAR = RGCNLayer, GCNLayer, SAGELayer, GINLayer
ATTENTION = RGATLayer, GATLayer, HGTLayer


class Carried(NamedTuple):
    """What one all-to-all carries of a type's nodes.

    Attributes:
      nodes: how many.
      columns: of each, as many as are divided.
      each: numbers in a column: of a head, as many as it has.
    """

    nodes: int
    columns: int
    each: int = 1

    def bytes(self, parts: int) -> float:
        """Sent by all devices."""
        rows, columns = (parts * slice_of(count, parts) for count in (self.nodes, self.columns))
        return FLOAT * (parts - 1) / parts * rows * columns * self.each


class Messages(NamedTuple):
    """What a layer sends: rows that become columns, and columns that become rows; gradients go the other way."""

    to_columns: list[Carried]
    to_rows: list[Carried]


def sent(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """Bytes that all devices send in a step, by kind, but for the sum of the weights' gradients."""
    return (decoupled if trainer.model.decoupled else coupled)(trainer, graph, parts)


def decoupled(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """As `sent`: one split of every type that is read, one gather of the target type, and as much back."""
    model, nodes = trainer.model, graph.schema.nodes
    assert model.decoupled
    heads = heads_folded_by(model.layers[0])

    def carried(node_type: str, columns: int) -> float:
        return Carried(nodes[node_type], parts * round_slice(parts, columns, heads)).bytes(parts)

    split = sum(carried(t, read) for t, read in model.layers[0].widths.items())
    return {"rows_to_columns": 2 * split, "columns_to_rows": 2 * carried(model.target, model.decoupled.widths[-1])}


def coupled(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, float]:
    """As `sent`.

    Of attention, whose heads the devices divide evenly. Every message has one of gradients that goes the other way, unless it
    has features alone. Of features that never change every device keeps its columns, and nothing is sent.
    """
    found, kept = {"rows_to_columns": 0.0, "columns_to_rows": 0.0}, still(trainer, graph)
    for depth, layer in enumerate(trainer.model.layers):
        learns = depth or trainer.model.transforms or _learns(layer, trainer, graph, parts)
        for kind, carried in zip(found, of_layer(layer, graph, parts, frozenset() if depth else kept)):
            found[kind] += (2 if learns else 1) * sum(one.bytes(parts) for one in carried)
    return {kind: sent for kind, sent in found.items() if sent}


def _learns(layer: Layer, trainer: Trainer, graph: HetGraph, parts: int) -> bool:
    """Whether a gradient flows to anything that the first layer folds."""
    relations = tuple(_relations(layer, graph))
    return isinstance(layer, ATTENTION) or any(
        relation.source in trainer.learnable or first(layer, relation, graph, parts) for relation in relations
    )


def still(trainer: Trainer, graph: HetGraph) -> frozenset[str]:
    """The types whose features the first layer's relations read as they are, at every step the same."""
    model = trainer.model
    changed = model.transforms or model.input_dropout or not isinstance(model.layers[0], LINEAR)
    return frozenset() if changed else frozenset(t for t in trainer.widths if t in graph.features)


def of_layer(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str] = frozenset()) -> Messages:
    """What a layer sends for its folds, but for what is `kept`.

    Raises:
      KeyError: of a model that is not known here.
    """
    if isinstance(layer, ATTENTION):
        return _of_attention(layer, graph)
    if not isinstance(layer, LINEAR):
        raise KeyError(
            f"{type(layer).__name__}: only how {', '.join(kind.__name__ for kind in LINEAR + ATTENTION)} fold is known"
        )
    nodes, there, back = graph.schema.nodes, {}, {}
    for relation in _relations(layer, graph):
        source, target, width = relation.source, relation.target, layer.widths[relation.source]
        matrix = source if isinstance(layer, GINLayer) else relation.key
        if first(layer, relation, graph, parts, kept):
            there[source, matrix] = Carried(nodes[source], layer.features)
            back[target, ""] = Carried(nodes[target], layer.features)
        else:
            if source not in kept:
                there[source, ""] = Carried(nodes[source], width)
            back[target, matrix] = Carried(nodes[target], width)
    return Messages(list(there.values()), list(back.values()))


def _of_attention(layer: Layer, graph: HetGraph) -> Messages:
    """Per head: keys, and values where they are others; of targets an offset and a query where these differ; the sums."""
    nodes, there, back = graph.schema.nodes, [], []
    for relation in _relations(layer, graph):
        heads, width = heads_of(layer)
        if isinstance(layer, HGTLayer):
            of_source, of_target = 2 * width, width + 1
        else:
            of_source, of_target = width, width if isinstance(layer, GATv2Layer) else 1
        dropping = bool(getattr(layer, "attention_dropout", 0)) and not isinstance(layer, GATv2Layer)
        there += [Carried(nodes[relation.source], heads, of_source), Carried(nodes[relation.target], heads, of_target)]
        back.append(Carried(nodes[relation.target], heads, width + 2 + dropping))
    return Messages(there, back)


def operations(layer: Layer, graph: HetGraph, parts: int, kept: frozenset[str] = frozenset()) -> dict[str, float]:
    """Of the device that has most, in the linear folds of a layer: numbers that edges add up, and multiplications of matrices."""
    edges = dense = 0.0
    for relation in _relations(layer, graph):
        width, sooner = layer.widths[relation.source], first(layer, relation, graph, parts, kept)
        edges += graph.relations[relation].edges * slice_of(layer.features if sooner else width, parts)
        multiplied = graph.schema.nodes[relation.source if sooner else relation.target]
        dense += slice_of(multiplied, parts) * width * layer.features
    return {"folded": edges, "multiplied": dense}


def resident(trainer: Trainer, graph: HetGraph, parts: int) -> dict[str, int]:
    """Bytes that stay on every device: edges, and rows of features and tables with two moments and a count each."""
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
    """Whether a relation's sources are multiplied before they are folded."""
    if getattr(layer, "one_hot", False) and relation.source in layer.learned:
        return True
    rows, targets = (max(1, slice_of(graph.schema.nodes[t], parts)) for t in (relation.source, relation.target))
    work, width = (rows, targets, graph.relations[relation].edges / parts), layer.widths[relation.source]
    sent = 0 if relation.source in kept else rows, targets
    return width < parts or sooner(work, sent, width, layer.features)
