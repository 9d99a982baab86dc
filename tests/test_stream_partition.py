"""Partitioning a stream of edges: what can be read, what is refused, full neighbourhoods, the folder that is written."""

import gzip
import io
import json
import os
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from hetjax.graph import store
from hetjax.graph.csc import edges_of
from hetjax.graph.homogeneous import offsets
from hetjax.partition.stream import Held, Options, neighbours, open_stream, partition_stream, source
from hetjax.partition.stream.folder import read, read_part
from hetjax.partition.stream.memory import parts_for
from hetjax.partition.stream.neighbours import full_neighbours
from hetjax.partition.stream.registry import BUILT_IN
from hetjax.partition.stream.report import report
from hetjax.partition.stream.run import Reader
from hetjax.system.errors import InputError
from tests.support.commands import here, refused
from tests.support.graphs import random_graph
from tests.support.streams import NODES, stream_of

PAIRS = stream_of(0)


def text_of(pairs) -> bytes:
    return b"# a comment\n" + b"".join(b"%d\t%d\n" % tuple(pair) for pair in pairs.tolist())


def everything(stream, nodes=NODES):
    """All edges of a stream, read twice; chunks say how far they are."""
    chunks = list(stream.chunks(nodes))
    assert all(chunk.pairs.dtype == np.int32 and chunk.pairs.flags.c_contiguous for chunk in chunks)
    assert np.all(np.diff([chunk.done for chunk in chunks]) >= 0) and chunks[-1].done == pytest.approx(1)
    pairs = np.concatenate([chunk.pairs for chunk in chunks])
    assert np.array_equal(pairs, np.concatenate([chunk.pairs for chunk in stream.chunks(nodes)]))
    assert stream.edges in (None, len(pairs))
    return pairs


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(source, "AT_ONCE", 7)
    monkeypatch.setattr("hetjax.datasets.text.AT_ONCE", 40)
    monkeypatch.setattr(neighbours, "AT_ONCE", 64)


def test_every_source_gives_the_same_edges(tmp_path, small_chunks, monkeypatch):
    half = len(PAIRS) // 2
    (tmp_path / "all.txt").write_bytes(text_of(PAIRS))
    (tmp_path / "all.csv").write_bytes(b"".join(b"%d,%d,0.5\r\n" % tuple(pair) for pair in PAIRS.tolist()))
    (tmp_path / "all.txt.gz").write_bytes(gzip.compress(text_of(PAIRS)))
    for number, part in enumerate((PAIRS[:half], PAIRS[half:])):
        (tmp_path / f"part_{number}.txt").write_bytes(text_of(part))
        np.save(tmp_path / f"part_{number}.npy", part.astype(("i8", ">u2")[number]))
    np.save(tmp_path / "all.npy", PAIRS)
    for name in ("all.txt", "all.csv", "all.txt.gz", "all.npy", "part_*.txt", "part_*.npy", "part_[01].txt"):
        assert np.array_equal(everything(open_stream(str(tmp_path / name))), PAIRS), name
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text_of(PAIRS))))
    with closing(open_stream("-", spool=tmp_path)) as stream:
        assert np.array_equal(everything(stream), PAIRS)
    assert np.array_equal(everything(Held(PAIRS.astype(np.uint8), NODES)), PAIRS)


def test_a_store_is_a_stream(tmp_path, small_chunks):
    graph = random_graph()
    store.save(graph, tmp_path / "store")
    start, total = offsets(graph.schema.nodes), sum(graph.schema.nodes.values())

    def plain(*relations):
        both = [edges_of(graph.relations[r]) for r in relations]
        ends = [(s + start[r.source], t + start[r.target].__int__()) for r, (s, t) in zip(relations, both)]
        return np.concatenate([np.stack([s.astype(int), t.astype(int)], axis=1) for s, t in ends])

    relations = graph.schema.relations
    stream = open_stream(str(tmp_path / "store"))
    assert stream.nodes == total and np.array_equal(everything(stream, total), plain(*relations))
    some = open_stream(str(tmp_path / "store"), ["writes", str(relations[5])])
    assert np.array_equal(everything(some, total), plain(relations[2], relations[5]))
    with pytest.raises(InputError, match="0 relations are 'nonsense', of paper -cites-> paper, "):
        open_stream(str(tmp_path / "store"), ["nonsense"])
    with pytest.raises(InputError, match="^relations is \\['writes'\\], and .* is no store$"):
        open_stream(str(tmp_path), ["writes"])


