"""Graphs through objects of other libraries and back, in an environment that has those and no jax: `python -m tests.support.round_trips pyg dgl`.

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
from hetjax.objects.back import MASKS
from tests.support import peer_cases
from tests.support.graphs import random_graph

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


def columns_there_and_back(library: str) -> None:
    """Raise an AssertionError unless columns of labels of nodes and pairs come back as they were."""
    ends, numbers = (np.array([0, 1, 2]), np.array([0, 1, 1])), ["user.age", "item.price", "rates.stars"]
    labels = {
        "user.kind": [1, 0, -1],
        "user.age": [30.5, np.nan, 60],
        "item.price": [1.0, 2],
        "rates.stars": (*ends, [5, 1.5, np.nan]),
    }
    splits = {"user.kind": {"train": [0]}, "user.age": {"val": [2]}, "item": {}, "rates.stars": {"test": [1]}}
    splits["item.price"] = splits.pop("item")
    graph = hetjax.from_arrays({("user", "rates", "item"): ends}, {}, labels, splits, numbers=numbers)
    made = getattr(hetjax, f"to_{library}")(graph)
    names = ["user.label", *list(labels)[1:]] if library == "dgl" else []
    found = getattr(hetjax, f"from_{library}")(made, labels=names, numbers=numbers if names else False)
    for name in labels:
        mine, other = graph.column(name), found.column("user.label" if name == "user.kind" and names else name)
        for one, its in zip(mine.arrays, other.arrays, strict=True):
            assert one.dtype == its.dtype
            np.testing.assert_array_equal(one, its)


def pyg_cases() -> None:
    """Raise an AssertionError unless graphs that PyG makes in other ways are read as they are."""
    import torch
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.transforms import ToSparseTensor

    def hetero(stores):
        data = HeteroData()
        for key, store in stores.items():
            for name, value in store.items():
                setattr(data[key], name, value)
        return data

    peer_cases.pyg_types(Data, torch.tensor)
    peer_cases.pyg_stores(Data, hetero, torch.tensor)
    graph = oddities(0)
    data = hetjax.to_pyg(graph)
    del data.classes
    for store in data.node_stores:  # which other types do not have
        for key in ("ids", *MASKS.values()):
            if key in store:
                del store[key]
    parts = hetjax.from_pyg(data)
    joined = data.to_homogeneous(add_node_type=True, add_edge_type=True)
    apart = hetjax.from_pyg(joined, target=graph.schema.target)
    assert peer_cases.edges_of(parts).keys() == peer_cases.edges_of(apart).keys()
    assert {r: len(edges) for r, edges in peer_cases.edges_of(parts).items()} == {
        r: len(edges) for r, edges in peer_cases.edges_of(apart).items()
    }
    x, y = torch.eye(3).to_sparse_csr(), torch.tensor([0, 1, 0])
    plain = Data(x=x, y=y, edge_index=torch.tensor([[0, 1], [1, 2]]))
    read = hetjax.from_pyg(plain)
    assert read.features["node"].tolist() == np.eye(3).tolist()
    plain.x = torch.eye(3)
    turned = hetjax.from_pyg(ToSparseTensor()(plain))
    assert peer_cases.edges_of(turned) == peer_cases.edges_of(read)


def dgl_cases() -> None:
    """Raise an AssertionError unless graphs that DGL makes in other ways are read as they are."""
    import dgl
    import torch

    def graph_of(edges, counts, ndata, edata):
        made = dgl.heterograph(edges, num_nodes_dict=counts)
        for name, columns in ndata.items():
            made.nodes[name].data.update(columns)
        for kind, columns in edata.items():
            made.edges[kind].data.update(columns)
        return made

    peer_cases.dgl_types(graph_of, torch.tensor)
    ends = {("a", "w", "p"): ([0, 1], [1, 1]), ("p", "c", "p"): ([0], [1])}
    made = dgl.heterograph({kind: tuple(map(torch.tensor, one)) for kind, one in ends.items()}, {"a": 2, "p": 2})
    made.nodes["a"].data["feat"], made.nodes["p"].data["feat"] = torch.tensor([[1.0], [2]]), torch.tensor([[3.0], [4]])
    made.nodes["a"].data["label"], made.nodes["p"].data["label"] = torch.tensor([-1, -1]), torch.tensor([0, 1])
    read = hetjax.from_dgl(dgl.to_homogeneous(made, ndata=["feat", "label"]))
    assert peer_cases.edges_of(read) == {
        ("type_0", "relation_0", "type_1"): [(0, 1), (1, 1)],
        ("type_1", "relation_1", "type_1"): [(0, 1)],
    }
    assert [matrix.ravel().tolist() for matrix in read.features.values()] == [[1, 2], [3, 4]]


if __name__ == "__main__":
    for library in sys.argv[1:]:
        {"pyg": pyg_cases, "dgl": dgl_cases}[library]()
        for seed, several in GRAPHS:
            there_and_back(library, seed, several)
        columns_there_and_back(library)
        print(f"{len(GRAPHS)} graphs came back from {library} {version(PACKAGES[library])} as they were")
