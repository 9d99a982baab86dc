"""Graphs of PyG and DGL that other ways of making them lead to: with the libraries, or with `tests.support.stand_ins`.

Each takes the constructors and a function that makes a tensor of a list, and raises an AssertionError unless what is read is right.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hetjax
from hetjax.objects import back
from hetjax.system.errors import InputError

TYPES, KINDS = [0, 1, 0, 1, 1], [0, 1, 1, 0]  # of nodes 0 to 4, and of edges
INDEX = [[0, 2, 0, 1], [1, 3, 4, 3]]
X = [[0.0], [10.0], [20.0], [30.0], [40.0]]
Y = [-1, 0, -1, 1, 0]


@contextmanager
def lines() -> Iterator[list[str]]:
    """Collect what hetjax says."""
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hetjax").addHandler(handler)
    try:
        yield heard
    finally:
        logging.getLogger("hetjax").removeHandler(handler)


def edges_of(graph: Any) -> dict[tuple, list]:
    """The edges of every relation, sorted; with weights if it has some."""
    found = {}
    for relation, source, target, weights in back.edge_lists(graph):
        columns = [source, target] if weights is None else [source, target, weights]
        found[tuple(relation)] = sorted(zip(*(column.tolist() for column in columns)))
    return found


def refused(message: str, work: Callable[[], Any]) -> None:
    try:
        work()
    except InputError as error:
        assert message in str(error) and len(str(error).splitlines()) == 1, str(error)
        return
    raise AssertionError(f"accepted, and should be refused: {message}")


def check_parts(graph: Any, names: list[str], relations: dict[tuple, list]) -> None:
    """Raise an AssertionError unless the graph of these types was taken apart, rows of `X` with their own type."""
    assert list(graph.schema.nodes) == names and graph.schema.target == names[1]
    assert graph.features[names[0]].ravel().tolist() == [0, 20]
    assert graph.features[names[1]].ravel().tolist() == [10, 30, 40]
    assert graph.labels.tolist() == [0, 1, 0]
    assert edges_of(graph) == relations, edges_of(graph)


def pyg_types(data_of: Callable, tensor: Callable) -> None:
    """A `Data` with `node_type` and `edge_type` has as many types and relations, with names where it has some."""
    given = {
        "edge_index": tensor(INDEX),
        "edge_type": tensor(KINDS),
        "node_type": tensor(TYPES),
        "x": tensor(X),
        "y": tensor(Y),
    }
    masks = {"train_mask": tensor([False, True, False, False, True]), "edge_attr": tensor([[1.0]] * 4)}
    with lines() as heard:
        graph = hetjax.from_pyg(data_of(**given, **masks))
    relations = {
        ("type_0", "relation_0", "type_1"): [(0, 0)],
        ("type_1", "relation_0", "type_1"): [(0, 1)],
        ("type_0", "relation_1", "type_1"): [(0, 2), (1, 1)],
    }
    check_parts(graph, ["type_0", "type_1"], relations)
    assert graph.splits["train"].tolist() == [0, 2]
    assert any("node types type_0, type_1" in line and "relation_1" in line for line in heard), heard
    assert any("edge_attr: hetjax has no features of edges" in line for line in heard), heard
    one = hetjax.from_pyg(data_of(**{key: value for key, value in given.items() if key != "node_type"}))
    assert list(one.schema.nodes) == ["node"] and [r.name for r in one.schema.relations] == ["relation_0", "relation_1"]
    two = hetjax.from_pyg(data_of(**{key: value for key, value in given.items() if key != "edge_type"}))
    assert {r.name for r in two.schema.relations} == {"edge"} and len(two.schema.relations) == 2
    refused("edge_type: 3 numbers != 4", lambda: hetjax.from_pyg(data_of(**given | {"edge_type": tensor([0, 1, 1])})))
    refused(
        "node_type: 4 numbers != 5", lambda: hetjax.from_pyg(data_of(**given | {"node_type": tensor([0, 1, 0, 1])}))
    )


def pyg_stores(data_of: Callable, hetero_of: Callable, tensor: Callable) -> None:
    """A target may have no `x`; masks may be numbers; a relation has edges."""
    paper, cites = {"y": tensor([0, 1, 0])}, ("paper", "cites", "paper")
    graph = hetjax.from_pyg(hetero_of({"paper": paper, cites: {"edge_index": tensor([[0, 1], [1, 0]])}}))
    assert graph.schema.nodes["paper"] == 3 and graph.labels.tolist() == [0, 1, 0] and graph.edges == 2
    masks = {"train_mask": tensor([1, 0, 0]), "val_idx": tensor([1]), "time": tensor([1, 2, 3])}
    stores = {
        "paper": paper | masks,
        cites: {"edge_index": tensor([[0], [1]]), "edge_weight": tensor([0.5]), "time": tensor([1])},
    }
    with lines() as heard:
        graph = hetjax.from_pyg(hetero_of(stores))
    assert [ids.tolist() for ids in graph.splits.values()] == [[0], [1], []] and edges_of(graph)[cites] == [(0, 1, 0.5)]
    assert [line for line in heard if "left out: time" in line] == [
        "nodes of type 'paper': left out: time",
        "relation paper -cites-> paper: left out: time",
    ], heard
    refused(
        "no edge_index and no adj_t", lambda: hetjax.from_pyg(hetero_of({"paper": paper, cites: {"time": tensor([1])}}))
    )
    refused("without edge_index or adj_t", lambda: hetjax.from_pyg(data_of(x=tensor(X), y=tensor(Y))))
    refused(
        "train_mask: 2 of row 0",
        lambda: hetjax.from_pyg(hetero_of(stores | {"paper": paper | {"train_mask": tensor([2, 0, 0])}})),
    )
    refused(
        "and should be [2, edges]",
        lambda: hetjax.from_pyg(data_of(y=tensor(Y), edge_index=tensor([[0, 1, 2], [1, 2, 0], [1, 1, 1]]))),
    )
    graph = hetjax.from_pyg(data_of(y=tensor([0, 1, 1]), edge_index=tensor([[0], [1]])))
    assert dict(graph.schema.nodes) == {"node": 3}


def dgl_types(graph_of: Callable, tensor: Callable) -> None:
    """A homogeneous graph with DGL's numbers of types has as many types and relations."""
    ndata = {
        "_N": {
            "feat": tensor(X),
            "label": tensor(Y),
            "_TYPE": tensor(TYPES),
            "_ID": tensor([0, 0, 1, 1, 2]),
            "pos": tensor(X),
        }
    }
    edata = {
        ("_N", "_E", "_N"): {
            "_TYPE": tensor(KINDS),
            "_ID": tensor([0, 0, 1, 1]),
            "time": tensor([1, 2, 3, 4]),
            "w": tensor([1.0, 2, 3, 4]),
        }
    }
    ends = {("_N", "_E", "_N"): (tensor(INDEX[0]), tensor(INDEX[1]))}
    with lines() as heard:
        graph = hetjax.from_dgl(graph_of(ends, {"_N": 5}, ndata, edata))
    relations = {
        ("type_0", "relation_0", "type_1"): [(0, 0, 1.0)],
        ("type_1", "relation_0", "type_1"): [(0, 1, 4.0)],
        ("type_0", "relation_1", "type_1"): [(0, 2, 3.0), (1, 1, 2.0)],
    }
    check_parts(graph, ["type_0", "type_1"], relations)
    assert "nodes of type '_N': left out: pos" in heard, heard
    assert "relation _N -_E-> _N: left out: time: hetjax has no features of edges" in heard, heard
