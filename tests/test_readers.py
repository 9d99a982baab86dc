"""RDF and the Heterogeneous Graph Benchmark: small files with every fault, and the real ones."""

import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hetjax.datasets import hgb, packed, rdf
from hetjax.datasets.load import load
from hetjax.datasets.splits import held_out, hold_out
from hetjax.datasets.text import LONG, numbers, plain
from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.options.owners import made_data
from hetjax.system.errors import InputError
from tests.support.reader_files import FILES, INFO, TEST, TRAINING, TRIPLES


@pytest.fixture
def rdf_folder(tmp_path):
    (tmp_path / "g.nt").write_text(TRIPLES)
    (tmp_path / "trainingSet.tsv").write_text(TRAINING, newline="")
    (tmp_path / "testSet.tsv").write_text(TEST, newline="")
    return tmp_path


def test_rdf_by_hand(rdf_folder):
    graph = rdf.read(rdf_folder, validation_fraction=0)
    assert dict(graph.schema.nodes) == {"resource": 6, "literal": 2}  # a b _:c Person Thing Rare; "A" and "A"@en
    knows, name = Relation("resource", "knows", "resource"), Relation("resource", "name", "literal")
    assert graph.relations[knows].edges == graph.relations[knows.reverse].edges == 2  # a triple given twice is one
    assert graph.relations[name].edges == graph.relations[name.reverse].edges == 2
    assert graph.schema.target == "resource" and graph.schema.classes == 2
    assert graph.labels[graph.splits["train"]].tolist() == [1] and graph.labels[graph.splits["test"]].tolist() == [0]
    assert (graph.labels == -1).sum() == 4


def test_rdf_options(rdf_folder):
    graph = rdf.read(rdf_folder, reverse=False, literals="drop", exclude=["http://p#knows"])
    assert [relation.name for relation in graph.schema.relations] == ["type"]
    graph = rdf.read(rdf_folder, node_types="class")
    # c is of the rarer of its two classes; a and b are labelled.
    assert dict(graph.schema.nodes) == {"target": 2, "Rare": 1, "literal": 2, "resource": 3}
    assert graph.schema.target == "target"
    assert graph.relations[Relation("target", "knows", "Rare")].edges == 1


