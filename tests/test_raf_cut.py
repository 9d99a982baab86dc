"""Relations that are cut: the edges of one on several partitions train exactly as one relation; plans, drawing, errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from hetjax.graph.checks import check_csc
from hetjax.graph.csc import Piece, cut
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import sizes
from hetjax.partition import partition, read, save
from hetjax.partition.cuts import cut_graph, cut_sizes, pieces
from hetjax.sampling.drawing import EdgeSampler, Request
from hetjax.sampling.sampler import ALL
from hetjax.sharding.registry import make_engine
from hetjax.system.errors import InputError
from tests.support.commands import SMALL, train
from tests.support.equivalence import MODELS, compare, few, setting
from tests.support.graphs import random_graph

WRITES = Relation("author", "writes", "paper")


@pytest.mark.parametrize(
    ("mesh", "mode", "model", "cuts"),
    [
        ((2, 1), "minibatch", "R-GCN", ["writes=2"]),
        ((4, 1), "full", "R-GCN", ["writes=4"]),
        ((2, 1), "minibatch", "R-GAT", ["writes=2"]),
        ((2, 2), "minibatch", "HGT, joint", ["writes=2"]),
        ((3, 1), "full", "HGT, relation", ["writes=2"]),
    ],
)
def test_a_relation_that_is_cut_trains_as_one(mesh, mode, model, cuts):
    """Also where a partition has no piece, or nothing but a piece."""
    graph = few("cites", "writes", "written_by")
    errors = compare(graph, (*mesh, "raf"), mode, MODELS[model], steps=4, wide=True, options={"cut": tuple(cuts)})
    assert errors.loss < 1e-12 and errors.gradient < 1e-10 and errors.state < 1e-9, errors


@pytest.mark.parametrize("model", ["R-GCN", "HGT, joint"])
def test_deeper_hops_read_all_pieces(model):
    """Every piece is in a partition of its own, and each needs the others for the papers below its seeds."""
    graph = few("cites", "writes", "written_by")
    options = {"cut": ("writes=2", "cites=2")}
    errors = compare(graph, (2, 1, "raf"), "full", MODELS[model] | {"layers": 3}, steps=4, wide=True, options=options)
    assert errors.loss < 1e-12 and errors.gradient < 1e-10 and errors.state < 1e-9, errors


def test_pieces_are_evaluated_as_one():
    graph, model = few("cites", "writes", "written_by"), MODELS["HGT, relation"]
    one = make_engine(setting(graph, "minibatch", (1, 1), model, {}), graph)
    options = {"cut": ("writes=2", "cites=2")}
    other = make_engine(setting(graph, "minibatch", (4, 1, "raf"), model, {"options": options}), graph)
    ids = graph.splits["test"]
    expected = one.outputs(one.init(0), ids)
    np.testing.assert_allclose(other.outputs(other.init(0), ids), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fanout", [ALL, 2, 5])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_pieces_together_draw_what_the_relation_draws(fanout, count):
    """The same edges of every target, each in one piece, which knows its place among them."""
    graph, targets = random_graph(), np.array([3, 0, 17, 39, 5], np.int32)
    (whole,) = EdgeSampler(graph).sample([Request(WRITES, targets, np.uint64(9))], fanout)
    found: dict[tuple[int, int], int] = {}
    for piece in pieces(WRITES, count):
        part = cut_graph(graph, {WRITES: count}, (piece,))
        (edges,) = EdgeSampler(part).sample([Request(piece, targets, np.uint64(9))], fanout)
        check_csc(part.relations[piece], piece, part.schema)
        np.testing.assert_array_equal(edges.whole.totals, np.diff(whole.indptr))
        for target in range(len(targets)):
            for e in range(edges.indptr[target], edges.indptr[target + 1]):
                assert (target, edges.whole.places[e]) not in found
                found[target, int(edges.whole.places[e])] = edges.indices[e]
    expected = {
        (target, e - whole.indptr[target]): whole.indices[e]
        for target in range(len(targets))
        for e in range(whole.indptr[target], whole.indptr[target + 1])
    }
    assert found == expected


def test_pieces_are_even_and_a_damaged_one_is_refused():
    graph = random_graph()
    about = cut_sizes(sizes(graph), {WRITES: 4})
    counts = [about.edges[piece] for piece in pieces(WRITES, 4)]
    assert sum(counts) == graph.relations[WRITES].edges and max(counts) - min(counts) <= 1
    piece = pieces(WRITES, 2)[0]
    csc = cut(graph.relations[WRITES], Piece(0, 2, WRITES.key))
    short = csc._replace(indices=csc.indices[:-1])
    with pytest.raises(InputError, match="pointers"):
        check_csc(short, piece, graph.schema)
    wrong = csc._replace(indices=np.full_like(csc.indices, 200))
    for bad in short, wrong:
        damaged = cut_graph(graph, {WRITES: 2}, (piece,))
        damaged = type(graph)(damaged.schema, {piece: bad}, graph.features, graph.labels, graph.splits)
        with pytest.raises(InputError, match="out of range"):
            EdgeSampler(damaged).sample([Request(piece, np.arange(40, dtype=np.int32), np.uint64(0))], ALL)


def test_a_relation_is_cut_once():
    config = setting(random_graph(), "minibatch", (3, 1, "raf"), {}, {"options": {"cut": ("writes=2", "writes=3")}})
    with pytest.raises(InputError, match="names author -writes-> paper twice"):
        make_engine(config, random_graph())


def test_a_plan_says_what_is_cut(tmp_path):
    graph = random_graph()
    plan = partition(graph, 3, cuts={WRITES: 3})
    save(plan, tmp_path / "plan", graph)
    assert read(tmp_path / "plan").digest == plan.digest and read(tmp_path / "plan").cuts == {WRITES: 3}
    manifest = json.loads((tmp_path / "plan" / "manifest.json").read_text())
    assert manifest["cut"] == [[list(WRITES), 3]]
    owned = [owns for part in manifest["parts"] for owns in part["owns"]]
    assert [list(piece) for piece in pieces(WRITES, 3)] == sorted(one for one in owned if "writes" in one[1])
    assert read(tmp_path / "plan").take(graph, plan.parts[0]).schema.relations
    manifest["cut"][0][1] = 2
    (tmp_path / "plan" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="cut"):
        read(tmp_path / "plan")
    with pytest.raises(InputError, match="no metapaths"):
        partition(graph, 3, [[WRITES]], cuts={WRITES: 3})


def options_of(path: Path, *more) -> list:
    return ["--data.format", "store", "--data.path", path, *SMALL, "--mesh.relation", "2", *more]


def test_a_run_whose_host_has_no_room_for_a_relation(stored, tmp_path):
    """Edges of `writes` take 150 bytes and some; half of that is what a host has room for."""
    edges = {str(r): csc.indices.nbytes for r, csc in random_graph().relations.items() if r.target == "paper"}
    most = max(edges.values())
    done = train(tmp_path / "run", *options_of(stored, "--raf.host_bytes", most - 1))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "run" / "partition_raf_2x1" / "manifest.json").read_text())
    assert [str(Relation(*r)) for r, _ in manifest["cut"]] == [name for name, size in edges.items() if size + 8 >= most]
    report = json.loads((tmp_path / "run" / "partition_raf_2x1" / "report.json").read_text())
    assert report["cut"] == {str(Relation(*r)): count for r, count in manifest["cut"]}
    for relation, counts in report["pieces_opened"].items():
        whole = [f"partition {part}" for part, count in enumerate(counts) if count == report["cut"][relation]]
        words = f"relation {relation} is cut into 2 pieces, all of which are opened by {' and '.join(whole)}: deeper"
        assert (words in done.stderr) == bool(whole)


def test_a_plan_with_other_cuts_is_refused(stored, tmp_path):
    save(partition(stored, 2, cuts={WRITES: 2}), tmp_path / "plan")
    done = train(tmp_path / "run", *options_of(stored, "--raf.plan", tmp_path / "plan"))
    assert done.returncode == 2 and "there != {} of this run (raf.cut)" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--raf.cut", "[writes=3]"), "to be cut into 3 pieces, and must be into 2..2"),
        (("--raf.cut", "[writes=1]"), "to be cut into 1 pieces"),
        (
            ("--raf.cut", "[written_by=2]"),
            "must be NAME=PIECES of relations into the root types: paper -cites-> paper",
        ),
        (("--raf.cut", "[writes]"), "must be NAME=PIECES"),
        (("--raf.cut", "[writes=2]", "--mesh.relation", "1"), "and mesh.relation is 1"),
        (("--raf.cut", "[writes=2]", "--model.name", "gcn"), "the relations of model gcn cannot be cut"),
        (("--raf.host_bytes", "0"), "raf.host_bytes is 0, and must be over 0, or -1"),
    ],
)
def test_errors(stored, tmp_path, more, words):
    done = train(tmp_path / "run", *options_of(stored, *more))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and words in line, done.stderr
    assert not (tmp_path / "run").exists()
