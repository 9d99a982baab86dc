"""The table of casts: what each kind of value is in each role, and every door that must read it so.

`tests/test_casts_table.py` runs every case at every door, and `python -m tests.support.casts_page` writes docs/casts.md.
"""

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import networkx
import numpy as np
import pyarrow as pa

import hetjax
from hetjax.graph.hetgraph import HetGraph
from hetjax.objects import back
from tests.support import stand_ins

REFUSED, LEFT_OUT = "refused", "left out"  # left out of frames with a line; where features are one array, refused
RELATION = ("n", "k", "n")
DAY, TIME = datetime.date(1970, 1, 3), datetime.datetime(1970, 1, 2, 12)


class Case(NamedTuple):
    """Values of one kind in one role.

    Attributes:
      role: what the column is: `label`, `id`, `edge end`, `split`, `mask`, `weight` or `feature`.
      kind: of the values, in words.
      values: one per row.
      becomes: what is read, a value per row, with None where it is not known; or `REFUSED` or `LEFT_OUT`.
      dtype: numpy's, where the kind has one of its own; or `category`, `dictionary` or `Int64`, which some doors alone have.
      ids: the ids that nodes have, where edges are looked up.
      said: what a line says of it; empty: nothing need be said.
      csv: what it becomes in csv, where a cell is a text alone; None: the same.
      numbers: whether doors for graph libraries, of which labels are tensors, read them as numbers to predict, with a line.
    """

    role: str
    kind: str
    values: list[Any]
    becomes: Any
    dtype: str = ""
    ids: Sequence[Any] = ()
    said: str = ""
    csv: Any = None
    numbers: bool = False