def write_text(tmp_path, content: bytes):
    (tmp_path / "edges.txt").write_bytes(content)
    return tmp_path / "edges.txt"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0 1\n1 2\n2 x\n", "edges.txt: line 3: '2 x', and should be SOURCE TARGET"),
        (b"0 1\n1 2\n0 1 5\n", "edges.txt: line 3: 3 columns != 2 of the lines before"),
        (b"0 1\n-1 2\n", "edges.txt: line 2: '-1 2', and should be"),
        (b"0 1\n1 2\n2 7\n", "edges.txt: line 3: node 7, and there are 5"),
        (b"0 1\n1 2\n2 3", "edges.txt: line 3: has no end; was the file cut short?"),
        (b"", "edges.txt: no edges"),
        (b"# nothing\n\n", "edges.txt: no edges"),
        (b"0 1\n1 2\n\x00\n", "edges.txt: line 3: '\\x00', and should be"),
    ],
)
def test_text_that_is_refused(tmp_path, capfd, content, words):
    file = write_text(tmp_path, content)
    done = refused(
        capfd, "hetjax.partition.__main__", "--stream", file, "--parts", 2, "--nodes", 5, "--out", tmp_path / "o"
    )
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["edges.txt"]


def refuse(capfd, tmp_path, stream, *arguments):
    done = refused(capfd, "hetjax.partition.__main__", "--stream", stream, "--out", tmp_path / "out", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    return done.stderr


def test_what_else_is_refused(tmp_path, capfd):
    file = write_text(tmp_path, b"0 1\n1 2\n2 0\n")
    assert "3 nodes, and there are to be 4 partitions" in refuse(capfd, tmp_path, file, "--parts", 4)
    assert "give --parts, the number of partitions, or --device_memory" in refuse(capfd, tmp_path, file)
    assert "parts is 2000, and should be at most 1024" in refuse(capfd, tmp_path, file, "--parts", 2000)
    assert "No such file" in refuse(capfd, tmp_path, tmp_path / "none.txt", "--parts", 2)
    assert "schema.json: No such file" in refuse(capfd, tmp_path, tmp_path, "--parts", 2)
    assert "method is 'best', and must be" in refuse(capfd, tmp_path, file, "--parts", 2, "--method", "best")
    assert "has them counted in any case" in refuse(capfd, tmp_path, file, "--parts", 2, "--degrees", "estimated")
    assert "weight is 2.0, and method spring does not" in refuse(capfd, tmp_path, file, "--parts", 2, "--weight", 2)
    for method in ("spring", "slim", "greedy", "hollocou", "2ps-l"):
        asked = "--parts", 2, "--method", method, "--degrees", "counted"
        assert "degrees is counted, and method" in refuse(capfd, tmp_path, file, *asked)
    for name, value in (("device_memory", 1000), ("devices", 2), ("reserved", 0.5)):
        words = f"{name} is {value}, and chooses the number of partitions, and parts is 2"
        assert words in refuse(capfd, tmp_path, file, "--parts", 2, f"--{name}", value)
    asked = "--parts", 2, "--hops", 0, "--features", "x.npy"
    assert "features is 'x.npy', and with hops 0" in refuse(capfd, tmp_path, file, *asked)
    assert "unknown option --graph" in refuse(capfd, tmp_path, file, "--parts", 2, "--graph", "x")
    wide = write_text(tmp_path, b"0 1\n1 4000000\n")
    assert "node 4000000 among 2 edges" in refuse(capfd, tmp_path, wide, "--parts", 2)
    packed = tmp_path / "cut.txt.gz"
    packed.write_bytes(gzip.compress(text_of(PAIRS))[:-20])
    assert "cut.txt.gz: EOFError" in refuse(capfd, tmp_path, packed, "--parts", 2)
    for array, words in (
        (PAIRS.T.copy(), r"int32 (2, 150), and should be integers (edges, 2)"),
        (PAIRS.astype(float), "float64 (150, 2), and should be"),
        (np.asfortranarray(PAIRS), "in Fortran's order"),
        (np.array([[0, 1], [1, -1]]), "edge 1: node -1, and nodes are numbered from 0 up to 2147483646"),
        (np.array([[0, 1], [2**40, 1]]), "edge 1: node 1099511627776, and nodes are numbered"),
        (np.empty((0, 2), int), "no edges"),
    ):
        np.save(tmp_path / "edges.npy", array)
        assert words in refuse(capfd, tmp_path, tmp_path / "edges.npy", "--parts", 2)
    np.save(tmp_path / "edges.npy", PAIRS)
    np.save(tmp_path / "features.npy", np.zeros((NODES + 1, 2), np.float32))
    about = "--parts", 2, "--nodes", NODES, "--features", tmp_path / "features.npy"
    assert f"features.npy: {NODES + 1} rows != {NODES} nodes" in refuse(capfd, tmp_path, tmp_path / "edges.npy", *about)


def test_a_stream_that_changes_is_refused():
    class Changing(Held):
        def chunks(self, nodes):
            for chunk in super().chunks(nodes):
                yield chunk
                self.pairs = self.change(self.pairs)

    for change, words in ((lambda p: p[:-1], "149 edges != 150 before"), (lambda p: p + NODES, "edge 0: node")):
        stream = Changing(PAIRS, NODES)
        stream.change = change
        with pytest.raises(InputError, match=words):
            partition_stream(stream, BUILT_IN["spring"], Options(2))


def by_sets(pairs, owners, parts, hops, directed):
    """Nodes and edges of every partition with full neighbourhoods, in plain Python."""
    found = []
    for part in range(parts):
        inner = {v for v, owner in enumerate(owners) if owner == part}
        for _ in range(hops - 1):
            inner = inner | reached(pairs, inner, directed)
        edges = [(u, v) for u, v in pairs if v in inner or (not directed and u in inner)]
        found.append((sorted(inner | reached(pairs, inner, directed)), edges))
    return found


def reached(pairs, nodes, directed):
    return {u for u, v in pairs if v in nodes} | {v for u, v in pairs if u in nodes and not directed}


@pytest.mark.parametrize(("hops", "directed"), [(1, False), (1, True), (2, False), (3, True)])
def test_full_neighbours(tmp_path, small_chunks, hops, directed):
    sparse = PAIRS[:40]
    for parts in (1, 3, 70):
        owners = np.random.default_rng(parts).integers(0, parts, NODES).astype(np.uint8)
        (folder := tmp_path / f"of_{parts}").mkdir()
        full = full_neighbours(Reader(Held(sparse, NODES)), owners, parts, hops, directed, folder)
        counted = full_neighbours(Reader(Held(sparse, NODES)), owners, parts, hops, directed)
        assert np.array_equal(full.nodes, counted.nodes) and np.array_equal(full.edges, counted.edges)
        assert full.cut == counted.cut == sum(owners[u] != owners[v] for u, v in sparse)
        for part, (nodes, edges) in enumerate(by_sets(sparse.tolist(), owners, parts, hops, directed)):
            place = folder / f"part_{part}"
            there = np.load(place / "nodes.npy")
            assert there.tolist() == nodes and full.edges[part] == len(edges)
            assert np.load(place / "own.npy").tolist() == (owners[nodes] == part).tolist()
            assert there[np.load(place / "edges.npy")].tolist() == [list(edge) for edge in edges]


@pytest.mark.parametrize("method", BUILT_IN)
def test_the_folder(tmp_path, method):
    write_text(tmp_path, text_of(PAIRS))
    rows = np.random.default_rng(0).standard_normal((NODES, 3)).astype(np.float32)
    np.save(tmp_path / "features.npy", rows)
    arguments = (
        "--stream",
        tmp_path / "edges.txt",
        "--parts",
        3,
        "--method",
        method,
        "--features",
        tmp_path / "features.npy",
    )
    done = here("hetjax.partition.__main__", *arguments, "--nodes", NODES, "--out", tmp_path / "out")
    assert done.returncode == 0 and "edges a second" in done.stdout, done.stderr
    about, owners = read(tmp_path / "out")
    assert (about["method"], about["parts"], about["nodes"], about["edges"]) == (method, 3, NODES, len(PAIRS))
    placed = np.load(tmp_path / "out" / "edges.npy")
    made = json.loads((tmp_path / "out" / "report.json").read_text())
    having = {part: set(PAIRS[placed == part].ravel().tolist()) for part in range(3)}
    connected = len(set(PAIRS.ravel().tolist()))
    assert made["replication_factor"] == round(sum(map(len, having.values())) / connected, 4)
    full = by_sets(PAIRS.tolist(), owners, 3, 1, False)
    alone = NODES - connected
    assert alone and made["replication_factor_full"] == round((sum(len(n) for n, _ in full) - alone) / connected, 4)
    assert made["cut_edges"] == sum(owners[u] != owners[v] for u, v in PAIRS)
    counts = np.bincount(placed, minlength=3)
    assert made["balance_edges"] == round(counts.max() / counts.mean(), 4) and made["peak_memory_bytes"] > 0
    assert made["shared_nodes"] == sum(sum(v in nodes for nodes in having.values()) > 1 for v in range(NODES))
    for part, (nodes, edges) in enumerate(full):
        one, row = read_part(tmp_path / "out", part), made["parts"][part]
        assert one.nodes.tolist() == nodes and len(one.edges) == row["full_edges"] == len(edges)
        assert np.array_equal(one.features["features.npy"], rows[nodes])
        assert (row["own_nodes"], row["nodes"], row["edges"]) == (one.own.sum(), len(having[part]), counts[part])
    assert (tmp_path / "out" / "partition.png").stat().st_size > 5000


def test_a_store_is_divided_with_its_features(tmp_path, stored, capfd):
    graph, out = store.open(stored), tmp_path / "out"
    done = here("hetjax.partition.__main__", "--stream", stored, "--parts", 2, "--directed", "--hops", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    start = offsets(graph.schema.nodes)
    one, names = read_part(out, 1), list(graph.schema.nodes)
    assert set(one.features) == {f"features_{names.index(name)}.npy" for name in graph.features}
    for name, matrix in graph.features.items():
        ids = one.nodes[(one.nodes >= start[name]) & (one.nodes < start[name] + len(matrix))] - start[name]
        assert np.array_equal(one.features[f"features_{names.index(name)}.npy"], matrix[ids])
    assert read(out)[0]["types"] == start
    assert "has its own" in refuse(capfd, tmp_path / "..", stored, "--parts", 2, "--features", out / "owners.npy")
    (out / "part_1" / "own.npy").write_bytes((out / "part_0" / "own.npy").read_bytes())
    with pytest.raises(InputError, match="part_1"):
        read_part(out, 1)
    with pytest.raises(InputError, match="no partition 2; there are 0..1"):
        read_part(out, 2)


class Stops(BUILT_IN["dbh"]):
    """A method that is killed in the middle of its last pass."""

    name = "stops"

    def place(self, pairs, out):
        os._exit(9)


def test_partial_output_is_no_partition(tmp_path):
    np.save(tmp_path / "edges.npy", PAIRS)
    arguments = "--stream", tmp_path / "edges.npy", "--parts", "2", "--out", tmp_path / "out"
    stops = ["--method", "tests.test_stream_partition:Stops"]
    command = [sys.executable, "-m", "hetjax.partition", *map(str, arguments)]
    assert subprocess.run(command + stops, capture_output=True, timeout=120).returncode == 9
    (partial,) = tmp_path.glob(".out.*.partial")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="makes one$"):
        read(partial)
    assert here("hetjax.partition.__main__", *arguments).returncode == 0  # the same command, again
    assert not partial.exists() and len(read(tmp_path / "out")[1]) > 0


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text_of(PAIRS))))
    arguments = "--stream", "-", "--parts", 2, "--hops", 0, "--out", tmp_path / "out"
    done = here("hetjax.partition.__main__", *arguments)
    assert done.returncode == 0, done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out"]
    np.save(tmp_path / "edges.npy", PAIRS)
    plain = partition_stream(open_stream(str(tmp_path / "edges.npy")), BUILT_IN["spring"], Options(2))
    assert np.array_equal(read(tmp_path / "out")[1], plain.owners)
    with pytest.raises(InputError, match="no partition 0; there are none, as hops is 0"):
        read_part(tmp_path / "out", 0)


