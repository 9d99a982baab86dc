"""Training labels as inputs, so that no node's own label reaches its logits.

Labels are propagated along relations (`hetjax.graph.label_propagation`), and what reaches a node is one of its features, as in UniMP (Shi et
al., Masked Label Prediction, IJCAI 2021) and SeHGNN (Yang et al., AAAI 2023, section 4.1). There are two ways on which a label could come
back to its own node, and neither is there:

- Through the propagation. The training nodes are divided into folds, and what a training node gets is propagated from the labels of the
  other folds alone. UniMP masks other labels at every step; here each is masked once, for its own fold, so that features do not change.
- Through the layers: a neighbour's feature holds the node's label. So these features are no features of the target type, whose embeddings
  its neighbours read. A type of its own has them, which becomes the target: the same nodes, with the target's relations, and with one
  relation more from each node to itself. No other node reads it.

All of it is part of the graph, so every strategy trains it as it trains any graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_propagation import Propagation, known, shares, ways
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

ADDED = " with labels"  # to the name of the target type
ITSELF, LABELS = "itself", "labels"  # relations from the target type, and from the new one
FOLDS = 5
MOST_NUMBERS = 2**30  # of all nodes' label inputs


def obstacle(graph: HetGraph, like: HetGraph | None = None) -> str:
    """Return the reason why a graph's labels cannot be inputs of `with_labels`; empty if they can."""
    schema, count = graph.schema, len(graph.splits["train"])
    if (new := schema.target + ADDED) in schema.nodes:
        return f"the graph has a type {new!r} already"
    if (loops := Relation(schema.target, ITSELF, schema.target)) in schema.relations:
        return f"the graph has a relation {loops} already"
    if count < FOLDS and (count or not like):
        return f"there are {count} training nodes < {FOLDS}, one a fold"
    along = ways(like or graph)
    if odd := {relation for relations in along.values() for relation in relations} - graph.relations.keys():
        return f"there is no relation {min(odd, key=str)} to propagate along"
    size = schema.nodes[schema.target] * schema.classes * len(along)
    return f"would make {size:,} numbers > {MOST_NUMBERS:,}" if size > MOST_NUMBERS else ""


def with_labels(graph: HetGraph, like: HetGraph | None = None) -> HetGraph:
    """Return the graph with a new target type, which has the nodes of the old one, and propagated labels as its features.

    Its relations are those into the old target; `itself` from the old target; and `labels` from itself, which carries the features in models
    without a self term.

    Args:
      like: the graph whose ways labels are propagated along, in the order of its columns; this one, unless it is another that a trained
        model predicts.

    Raises:
      InputError: there are too few training nodes, too many values, or such a type already.
    """
    if why := obstacle(graph, like):
        raise InputError(f"data.label_inputs is true, and {why}")
    schema, old, new = graph.schema, graph.schema.target, graph.schema.target + ADDED
    count, along = schema.nodes[old], ways(like or graph)
    ids = np.arange(count, dtype=index_dtype(count))
    loops = CSC(np.arange(count + 1, dtype=np.int64), ids)
    copies = {Relation(r.source, r.name, new): graph.relations[r] for r in schema.into(old)}
    relations = {**graph.relations, **copies, Relation(old, ITSELF, new): loops, Relation(new, LABELS, new): loops}
    named = {new: graph.names.nodes[old]} if old in graph.names.nodes else {}
    return replace(
        graph,
        schema=replace(schema, nodes={**schema.nodes, new: count}, relations=tuple(relations), target=new),
        relations=relations,
        features={**graph.features, new: propagated(graph, along)},
        names=replace(graph.names, nodes={**graph.names.nodes, **named}),
        columns={},
    )


def without_labels(graph: HetGraph) -> HetGraph:
    """Return the graph that `with_labels` was given, except for other changes of its features; another graph is returned unchanged."""
    schema = graph.schema
    if Relation(schema.target, LABELS, schema.target) not in schema.relations or not schema.target.endswith(ADDED):
        return graph
    new, old = schema.target, schema.target.removesuffix(ADDED)
    relations = {r: csc for r, csc in graph.relations.items() if r.target != new}
    nodes = {name: count for name, count in schema.nodes.items() if name != new}
    return replace(
        graph,
        schema=replace(schema, nodes=nodes, relations=tuple(relations), target=old),
        relations=relations,
        features={name: matrix for name, matrix in graph.features.items() if name != new},
    )


def propagated(graph: HetGraph, along: Mapping[str, Sequence[Relation]] | None = None) -> np.ndarray:
    """Return the propagated labels of other folds at every target node, float32 `[nodes, ways * classes]`.

    Along each of `label_propagation.ways`, unless others are given, the share of every class among what reaches the node, less the share among the labels that
    were propagated: 0 where nothing does, and everywhere if there are no training nodes. Only labels of the training nodes are read; a node of no fold gets those of all.
    """
    train, several = graph.splits["train"], graph.multilabel
    fold = np.full(len(graph.labels), -1)
    fold[train] = np.random.Philox(0).random_raw(len(train)).argsort().argsort() % FOLDS
    columns = []
    along = along or ways(graph)
    if not len(train):
        return np.zeros((len(graph.labels), len(along) * graph.schema.classes), np.float32)
    for relations in along.values():
        propagation = Propagation(graph, relations)
        found = np.zeros((len(graph.labels), graph.schema.classes), np.float32)
        for number in (-1, *range(FOLDS)):
            given, asked = train[fold[train] != number] if number >= 0 else train, fold == number
            labels = known(graph, given)[given]
            prior = labels.mean(axis=0)[: graph.schema.classes]
            spread = propagation(known(graph, given))[asked]
            found[asked] = shares(spread, prior, several) - prior[None]
        columns.append(found)
    return np.concatenate(columns, axis=1)
