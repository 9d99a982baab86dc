"""Tables into graphs: what is read, every transform beside a plain computation, and what is wrong, each in one line."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm, rankdata

from hetjax.graph import checksums, store
from hetjax.graph.csc import edges_of
from hetjax.graph.schema import Relation
from hetjax.ingest import configuration, text, transforms
from hetjax.ingest.__main__ import Options, main
from hetjax.system.errors import InputError
from tests.support.commands import here
from tests.support.shop_tables import BOUGHT, CONFIG, ITEMS, PEOPLE


@pytest.fixture
def folder(tmp_path):
    for name, content in (("people", PEOPLE), ("items", ITEMS), ("bought", BOUGHT)):
        (tmp_path / f"{name}.csv").write_text(content)
    return tmp_path


def configured(**changes) -> dict:
    """The configuration with changes: `{"nodes.0.features": [...]}`."""
    config = json.loads(json.dumps(CONFIG))
    for place, value in changes.items():
        *path, last = [int(part) if part.isdigit() else part for part in place.split("__")]
        at = config
        for part in path:
            at = at[part]
        at[last] = value
    return config


def run(folder: Path, *options, name="graph.json", config=None, out="store"):
    (folder / name).write_text(json.dumps(configured() if config is None else config))
    done = here("hetjax.ingest.__main__", "--config", folder / name, "--out", folder / out, *options)
    assert done.returncode == 0, done.stderr
    return store.open(folder / out), done


def refused(folder: Path, message: str, *options, config=None, out="store"):
    (folder / "graph.json").write_text(json.dumps(configured() if config is None else config))
    before = sorted(folder.rglob("*"))
    done = here("hetjax.ingest.__main__", "--config", folder / "graph.json", "--out", folder / out, *options)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert message in done.stderr, done.stderr
    assert sorted(folder.rglob("*")) == before  # nothing half-written


def test_tables_become_a_graph(folder):
    graph, done = run(folder, "--add_reverse_edges")
    assert "2 node types, 2 relations, 6 nodes, 6 edges" in done.stdout
    assert graph.names.nodes["person"].values.to_pylist() == ["a1", "b2", "c3", "d4"]
    assert graph.names.nodes["item"].values.to_pylist() == [7, 9] and graph.names.class_names(2) == ["x", "y"]
    assert graph.labels.tolist() == [0, 1, -1, 0] and sum(map(len, graph.splits.values())) == 3
    bought = Relation("person", "bought", "item")
    source, target = edges_of(graph.relations[bought])
    assert list(zip(source, target)) == [(1, 0), (0, 1), (0, 1)]
    assert sorted(zip(*edges_of(graph.relations[bought.reverse]))) == [(0, 1), (1, 0), (1, 0)]
    expected = [[0, 0, 1], [0.5, 0, 0], [1, 1, 0], [0, 0, 1]]
    np.testing.assert_array_equal(graph.features["person"], np.array(expected, np.float32))
    assert graph.features["item"].tolist() == [[1.5], [2.5]] and checksums.verify(folder / "store")


def test_all_forms_give_the_same_graph(folder):
    plain, _ = run(folder)
    people = [line.split(",") for line in PEOPLE.splitlines()]
    columns = {name: [row[k] or None for row in people[1:]] for k, name in enumerate(people[0])}
    columns["age"] = [int(age) for age in columns["age"]]
    pq.write_table(pa.table(columns), folder / "people.parquet", row_group_size=3)
    (folder / "items.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + ITEMS.encode()))  # with a byte-order mark
    lines = BOUGHT.splitlines()
    (folder / "bought_2.csv").write_text("\n".join([lines[0], lines[3]]) + "\n")
    (folder / "bought.csv").write_text(
        "\n".join(lines[:3]).replace(",", ";").replace("who;what;times", '"who";what;times')
    )
    (folder / "bought_2.csv").write_text((folder / "bought_2.csv").read_text().replace(",", ";"))
    changes = {
        "nodes__0__files": "people.parquet",
        "nodes__0__format": {"name": "parquet"},
        "nodes__1__files": "items.csv.gz",
    }
    other, _ = run(
        folder, config=configured(**changes, edges__0__format={"name": "csv", "separator": ";"}), out="other"
    )
    for one, two in zip(plain.arrays(), other.arrays(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert plain.names == other.names and plain.schema == other.schema


def test_yaml_is_read_too(folder):
    text = json.dumps(configured())  # which is YAML
    (folder / "graph.yaml").write_text(f"# a comment\n{text}")
    here("hetjax.ingest.__main__", "--config", folder / "graph.yaml", "--out", folder / "s")
    assert store.open(folder / "s").edges == 3


def test_fitted_values_are_kept_for_later_data(folder):
    first, _ = run(folder, "--add_reverse_edges")
    later = folder / "later"
    later.mkdir()
    (later / "people.csv").write_text("id,age,town,label\nz9,30,Bern,y\ny8,80,Oslo,\n")
    (later / "items.csv").write_text(ITEMS)
    (later / "bought.csv").write_text("who,what\nz9,7\n")
    graph, _ = run(later, "--root", later, config=json.loads((folder / "store" / "graph.json").read_text()))
    assert graph.features["person"].tolist() == [[0.25, 1, 0], [1, 0, 0]]  # cut to what was fitted; Oslo was not seen
    assert graph.labels.tolist() == [1, -1] and graph.names.class_names(2) == ["x", "y"]
    assert graph.schema.relations == first.schema.relations and len(graph.schema.relations) == 2
    again, _ = run(folder, config=json.loads((folder / "store" / "graph.json").read_text()), out="again")
    np.testing.assert_array_equal(again.features["person"], first.features["person"])
    (later / "people.csv").write_text("id,age,town,label\nz9,30,Bern,new\n")
    (later / "people.csv").write_text("id,age,town,label\nz9,30,Bern,\n")
    config = json.loads((folder / "store" / "graph.json").read_text())
    graph, _ = run(later, "--root", later, config=config, out="unlabelled")
    assert graph.labels.tolist() == [-1] and not any(map(len, graph.splits.values()))
    (later / "people.csv").write_text("id,age,town,label\nz9,30,Bern,new\n")
    config["nodes"][0]["files"] = "later/people.csv"
    refused(folder, "row 1: class 'new' is not among x, y", config=config, out="third")


VALUES = np.array([3.0, -1, 4, 1, -5, 9, 2, 6, 5, 3])


@pytest.mark.parametrize(
    "options,expected",
    [
        ({}, VALUES[:, None]),
        ({"name": "no-op"}, VALUES[:, None]),
        ({"name": "standard"}, ((VALUES - VALUES.mean()) / VALUES.std())[:, None]),
        ({"name": "standard", "mean": 1, "std": 2}, ((VALUES - 1) / 2)[:, None]),
        ({"name": "max_min_norm"}, ((VALUES + 5) / 14)[:, None]),
        ({"name": "max_min_norm", "max_bound": 4, "min_val": 0}, (np.clip(VALUES, 0, 4) / 4)[:, None]),
        (
            {"name": "rank_gauss", "epsilon": 1e-3},
            (norm.ppf(np.clip((rankdata(VALUES) - 1) / 9, 0.0005, 0.9995)) / np.sqrt(2))[:, None],
        ),
        (
            {"name": "bucket_numerical", "range": [0, 6], "bucket_cnt": 3},
            np.eye(3)[np.clip(VALUES // 2, 0, 2).astype(int)],
        ),
        (
            {"name": "bucket_numerical", "range": [10, 30], "bucket_cnt": 2, "slide_window_size": 30},
            np.array([[1, 0]] * 4 + [[1, 0]] + [[1, 1]] + [[1, 0]] + [[1, 1]] * 2 + [[1, 0]]),
        ),
    ],
)
def test_transforms_of_numbers(options, expected):
    def made(given):
        transform = transforms.make(given, "here")
        for part in np.split(VALUES, [3, 4]):
            transform.observe(pa.array(part), lambda row=None: "there")
        transform.fit()
        parts = [transform.apply(pa.array(part), lambda row=None: "there") for part in np.split(VALUES, [5])]
        return transform, np.concatenate(parts)

    transform, found = made(options)
    if options.get("slide_window_size"):
        low, high = (np.clip((VALUES + side - 10) // 10, 0, 1) for side in (-15, 15))
        expected = np.stack([low == 0, high == 1], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    _, again = made(json.loads(json.dumps(transform.fitted())))  # as it is kept
    np.testing.assert_allclose(again, found, rtol=1e-12, atol=1e-12)


def test_categories_and_missing_numbers():
    transform = transforms.make({"name": "to_categorical", "separator": "|"}, "here")
    texts = pa.array(["a|b", None, "c", "b"])
    transform.observe(texts, lambda row=None: "there")
    transform.fit()
    assert transform.apply(texts, lambda row=None: "there").tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]]
    given = transforms.make({"name": "to_categorical", "mapping": {"b": 0, "c": 3}}, "here")
    given.fit()
    assert given.apply(texts.slice(2), lambda row=None: "there").tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    numbers = pa.array([1.0, None, 3.0])
    with pytest.raises(InputError, match="row 1: missing, and should be a number; `fill`"):
        transforms.make({}, "here").observe(numbers, lambda row=None: f"row {row}")
    for fill, expected in (("mean", 2), (7, 7)):
        filled = transforms.make({"fill": fill}, "here")
        filled.observe(numbers, lambda row=None: "there")
        filled.fit()
        assert filled.apply(numbers, lambda row=None: "there").tolist() == [[1], [expected], [3]]
    lists = transforms.make({"truncate_dim": 2}, "here")
    rows = pa.array([[1.0, 2, 3], [4, 5, 6]])
    lists.observe(rows, lambda row=None: "there")
    assert lists.apply(rows, lambda row=None: "there").tolist() == [[1, 2], [4, 5]]


def test_foreign_keys_and_splits_by_time(folder):
    (folder / "towns.csv").write_text("town\nRome\nBern\n")
    config = configured(nodes__0__foreign_keys={"town": "town", "day": {"node_type": "day", "edges": "from"}}, edges=[])
    (folder / "days.csv").write_text("day\n2004-05-05\n2001-02-03\n2002-01-01\n2003-01-01\n")
    config["nodes"].append({"node_type": "day", "files": "days.csv", "format": {"name": "csv"}, "node_id_col": "day"})
    config["nodes"].append(
        {"node_type": "town", "files": "towns.csv", "format": {"name": "csv"}, "node_id_col": "town"}
    )
    config["nodes"][0]["labels"][0]["split_by"] = {"column": "day", "from": ["2002-01-01", "2003-06-01"]}
    graph, _ = run(folder, config=config)
    assert list(graph.relations) == [Relation("person", "town", "town"), Relation("day", "rev_day", "person")]
    assert sorted(zip(*edges_of(graph.relations["day", "rev_day", "person"]))) == [(0, 3), (1, 0), (2, 1), (3, 2)]
    assert sorted(zip(*edges_of(graph.relations["person", "town", "town"]))) == [(0, 0), (2, 1), (3, 0)]
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {"train": [0], "validation": [1], "test": [3]}


def test_splits_from_files_weights_and_other_extensions(folder):
    (folder / "train.json").write_text('["a1"]')
    (folder / "valid.txt").write_text('"b2"\n')
    pq.write_table(pa.table({"n": ["d4"]}), folder / "test.parquet")
    (folder / "items.csv").write_bytes("item;price\n7;\\N\n9;2.5\nÄ;1\n".encode("latin-1"))
    config = configured(
        edges__0__weight_col="times", nodes__1__features=[{"feature_col": "price", "transform": {"fill": "mean"}}]
    )
    config["nodes"][0]["labels"][0]["custom_split_filenames"] = {
        "train": "train.json",
        "valid": "valid.txt",
        "test": "test.parquet",
        "column": ["n"],
    }
    config["nodes"][1]["format"] = {"name": "csv", "separator": ";", "null_values": ["\\N"], "encoding": "latin-1"}
    graph, _ = run(folder, config=config)
    assert {name: ids.tolist() for name, ids in graph.splits.items()} == {"train": [0], "validation": [1], "test": [3]}
    assert graph.relations["person", "bought", "item"].weights.tolist() == [2, 1, 3]
    assert graph.features["item"].tolist() == [[1.75], [2.5], [1]] and graph.names.nodes["item"][2] == "Ä"


def test_quotes_newlines_and_ids_as_they_are(folder):
    with open(folder / "people.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["id", "age", "town", "label"], ['a "1"', 1, "Rome\nupon, Tiber", "x"], ["007", 2, "", "y"]])
    (folder / "bought.csv").write_text('who,what\n007,9\n"a ""1""",7\n')
    graph, _ = run(folder)
    assert graph.names.nodes["person"].values.to_pylist() == ['a "1"', "007"]
    assert graph.relations["person", "bought", "item"].indices.tolist() == [0, 1]
    (folder / "people.csv").write_text("id,age,town,label\n007,1,R,x\n7,2,R,y\n")  # two ids
    (folder / "bought.csv").write_text("who,what\n7,9\n")
    graph, _ = run(folder, out="numbers")
    assert graph.relations["person", "bought", "item"].indices.tolist() == [1]


