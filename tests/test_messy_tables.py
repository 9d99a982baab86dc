"""Messy tables: what is missing, written otherwise, of another kind or too large becomes what it should, or is refused in a line."""

import datetime
import gzip
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hetjax.graph import names, store
from hetjax.graph.csc import edges_of
from hetjax.graph.pieces import Pieces
from hetjax.graph.schema import Relation
from hetjax.ingest import diagnosis, parquet, tables, text
from hetjax.ingest.declared import Format, Pattern
from hetjax.system.errors import InputError
from tests.support.commands import here
from tests.support.progress import Bar

LABEL = {"label_col": "y", "task_type": "classification"}
SMALL = "id,y,x\n1,0,1.5\n2,1,2.5\n3,0,3\n"
NAN, INF = float("nan"), float("inf")


def nodes(file="n.csv", form="csv", **changes) -> dict:
    about = {"node_type": "n", "files": file, "format": {"name": form}, "node_id_col": "id", "labels": [LABEL]}
    return about | changes


def edges(form="csv", **changes) -> dict:
    about = {"relation": ["n", "e", "n"], "files": f"e.{form}", "format": {"name": form}}
    return about | {"source_id_col": "s", "dest_id_col": "t"} | changes


def feature(column="x", **transform) -> list:
    return [{"feature_col": column, "transform": transform}]


def by(column, *ends) -> list:
    return [LABEL | {"split_by": {"column": column, "from": list(ends)}}]


def ingested(folder: Path, files: dict, *given: dict, options=()):
    """The graph, or what was said when it was refused, and all that was printed."""
    for name, content in files.items():
        if isinstance(content, pa.Table):
            pq.write_table(content, folder / name)
        elif isinstance(content, dict):
            h5py = pytest.importorskip("h5py")
            with h5py.File(folder / name, "w") as opened:
                for key, values in content.items():
                    opened[key] = values
        else:
            (folder / name).write_text(content, newline="")
    config = {"nodes": [t for t in given if "node_type" in t], "edges": [t for t in given if "relation" in t]}
    (folder / "g.json").write_text(json.dumps(config))
    before = sorted(folder.rglob("*"))
    done = here("hetjax.ingest.__main__", "--config", folder / "g.json", "--out", folder / "s", *options)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done
    if done.returncode:
        assert done.stderr.count("hetjax: error: ") == 1 and sorted(folder.rglob("*")) == before, done
        return done.stderr, done.stderr
    return store.open(folder / "s"), done.stdout


def labels_of(graph) -> list:
    classes = graph.names.class_names(graph.schema.classes)
    return [None if label < 0 else classes[label] for label in graph.labels]


ONE_CSV = {
    "words": ("y\na\nNA\n\nnull\nb\nNaN\nnan\nNone\n<NA>\n#N/A\nN/A\nNULL\n", ["a", *[None] * 3, "b", *[None] * 7]),
    "none": ("y\n-1\na\n-1\n", [None, "a", None]),
    "numbers": ("y\n0\n1\nNA\n-1\n", ["0", "1", None, None]),
    "floats": ("y\n1.0\n1\n0.0\nNaN\n", ["1", "1", "0", None]),
    "no numbers": ("y\n007\n7\n1.0\n", ["007", "7", "1"]),
    "other digits": ("y\n²\n1\n", ["²", "1"]),
}
ONE_PARQUET = {
    "integers and floats": ([[0, 1], [1.0, NAN, -1.0]], ["0", "1", "1", None, None]),
    "truth": ([[True, None, False]], ["true", None, "false"]),
    "words": ([["x", "NA", None, ""]], ["x", None, None, None]),
    "decimals": ([[Decimal("1.0"), None, Decimal("0.0")]], ["1", None, "0"]),
    "dictionary": ([pa.array(["y", None, "x", "NA"]).dictionary_encode()], ["y", None, "x", None]),
    "unsigned": ([pa.array([0, 1, None], pa.uint8())], ["0", "1", None]),
}


@pytest.mark.parametrize("name", ONE_CSV)
def test_labels_in_csv(name, tmp_path):
    content, expected = ONE_CSV[name]
    lines = content.split("\n")[:-1]
    rows = "\n".join(f"{number or 'id'},{line}" for number, line in enumerate(lines))
    graph, _ = ingested(tmp_path, {"n.csv": rows + "\n"}, nodes())
    assert labels_of(graph) == expected