def test_rdf_gzip_is_the_same(rdf_folder):
    plain = rdf.read(rdf_folder)
    (rdf_folder / "g.nt").unlink()
    with gzip.open(rdf_folder / "g.nt.gz", "wt") as stream:
        stream.write(TRIPLES)
    zipped = rdf.read(rdf_folder)
    for one, other in zip(plain.arrays(), zipped.arrays(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "file,content,message",
    [
        ("g.nt", TRIPLES + "<http://x/a> <http://p#knows> oops .\n", "g.nt: line 10: "),
        ("g.nt", TRIPLES + "<http://x/a>\n", "g.nt: line 1[01]: "),
        ("g.nt", None, "0 files end in .nt or .nt.gz"),
        ("h.nt", "", "2 files end in .nt"),
        ("trainingSet.tsv", None, "trainingSet.tsv: No such file"),
        ("trainingSet.tsv", "", r"trainingSet.tsv: line 1: columns \[\]"),
        ("trainingSet.tsv", "thing\tid\tlabel_x\nhttp://x/a\t1\n", "trainingSet.tsv: line 2: 2 columns != 3"),
        (
            "trainingSet.tsv",
            "thing\tid\tlabel_x\nhttp://x/q\t1\tred\n",
            "trainingSet.tsv: line 2: no triple mentions <http://x/q>",
        ),
        ("testSet.tsv", TRAINING, "is in both split"),
    ],
)
def test_rdf_names_what_is_wrong(rdf_folder, file, content, message):
    (rdf_folder / file).unlink(missing_ok=True)
    if content is not None:
        (rdf_folder / file).write_text(content, newline="")
    with pytest.raises(InputError, match=message):
        rdf.read(rdf_folder, validation_fraction=0)


def test_rdf_names_the_nearest_predicate_and_a_broken_archive(rdf_folder):
    with pytest.raises(InputError, match="no predicate 'know' to leave out; the nearest is 'knows'"):
        rdf.read(rdf_folder, exclude=["know"])
    (rdf_folder / "g.nt").rename(rdf_folder / "g.nt.gz")
    with pytest.raises(InputError, match="g.nt.gz: .*Not a gzipped file"):
        rdf.read(rdf_folder)
    (rdf_folder / "g.nt.gz").write_bytes(gzip.compress(TRIPLES.encode())[:-20])
    with pytest.raises(InputError, match="g.nt.gz: "):
        rdf.read(rdf_folder)


def test_rdf_that_leaves_nothing_to_learn(rdf_folder):
    with pytest.raises(InputError, match="g.nt: no triple that is not left out, and so no relation"):
        rdf.read(rdf_folder, exclude=["knows", "name", "type"])
    (rdf_folder / "trainingSet.tsv").write_text(TRAINING.splitlines()[0] + "\n")
    with pytest.raises(InputError, match="trainingSet.tsv: no row but the header"):
        rdf.read(rdf_folder)
    (rdf_folder / "trainingSet.tsv").write_text(TRAINING.replace("red", ""))
    with pytest.raises(InputError, match="trainingSet.tsv: line 2: no label"):
        rdf.read(rdf_folder)
    (rdf_folder / "g.nt").write_text("\n")
    with pytest.raises(InputError, match="g.nt: no triple, and so no relation"):
        rdf.read(rdf_folder)


def test_rdf_terms_and_archives_are_bounded(rdf_folder, monkeypatch):
    (rdf_folder / "g.nt").write_text(TRIPLES + f'<http://x/a> <http://p#name> "{"A" * 2**24}" .\n')
    with pytest.raises(InputError, match="g.nt: after 8 distinct triples: a term over 16777216 bytes"):
        rdf.read(rdf_folder)
    (rdf_folder / "g.nt").unlink()
    monkeypatch.setattr(packed, "ALWAYS", 10**5)
    (rdf_folder / "g.nt.gz").write_bytes(gzip.compress(TRIPLES.encode() + b"\n" * 10**6))
    with pytest.raises(InputError, match="g.nt.gz: .*unpacks from [0-9]+ bytes to .* over 500 times as many"):
        rdf.read(rdf_folder)


@pytest.fixture
def hgb_folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_hgb_by_hand(hgb_folder):
    graph = hgb.read(hgb_folder, validation_fraction=0.5)
    assert dict(graph.schema.nodes) == {"author": 3, "paper": 2}
    assert graph.features["paper"].tolist() == [[1, 0.5], [0, 2]] and "author" not in graph.features
    writes = graph.relations[Relation("author", "writes", "paper")]
    assert writes.indptr.tolist() == [0, 1, 2] and writes.indices.tolist() == [0, 2]
    assert graph.labels.tolist() == [1, 0, 1] and graph.splits["test"].tolist() == [2]
    assert len(graph.splits["train"]) == len(graph.splits["validation"]) == 1


def test_hgb_has_links_to_predict_as_a_column(hgb_folder):
    with_labels, name = hgb.read(hgb_folder), "author--writes--paper.label"
    line = (hgb_folder / "link.dat").read_text().splitlines()[0]
    (hgb_folder / "link.dat.test").write_text(line + "\n")
    both = hgb.read(hgb_folder, validation_fraction=0.5)
    np.testing.assert_array_equal(both.labels, with_labels.labels)
    (column,) = both.columns.values()
    edges = both.relations[column.relation].edges
    assert column.classes == 1 and len(column.labels) == edges + 1 and column.splits["test"].tolist() == [edges]
    assert sum(len(rows) for rows in column.splits.values()) == edges + 1
    for file in ("label.dat", "label.dat.test"):
        (hgb_folder / file).unlink()
    alone = hgb.read(hgb_folder)
    assert name in both.columns and [*alone.columns] == [*both.columns] and not any(map(len, alone.splits.values()))
    (hgb_folder / "link.dat.test").write_text("99\t1\t0\t1.0\n")
    with pytest.raises(InputError, match="link.dat.test: line 1: relation .*: node 99"):
        hgb.read(hgb_folder)


def test_hgb_by_hand_with_several_labels(hgb_folder):
    (hgb_folder / "label.dat").write_text("4\tD\t0\t2,0\n")
    (hgb_folder / "label.dat.test").write_text('0\tA "B\t0\t3\n')
    graph = hgb.read(hgb_folder, validation_fraction=0)
    assert graph.multilabel and graph.schema.classes == 4 and graph.labels.dtype == np.int8
    assert graph.labels.tolist() == [[0, 0, 0, 1], [-1, -1, -1, -1], [1, 0, 1, 0]]
    assert graph.splits["train"].tolist() == [2] and graph.splits["test"].tolist() == [0]


@pytest.mark.parametrize(
    "training,test,several",
    [
        ("0\tA\t0\t1\n", "1\tC\t0\t0\n", False),
        ("0\tA,B\t0\t1\n", "1\tC,D\t0\t0\n", False),  # commas in names
        ("0\tA\t0\t1\n", "1\tC\t0\t0,1\n", True),
        ("0\tA\t0\t1,0\n", "1\tC\t0\t0\n", True),
        ("0\tA\t0\t1,0\n", "", True),
        ("0\tA\t0\t1\n", "", False),
    ],
)
def test_hgb_has_several_labels_where_any_line_has(hgb_folder, training, test, several):
    (hgb_folder / "label.dat").write_text(training)
    (hgb_folder / "label.dat.test").write_text(test)
    graph = hgb.read(hgb_folder, validation_fraction=0)
    assert graph.multilabel == several and graph.schema.classes == 2
    assert graph.labels.shape == ((3, 2) if several else (3,))


@pytest.mark.parametrize("inner", ["", "DBLP/"])
def test_hgb_zip_is_the_same(hgb_folder, tmp_path_factory, inner):
    folder = tmp_path_factory.mktemp("zip")
    with zipfile.ZipFile(folder / "g.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in FILES.items():
            archive.writestr(inner + name, text)
    plain = hgb.read(hgb_folder)
    for path in (folder, folder / "g.zip"):
        for one, other in zip(plain.arrays(), hgb.read(path).arrays(), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "file,content,message",
    [
        ("link.dat", "0\t2\t0\t1.0\n0\t9\t0\t1.0\n", "link.dat: line 2: relation writes: node 9, and there are 5"),
        ("link.dat", "0\t-1\t0\t1.0\n", "link.dat: line 1: relation writes: node -1, and there are 5"),
        ("link.dat", "0\t1\t0\t1.0\n", "link.dat: line 1: relation writes: node 1 is of type 'author' != 'paper'"),
        ("link.dat", "0\t2\t7\t1.0\n", "link.dat: line 1: relation 7, and there are 2"),
        ("link.dat", "0\tx\t0\t1.0\n", "link.dat: line 1: relation writes: node 'x' is not an integer"),
        ("link.dat", "0 2 0 1.0\n", "link.dat: line 1: 1 columns != 3 or 4"),
        ("node.dat", "0\tA\t0\n2\tB\t0\n", "node.dat: line 2: node id 2 != 1"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1\n", "node.dat: line 6: 1 features != 2"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\n", "node.dat: feature rows 2 != 3 nodes of type 'paper'"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1,nan\n", "node.dat: line 6: feature 1 is nan"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1,x\n", "node.dat: line 6: .*could not convert"),
        ("node.dat", FILES["node.dat"] + "5\tR\t3\n", "node.dat: line 6: node type 3, and there are 2"),
        ("label.dat", "0\tA\t0\t1\n2\tP\t1\t0\n", "label.dat: line 2: node 2 is of type 1 != 0"),
        ("label.dat", "0\tA\t0\t-1\n", "label.dat: line 1: class -1"),
        ("label.dat", "", "label.dat: no labels"),
        ("label.dat", "0\tA\t0\t1\n1\tC\t0\t0,2,0\n", "label.dat: line 2: class 0 is given 2 times"),
        ("label.dat.test", "4\tD\t0\t3,1,3,3\n", "label.dat.test: line 1: class 3 is given 3 times"),
        ("label.dat", "0\tA\t0\t1,\n", "label.dat: line 1: class '' is not an integer"),
        ("label.dat", "0\tA\t0\t\n", "label.dat: line 1: class '' is not an integer"),
        ("label.dat", "0\tA\t0\t1,x\n", "label.dat: line 1: class 'x' is not an integer"),
        ("label.dat", "0\tA\t0\t1,-2\n", "label.dat: line 1: class -2"),
        ("label.dat", "0\tA\t0\t1,0\n0\tA\t0\t1\n", "split 'train' has 'author' node 0 2 times"),
        ("label.dat.test", "0\tA\t0\t1,0\n", "is in both split"),
        ("label.dat.test", "0\tA\t0\t1\n", "is in both split"),
        ("label.dat.test", "9\tA\t0\t1\n", "label.dat.test: line 1: node id 9, and there are 5"),
        ("label.dat.test", None, "label.dat.test: No such file"),
        ("info.dat", "{", "info.dat: JSONDecodeError"),
        ("info.dat", "{}", "info.dat: lacks 'node.dat'"),
        ("link.dat", "0_0\t2\t0\t1.0\n", "link.dat: line 1: relation writes: node '0_0' is not an integer"),
        ("link.dat", " 0\t2\t0\t1.0\n", "node ' 0' is not an integer"),
        ("link.dat", "0\t٢\t0\t1.0\n", "link.dat: line 1: relation writes: node '٢' is not an integer"),
        ("link.dat", f"{'9' * 30}\t2\t0\t1\n", "node 9{30}, and there are 5"),
        ("link.dat", f"{'9' * 5000}\t2\t0\t1\n", "node '9{39}... is not an integer$"),
        ("link.dat", "0\t2\t0\t1\t\t\t", "link.dat: line 1: 5 columns or more != 3 or 4"),
        ("label.dat", "0\tA\t0\t١\n", "label.dat: line 1: class '١' is not an integer"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1,1_0\n", "node.dat: line 6: .*feature 1 is '1_0', not a number"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t٣,0\n", "node.dat: line 6: .*feature 0 is '٣', not a number"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1,1e400\n", "node.dat: line 6: feature 1 is inf"),
        ("info.dat", '{"a": 1, "a": 2}', "info.dat: .*key 'a' is given 2 times"),
        *(
            ("info.dat", json.dumps(INFO).replace('"start": "0"', f'"start": {start}'), f"start or end is {shown}")
            for start, shown in [
                ("1e400", "inf"),
                ("0.5", "0.5"),
                ("true", "True"),
                ('"0_0"', "'0_0'"),
                ("[]", "\\[\\]"),
            ]
        ),
        ("info.dat", json.dumps(INFO).replace('"author"', "[1]"), r"info.dat: .*a name is \[1\]"),
    ],
)
def test_hgb_names_what_is_wrong(hgb_folder, file, content, message):
    (hgb_folder / file).unlink()
    if content is not None:
        (hgb_folder / file).write_text(content)
    with pytest.raises(InputError, match=message):
        hgb.read(hgb_folder, validation_fraction=0)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("link.dat", "0\t2\t0\t" + "1" * 2**24, "link.dat: line 1: 16777216 bytes or more"),
        ("node.dat", FILES["node.dat"] + "5\tR\t1\t1," + "x" * 10**6, r"node.dat: line 6: .{,600}$"),
        ("info.dat", "[" * 10**5, "info.dat: RecursionError: .*is this the benchmark's text form"),
    ],
    ids=["line", "feature", "nesting"],
)
def test_hgb_bounds_what_it_reads_and_says(hgb_folder, file, content, message):
    (hgb_folder / file).write_text(content)
    with pytest.raises(InputError, match=message):
        hgb.read(hgb_folder)


@pytest.mark.parametrize("block", [1, 20, 2**24])
@pytest.mark.parametrize(
    "lines",
    [
        "0\t2\t0\t1.0\n4\t3\t0\t1.0\n2\t0\t1\t1.0\n",
        "0\t2\t0\t1.0\r\n4\t3\t0\t\r\n2\t0\t1\tmuch",
        "0\t2\t0\n4\t3\t0\n2\t0\t1\n",
        '0\t2\t0\n\n4\t3\t0\t2\n002\t-0\t1\t"é\n',
    ],
)
def test_hgb_links_are_the_same_read_together_and_one_by_one(hgb_folder, monkeypatch, lines, block):
    (hgb_folder / "link.dat").write_text(lines, newline="")
    monkeypatch.setattr("hetjax.datasets.text.AT_ONCE", block)
    graph = hgb.read(hgb_folder)
    assert [(csc.indptr.tolist(), csc.indices.tolist()) for csc in graph.relations.values()] == [
        ([0, 1, 2], [0, 2]),
        ([0, 1, 1, 1], [0]),
    ]
    (hgb_folder / "link.dat").write_text(lines + "\n0\t1\t0\n", newline="")
    number = lines.count("\n") + 2
    with pytest.raises(
        InputError, match=f"link.dat: line {number}: relation writes: node 1 is of type 'author' != 'paper'"
    ):
        hgb.read(hgb_folder)


@pytest.mark.parametrize("block", [b"1\t2\t3\n4\t5\t6\n", b"1\t2\t3\tx\r\n4\t5\t6\t", b"01\t2\t3\n4\t5\t6"])
def test_plain_lines_are_read_together(block):
    assert plain(block).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("cell", ["0x1", "+1", "-1", " 1", "1.", "", "1" * 19, "1_0", '"1"', "\u0661"])
def test_lines_that_are_not_plain_are_left_to_be_read_one_by_one(cell):
    assert plain(f"1\t2\t3\n4\t{cell}\t6\n".encode()) is None


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("7", [7]),
        ("0,1,9", [0, 1, 9]),
        ("0,10", [0, 10]),
        ("1,.5", [1, 0.5]),
        ("7.0", [7]),
        ("0.0,1.0,9.0", [0, 1, 9]),
        ("0.0,1,9.0", [0, 1, 9]),
        ("1.0,2.5", [1, 2.5]),
        ("10.0,2.0", [10, 2]),
    ],
)
def test_digits_are_numbers(cell, found):
    assert numbers(cell, Path("f"), 1).tolist() == found and numbers(cell, Path("f"), 1).dtype == np.float32