@pytest.mark.parametrize(
    "file,text,message",
    [
        ("people.csv", PEOPLE + "e5,20\n", "people.csv: row 5: 2 cells != 5 of the header"),
        ("people.csv", PEOPLE.replace("40", "forty"), "people.csv: row 2, column 'age': 'forty' is not a number"),
        ("people.csv", PEOPLE.replace("40", ""), "people.csv: row 2, column 'age': missing, and should be a number"),
        (
            "people.csv",
            PEOPLE.replace("c3", "a1"),
            "people.csv: row 3: id 'a1' of node type 'person' is there already, ",
        ),
        ("people.csv", PEOPLE.replace("c3", ""), "people.csv: row 3, column 'id': missing, and every node has an id"),
        ("people.csv", PEOPLE.replace("age", "years"), "people.csv: no column 'age' among id, years, town, label, day"),
        (
            "people.csv",
            PEOPLE.replace("age", " age"),
            "no column 'age' among id, age, town, label, day; the nearest is ' age'",
        ),
        ("people.csv", PEOPLE.replace("town", "age"), "people.csv: 2 columns 'age' among"),
        ("people.csv", "", "people.csv: no header"),
        (
            "people.csv",
            b"id,age,town,label\na1,2,\xff\xfe,x\n",
            "people.csv: line 2: byte 0xff is not of encoding utf8",
        ),
        ("people.csv", "id,age,town,label\n", "graph.json: nodes[0].labels[0]: column 'label' has no label"),
        ("bought.csv", BOUGHT + "zz,7,1\n", "bought.csv: row 4, column 'who': 'zz' is no id of node type 'person'"),
        ("bought.csv", BOUGHT + "a1,8,1\n", "bought.csv: row 4, column 'what': 8 is no id of node type 'item'"),
        ("bought.csv", BOUGHT + "a1,x,1\n", "bought.csv: row 4, column 'what': 'x' is not a whole number"),
        ("bought.csv", BOUGHT + "a1,,1\n", "bought.csv: row 4, column 'what': missing"),
        ("bought.csv", BOUGHT + "a1,+9,1\n", "bought.csv: row 4, column 'what': '+9' is not a whole number"),
        ("people.csv", PEOPLE.replace("40", "1_0"), "people.csv: row 2, column 'age': '1_0' is not a number"),
        ("items.csv", ITEMS.replace("2.5", "1e39"), "items.csv: row 2, column 'price': 1e+39 is no float32"),
        ("bought.csv", BOUGHT + 'a1,"9\n', "bought.csv: "),
        ("bought.csv", None, "bought*.csv: no such file; --root names the folder"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(folder, file, text, message):
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
    refused(folder, message)


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"version": "v2"}, "graph.json: version 'v2' != 'gconstruct-v0.1'"),
        (
            {"nodes__0__features__1__transform__name": "bert_hf"},
            "nodes[0].features[1].transform.name: transform 'bert_hf' is not supported; known are",
        ),
        (
            {"nodes__0__labels__0__task_type": "link_prediction"},
            "nodes[0].labels[0].task_type: task 'link_prediction' is not supported; here classification and regression",
        ),
        ({"edges__0__features": [{"feature_col": "times"}]}, "edges[0].features: features of edges is not supported"),
        (
            {"edges__0__relation": ["person", "bought", "thing"]},
            "edges[0].relation: node type 'thing' is not declared among item, person",
        ),
        ({"nodes__0__foreign_keys": {"town": "town"}}, "nodes[0].foreign_keys.town: node type 'town' is not declared"),
        ({"nodes__0__format__name": "orc"}, "nodes[0].format.name: 'orc' is not supported; csv, parquet and hdf5 are"),
        ({"nodes__0__node_id": "id"}, "nodes[0].node_id: this key is not supported; the nearest is 'node_id_col'"),
        ({"nodes__0__labels": []}, "graph.json: node types with labels: none, and there should be one"),
        (
            {"nodes__0__labels__0__split_pct": [1, 1, 1]},
            "nodes[0].labels[0].split_pct: (1, 1, 1), and should be three shares",
        ),
        ({"add_reverse_edges": "yes"}, "graph.json: add_reverse_edges: 'yes', and should be true or false"),
        ({"nodes": {}}, "graph.json: nodes: dict, and should be a list"),
        ({"nodes__0__foreign_keys": ["town"]}, "nodes[0].foreign_keys: ['town'], and should be {column: node type}"),
        ({"nodes__0__format__null_values": "NA"}, "nodes[0].format.null_values: 'NA', and should be a list of texts"),
        ({"nodes__0__labels__0__split_pct": 0.8}, "nodes[0].labels[0].split_pct: 0.8, and should be a list of numbers"),
        ({"nodes__0__labels__0__classes": "xy"}, "nodes[0].labels[0].classes: 'xy', and should be a list of texts"),
        ({"nodes__0__features__0__feature_col": 3}, "nodes[0].features[0].feature_col: 3, and should be a list of"),
        ({"nodes__0__features__0__feature_col": []}, "nodes[0].features[0].feature_col: no column"),
        ({"nodes__0__features__0__transform": "standard"}, "features[0].transform: 'standard', and should be {"),
        ({"nodes__0__features__0__transform": {"name": ["x"]}}, "transform: {'name': ['x']}, and should be {"),
        ({"nodes__0__features__0__transform": {"truncate_dim": -3}}, "truncate_dim: -3, and should be a whole number"),
        (
            {"nodes__0__features__0__transform": {"name": "rank_gauss", "values": ["a"], "ranks": [1]}},
            "features[0].transform: values and ranks should be numbers",
        ),
        (
            {"nodes__0__features__1__transform": {"name": "to_categorical", "separator": 3}},
            "features[1].transform.separator: 3, and should be a text",
        ),
        (
            {"nodes__0__features__0__transform": {"name": "bucket_numerical", "range": [3, 1], "bucket_cnt": 2}},
            "transform.range: [3, 1], and should be",
        ),
    ],
)
def test_what_is_wrong_in_a_configuration_is_named(folder, changes, message):
    refused(folder, message, config=configured(**changes))


