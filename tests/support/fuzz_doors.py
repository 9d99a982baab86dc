"""The fuzzer of the Python doors: `python tests/support/fuzz_doors.py --mutants 5000` gives them what users might.

A mutant passes if its door returns a graph, or raises an InputError of one line; within 20 seconds of the processor, under
2.5 GB, and with nothing written. A line that names an exception of Python's, which no check foresaw, is counted apart.
"""

import argparse
import datetime
import decimal
import fractions
import logging
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import networkx
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse

import hetjax
from hetjax.system.errors import InputError
from tests.support import stand_ins
from tests.support.fuzz import SECONDS, forked

BATCH = 50  # mutants that a child is given
ENDINGS = "refused", "accepted", "unforeseen", "fault"  # unforeseen: one line, which names an exception of Python's

VALUES = [
    None,
    float("nan"),
    float("inf"),
    -1,
    0,
    1,
    2,
    7,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**400,
    0.5,
    1e300,
    -0.0,
    True,
    1j,
]
VALUES += [
    "",
    "NA",
    "nan",
    "x",
    "007",
    "7",
    "-1",
    " 7",
    "train",
    "val",
    "test",
    "\ud800",
    10_000 * "n",
    b"x",
    b"\xff",
    ...,
]
VALUES += [
    decimal.Decimal("1.5"),
    decimal.Decimal("NaN"),
    fractions.Fraction(1, 2),
    datetime.date(2020, 1, 1),
    object(),
]
VALUES += [
    datetime.datetime(2020, 1, 1),
    pd.NA,
    pd.NaT,
    pd.Timestamp("2020"),
    np.str_("a"),
    np.int8(3),
    np.float16(0.5),
    np.bool_(True),
]
VALUES += [
    [],
    [1],
    [1, 2],
    (),
    (0, 1),
    {},
    {"a": 1},
    set(),
    {1},
    range(3),
    [[0, 1], [1, 0]],
    [None],
    ["a"],
    np.array(3),
    pa.scalar(3),
]
VALUES += [
    np.zeros((2, 2, 2)),
    np.zeros((3, 0)),
    np.zeros((0, 3)),
    np.array([(1, 2)], "i4,i4"),
    np.ma.array([1, 2, 3], mask=[0, 1, 0]),
]
VALUES += [
    scipy.sparse.eye(3),
    pd.DataFrame({"a": [1, 2, 3]}),
    pd.Series([1, None, 3]),
    pd.Series(["a", "b", None], dtype="category"),
]
VALUES += [
    pa.array([1, None, 3]),
    pa.array(["a", None, "a"]).dictionary_encode(),
    pa.array([[1], None, [2, 3]]),
    pa.nulls(3),
    iter([1, 2, 3]),
]
VALUES += [
    lambda: 1,
    int,
    np.array(["2020", "NaT", "2021"], "M8[D]"),
    pd.period_range("2020", periods=3, freq="D"),
    pd.interval_range(0, 3),
]
DTYPES = "?", "i1", "u1", "i4", "u8", "f2", "f4", "f8", ">i4", "O", "U", "S3", "M8[s]", "c8"
NAMES = (
    "id",
    "label",
    "split",
    "train_mask",
    "val_mask",
    "test_mask",
    "weight",
    "w",
    "source",
    "src",
    "target",
    "dst",
    "time",
    "x",
    "y",
    "type",
)
NAMES += (
    "ids",
    "edge_type",
    "node_type",
    "adj_t",
    "edge_index",
    "edge_attr",
    "train_idx",
    "num_nodes",
    "_TYPE",
    "_ID",
    "classes",
    0,
    "",
    None,
)
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def arrays() -> tuple[Callable, dict]:
    """What `from_arrays` takes."""
    edges = {WRITES: ([0, 1, 2], [0, 0, 1], [0.5, 1.0, 2.0]), CITES: [(0, 1), (1, 0), (1, 1)]}
    given = {"edges": edges, "features": {"paper": [[1.5, 2], [0, 1]]}, "labels": {"author": ["early", None, "late"]}}
    more = {
        "splits": {"train": [0], "test": [2]},
        "nodes": {"paper": 2},
        "ids": {"author": [5, 6, 7]},
        "reverse": True,
        "seed": 0,
    }
    return (lambda tree: hetjax.from_arrays(**tree)), given | more | {"splits": {"train": [5], "test": [7]}}