LABELS = [
    Case("label", "integers", [0, 1, 0], [0, 1, 0]),
    Case("label", "integers with -1", [0, -1, 1], [0, None, 1]),
    Case("label", "integers of which one is left out", [0, 2, 2], [0, 2, 2]),
    Case("label", "unsigned integers", [0, 1, 2], [0, 1, 2], "uint8"),
    Case("label", "unsigned integers of 64 bits", [0, 1, 1], [0, 1, 1], "uint64"),
    Case("label", "integers with missing ones", [0, None, 1], [0, None, 1], "Int64"),
    Case("label", "other negative integers", [0, -2, 1], REFUSED),
    Case("label", "whole floats with NaN", [0.0, float("nan"), 1.0], [0, None, 1], "float64"),
    Case("label", "whole floats with -1.0", [0.0, -1.0, 1.0], [0, None, 1], "float32"),
    Case(
        "label", "floats with a fraction", [0.5, 1.0, 0.0], REFUSED, "float64", csv=["0.5", "1.0", "0.0"], numbers=True
    ),
    Case("label", "floats with inf", [0.0, float("inf"), 1.0], REFUSED, "float64", csv=["0.0", "inf", "1.0"]),
    Case("label", "texts", ["b", "a", "b"], ["b", "a", "b"]),
    Case("label", "texts with None", ["b", None, "a"], ["b", None, "a"]),
    *(
        Case(
            "label", f"texts with {word!r}", ["b", word, "a"], ["b", None, "a"], said="read as missing" if word else ""
        )
        for word in ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A")
    ),
    Case("label", "texts with '-1'", ["b", "-1", "a"], ["b", None, "a"]),
    Case("label", "texts of whole numbers", ["10", "9", "-1"], ["10", "9", None]),
    Case("label", "texts of whole numbers, some with .0", ["1.0", "1", "-1"], ["1", "1", None]),
    Case(
        "label",
        "booleans with a missing one",
        [True, False, None],
        ["true", "false", None],
        "boolean",
        csv=["True", "False", None],
    ),
    Case("label", "whole decimals", [decimal.Decimal("1"), None, decimal.Decimal("0")], [1, None, 0]),
    Case(
        "label",
        "decimals with a fraction",
        [decimal.Decimal("0.5"), decimal.Decimal("1.0")],
        REFUSED,
        csv=["0.5", "1.0"],
    ),
    Case("label", "a dictionary with null", ["y", None, "x"], ["y", None, "x"], "dictionary"),
    Case("label", "a category with a missing one", ["y", None, "x"], ["y", None, "x"], "category"),
    Case("label", "times", [TIME, TIME, TIME], REFUSED, csv=[str(TIME)] * 3),
    Case("label", "lists", [[0, 1, 2], [1], [0]], REFUSED),
    Case("label", "texts and numbers", ["a", 1, "b"], REFUSED, csv=["a", "1", "b"]),
]
IDS = [
    Case("id", "integers", [7, 5, 6], [7, 5, 6]),
    Case("id", "unsigned integers", [7, 5, 6], [7, 5, 6], "uint64"),
    Case("id", "unsigned integers from 2^63", [2**63, 5, 6], REFUSED, "uint64", csv=[str(2**63), "5", "6"]),
    Case("id", "integers above 2^53", [2**60 + 1, 2**60, 1], [2**60 + 1, 2**60, 1]),
    Case("id", "whole floats", [7.0, 5.0, 6.0], [7, 5, 6], "float64", csv=["7.0", "5.0", "6.0"]),
    Case("id", "floats above 2^53", [2.0**53, 5.0, 6.0], REFUSED, "float64", csv=[str(2.0**53), "5.0", "6.0"]),
    Case("id", "floats with a fraction", [7.5, 5.0, 6.0], REFUSED, "float64", csv=["7.5", "5.0", "6.0"]),
    Case("id", "floats with NaN", [7.0, float("nan"), 6.0], REFUSED, "float64", csv=["7.0", "nan", "6.0"]),
    Case("id", "texts", ["a", "07", "7"], ["a", "07", "7"]),
    Case("id", "texts with None", ["a", None, "b"], REFUSED),
    Case("id", "the same twice", ["a", "b", "a"], REFUSED),
    Case("id", "booleans", [True, False, True], REFUSED),
    Case(
        "id", "decimals with a fraction", [decimal.Decimal("1.5"), decimal.Decimal("2.5")], REFUSED, csv=["1.5", "2.5"]
    ),
    Case("id", "times", [TIME, datetime.datetime(1971, 1, 1)], REFUSED, csv=[str(TIME), "1971-01-01 00:00:00"]),
    Case("id", "lists", [[1], [2]], REFUSED),
    Case("id", "a dictionary", ["y", "z", "x"], ["y", "z", "x"], "dictionary"),
]
ENDS = [
    Case("edge end", "integers", [8, 7], [8, 7], ids=[7, 8]),
    Case("edge end", "whole floats", [8.0, 7.0], [8, 7], "float64", [7, 8], csv=REFUSED),
    Case("edge end", "floats with NaN", [8.0, float("nan")], REFUSED, "float64", [7, 8]),
    Case("edge end", "texts", ["b", "a"], ["b", "a"], ids=["a", "b"]),
    Case("edge end", "a text that no node has", ["b", "c"], REFUSED, ids=["a", "b"]),
    Case("edge end", "a missing text", ["b", None], REFUSED, ids=["a", "b"]),
    Case("edge end", "a dictionary with null", ["b", None], REFUSED, "dictionary", ["a", "b"]),
    Case("edge end", "a dictionary", ["b", "a"], ["b", "a"], "dictionary", ["a", "b"]),
    Case("edge end", "texts of ids that are integers", ["8", "7"], [8, 7], ids=[7, 8], said="compared with"),
    *(
        Case("edge end", f"the text {text!r} where the id is 7", [text, text], REFUSED, ids=[7, 8])
        for text in ("007", "+7", " 7", "7.0")
    ),
    Case("edge end", "booleans", [True, False], REFUSED, ids=[0, 1]),
    Case("edge end", "times", [TIME, TIME], REFUSED, ids=[0, 1]),
]
SPLITS = [
    Case("split", "train, validation, test", ["train", "validation", "test"], ["train", "validation", "test"]),
    Case("split", "val, valid, dev in any case", ["Train", "VAL", "dev"], ["train", "validation", "validation"]),
    Case("split", "words with missing ones", ["train", None, "NA"], ["train", None, None]),
    Case("split", "NaN alone", [float("nan")] * 3, [None] * 3, "float64"),
    Case("split", "a category", ["train", None, "test"], ["train", None, "test"], "category"),
    Case("split", "a dictionary with null", ["train", None, "test"], ["train", None, "test"], "dictionary"),
    Case("split", "other words", ["train", "tset", "test"], REFUSED),
    Case("split", "numbers", [0, 1, 2], REFUSED),
    Case("split", "booleans", [True, False, True], REFUSED),
]
MASKS = [
    Case("mask", "booleans", [True, False, True], [True, False, True]),
    Case("mask", "booleans with missing ones", [True, None, False], [True, False, False], "boolean"),
    Case("mask", "0 and 1", [1, 0, 1], [True, False, True]),
    Case("mask", "0 and 1 of 8 bits", [1, 0, 1], [True, False, True], "uint8"),
    Case("mask", "0.0 and 1.0", [1.0, 0.0, 1.0], [True, False, True], "float32"),
    Case("mask", "other numbers", [1, 2, 0], REFUSED),
    Case("mask", "other texts", ["yes", "no", "no"], REFUSED),
]
WEIGHTS = [
    Case("weight", "integers", [1, 2, 3], [1, 2, 3]),
    Case("weight", "floats", [0.5, 2.0, 3.0], [0.5, 2, 3], "float64"),
    Case("weight", "integers above 2^24", [2**24 + 1, 1, 1], [2**24, 1, 1], said="round"),
    Case(
        "weight", "decimals", [decimal.Decimal("0.5"), decimal.Decimal("1.5"), decimal.Decimal("2.5")], [0.5, 1.5, 2.5]
    ),
    Case("weight", "floats with NaN", [0.5, float("nan"), 1.0], REFUSED, "float64"),
    Case("weight", "floats with inf", [0.5, float("inf"), 1.0], REFUSED, "float64"),
    Case("weight", "texts", ["a", "b", "c"], REFUSED),
    Case("weight", "booleans", [True, False, True], REFUSED),
    Case("weight", "times", [TIME, TIME, TIME], REFUSED),
    Case("weight", "lists", [[1], [2], [3, 4]], REFUSED),
]
FEATURES = [
    Case("feature", "integers", [1, 2, 3], [1, 2, 3]),
    Case("feature", "integers with missing ones", [1, None, 3], REFUSED, "Int64"),
    Case("feature", "integers above 2^24", [2**24 + 1, 0, 1], [2**24, 0, 1], said="round"),
    Case("feature", "floats", [0.5, 2.0, 3.0], [0.5, 2, 3], "float64"),
    Case("feature", "floats with NaN", [0.5, float("nan"), 3.0], REFUSED, "float64"),
    Case("feature", "floats with inf", [0.5, float("inf"), 3.0], REFUSED, "float64"),
    Case("feature", "booleans", [True, False, True], [1, 0, 1], "bool", csv=REFUSED),
    Case(
        "feature", "decimals", [decimal.Decimal("0.5"), decimal.Decimal("1.5"), decimal.Decimal("2.5")], [0.5, 1.5, 2.5]
    ),
    Case("feature", "dates", [DAY, DAY, DAY], [2, 2, 2], said="days since 1970"),
    Case("feature", "times", [TIME, TIME, TIME], [1.5, 1.5, 1.5], said="days since 1970"),
    Case("feature", "texts", ["a", "b", "c"], LEFT_OUT),
    Case("feature", "a category", ["a", "b", "a"], LEFT_OUT, "category"),
    Case("feature", "a dictionary with null", ["a", None, "a"], LEFT_OUT, "dictionary"),
    Case("feature", "complex numbers", [1j, 2j, 3j], LEFT_OUT, "complex128"),
]
CASES = [*LABELS, *IDS, *ENDS, *SPLITS, *MASKS, *WEIGHTS, *FEATURES]
Column = Callable[[list, str], Any]