@pytest.mark.parametrize("name", ONE_PARQUET)
def test_labels_in_parquet(name, tmp_path):
    parts, expected = ONE_PARQUET[name]
    files, done = {}, 0
    for number, part in enumerate(parts):
        files[f"n{number}.parquet"] = pa.table({"id": list(range(done, done + len(part))), "y": part})
        done += len(part)
    graph, _ = ingested(tmp_path, files, nodes(list(files), "parquet"))
    assert labels_of(graph) == expected


def test_a_class_of_such_a_name_stays_one_and_words_are_said(tmp_path):
    content = {"n.csv": "id,y\n1,None\n2,a\n3,NA\n4,-1\n"}
    graph, output = ingested(tmp_path, content, nodes(labels=[LABEL | {"classes": ["None", "a"]}]))
    assert labels_of(graph) == ["None", "a", None, None] and "column 'y': 1 row says 'NA', which is read" in output
    (tmp_path / "other").mkdir()
    form = {"name": "csv", "null_values": ["a"]}
    graph, _ = ingested(tmp_path / "other", content, nodes(format=form))
    assert labels_of(graph) == ["None", None, "NA", None]


COLUMNS = {
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "timestamp": pa.array([datetime.datetime(2001, 1, 1)] * 2),
    "date": pa.array([datetime.date(2001, 1, 1)] * 2),
    "infinite": pa.array([1.0, INF]),
    "fraction": pa.array([1.0, 0.5]),
    "decimal": pa.array([Decimal("1.0"), Decimal("2.5")]),
    "unsigned": pa.array([1, 2**63 + 5], pa.uint64()),
    "binary": pa.array([b"a", b"\xff"]),
    "truth": pa.array([True, False]),
    "text": pa.array(["1", "x"]),
    "dictionary": pa.array([None, "x"]).dictionary_encode(),
}
PLAIN = pa.array([0, 1])
TAKEN = {  # by the use of a column, the kinds that may be used so
    "label": ("truth", "text", "dictionary"),
    "id": ("text",),
    "feature": ("list", "timestamp", "date", "fraction", "decimal", "unsigned", "truth"),
    "category": ("timestamp", "date", "infinite", "fraction", "decimal", "unsigned", "truth", "text", "dictionary"),
    "weight": ("fraction", "decimal", "unsigned"),
    "end": (),
    "split by number": ("infinite", "fraction", "decimal", "unsigned"),
    "split by year": ("timestamp", "date", "infinite", "fraction", "decimal", "unsigned"),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("use", TAKEN)
def test_columns_of_every_kind(use, kind, tmp_path):
    """Each is used, or refused in one line that names the column."""
    ids = pa.array([0, 1])
    table = {"id": COLUMNS[kind] if use == "id" else ids, "y": COLUMNS[kind] if use == "label" else PLAIN}
    table |= {"x": COLUMNS[kind]} if use not in ("id", "label", "weight", "end") else {}
    changes = {
        "feature": {"features": feature()},
        "category": {"features": feature(name="to_categorical")},
        "split by number": {"labels": by("x", 1, 2)},
        "split by year": {"labels": by("x", "2000", "2002")},
    }.get(use, {})
    files, given = {"n.parquet": pa.table(table)}, [nodes("n.parquet", "parquet", **changes)]
    if use in ("weight", "end"):
        files["e.parquet"] = pa.table({"s": ids, "t": COLUMNS[kind] if use == "end" else ids, "w": COLUMNS[kind]})
        given.append(edges("parquet", **({"weight_col": "w"} if use == "weight" else {})))
    found, words = ingested(tmp_path, files, *given)
    if kind in TAKEN[use]:
        assert not isinstance(found, str), found
    else:
        column = {"label": "y", "id": "id", "weight": "w", "end": "t"}.get(use, "x")
        assert isinstance(found, str) and (f"column {column!r}" in words or ".transform: " in words), words


@pytest.mark.parametrize("content", ['"s","t"\n"1","{}"\n', "s,t\n1,{}\n", None])
@pytest.mark.parametrize("wrong", ["007", "+2", " 2", "2.0", "x", "9223372036854775809", "99999999999999999999999"])
def test_ids_match_as_they_are_written(wrong, content, tmp_path):
    table = pa.table({"s": ["1"], "t": [wrong]}) if content is None else content.format(wrong)
    form = "parquet" if content is None else "csv"
    found, words = ingested(tmp_path, {"n.csv": SMALL, f"e.{form}": table}, nodes(), edges(form))
    assert isinstance(found, str) and wrong in words and "is no id of node type 'n'" in words


def test_ids_among_floats_and_of_other_types(tmp_path):
    ends = pa.table({"s": pa.array([1, 2.0]), "t": pa.array([Decimal(3), Decimal(1)])})
    graph, _ = ingested(tmp_path, {"n.csv": SMALL, "e.parquet": ends}, nodes(), edges("parquet"))
    assert sorted(zip(*edges_of(graph.relations["n", "e", "n"]))) == [(0, 2), (1, 0)]
    (tmp_path / "texts").mkdir()
    files = {"n.csv": "id,y\na,0\n7,1\n", "e.parquet": pa.table({"s": [7], "t": ["a"]})}
    graph, output = ingested(tmp_path / "texts", files, nodes(), edges("parquet"))
    assert graph.edges == 1 and "column 's': whole numbers are compared with ids of 'n' that are texts" in output


OTHER = {"csv": "n\n3\n1\n1\n", "parquet": pa.table({"n": [3, 1, 1]}), "hdf5": {"n": np.array([3, 1, 1])}}


@pytest.mark.parametrize("way", ["to", "from"])
@pytest.mark.parametrize("form", OTHER)
def test_a_table_of_foreign_keys_alone_has_its_rows(form, way, tmp_path):
    keys = {"node_type": "f", "files": f"f.{form}", "format": {"name": form}}
    keys["foreign_keys"] = {"n": {"node_type": "n", "edges": way}}
    graph, _ = ingested(
        tmp_path, {"n.csv": SMALL, f"f.{form}": OTHER[form]}, nodes(), keys, options=["--add_reverse_edges"]
    )
    assert graph.schema.nodes == {"n": 3, "f": 3} and graph.edges == 6
    relation = Relation("f", "n", "n")
    relation = relation if way == "to" else relation.reverse
    found = sorted(zip(*edges_of(graph.relations[relation])))
    assert found == [(0, 2), (1, 0), (2, 0)] if way == "to" else [(0, 1), (0, 2), (2, 0)]


def test_a_foreign_key_of_another_length_is_refused(tmp_path):
    columns = {"id": np.arange(3), "y": np.arange(3), "k": np.zeros(5, int)}
    found, _ = ingested(tmp_path, {"n.h5": columns}, nodes("n.h5", "hdf5", foreign_keys={"k": "n"}))
    assert "n.h5: more than the 3 rows of nodes[0] that were read before" in found


def test_pieces_of_edges_refuse_ids_of_no_node():
    pieces, right, wrong = Pieces(3, 3, False), np.array([0, 2], np.int32), np.array([0, 3], np.int32)
    for ends in ((right, wrong), (wrong, right), (right, -right)):
        with pytest.raises(InputError, match="edges of nodes"):
            pieces.spread(*ends)
    pieces.add(pieces.spread(right, right))
    assert pieces.csc().edges == 2


SECOND = {
    "id,z\n3,30\n1,10\n2,20\n": [[1.5, 10], [2.5, 20], [3, 30]],
    "id,z\n3,30\n1,10\n4,20\n": "m.csv: row 3: 4 is no id of node type 'n'",
    "id,z\n3,30\n1,10\n02,20\n": "m.csv: row 3: '02' is no id of node type 'n'",
    "id,z\n3,30\n1,10\n1,20\n": "m.csv: row 3: id 1 of node type 'n' is there already",
    "id,z\n3,30\n1,10\n": "nodes[1]: 2 rows != 3 of node type 'n' in nodes[0]",
    "z\n30\n10\n20\n": "nodes[1]: lacks 'node_id_col', which nodes[0] of node type 'n' has",
}


@pytest.mark.parametrize("content", SECOND)
def test_rows_of_a_second_table_are_matched_by_ids(content, tmp_path):
    second = nodes("m.csv", labels=[], features=feature("z"), **({} if "id" in content else {"node_id_col": None}))
    found, words = ingested(tmp_path, {"n.csv": SMALL, "m.csv": content}, nodes(features=feature()), second)
    if isinstance(SECOND[content], str):
        assert SECOND[content] in words
    else:
        assert found.features["n"].tolist() == SECOND[content]


def test_labels_and_foreign_keys_of_a_second_table(tmp_path):
    files = {"n.csv": "id\n1\n2\n3\n", "m.csv": "id,y,k\n3,c,1\n1,a,2\n2,b,2\n"}
    graph, _ = ingested(tmp_path, files, nodes(labels=[]), nodes("m.csv", foreign_keys={"k": "n"}))
    assert labels_of(graph) == ["a", "b", "c"]
    assert sorted(zip(*edges_of(graph.relations["n", "k", "n"]))) == [(0, 1), (1, 1), (2, 0)]


def test_dates_and_words_among_numbers(tmp_path):
    content = "id,y,x,z,c\n1,0,NA,2,NA\n2,1,2001-01-02,null,a\nNA,0,2001-01-02 12:00,4,\n"
    given = [*feature(fill="mean"), *feature("z", fill=0), *feature("c", name="to_categorical")]
    graph, output = ingested(tmp_path, {"n.csv": content}, nodes(features=given))
    assert graph.features["n"].tolist() == [[11324.25, 2, 0], [11324, 0, 1], [11324.5, 4, 0]]
    assert graph.names.nodes["n"].values.to_pylist() == ["1", "2", "NA"]  # which may be an id
    assert "column 'x': dates are read as days since 1970-01-01" in output
    assert "column 'c': 1 row says 'NA', which is read as missing" in output
    (tmp_path / "parquet").mkdir()
    times = [datetime.datetime(2001, 1, 2), datetime.datetime(2001, 1, 2, 12)]
    table = {
        "id": [1, 2],
        "y": [0, 1],
        "s": pa.array(times, pa.timestamp("s")),
        "n": pa.array(times, pa.timestamp("ns")),
    }
    table |= {"d": pa.array(times, pa.date32()), "m": pa.array(times, pa.date64()), "b": [2**24 + 1, 2**53 + 1]}
    config = nodes("n.parquet", "parquet", features=[{"feature_col": list("snmdb")}])
    graph, output = ingested(tmp_path / "parquet", {"n.parquet": pa.table(table)}, config)
    assert graph.features["n"][:, :4].tolist() == [[11324] * 4, [11324.5, 11324.5, 11324, 11324]]
    assert "column 'b': whole numbers that float32 rounds: 2" in output


SPLITS = {
    ("9\n10\n1", (5, 10)): [[2], [0], [1]],
    ("9\n10\nNA", (5, 10)): [[], [0], [1]],
    ("9\n10\nlate", (5, 12)): "row 3: 'late', and `from` is 5, 12: should be numbers",
    ("2000-05-05\n2002-05-05\n2005", (2001, 2003)): [[0], [1], [2]],
    ("2000-05-05\n2002-05-05\n2005-01-01", ("2002-05-05", "2005-01-01")): [[0], [1], [2]],
    ("03/02/2001\n04/02/2002\n", ("2001-01-01", "2002-01-01")): "row 1: '03/02/2001', and `from` is 2001-01-01",
    ("2001-01-01\n2001-99\nx", (2001, 2002)): "row 3: 'x', and `from` is 2001, 2002: should be numbers, or dates",
    ("b\na\nc", ("b", "c")): [[1], [0], [2]],
}


@pytest.mark.parametrize(("values", "ends"), SPLITS)
def test_splits_by_a_column(values, ends, tmp_path):
    rows = "".join(f"{n},{n % 2},{value}\n" for n, value in enumerate(values.split("\n")))
    found, words = ingested(tmp_path, {"n.csv": "id,y,x\n" + rows}, nodes(labels=by("x", *ends)))
    expected = SPLITS[values, ends]
    if isinstance(expected, str):
        assert expected in words
    else:
        assert [ids.tolist() for ids in found.splits.values()] == expected


WRONG = {
    "features": [
        feature(name="bucket_numerical", range=[NAN, 3], bucket_cnt=2),
        feature(name="bucket_numerical", range=[-1e308, 1e308], bucket_cnt=2),
        feature(name="bucket_numerical", range=[True, 3], bucket_cnt=2),
        feature(name="bucket_numerical", range=[0, 3], bucket_cnt=2.0),
        feature(name="bucket_numerical", range=[0, 3], bucket_cnt=2, slide_window_size=-1),
        feature(name="bucket_numerical", range=None, bucket_cnt=None),
        feature(name="rank_gauss", values=[1, NAN], ranks=[0, 1]),
        feature(name="rank_gauss", values=None, ranks=None),
        feature(name="rank_gauss", values=[[1]], ranks=[[1]]),
        feature(name="rank_gauss", epsilon=5),
        feature(name="standard", mean=10**400),
        feature(name="standard", mean=10**30),
        feature(name="standard", std=-1),
        feature(name="max_min_norm", min_val=5, max_val=1),
        feature(fill=INF),
        feature(fill=10**400),
        feature(truncate_dim=3.7),
        feature(name="to_categorical", mapping={"a": 3.7}),
    ],
    "labels": [
        [LABEL | {key: value}]
        for key, values in {
            "split_pct": (None, [True, 0, 0], [NAN, 0, 0]),
            "classes": (None, [True, False], ["a", "a"], [1.5]),
            "split_by": ({"column": "x", "from": None}, {"column": "x", "from": [2, 1]}, {"column": 3, "from": [1, 2]}),
            "custom_split_filenames": ({"train": "n.csv", "column": 3}, {"train": "a\0b"}),
            "label_col": (None, 3.7),
        }.items()
        for value in values
    ],
    "format": [
        {"name": "csv", key: value}
        for key, values in {
            "encoding": (None, 3.7, "zlib", "hex", "no such"),
            "separator": ('"', "\n", "", None, 3),
            "null_values": (None, "NA", [NAN]),
        }.items()
        for value in values
    ],
    "node_type": [None, 3.7, []],
    "files": [None, 3.7, [], "", "a\0b", "nope.csv"],
}


@pytest.mark.parametrize("key", WRONG)
def test_values_of_a_configuration_are_checked(key, tmp_path):
    for number, value in enumerate(WRONG[key]):
        (tmp_path / str(number)).mkdir()
        found, words = ingested(tmp_path / str(number), {"n.csv": SMALL}, nodes(**{key: value}))
        assert (isinstance(found, str) and "g.json: nodes[0]" in words) or "nope.csv" in words, value


@pytest.mark.parametrize(
    "content", ["NaN", "Infinity", "1e999", "1" * 400, "1" * 5000, "[" * 100_000, '{"a": 1, "a": 1}']
)
def test_json_is_checked(content, tmp_path):
    (tmp_path / "g.json").write_text('{"nodes": [], "edges": ' + content + "}")
    done = here("hetjax.ingest.__main__", "--config", tmp_path / "g.json", "--out", tmp_path / "s")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "g.json" in done.stderr


def test_many_categories_are_read(tmp_path):
    mapping = {f"k{n}": n % 3 for n in range(60_000)}
    graph, _ = ingested(
        tmp_path,
        {"n.csv": "id,y,c\n1,0,k1\n2,1,k59999\n"},
        nodes(features=feature("c", name="to_categorical", mapping=mapping)),
    )
    assert graph.features["n"].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_all_that_is_wrong_is_said_in_one_run(tmp_path):
    files = {"n.csv": SMALL}
    _, words = ingested(
        tmp_path,
        files,
        nodes(features=feature(fill="x")),
        nodes("nope.csv", node_type="m"),
        edges(relation=["n", "e", "q"]),
    )
    assert words.count("\n") == 3 and "hetjax: also wrong: " in words
    assert all(
        one in words for one in ("transform.fill: 'x'", "nope.csv: no such file", "node type 'q' is not declared")
    )
    files |= {"m.csv": "id,x\n1,a\n", "e.csv": "s,t\n1,9\n", "f.csv": "s,t\n7,1\n"}
    other = edges(relation=["n", "f", "n"], files="f.csv")
    (tmp_path / "tables").mkdir()
    _, words = ingested(
        tmp_path / "tables",
        files,
        nodes(),
        nodes("m.csv", node_type="m", features=feature(), labels=[]),
        edges(),
        other,
    )
    assert words.count("\n") == 3
    assert all(one in words for one in ("'a' is not a number", "'t': 9 is no id", "'s': 7 is no id"))


def test_folders_with_brackets_and_pipes(tmp_path):
    folder = tmp_path / "tables [v1]"
    folder.mkdir()
    files = {"n 1.csv": SMALL, "n 2.csv": SMALL.replace("\n1,", "\n4,").replace("\n2,", "\n5,").replace("\n3,", "\n6,")}
    graph, _ = ingested(folder, files, nodes("n *.csv"))
    assert graph.schema.nodes == {"n": 6}
    os.mkfifo(tmp_path / "pipe.csv")
    found, words = ingested(tmp_path, {}, nodes("pipe.csv"))
    assert isinstance(found, str) and "pipe.csv: is no regular file but a named pipe" in words


def test_what_is_too_large_is_refused_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(diagnosis, "LONGEST", 2**16)
    monkeypatch.setattr(text, "BLOCK", 2**16)
    monkeypatch.setattr(text, "PIECE", 2**12)
    for name, content in (("header", b"a" * 10**7), ("row", b"id,y\n1,0\n2," + b"1" * 10**7)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n.csv.gz").write_bytes(gzip.compress(content))
        found, words = ingested(tmp_path / name, {}, nodes("n.csv.gz"))
        assert isinstance(found, str) and "n.csv.gz: line " in words and "without a line end" in words
    for name, content in (("id", f"id,y\n{'a' * 5000},0\n"), ("label", f"id,y\n1,{'a' * 5000}\n")):
        (tmp_path / name).mkdir()
        found, words = ingested(tmp_path / name, {"n.csv": content}, nodes())
        assert isinstance(found, str) and "row 1" in words and "a text of 5,000 bytes" in words
    found, words = ingested(
        tmp_path, {"n.csv": f"id,y,c\n1,0,{'a' * 5000}\n"}, nodes(features=feature("c", name="to_categorical"))
    )
    assert isinstance(found, str) and "a category of over 4,096 bytes" in words


def test_parquet_that_unfolds_is_read_in_parts_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "AT_ONCE", 2**16)
    texts = pa.array(["x" * 1000, "y" * 1000])
    which = pa.array(np.arange(5000) % 2)
    for number, column in enumerate((pa.DictionaryArray.from_arrays(which, texts), texts.take(which))):
        pq.write_table(pa.table({"t": column}), tmp_path / f"{number}.parquet")
        given = [Pattern(tmp_path, f"{number}.parquet")], Format("parquet"), {"t": "text"}, Bar()
        batches = [rows.batch for rows in tables.rows(*given)]
        assert sum(len(batch) for batch in batches) == 5000 and max(len(batch) for batch in batches) < 100
        with monkeypatch.context() as bounds:
            bounds.setattr(parquet, "ALWAYS", 2**20)
            bounds.setattr(parquet, "RATIO", 10)
            with pytest.raises(InputError, match="unpacks from"):
                list(tables.rows(*given))


def test_texts_that_are_no_utf8_are_refused(tmp_path):
    wrong = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe"))
    found, words = ingested(
        tmp_path, {"n.parquet": pa.table({"id": wrong, "y": [0, 1]})}, nodes("n.parquet", "parquet")
    )
    assert isinstance(found, str) and "Invalid UTF8" in words
    with open(tmp_path / "ids.parquet", "xb") as stream:
        pq.write_table(pa.table({"id": wrong.cast(pa.large_string())}), stream, use_dictionary=False)
    with pytest.raises(InputError, match="ids.parquet: ArrowInvalid: Invalid UTF8"):
        names.read_column(tmp_path / "ids.parquet", 2)


def test_a_full_disk_is_one_line(tmp_path):
    """A file may grow to so many bytes: a mapped one that took its room later would end the process by a signal."""
    rows = "".join(f"{n},{n % 2},{n}.5\n" for n in range(300_000))
    (tmp_path / "n.csv").write_text("id,y,x\n" + rows)
    (tmp_path / "g.json").write_text(json.dumps({"nodes": [nodes(features=feature())], "edges": []}))
    program = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)); sys.argv[1:] = "
    program += (
        "['--config', 'g.json', '--out', 's']; import runpy; runpy.run_module('hetjax.ingest', run_name='__main__')"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "1,200,000 bytes are needed" in done.stderr, done
    assert "Traceback" not in done.stderr and not (tmp_path / "s").exists()


def test_a_full_disk_for_means_is_one_line(tmp_path, monkeypatch):
    from hetjax.metapaths import means

    def full(handle, offset, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(means, "IN_MEMORY", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match="No space left on device; 24 bytes are needed, and TMPDIR names another"):
        means.room((2, 3))


@pytest.mark.parametrize("table", [{"files": "n.csv", "color": 1}, {"files": "nope.csv"}, {"files": "wrong.csv"}])
def test_what_is_refused_leaves_no_folder(table, tmp_path):
    (tmp_path / "n.csv").write_text(SMALL)
    (tmp_path / "wrong.csv").write_text("id,y\n1,0\n1,1\n")
    (tmp_path / "g.json").write_text(json.dumps({"nodes": [nodes() | table], "edges": []}))
    before = sorted(tmp_path.rglob("*"))
    done = here("hetjax.ingest.__main__", "--config", tmp_path / "g.json", "--out", tmp_path / "a" / "b" / "s")
    assert done.returncode == 2 and sorted(tmp_path.rglob("*")) == before
    (tmp_path / "g.json").write_text(json.dumps({"nodes": [nodes()], "edges": []}))
    done = here("hetjax.ingest.__main__", "--config", tmp_path / "g.json", "--out", tmp_path / "a" / "b" / "s")
    assert not done.returncode and store.open(tmp_path / "a" / "b" / "s").schema.nodes == {"n": 3}


def test_an_output_that_is_no_name(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps({"nodes": [nodes()], "edges": []}))
    done = here("hetjax.ingest.__main__", "--config", tmp_path / "g.json", "--out", "a\0b")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "NUL character" in done.stderr


def test_reverses_are_added_where_they_are_missing(tmp_path):
    given = [edges(), edges(relation=["n", "rev_e", "n"]), edges(relation=["n", "f", "n"])]
    files = {"n.csv": SMALL, "e.csv": "s,t\n1,2\n"}
    graph, _ = ingested(tmp_path, files, nodes(), *given, options=["--add_reverse_edges"])
    assert [relation.name for relation in graph.schema.relations] == ["e", "rev_e", "f", "rev_f"]


def test_weights_that_are_rounded_are_said(tmp_path):
    files = {"n.csv": SMALL, "e.csv": "s,t,w\n1,2,16777217\n2,1,0.5\n"}
    graph, output = ingested(tmp_path, files, nodes(), edges(weight_col="w"))
    assert graph.edges == 2 and "edges[0]: column 'w': whole numbers that float32 rounds: 1" in output


CLASSES = {  # cells of labels, how many classes they are of, and what a line says
    "0,2": (3, ""),
    "2,0,-1": (3, ""),
    "0,3": (4, ""),
    "0,4": (2, "whole numbers are names of 2 classes: 0, 4"),
    "1,2": (2, "whole numbers are names of 2 classes: 1, 2"),
    "2021,2023": (2, "whole numbers are names of 2 classes: 2021, 2023"),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("cells", CLASSES)
def test_whole_numbers_from_0_are_class_numbers(cells, form, tmp_path):
    values, (count, line) = list(map(int, cells.split(","))), CLASSES[cells]
    rows = "".join(f"{number},{value}\n" for number, value in enumerate(values))
    table = pa.table({"id": list(range(len(values))), "y": values})
    content = "id,y\n" + rows if form == "csv" else table
    graph, words = ingested(tmp_path, {f"n.{form}": content}, nodes(f"n.{form}", form))
    assert graph.schema.classes == count and labels_of(graph) == [str(v) if v >= 0 else None for v in values]
    assert line in words and (line or "names of" not in words)