def frames() -> tuple[Callable, dict]:
    """What `from_pandas` takes, as dictionaries that become frames where they can."""
    author = {
        "id": ["a", "b", "c"],
        "label": [0, 1, 0],
        "age": [1, 2, 3],
        "split": ["train", None, "test"],
        "born": ["x", "y", "z"],
    }
    edges = {WRITES: {"source": ["a", "b"], "target": [7, 8], "weight": [1, 2]}, CITES: {"src": [7], "dst": [8]}}
    return _frames, {
        "nodes": {"author": author, "paper": {"id": [7, 8], "price": [0.5, 1]}},
        "edges": edges,
        "reverse": False,
        "kind": 0,
    }


def _frames(tree: dict) -> Any:
    kind = [dict, pd.DataFrame, pa.table][tree.pop("kind") % 3] if isinstance(tree.get("kind"), int) else dict
    for part in ("nodes", "edges"):
        if isinstance(tree.get(part), dict):
            tree[part] = {key: _framed(one, kind) for key, one in tree[part].items()}
    return hetjax.from_pandas(**{key: value for key, value in tree.items() if key != "kind"})


def _framed(columns: Any, kind: Callable) -> Any:
    try:
        return kind(columns)
    except Exception:  # what the library itself refuses is given as it is
        return columns


def graphs() -> tuple[Callable, dict]:
    """Nodes and edges of a graph of networkx."""
    nodes = {n: {"type": "author", "y": n % 2, "x": [1.0, n], "split": "train"} for n in range(3)} | {
        "p": {"type": "paper"}
    }
    return _networkx, {
        "nodes": nodes,
        "edges": {(n, "p"): {"relation": "writes", "weight": 1.0} for n in range(3)},
        "more": {"splits": {"train": [0]}, "reverse": True},
    }


def _networkx(tree: dict) -> Any:
    try:
        made = _made(_mapping(tree.get("nodes")), _mapping(tree.get("edges")))
    except Exception as error:
        raise InputError("networkx itself refuses it") from error
    return hetjax.from_networkx(made, **_options(tree.get("more")))


def _made(nodes: dict, edges: dict) -> networkx.MultiDiGraph:
    made: networkx.MultiDiGraph = networkx.MultiDiGraph()
    for node, attributes in nodes.items():
        made.add_node(0 if node is None else node, **_named(attributes))
    for ends, attributes in edges.items():
        if isinstance(ends, tuple) and len(ends) == 2:
            made.add_edge(*ends, **{name: one for name, one in _named(attributes).items() if name != "key"})
    return made


def _options(given: Any) -> dict:
    """The arguments that all of these doors have."""
    return {key: one for key, one in _mapping(given).items() if key in ("splits", "reverse", "seed")}


def _mapping(given: Any) -> dict:
    return given if isinstance(given, dict) else {}


def stores() -> tuple[Callable, dict]:
    """The stores of a `HeteroData`."""
    author = {
        "x": np.ones((3, 2)),
        "y": np.array([0, 1, 0]),
        "train_mask": np.array([True, False, False]),
        "num_nodes": 3,
    }
    links = {"edge_index": np.array([[0, 1, 2], [0, 0, 1]]), "edge_weight": np.ones(3), "edge_attr": np.ones((3, 2))}
    return _pyg, {
        "stores": {"author": author, "paper": {"num_nodes": 2}, WRITES: links},
        "more": {"splits": {"train": [0]}, "reverse": True},
    }


def _pyg(tree: dict) -> Any:
    return hetjax.from_pyg(
        stand_ins.HeteroData({key: _named(one) for key, one in _mapping(tree.get("stores")).items()}),
        **_options(tree.get("more")),
    )


def _named(given: Any) -> dict:
    return {str(key): one for key, one in _mapping(given).items()}