def as_list(values: list, dtype: str) -> Any:
    return None if dtype in ("category", "dictionary") else values


def as_array(values: list, dtype: str) -> Any:
    if dtype in ("category", "dictionary"):
        return None
    if any(isinstance(value, list) for value in values):
        made = np.empty(len(values), object)
        made[:] = values
        return made
    plain = {type(value) for value in values} <= {int, float, bool}
    return np.array(values, dtype if dtype not in ("", "Int64", "boolean") else None if plain else object)


def as_series(values: list, dtype: str) -> Any:
    import pandas as pd

    return None if dtype == "dictionary" else pd.Series(values, dtype=dtype or None)


def as_arrow(values: list, dtype: str) -> Any:
    if (
        dtype == "category"
        or {str, int} <= {type(value) for value in values}
        or any(isinstance(v, complex) for v in values)
    ):
        return None
    made = pa.array(
        values, None if dtype in ("", "dictionary", "Int64", "boolean") else pa.from_numpy_dtype(np.dtype(dtype))
    )
    return made.dictionary_encode() if dtype == "dictionary" else made


def as_polars(values: list, dtype: str) -> Any:
    import polars

    made = as_arrow(values, dtype)
    return None if made is None else polars.from_arrow(made)


def columns(case: Case, column: Column) -> dict[str, Any] | None:
    """The columns of a graph in which the case's role has its values, as a door gives columns; None: it has no such kind."""
    given = column(case.values, case.dtype)
    if given is None:
        return None
    count = len(case.ids) if case.role == "edge end" else len(case.values)
    made: dict[str, Any] = {"label": [0, *[1] * (count - 1)], "id": case.ids or None}
    made |= {"source": list(case.ids or range(count)), "target": list(case.ids or range(count))}
    key = {"edge end": "source", "mask": "train_mask", "feature": "age"}.get(case.role, case.role)
    if case.role == "id":
        made |= {"source": [], "target": []}
    return made | {key: given, "count": count}


