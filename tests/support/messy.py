"""Messy tables for the fuzzer, and a configuration of them, drawn by a generator: what spreadsheets, exports and mistakes leave behind."""

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

CELLS = [
    "1",
    "2",
    "3",
    "7",
    "a",
    "b",
    "x y",
    "é",
    "1.5",
    "-1",
    "-2",
    "1.0",
    "007",
    "+7",
    " 7",
    "1e400",
    "inf",
    "2001-02-03",
]
CELLS += [
    "2001-99-99",
    "03/02/2001",
    "true",
    "",
    "NA",
    "N/A",
    "NaN",
    "nan",
    "null",
    "NULL",
    "None",
    "<NA>",
    "#N/A",
    "²",
    "٣",
]
CELLS += [
    "16777217",
    "9007199254740993",
    "9223372036854775808",
    400 * "9",
    "0x10",
    "1_0",
    "a\nb",
    "a,b",
    'say "x"',
    "\0",
    "\ufeff",
]
STRAY = ['"', '"a', 'a"', '"a"b', '""', '"""', '5" pipe', '"\n', "\r", "\n\n", ",", ";", '"a\nb"']
ODD = [
    None,
    True,
    3.7,
    -1,
    10**30,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "x",
    "2002-01-01",
    2002,
    [],
    {},
    [1, 2],
    ["a"],
    "\0",
]
PLAIN = {
    "whole": [0, 1, 2],
    "float": [0.0, 1.0, 2.5, float("nan")],
    "wild": [float("inf"), 1e300, -1.0],
    "text": ["a", "b", "NA", "", "1", "-1", None, "007"],
    "long": ["l" * 5000, "m" * 40_000],
    "bool": [True, False, None],
    "date": [datetime.date(2001, 1, 1), datetime.date(2005, 1, 1), None],
    "time": [datetime.datetime(2001, 1, 1, 12), None],
    "decimal": [Decimal("1.0"), Decimal("2.5"), None],
    "list": [[1.0, 2.0], [3.0], None],
    "struct": [{"a": 1}, None],
    "binary": [b"a", b"\xff", None],
    "huge": [2**63, 2**64 - 1],
    "null": [None],
}
NATURAL = {name: ("whole", ["0", "1", "2"]) for name in ("id", "k", "s", "t")}  # of a column, its kind and its cells
NATURAL |= {"y": ("text", ["a", "b", "NA", ""]), "x": ("float", ["1", "2.5", "-3e2"]), "c": ("text", ["u", "v w", ""])}
NATURAL |= {"d": ("date", ["2001-02-03", "2005-01-01"]), "z": ("whole", ["1", "2"]), "w": ("whole", ["1", "0.5"])}
TYPES = {"huge": pa.uint64()}


def pick(rng: np.random.Generator, among):
    return among[int(rng.integers(len(among)))]


def write(rng: np.random.Generator, folder: Path) -> None:
    """Write the tables `n`, `m`, `f` and `e`, and `graph.json` of them, into a folder."""
    rows = int(rng.integers(3, 9)) if rng.random() < 0.95 else 0
    forms = {name: pick(rng, ["csv", "csv", "parquet", "csv.gz"]) for name in "nmfe"}
    for name, columns in {"n": "idyxc", "m": "idz", "f": "k", "e": "stw"}.items():
        columns = {"n": ["id", "y", "x", "c", "d"], "m": ["id", "z"]}.get(name, list(columns))
        (_parquet if forms[name] == "parquet" else _csv)(rng, folder / f"{name}.{forms[name]}", columns, rows)
    (folder / "graph.json").write_text(json.dumps(_configuration(rng, forms)))


