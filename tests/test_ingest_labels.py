"""Columns of labels of tables: several of a type, numbers, and those of edges, with splits of their own."""

import json

import numpy as np
import pytest

from hetjax.graph import store
from hetjax.graph.hetgraph import check
from hetjax.ingest import __main__ as ingest
from hetjax.system.errors import InputError

PEOPLE = "id,town,age,kind\np1,Bern,10.5,x\np2,Rome,,y\np3,,30,x\np4,Bern,NA,\n"
ITEMS = "item,price\ni1,1.5\ni2,2\n"
RATED = "who,what,stars,mood,day\np1,i1,5,good,2001\np2,i1,,bad,2002\np1,i2,1.5,,2003\np1,i1,4,good,2004\n"


def configuration(people=(), rated=(), items=()):
    return {
        "version": "gconstruct-v0.1",
        "nodes": [
            {"node_type": "person", "files": "people.csv", "format": {"name": "csv"}, "node_id_col": "id"}
            | {"labels": list(people)},
            {"node_type": "item", "files": "items.csv", "format": {"name": "csv"}, "node_id_col": "item"}
            | {"labels": list(items)},
        ],
        "edges": [
            {"relation": ["person", "rates", "item"], "files": "rated.csv", "format": {"name": "csv"}}
            | {"source_id_col": "who", "dest_id_col": "what", "labels": list(rated)}
        ],
    }


def label(column, task="classification", **others):
    return {"label_col": column, "task_type": task} | others


ALL = {
    "people": (label("kind"), label("age", "regression", split_pct=[0.5, 0.5, 0]), label("town", split_pct=[1, 0, 0])),
    "items": (label("price", "regression", split_pct=[1, 0, 0]),),
    "rated": (
        label("stars", "regression", split_by={"column": "day", "from": [2003, 2004]}),
        label("mood", split_pct=[1, 0, 0]),
        {"task_type": "link_prediction", "split_pct": [0.5, 0.25, 0.25]},
    ),
}


@pytest.fixture
def folder(tmp_path):
    for name, text in (("people.csv", PEOPLE), ("items.csv", ITEMS), ("rated.csv", RATED)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, config, *options, out="store"):
    (folder / "graph.json").write_text(json.dumps(config))
    ingest.main(["--config", str(folder / "graph.json"), "--out", str(folder / out), *options])
    graph = store.open(folder / out)
    check(graph)
    return graph


def test_every_label_becomes_a_column(folder):
    graph = run(folder, configuration(**ALL), "--add_reverse_edges", "true")
    assert graph.target == "person.kind" and graph.names.class_names(2) == ["x", "y"]
    edges = [f"person--rates--item.{name}" for name in ("stars", "mood", "label")]
    assert [*graph.columns] == ["person.age", "person.town", "item.price", *edges]
    np.testing.assert_array_equal(graph.column("person.age").labels, np.float32([10.5, np.nan, 30, np.nan]))
    assert [len(rows) for rows in graph.column("person.age").splits.values()] == [1, 1, 0]
    assert graph.column("person.town").labels.tolist() == [0, 1, -1, 0]
    stars, mood, links = (graph.column(name) for name in edges)
    np.testing.assert_array_equal(stars.labels, np.float32([5, np.nan, 1.5, 4]))
    np.testing.assert_array_equal(stars.ends, [[0, 1, 0, 0], [0, 0, 1, 0]])
    assert [rows.tolist() for rows in stars.splits.values()] == [[0], [2], [3]]
    assert mood.names.values.to_pylist() == ["bad", "good"] and mood.labels.tolist() == [1, 0, -1, 1]
    assert links.classes == 1 and [len(rows) for rows in links.splits.values()] == [2, 1, 1]
    chosen = run(folder, configuration(**ALL), "--target", "item", out="other")
    assert chosen.target == "item.price" and chosen.numeric and "person.kind" in chosen.columns


def test_later_tables_have_the_same_classes(folder):
    run(folder, configuration(**ALL))
    fitted = json.loads((folder / "store" / "graph.json").read_text())
    (folder / "people.csv").write_text("id,town,age,kind\np1,Rome,,y\np2,,,\n")
    (folder / "rated.csv").write_text("who,what,stars,mood,day\np1,i1,,good,2001\n")
    graph = run(folder, fitted, out="later")
    assert graph.labels.tolist() == [1, -1] and graph.column("person.town").labels.tolist() == [1, -1]
    assert graph.column("rates.mood").labels.tolist() == [1] and graph.column("rates.mood").classes == 2


def test_labels_of_edges_alone_make_a_graph(folder):
    graph = run(folder, configuration(rated=ALL["rated"][:1]))
    assert not graph.labelled(np.arange(2)).any() and [*graph.columns] == ["person--rates--item.stars"]


def test_files_name_the_pairs_of_splits(folder):
    (folder / "train.json").write_text('["p1", "i1"]\n["p2", "i1"]\n')
    (folder / "test.json").write_text('[["p1", "i2"]]')
    files = {"train": "train.json", "test": "test.json"}
    graph = run(folder, configuration(rated=[{"task_type": "link_prediction", "custom_split_filenames": files}]))
    assert [rows.tolist() for rows in graph.column("rates").splits.values()] == [[0, 1, 3], [], [2]]


def test_edges_that_are_left_out_have_no_labels(folder):
    (folder / "rated.csv").write_text(RATED.replace("p2", "p9"))
    with pytest.raises(InputError, match=r"rated.csv: row 2, column 'who': 'p9' is no id of node type 'person'"):
        run(folder, configuration(**ALL))
    graph = run(folder, configuration(**ALL), "--skip_nonexist_edges", "true")
    np.testing.assert_array_equal(graph.column("rates.stars").labels, np.float32([5, 1.5, 4]))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"people": (label("kind"), label("kind"))}, r"nodes\[0\].labels: 2 are called 'kind'"),
        ({"rated": (label("mood", "regression"),)}, r"rated.csv: row 1, column 'mood': 'good' is not a number"),
        ({"rated": (label("moods"),)}, "rated.csv: no column 'moods' among .*; the nearest is 'mood'"),
        ({"rated": (label("mood", "reconstruct"),)}, "task 'reconstruct' is not supported; here classification and"),
        ({"people": (label("kind", "link_prediction"),)}, "task 'link_prediction' is not supported; here"),
        ({"rated": (label("who", "regression"),)}, "column 'who' is read as text, and as number"),
        (
            {"rated": (label("mood", custom_split_filenames={"train": "bad.json"}),)},
            "bad.json: entry 2: 'p7' is no id of node type 'person'",
        ),
        (
            {"rated": (label("mood", custom_split_filenames={"train": "none.json"}),)},
            "none.json: entry 1: no row of person -rates-> item in .* has this pair",
        ),
        (
            {"rated": (label("mood", custom_split_filenames={"train": "one.json"}),)},
            "one.json: entry 1: 'p1', and should be a list of two ids",
        ),
        (
            {"rated": (label("mood", custom_split_filenames={"train": "one.json", "column": "who"}),)},
            r"custom_split_filenames.column: \['who'\], and should be two texts, of the ends",
        ),
    ],
)
def test_labels_that_are_wrong_are_refused(folder, changes, message):
    (folder / "bad.json").write_text('["p1", "i1"]\n["p7", "i1"]\n')
    (folder / "none.json").write_text('["p3", "i1"]\n')
    (folder / "one.json").write_text('"p1"\n')
    with pytest.raises(InputError, match=message):
        run(folder, configuration(**changes))
