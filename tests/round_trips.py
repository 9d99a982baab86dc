"""Graphs through objects of other libraries and back, in an environment that has those and no jax: `python -m tests.round_trips pyg dgl`.

`make peers` builds such environments.
"""

import sys
from dataclasses import replace
from importlib.metadata import version

import numpy as np

import hetjax
from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from tests.graphs import random_graph

GRAPHS = [(0, False), (1, True), (2, False)]  # seeds, and whether nodes have several labels
PACKAGES = {"pyg": "torch_geometric", "dgl": "dgl"}


def oddities(seed: int, several: bool = False) -> HetGraph:
    """The random graph with names, weights of one relation and, if asked for, several labels a node."""
    graph, rng = random_graph(seed), np.random.default_rng(seed)
    schema, labels = graph.schema, graph.labels
    edges = {relation: edges_of(csc) for relation, csc in graph.relations.items()}
    first = schema.relations[0]
    edges[first] = (*edges[first], rng.standard_normal(len(edges[first][0])).astype(np.float32))
    if several:
        labels = np.where(labels[:, None] < 0, -1, rng.integers(0, 2, (len(labels), 3)))
    ids = {
        "paper": Ids(rng.permutation(10**6)[: schema.nodes["paper"]]),
        "author": Ids([f"A {n}" for n in range(schema.nodes["author"])]),
    }
    names = Names(ids, Ids(["zoology", "art", "botany"]))  # not in the order of the alphabet
    return build(schema, edges, graph.features, labels, graph.splits, names=names)


def same(one: HetGraph, other: HetGraph, ordered: bool = True) -> None:
    assert (
        one.schema == other.schema and list(one.schema.nodes) == list(other.schema.nodes) and one.names == other.names
    )
    assert one.features.keys() == other.features.keys()
    for a, b in [(one.labels, other.labels), *((one.features[name], other.features[name]) for name in one.features)]:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    for name, ids in one.splits.items():
        np.testing.assert_array_equal(ids, other.splits[name])
    for relation, csc in one.relations.items():
        found = [
            np.stack([*edges_of(c), c.weights if c.weights is not None else np.zeros(c.edges)])
            for c in (csc, other.relations[relation])
        ]
        a, b = found if ordered else [lists[:, np.lexsort(lists)] for lists in found]
        np.testing.assert_array_equal(a, b)


def there_and_back(library: str, seed: int, several: bool) -> None:
    """Raise an AssertionError unless a graph comes back as it was."""
    graph = oddities(seed, several)
    if library == "pandas":
        nodes, edges = hetjax.to_pandas(graph)
        label = [f"label_{name}" for name in graph.names.class_names(3)] if several else "label"
        back = hetjax.from_pandas(nodes, edges, label)
        back = replace(back, names=replace(back.names, classes=graph.names.classes)) if several else back
    else:
        back = getattr(hetjax, f"from_{library}")(getattr(hetjax, f"to_{library}")(graph))
    if library == "dgl":  # which holds no texts
        graph = replace(graph, names=Names({"paper": graph.names.nodes["paper"]}))
        assert list(back.schema.nodes) == sorted(graph.schema.nodes)  # its own order
        back = replace(back, schema=replace(back.schema, nodes=graph.schema.nodes, relations=graph.schema.relations))
    same(graph, back, ordered=library != "networkx")


if __name__ == "__main__":
    for library in sys.argv[1:]:
        for seed, several in GRAPHS:
            there_and_back(library, seed, several)
        print(f"{len(GRAPHS)} graphs came back from {library} {version(PACKAGES[library])} as they were")