@pytest.mark.parametrize(
    "who,message",
    [
        (pa.array([b"a1", b"\xff"]), "who.parquet: column 'who': ids are binary, and should be whole numbers or texts"),
        (pa.array([True, False]), "who.parquet: column 'who': ids are bool"),
        (pa.array([2**63 + 7, 7], pa.uint64()), "who.parquet: row 1, column 'who': 9223372036854775815 is no id"),
        (pa.array([7.0, 7.5]), "who.parquet: row 2, column 'who': 7.5 is no id of node type 'item'"),
    ],
)
def test_ids_of_other_kinds_are_refused(folder, who, message):
    pq.write_table(pa.table({"who": who, "what": ["a1", "b2"]}), folder / "who.parquet")
    changes = {"files": "who.parquet", "format": {"name": "parquet"}, "relation": ["item", "of", "person"]}
    refused(folder, message, config=configured(edges=[CONFIG["edges"][0] | changes]))


def test_ids_in_files_of_splits_are_any_texts(folder):
    """Of nodes whose ids are whole numbers: what is none of 64 bits is no node, and no fault."""
    label = {"label_col": "price", "task_type": "classification", "custom_split_filenames": {"train": "train.json"}}
    config = configured(nodes__1__labels=[label], nodes__0__labels=[], nodes__1__features=[])
    (folder / "items.csv").write_text(ITEMS.replace(".5", ""))
    for wrong in ("9" * 30, "²"):
        (folder / "train.json").write_text(json.dumps(["7", wrong]))
        refused(folder, f"train.json: entry 2: {wrong!r} is no id of node type 'item'", config=config)