def test_partitions_by_memory(tmp_path):
    assert parts_for(data=99, memory=300, devices=1) == 1 and parts_for(data=101, memory=300, devices=1) == 2
    assert parts_for(data=399, memory=300, devices=4) == 4 and parts_for(data=1000, memory=300, devices=4) == 10
    assert parts_for(data=401, memory=300, devices=4, reserved=0.5) == 4
    with pytest.raises(InputError, match="nothing is left"):
        parts_for(data=1, memory=0)
    np.save(tmp_path / "edges.npy", PAIRS)  # 1200 bytes
    arguments = "--stream", tmp_path / "edges.npy", "--device_memory", 1200, "--devices", 2, "--out", tmp_path / "out"
    done = here("hetjax.partition.__main__", *arguments)
    assert done.returncode == 0 and read(tmp_path / "out")[0]["parts"] == 3, done.stderr
    assert "3 partitions for 2 x 400 bytes; the largest has" in done.stdout and "give a larger --parts" in done.stdout


def test_the_report_counts_clusters_that_were_merged():
    made = partition_stream(Held(PAIRS, NODES), BUILT_IN["spring"], Options(2))
    summary = report(made, full_neighbours(Reader(Held(PAIRS, NODES)), made.owners, 2), 1).summary
    assert summary["clusters"] > summary["merged_clusters"] > 0