def result(graph: HetGraph, case: Case) -> Any:
    """Return the values that a graph has in the case's role, as `Case.becomes` gives them."""
    node_type = graph.schema.target
    count = graph.schema.nodes[node_type]
    if case.role == "label":
        names = graph.names.classes
        return [None if code < 0 else int(code) if names is None else names[code] for code in graph.labels]
    if case.role == "id":
        return back.node_ids(graph, node_type)
    if case.role == "split":
        return [next((name for name, ids in graph.splits.items() if node in ids), None) for node in range(count)]
    if case.role == "mask":
        return [node in graph.splits["train"] for node in range(count)]
    if case.role == "feature":
        return graph.features[node_type].ravel().tolist() if node_type in graph.features else LEFT_OUT
    _, source, target, weights = next(iter(back.edge_lists(graph)))
    if case.role == "weight":
        assert weights is not None and source.tolist() == target.tolist()
        return weights.tolist()
    ids = back.node_ids(graph, node_type)
    return [ids[number] for number in source[np.argsort(target, kind="stable")]]


def from_arrays(case: Case, column: Column) -> HetGraph | None:
    given = columns(case, column)
    if given is None or case.role == "split":
        return None
    ends = [given["source"], given["target"], *([given["weight"]] if "weight" in given else [])]
    if case.ids and isinstance(case.ids[0], int):  # whole numbers are node numbers here
        return None
    splits = {"train": given.get("train_mask", [True] + [False] * (given["count"] - 1))}
    if case.role == "mask" and not {type(value) for value in case.values} <= {bool, type(None)}:
        return None  # numbers name nodes
    return hetjax.from_arrays(
        {RELATION: tuple(ends)},
        {"n": given["age"]} if "age" in given else None,
        {"n": given["label"]},
        splits,
        {"n": given["count"]},
        {"n": given["id"]} if given["id"] is not None else None,
    )