def joined() -> tuple[Callable, dict]:
    """A `Data` with numbers of types."""
    index, numbers = (
        np.array([[0, 2, 0], [1, 3, 3]]),
        {"edge_type": np.array([0, 1, 1]), "node_type": np.array([0, 1, 0, 1])},
    )
    given = {"edge_index": index, "x": np.ones((4, 2)), "y": np.array([-1, 0, -1, 1]), "ids": ["a", "b", "c", "d"]}
    return (lambda tree: hetjax.from_pyg(stand_ins.Data(**_named(tree)))), given | numbers


def heterographs() -> tuple[Callable, dict]:
    """A graph of DGL."""
    ndata = {
        "author": {"feat": np.ones((3, 2)), "label": np.array([0, 1, 0]), "train_mask": np.array([1, 0, 0])},
        "paper": {},
    }
    edges = {WRITES: (np.array([0, 1, 2]), np.array([0, 0, 1]))}
    return _dgl, {
        "edges": edges,
        "ndata": ndata,
        "edata": {WRITES: {"w": np.ones(3), "time": np.ones(3)}},
        "more": {"splits": {"train": [0]}, "reverse": True},
    }


def _dgl(tree: dict) -> Any:
    parts = [{key: _mapping(one) for key, one in _mapping(tree.get(name)).items()} for name in ("ndata", "edata")]
    edges = {key: one for key, one in _mapping(tree.get("edges")).items() if isinstance(one, tuple) and len(one) == 2}
    made = stand_ins.Graph(edges, {"author": 3, "paper": 2}, *parts)
    return hetjax.from_dgl(made, **_options(tree.get("more")))


DOORS = {"arrays": arrays, "pandas": frames, "networkx": graphs, "pyg": stores, "data": joined, "dgl": heterographs}


def mutated(tree: Any, rng: random.Random) -> Any:
    """Return a tree of dictionaries and sequences with one of its places changed."""
    if isinstance(tree, np.ndarray) and not tree.ndim:
        return rng.choice(VALUES)
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        key = rng.choice(list(tree))
        return {name: mutated(one, rng) if name == key else one for name, one in tree.items()}
    if isinstance(tree, list | tuple | np.ndarray) and len(tree) and rng.random() < 0.5:
        values = list(tree)
        place = rng.randrange(len(values))
        values[place] = mutated(values[place], rng)
        return type(tree)(values) if isinstance(tree, list | tuple) else _array(values)
    return rng.choice(_CHANGES)(tree, rng)


def _array(values: list) -> Any:
    try:
        return np.array(values)
    except Exception:
        return values


def _another(_: Any, rng: random.Random) -> Any:
    return rng.choice(VALUES)


def _resized(tree: Any, rng: random.Random) -> Any:
    if isinstance(tree, np.ndarray):
        return tree[: rng.randrange(len(tree))] if len(tree) else tree
    if isinstance(tree, dict):
        return {key: one for key, one in tree.items() if rng.random() < 0.7} | {rng.choice(NAMES): rng.choice(VALUES)}
    if isinstance(tree, list | tuple) and tree:
        return tree[: rng.randrange(len(tree))] if rng.random() < 0.5 else type(tree)([*tree, tree[0]])
    return [tree] * rng.randrange(4)


def _renamed(tree: Any, rng: random.Random) -> Any:
    if not isinstance(tree, dict) or not tree:
        return rng.choice(VALUES)
    old = rng.choice(list(tree))
    return {rng.choice(NAMES) if key == old else key: one for key, one in tree.items()}


def _other_column(tree: Any, rng: random.Random) -> Any:
    """The same values in another library's column, or as another type."""
    makers: list[Callable] = [
        pd.Series,
        pd.Index,
        pa.array,
        np.asarray,
        set,
        tuple,
        iter,
        list,
        pd.Categorical,
        np.array,
    ]
    makers += [
        lambda one: pa.array(one).dictionary_encode(),
        lambda one: np.asarray(one).astype(rng.choice(DTYPES)),
        lambda one: np.asarray(one)[:, None],
    ]
    makers += [
        lambda one: np.asarray(one)[::-1],
        lambda one: pd.Series(one, dtype="Int64"),
        lambda one: pa.chunked_array([pa.array(one), pa.array(one)]),
    ]
    try:
        return rng.choice(makers)(tree)
    except Exception:
        return tree