@pytest.mark.parametrize("cell", ["1,", "1;2", "/,1", ":,1", ",1", "1,a", "1.0;2.0", "/.0", ":.0,1.0", "a.0", "1.0,"])
def test_what_is_no_number_is_not_taken_for_a_digit(cell):
    with pytest.raises(InputError, match="f: line 1"):
        numbers(cell, Path("f"), 1)


def test_hgb_broken_archives(tmp_path):
    (tmp_path / "g.zip").write_bytes(b"PK no")
    with pytest.raises(InputError, match=r"g.zip: .*File is not a zip file"):
        hgb.read(tmp_path / "g.zip")
    with zipfile.ZipFile(tmp_path / "h.zip", "w") as archive:
        archive.writestr("other.dat", "")
    with pytest.raises(InputError, match="0 members are named node.dat"):
        hgb.read(tmp_path / "h.zip")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"node.dat": FILES["node.dat"][:50]}, "info.dat: No such file"),
        ({"a/node.dat": "", "b/node.dat": ""}, "2 members are named node.dat"),
        (FILES | {"label.dat": "\n" * 10**6}, "label.dat: .*unpacks from [0-9]+ bytes to 1000000 or more"),
    ],
    ids=["lacks", "twice", "bomb"],
)
def test_hgb_archives_that_are_refused(tmp_path, monkeypatch, members, message):
    monkeypatch.setattr(packed, "ALWAYS", 10**5)
    with zipfile.ZipFile(tmp_path / "g.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    with pytest.raises(InputError, match=message):
        hgb.read(tmp_path / "g.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hgb_has_every_member_of_an_archive_once(tmp_path):
    with zipfile.ZipFile(tmp_path / "g.zip", "w") as archive:
        for name, text in [*FILES.items(), ("link.dat", "")]:
            archive.writestr(name, text)
    with pytest.raises(InputError, match="g.zip: 2 members are named link.dat"):
        hgb.read(tmp_path / "g.zip")


@pytest.mark.parametrize("cut", [3, 40, 300])
def test_hgb_truncated_archive(hgb_folder, tmp_path, cut):
    """Cut short, or with a member's bytes changed: one line."""
    file = tmp_path / "g.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with pytest.raises(InputError, match="g.zip: "):
        hgb.read(file)
    file.write_bytes(whole[:cut] + bytes(20) + whole[cut + 20 :])
    with pytest.raises(InputError, match=r"g.zip[:/]"):
        hgb.read(file)


def test_holding_out():
    train, validation = hold_out(np.arange(100, 200), 0.2, seed=3)
    assert len(validation) == 20 and sorted([*train, *validation]) == list(range(100, 200))
    assert np.array_equal(hold_out(np.arange(100, 200), 0.2, seed=3)[1], validation)
    assert not np.array_equal(hold_out(np.arange(100, 200), 0.2, seed=4)[1], validation)


def labelled_alone(labels, **splits):
    """A graph without edges whose nodes have some labels."""
    empty = Relation("node", "to", "node"), (np.array([], np.int64),) * 2
    schema = Schema({"node": len(labels)}, empty[:1], "node", 4)
    return build(schema, dict([empty]), {}, np.asarray(labels), {name: np.asarray(ids) for name, ids in splits.items()})


def test_training_nodes_are_held_out_by_class_where_there_are_no_validation_nodes():
    labels = np.repeat([0, 1, 2, 3], [100, 50, 9, 1])
    graph = labelled_alone(labels, train=np.arange(160))
    found = held_out(graph, 0.2, 3)
    ids = found.splits["validation"]
    assert found.held_out and sorted([*found.splits["train"], *ids]) == list(range(160))
    counts = np.bincount(labels[ids], minlength=4)
    assert counts.sum() == 32 and abs(counts - [20, 10, 2, 0]).max() <= 1 and counts[3] == 0
    assert np.array_equal(held_out(graph, 0.2, 3).splits["validation"], ids)
    assert not np.array_equal(held_out(graph, 0.2, 4).splits["validation"], ids)
    assert held_out(graph, 0, 3) is graph  # none
    assert len(held_out(labelled_alone(labels, train=[0, 100]), 0.5, 3).splits["validation"]) == 0
    validated = labelled_alone(labels, train=np.arange(100), validation=[150])
    assert held_out(validated, 0.2, 3) is validated
    numbers = replace(graph, labels=np.arange(160, dtype=np.float32))
    assert len(held_out(numbers, 0.2, 3).splits["validation"]) == 32


def test_a_store_is_read_with_validation_nodes_or_as_it_is(tmp_path):
    graph = labelled_alone(np.arange(100) % 4, train=np.arange(80), test=np.arange(80, 100))
    store.save(graph, tmp_path / "graph")
    for fraction, held in ((None, 16), (0.1, 8), (0.0, 0)):
        more = {} if fraction is None else {"validation_fraction": fraction}
        found = load(made_data("store", path=str(tmp_path / "graph"), **more))
        assert len(found.splits["validation"]) == held and len(found.splits["train"]) == 80 - held
        assert found.held_out == (held > 0)


def test_aifb_has_the_published_counts(real_data):
    graph = rdf.read(real_data / "aifb", reverse=False)
    assert sum(graph.schema.nodes.values()) == 8285 and graph.edges == 29043 and len(graph.schema.relations) == 45
    assert graph.schema.classes == 4
    assert {name: len(ids) for name, ids in graph.splits.items()} == {"train": 112, "validation": 28, "test": 36}
    assert np.bincount(graph.labels[graph.labels >= 0]).tolist() == [73, 28, 60, 15]
    without = rdf.read(real_data / "aifb", reverse=False, literals="drop")
    assert (
        dict(without.schema.nodes) == {"resource": 2835}
        and without.edges == 20338
        and len(without.schema.relations) == 22
    )


def test_mutag_has_the_published_counts(real_data):
    graph = rdf.read(real_data / "mutag", reverse=False)
    assert sum(graph.schema.nodes.values()) == 23644 and graph.edges == 74227 and len(graph.schema.relations) == 23
    assert np.bincount(graph.labels[graph.labels >= 0]).tolist() == [211, 129]
    assert len(graph.splits["test"]) == 68
    assert len(rdf.read(real_data / "mutag").schema.relations) == 46


def test_dblp_has_the_published_counts(real_data):
    graph = hgb.read(real_data / "hgb_dblp")
    assert dict(graph.schema.nodes) == {"author": 4057, "paper": 14328, "term": 7723, "venue": 20}
    assert graph.edges == 239566 and len(graph.schema.relations) == 6
    assert {name: matrix.shape[1] for name, matrix in graph.features.items()} == {
        "author": 334,
        "paper": 4231,
        "term": 50,
    }
    assert np.bincount(graph.labels).tolist() == [1197, 745, 1109, 1006]
    assert {name: len(ids) for name, ids in graph.splits.items()} == {"train": 974, "validation": 243, "test": 2840}
    archive = np.load(real_data / "hgb_dblp" / "dblp.npz", allow_pickle=False)
    assert np.array_equal(graph.splits["test"], np.sort(archive["test_idx"]))
    order = np.argsort(archive["test_idx"])
    assert np.array_equal(graph.labels[graph.splits["test"]], archive["test_label"][order])


def test_imdb_has_the_published_counts(real_data):
    graph = hgb.read(real_data / "hgb_imdb")
    assert dict(graph.schema.nodes) == {"movie": 4932, "director": 2393, "actor": 6124, "keyword": 7971}
    assert [csc.edges for csc in graph.relations.values()] == [4932, 4932, 14779, 14779, 23610, 23610]
    assert {name: matrix.shape[1] for name, matrix in graph.features.items()} == {
        "movie": 3489,
        "director": 3341,
        "actor": 3341,
    }
    assert graph.schema.target == "movie" and graph.multilabel and graph.labels.shape == (4932, 5)
    assert (graph.labels == 1).sum(axis=0).tolist() == [1090, 1384, 1837, 1135, 2517]
    assert (graph.labels == -1).all(axis=1).sum() == 4932 - 4573
    several = graph.labels[graph.labelled(np.arange(4932))].sum(axis=1)
    assert several.min() == 1 and several.max() == 5
    assert {name: len(ids) for name, ids in graph.splits.items()} == {"train": 1097, "validation": 274, "test": 3202}
    archive = np.load(real_data / "hgb_imdb" / "imdb.npz", allow_pickle=False)  # movies are the first type
    known = np.sort(np.concatenate([graph.splits["train"], graph.splits["validation"]]))
    for ids, name in ((known, "train"), (graph.splits["test"], "test")):
        order = np.argsort(archive[f"{name}_idx"])
        assert np.array_equal(ids, archive[f"{name}_idx"][order])
        assert np.array_equal(graph.labels[ids], archive[f"{name}_label"][order])


def test_many_numbers_are_read_as_few_are():
    """Those of a long row are parsed by Arrow: the same values, and the same words where one is none."""
    given = [repr(value) for value in np.random.default_rng(0).standard_normal(1000).tolist()] + [
        "1e-50",
        "3e38",
        "1e400",
    ]
    found = numbers(",".join(given), Path("x"), 7)
    assert len(",".join(given)) > LONG and found.dtype == np.float32
    np.testing.assert_array_equal(found, np.concatenate([numbers(one, Path("x"), 7) for one in given]))
    for bad in ("", "1_0", "two", "\u0663"):
        said = []
        for cell in (bad, ",".join([bad, *given])):
            with pytest.raises(InputError) as raised:
                numbers(cell, Path("x"), 7)
            said.append(str(raised.value))
        assert said[0] == said[1] and said[0].startswith("x: line 7: ")