def _csv(rng: np.random.Generator, file: Path, columns: list[str], rows: int) -> None:
    odd, stray = pick(rng, [0, 0, 0.02, 0.2]), pick(rng, [0, 0, 0, 0.1])

    def cell(column: str, row: int) -> str:
        if rng.random() < stray:
            return pick(rng, STRAY)
        if rng.random() < odd:
            return _quoted(pick(rng, CELLS))
        return str(row) if column == "id" else pick(rng, NATURAL[column][1])

    end = pick(rng, ["\n", "\n", "\r\n", "\r"])
    lines = [",".join(columns), *(",".join(cell(column, row) for column in columns) for row in range(rows))]
    content = (end.join(lines) + pick(rng, [end, ""])).encode()
    if rng.random() < 0.05:
        content = content.replace(b"a", b"\xff")
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(character in cell for character in ',"\n\r') else cell


def _parquet(rng: np.random.Generator, file: Path, columns: list[str], rows: int) -> None:
    table, odd = {}, pick(rng, [0, 0, 0.2])
    for column in columns:
        kind = pick(rng, list(PLAIN)) if rng.random() < odd else NATURAL[column][0]
        values = (
            list(range(rows)) if column == "id" and kind == "whole" else [pick(rng, PLAIN[kind]) for _ in range(rows)]
        )
        table[column] = pa.array(values, TYPES.get(kind))
        if rng.random() < 0.3 and kind in ("whole", "text", "long", "float") and table[column].null_count < rows:
            table[column] = table[column].dictionary_encode()
    pyarrow.parquet.write_table(pa.table(table), file)


def _configuration(rng: np.random.Generator, forms: dict[str, str]) -> dict:
    def about(name: str) -> dict:
        form = {"name": "parquet" if forms[name] == "parquet" else "csv"}
        if rng.random() < 0.1:
            form[pick(rng, ["null_values", "encoding", "separator"])] = pick(
                rng, [["NA"], ["a", ""], "latin-1", "utf-16", ";", *ODD]
            )
        return {"files": f"{name}.{forms[name]}", "format": form}

    label = {"label_col": "y", "task_type": "classification"}
    if rng.random() < 0.3:
        label["split_by"] = {
            "column": pick(rng, ["d", "d", "x", "c"]),
            "from": pick(rng, [[1, 2], ["2001-01-01", "2003"], [2001, 2003], pick(rng, ODD)]),
        }
    if rng.random() < 0.2:
        label["classes"] = pick(rng, [["a", "b"], ["b", "a", "NA"], pick(rng, ODD)])
    given = [{"node_type": "n", "node_id_col": "id", "labels": [label], "features": _features(rng)} | about("n")]
    if rng.random() < 0.5:
        keyed = {"node_id_col": "id"} if rng.random() < 0.8 else {}
        given.append({"node_type": "n", "features": [{"feature_col": "z"}]} | keyed | about("m"))
    if rng.random() < 0.5:
        key = {"node_type": "n", "edges": pick(rng, ["to", "from", "both"])}
        given.append({"node_type": "f", "foreign_keys": {"k": key}} | about("f"))
    edge = {"relation": ["n", "e", "n"], "source_id_col": "s", "dest_id_col": "t"} | about("e")
    return {"nodes": given, "edges": [edge | ({"weight_col": "w"} if rng.random() < 0.4 else {})]}


def _features(rng: np.random.Generator) -> list[dict]:
    made = []
    for column in ("x", "c", "d"):
        numbers = ["", "standard", "max_min_norm", "rank_gauss", "bucket_numerical"]
        name = "to_categorical" if rng.random() < (0.97 if column == "c" else 0.1) else pick(rng, numbers)
        options = {"name": name} | ({"range": [0, 3], "bucket_cnt": 2} if name == "bucket_numerical" else {})
        options |= {"fill": "mean"} if name not in ("to_categorical",) and rng.random() < 0.9 else {}
        if rng.random() < 0.05:
            key = pick(
                rng, ["range", "fill", "values", "ranks", "mapping", "mean", "std", "min_val", "bucket_cnt", "epsilon"]
            )
            options[key] = pick(rng, [[0, float("nan")], [0, 1], *ODD])
        if rng.random() < 0.6:
            made.append({"feature_col": column, "transform": options})
    return made