def from_frames(case: Case, column: Column, frame: Callable[[dict], Any]) -> HetGraph | None:
    given = columns(case, column)
    if given is None:
        return None
    given["id"] = list(range(given["count"])) if given["id"] is None else given["id"]
    nodes = {key: given[key] for key in ("id", "label", "split", "train_mask", "age") if key in given}
    edges = {key: given[key] for key in ("source", "target", "weight") if key in given}
    splits = None if case.role in ("split", "mask") else {"train": np.arange(given["count"]) == 0}
    return hetjax.from_pandas({"n": frame(nodes)}, {RELATION: frame(edges)}, splits=splits)


def from_networkx(case: Case) -> HetGraph | None:
    given = columns(case, as_list)
    if given is None or case.role in ("id", "edge end"):  # ids are any objects, and edges have the nodes themselves
        return None
    graph = networkx.DiGraph()
    keys = {"label": "y", "split": "split", "train_mask": "train_mask", "age": "x"}
    for node in range(given["count"]):
        graph.add_node(node, type="n", **{name: given[key][node] for key, name in keys.items() if key in given})
    for number, (source, target) in enumerate(zip(given["source"], given["target"])):
        graph.add_edge(
            source, target, relation="k", **({"weight": given["weight"][number]} if "weight" in given else {})
        )
    splits = None if case.role in ("split", "mask") else {"train": np.arange(given["count"]) == 0}
    return hetjax.from_networkx(graph, splits=splits)


def _tensors(case: Case) -> dict[str, Any] | None:
    """The columns as arrays such as a tensor can be, of numbers and booleans."""
    given = columns(case, as_array)
    if given is None or case.role in ("id", "edge end", "split"):
        return None
    made = {key: np.asarray(value) for key, value in given.items() if key not in ("id", "count")}
    return None if any(value.dtype.kind not in "biufc" for value in made.values()) else made


def from_pyg(case: Case) -> HetGraph | None:
    if (given := _tensors(case)) is None:
        return None
    keys = {"label": "y", "train_mask": "train_mask", "age": "x"}
    store = {name: given[key] for key, name in keys.items() if key in given} | {"num_nodes": len(given["label"])}
    edges = {"edge_index": np.stack([given["source"], given["target"]])}
    edges |= {"edge_weight": given["weight"]} if "weight" in given else {}
    return hetjax.from_pyg(stand_ins.HeteroData({"n": store, RELATION: edges}))


def from_dgl(case: Case) -> HetGraph | None:
    if (given := _tensors(case)) is None:
        return None
    keys = {"label": "label", "train_mask": "train_mask", "age": "feat"}
    data = {"n": {name: given[key] for key, name in keys.items() if key in given}}
    weights = {RELATION: {"weight": given["weight"]}} if "weight" in given else {}
    ends = {RELATION: (given["source"], given["target"])}
    return hetjax.from_dgl(stand_ins.Graph(ends, {"n": len(given["label"])}, data, weights))


def _pandas(nodes: dict) -> Any:
    import pandas as pd

    return pd.DataFrame(nodes)


def _polars(nodes: dict) -> Any:
    import polars

    return polars.DataFrame(nodes)


DOORS: dict[
    str, Callable[[Case], HetGraph | None]
] = {  # each gives the graph, None where it has no such column, or raises an InputError
    "lists": lambda case: from_arrays(case, as_list),
    "numpy": lambda case: from_arrays(case, as_array),
    "columns of Arrow": lambda case: from_arrays(case, as_arrow),
    "pandas": lambda case: from_frames(case, as_series, _pandas),
    "polars": lambda case: from_frames(case, as_polars, _polars),
    "tables of Arrow": lambda case: from_frames(case, as_arrow, pa.table),
    "dictionaries": lambda case: from_frames(case, as_list, dict),
    "networkx": from_networkx,
    "PyG": from_pyg,
    "DGL": from_dgl,
}
NEEDS = {"pandas": "pandas", "polars": "polars"}  # the packages of doors, where these are not hetjax's own
WHOLE = (
    "lists",
    "numpy",
    "columns of Arrow",
    "networkx",
    "PyG",
    "DGL",
    "csv",
    "parquet",
    "HDF5",
    "npz",
)  # where features are one array, or the user chooses their columns: nothing is left out