def test_a_label_among_the_features_is_said(folder):
    feature = {"feature_col": "label", "transform": {"name": "to_categorical"}}
    _, done = run(folder, config=configured(nodes__0__features__0=feature))
    assert "nodes[0]: 'label' is a feature too: the model is told what it is to predict" in done.stdout + done.stderr


def test_what_is_not_supported_can_be_left_out(folder):
    config = configured(
        edges__0__features=[{"feature_col": "times"}], nodes__0__features__1__transform={"name": "bert_hf"}
    )
    (folder / "bought.csv").write_text(BOUGHT + "zz,7,1\n")
    graph, done = run(folder, "--leave_out", "--skip_nonexist_edges", config=config)
    assert graph.features["person"].shape == (4, 1) and graph.edges == 3
    assert "left out: nodes[0].features[1].transform.name: transform 'bert_hf'" in done.stdout
    assert "relation person -bought-> item: 1 edges left out whose ends are no nodes" in done.stdout
    kept = json.loads((folder / "store" / "graph.json").read_text())  # has none of what was left out
    again, _ = run(folder, "--skip_nonexist_edges", config=kept, out="again")
    assert again.schema == graph.schema


def test_a_graph_without_labels_can_be_predicted(folder):
    config = configured(nodes__0__labels=[])
    graph, done = run(folder, "--target", "item", config=config)
    assert graph.schema.target == "item" and not graph.labelled(np.arange(len(graph.labels))).any()
    assert "no labels of 'item': a graph to predict, and not to train on" in done.stdout
    refused(
        folder, "target 'shop' is no node type; there are: person, item", "--target", "shop", config=config, out="other"
    )


