"""The reader of triples and of lists of items: small files by hand, published counts, and what is refused."""

import gzip
import tarfile

import numpy as np
import pytest

from hetjax.datasets import load, triple_text, triples
from hetjax.datasets.declared.triples import Options
from hetjax.graph import store
from hetjax.options import owners
from hetjax.system.errors import InputError

TRAIN = "Ann\tknows\tBob\nBob\tlikes\tCem\n\nAnn\tknows\tCem\nAnn\tknows\tBob\n"
LISTS = {"train": "0 2 5\n1 5\n\n3 0\n", "test": "0 7\n1\n"}


def write(folder, train=TRAIN, ending=".txt", **others):
    for name, text in {"train": train, **others}.items():
        data = text.encode()
        (folder / f"{name}{ending}").write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    return folder


def named(graph, relation, split):
    """The pairs of a split by the users' names."""
    column = graph.column(f"{relation}.link")
    types = column.relation.source, column.relation.target
    ends = (graph.names.nodes[t].values.to_pylist() for t in types)
    source, target = ([ids[number] for number in side[column.splits[split]]] for ids, side in zip(ends, column.ends))
    return list(zip(source, target))


@pytest.mark.parametrize("ending", triples.ENDINGS)
def test_triples_by_hand(tmp_path, ending):
    write(tmp_path, ending=ending, valid="Cem\tlikes\tAnn", test="Bob\tknows\tDan\nAnn\tlikes\tBob\n")
    graph = triples.read(tmp_path)
    assert graph.schema.nodes == {"entity": 4} and list(graph.columns) == [
        "entity--knows--entity.link",
        "entity--likes--entity.link",
    ]
    assert named(graph, "knows", "train") == [("Ann", "Bob"), ("Ann", "Cem")]  # once each
    assert named(graph, "likes", "train") == [("Bob", "Cem")]
    assert named(graph, "likes", "validation") == [("Cem", "Ann")] and named(graph, "knows", "validation") == []
    assert named(graph, "knows", "test") == [("Bob", "Dan")] and named(graph, "likes", "test") == [("Ann", "Bob")]
    edges = {relation.name: csc.edges for relation, csc in graph.relations.items()}
    assert edges == {"knows": 2, "likes": 1, "rev_knows": 2, "rev_likes": 1}  # of training alone
    knows = next(csc for relation, csc in graph.relations.items() if relation.name == "rev_knows")
    assert knows.indices[knows.indptr[0] : knows.indptr[1]].tolist() == [1, 2]
    assert not graph.labelled(np.arange(4)).any()


def test_blanks_numbers_and_no_reverse(tmp_path):
    write(tmp_path, "10 0 2\n 2  1 0 \r\n", test="7 1 10\n")
    graph = triples.read(tmp_path, Options(reverse=False))
    assert graph.names.nodes["entity"].values.to_pylist() == [0, 2, 7, 10]
    assert [str(relation) for relation in graph.relations] == ["entity -0-> entity", "entity -1-> entity"]
    assert named(graph, "1", "test") == [(7, 10)]


def test_lists_by_hand(tmp_path):
    graph = triples.read(write(tmp_path, LISTS["train"], test=LISTS["test"]), Options(form="lists"))
    assert graph.schema.nodes == {"user": 3, "item": 4}
    assert named(graph, "interacts", "train") == [(0, 2), (0, 5), (1, 5), (3, 0)]
    assert named(graph, "interacts", "test") == [(0, 7)]
    assert [relation.name for relation in graph.relations] == ["interacts", "rev_interacts"]


def test_entities_with_types(tmp_path):
    write(tmp_path, "Ann knows Bob\nAnn likes tea\n", test="Bob likes tea\ntea likes Ann\n")
    (tmp_path / "types.tsv").write_text("Ann\tperson\ntea\tdrink\nBob\tperson\nEve\tperson\n")
    graph = triples.read(tmp_path, Options(types="types.tsv"))
    assert graph.schema.nodes == {"person": 2, "drink": 1}
    assert named(graph, "person-likes-drink", "train") == [("Ann", "tea")]
    assert named(graph, "person-likes-drink", "test") == [("Bob", "tea")]
    assert named(graph, "drink-likes-person", "test") == [("tea", "Ann")]  # without an edge
    (tmp_path / "types.tsv").write_text("Ann\tperson\nBob\tperson\n")
    with pytest.raises(InputError, match="train.txt: line 2: 'tea' is not among the 2 of types.tsv"):
        triples.read(tmp_path, Options(types="types.tsv"))
    (tmp_path / "types.tsv").write_text("Ann\tperson\nAnn\tdrink\n")
    with pytest.raises(InputError, match="types.tsv: line 2: 'Ann' was there before, of type 'person'"):
        triples.read(tmp_path, Options(types="types.tsv"))
    with pytest.raises(InputError, match="triples.types is x, and must be empty where triples.form is lists"):
        Options(types="x", form="lists")