_CHANGES = [_another, _resized, _renamed, _other_column, _other_column]


def run(doors: Sequence[str], seed: int, numbers: Sequence[int]) -> None:
    """Give doors their inputs, and write how each ended to `found.txt`."""
    log = logging.getLogger("hetjax")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    warnings.simplefilter("ignore")  # of numpy and pandas, about what they are given
    for number in numbers:
        rng = random.Random(f"{seed}:{number}")
        door = rng.choice(doors)
        work, tree = DOORS[door]()
        for _ in range(rng.choice([1, 1, 2, 3])):
            key = rng.choice(list(tree))  # arguments keep their names
            tree = tree | {key: mutated(tree[key], rng)}
        with open("found.txt", "a") as file:
            print(f"{number} {door}", end=" ", file=file, flush=True)
            started = time.process_time()
            ended = _ended(work, tree)
            slow = time.process_time() - started > SECONDS
            print(ascii(f"fault: {SECONDS} s" if slow else ended)[1:-1], file=file, flush=True)


def _ended(work: Callable, tree: dict) -> str:
    try:
        work(tree)
        return "accepted"
    except InputError as error:
        if len(str(error).splitlines()) != 1:
            return f"fault: several lines: {str(error)[:300]}"
        foreseen = error.__cause__ is None or not str(error).startswith("hetjax.from_")
        return "refused" if foreseen else f"unforeseen: {str(error)[:300]}"
    except Exception as error:
        return f"fault: {type(error).__name__}: {str(error)[:300]}"


def batch(seed: int, doors: Sequence[str], folder: Path, first: int, count: int) -> tuple[list[str], int, str]:
    """Run some mutants in a child: a line of each, the most memory that it held, and what went wrong with the child."""
    place = folder / str(first)
    package = Path(hetjax.__file__).parent  # where what Python and numba compile is kept
    found = forked(lambda: run(doors, seed, range(first, first + count)), place, [package])
    told = place / "found.txt"
    lines = told.read_text().splitlines() if told.exists() else []
    shutil.rmtree(place)
    return (
        lines,
        found.memory,
        "" if found.status == 0 and not found.outside else f"{found.status} {found.error[-300:]}{found.outside}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first mutant; each is a function of seed and number"
    )
    parser.add_argument("--doors", nargs="+", default=list(DOORS), choices=list(DOORS))
    given = parser.parse_args()
    folder, counts, most, wrong = Path(tempfile.mkdtemp(prefix="fuzz_doors_")), Counter[tuple[str, str]](), 0, 0
    for first in range(given.first, given.first + given.mutants, BATCH):
        count = min(BATCH, given.first + given.mutants - first)
        lines, memory, fault = batch(given.seed, given.doors, folder, first, count)
        most = max(most, memory)
        if fault:
            print(f"mutants {first} to {first + count - 1}: {fault}; the last: {lines[-1:]}", flush=True)
            wrong += 1
        for line in lines:
            _, door, ended = (
                line.split(" ", 2) if line.count(" ") > 1 else (*line.split(" "), "fault: ended the process")[:3]
            )
            counts[door, ended.split(":")[0]] += 1
            if ended not in ("accepted", "refused"):
                print(line, flush=True)
    shutil.rmtree(folder)
    print(f"{'':10}" + "".join(f"{name:>12}" for name in ("mutants", *ENDINGS)))
    for door in given.doors:
        of = [counts[door, ending] for ending in ENDINGS]
        print(f"{door:10}" + "".join(f"{number:12}" for number in (sum(of), *of)))
    print(f"at most {most / 1e9:.1f} GB")
    sys.exit(bool(wrong or sum(number for (_, ending), number in counts.items() if ending == "fault")))


if __name__ == "__main__":
    main()