def test_a_table_of_edges_without_ids_can_be_left_out(folder):
    config = configured()
    config["edges"].append({name: config["edges"][0][name] for name in ("relation", "files", "format")})
    refused(folder, "edges[1]: a table of edges without ids is not supported", config=config)
    graph, done = run(folder, "--leave_out", config=config)
    assert graph.edges == 3 and "left out: edges[1]: a table of edges without ids" in done.stdout
    kept = json.loads((folder / "store" / "graph.json").read_text())
    assert run(folder, config=kept, out="again")[0].schema == graph.schema


def test_pieces_of_any_size_give_the_same(folder, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [f"{n},{rng.integers(90)},t{rng.integers(4)},{'xy'[rng.integers(2)]}" for n in rng.permutation(3000)]
    (folder / "people.csv").write_text("id,age,town,label\n" + "\n".join(lines))
    ends = rng.integers(0, 3000, 9000)
    (folder / "bought.csv").write_text("who,what\n" + "\n".join(f"{n},{(7, 9)[n % 2]}" for n in ends))
    whole, _ = run(folder, out="whole")
    for name, size in (("PIECE", 2**9), ("BLOCK", 2**10)):
        monkeypatch.setattr(text, name, size)
    pieces, _ = run(folder, out="pieces")
    for one, other in zip(whole.arrays(), pieces.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert whole.names == pieces.names
    source, _ = edges_of(pieces.relations["person", "bought", "item"])
    order = np.argsort(ends % 2, kind="stable")
    assert np.array_equal(pieces.names.nodes["person"].values.to_numpy()[source], ends[order])


def test_defaults_are_said_in_help():
    text = here("hetjax.ingest.__main__", "--help").stdout
    assert "--config PATH" in text and "gconstruct-v0.1" in text and "FILE.yaml" not in text
    assert configuration.SPLIT_PCT == (0.8, 0.1, 0.1) and Options().seed == 0 and callable(main)