def test_a_graph_of_triples_is_stored(tmp_path):
    graph = triples.read(write(tmp_path, valid="Cem\tlikes\tAnn"))
    store.save(graph, tmp_path / "store")
    again = store.open(tmp_path / "store")
    for name, column in graph.columns.items():
        for a, b in zip(column.arrays, again.columns[name].arrays):
            np.testing.assert_array_equal(a, b)


def test_the_configuration_reads_it(tmp_path):
    write(tmp_path, LISTS["train"])
    graph = load.load(owners.made_data(format="triples", path=str(tmp_path), form="lists", reverse=False))
    assert len(graph.relations) == 1
    with pytest.raises(InputError, match=r"data.format is npz, and it looks like triples \(train.txt\)"):
        load.load(owners.made_data(format="npz", path=str(tmp_path)))


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({"train": "a b c\na b\n"}, {}, r"train.txt: line 2: 2 cells != 3, head, relation and tail$"),
        ({"train": "a b c d\n"}, {}, r"line 1: 4 cells != 3, head, relation and tail; triples.form lists reads"),
        ({"train": "a\tb\t\n"}, {}, r"train.txt: line 1: cell 3 of 'a.tb.t' is empty"),
        ({"train": "\n"}, {}, r"train.txt: no triple, and so nothing to train on"),
        (
            {"test": "a r b\n", "train": "a r b\n", "valid": "a q b\n"},
            {},
            r"valid.txt: line 1: relation 'q' is not among the 1 of train",
        ),
        (
            {"train": "a r b\n", "test": "b r a\n\na r c\n"},
            {"unseen": "refuse"},
            r"test.txt: line 3: entity 'c' is not among the 2 of train.txt; ",
        ),
        (
            {"train": "1 2\n", "test": "1 3\n"},
            {"unseen": "refuse", "form": "lists"},
            r"test.txt: line 1: item '3' is not among the 1 of train",
        ),
        (
            {"train": "a r b\n", "valid": "", "val": ""},
            {},
            r"valid.txt and val.txt, and there should be one file of validation",
        ),
        ({"test": "a r b\n"}, {}, r"no train.txt; it should hold a file of triples"),
        ({"train": f"a {'r' * 300} b\n"}, {}, r"has 300 characters != at most 200"),
    ],
)
def test_what_is_refused(tmp_path, files, options, message):
    for name, text in files.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        triples.read(tmp_path, Options(**options))
    assert str(tmp_path) in str(error.value) or "characters" in message


def test_text_that_is_no_text(tmp_path):
    (tmp_path / "train.txt").write_bytes(b"a\tb\tc\n\xff\tb\tc\n")
    with pytest.raises(InputError, match="train.txt: line 2: UnicodeDecodeError"):
        triples.read(tmp_path)
    (tmp_path / "train.txt").unlink()
    (tmp_path / "train.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match="train.txt.gz: BadGzipFile"):
        triples.read(tmp_path)


def counts(graph):
    return {
        split: sum(len(column.splits[split]) for column in graph.columns.values())
        for split in ("train", "validation", "test")
    }


def test_published_counts(real_data, tmp_path):
    graph = triples.read(real_data / "codex_s")
    assert graph.schema.nodes == {"entity": 2034} and len(graph.columns) == 42
    assert counts(graph) == {"train": 32888, "validation": 1827, "test": 1828}
    with tarfile.open(real_data / "fb15k237" / "FB15k-237.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    parts = [triple_text.read(tmp_path / f"{name}.txt", "triples") for name in ("train", "valid", "test")]
    assert [len(part.heads) for part in parts] == [272115, 17535, 20466]
    assert len({name for part in parts for name in part.heads + part.tails}) == 14541
    assert len(set(parts[0].relations)) == 237


def test_entities_that_training_does_not_have_are_said(tmp_path, caplog):
    with caplog.at_level("INFO", "hetjax"):
        triples.read(write(tmp_path, test="Dan\tlikes\tEve\nDan\tlikes\tBob\n"))
    assert "test.txt: 2 nodes that train.txt does not have, without edges" in caplog.text
    assert "train.txt: 1 triple of 4 were there before" in caplog.text
