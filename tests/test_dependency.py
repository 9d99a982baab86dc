"""Dependencies between partitions of the nodes: fetched, computed here too, or chosen; equal to one device, counted exactly."""

import dataclasses
import itertools
import json
import math
import platform

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import hetjax
from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.partition import EdgeCut, edge_cut
from hetjax.partition.dependencies import dependencies
from hetjax.processes.group import ProcessGroup
from hetjax.sampling.blocks import NO_NODE
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency import costs, link, probes, rates, strategy
from hetjax.sharding.dependency.declared import Options
from hetjax.sharding.dependency.exchange import counts, fetch, mirrors
from hetjax.sharding.dependency.groups import Group
from hetjax.sharding.dependency.hybrid import Copies, choose
from hetjax.sharding.dependency.pieces import whole
from hetjax.sharding.dependency.prices import Prices, priced, slowest
from hetjax.sharding.dependency.room import divide
from hetjax.sharding.dependency.schedule import schedule
from hetjax.sharding.dependency.shares import Names, nothing, shares
from hetjax.sharding.dependency.strategy import chosen, message, sampler_of
from hetjax.sharding.dependency.work import described, work
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from tests.support.commands import SMALL, train, train_anew
from tests.support.edge_cuts import lopsided
from tests.support.equivalence import GRAPHS, MODELS, compare, few, setting
from tests.support.graphs import random_graph
from tests.support.hybrid import hybrid

FEW = "cites", "writes", "written_by"
CACHE, COMMUNICATE, RING = {"mode": "cache"}, {"mode": "communicate"}, {"mode": "communicate", "schedule": "ring"}
OVERLAP, HALF_OVERLAP = RING | {"schedule": "overlap"}, {"mode": "hybrid", "cached": 0.5, "schedule": "overlap"}
HALF, ALL_CACHED = {"mode": "hybrid", "cached": 0.5}, {"mode": "hybrid", "cached": 1.0}
CHOSEN, MOST_RING = {"mode": "hybrid"}, {"mode": "hybrid", "cached": 0.7, "schedule": "ring"}
METIS, VOLUME, FENNEL, RANDOM = ({"partitioning": name} for name in ("metis", "metis-vol", "fennel", "random"))
LITTLE = {"mode": "hybrid", "cached": 1.0, "memory": 3000}
ONE_RELATION = {  # the graphs of models for one relation, by the beginnings of these models' names
    "homogeneous": ("GAT",),  # and GATv2
    "homogeneous, weights": ("GCN", "SAGE", "GIN"),
}


@pytest.fixture
def mixture(monkeypatch):
    """What hybrid chose, by costs that make every partition of small graphs compute some embeddings and fetch others."""
    made = []

    def costs_of(given, *about):
        kinds = probes.kinds(given)[:-1]
        edges = {kind: probes.Seconds(0.0, 1.0, 0.0) for kind in probes.distinct(kinds)}
        return costs.Costs(*costs.by_name(kinds, edges), sent=0.4, start=0.0, copy=0.0, measured=True)

    def kept(given, owned, names, prices):
        every = choose(
            given.graph,
            owned,
            strategy.reading(given, owned, names, nothing),
            prices._replace(share=1.0),
            given.regime.fanouts,
            given.trainer.model.reads_own,
        )
        made.append((chosen(given, owned, names, prices), Copies(every)))
        return made[-1][0]

    chosen = strategy.chosen
    monkeypatch.setattr(strategy, "read_or_measure", costs_of)
    monkeypatch.setattr(strategy, "NOTABLE", math.inf)
    monkeypatch.setattr(strategy, "chosen", kept)
    return made


@pytest.mark.parametrize(
    ("options", "parts", "mode", "model"),
    [
        (COMMUNICATE | METIS, 4, "full", "GCN"),
        (HALF | FENNEL, 3, "minibatch", "GCN"),
        (CHOSEN | METIS, 4, "full", "GCN, residual"),
        (RING | RANDOM, 4, "minibatch", "SAGE"),
        (CACHE | RANDOM, 4, "minibatch", "GIN, no head"),
        (HALF_OVERLAP | RANDOM, 2, "full", "GAT"),
        (CHOSEN | VOLUME, 3, "minibatch", "GAT"),
        (COMMUNICATE, 1, "full", "GAT, no head"),
        (COMMUNICATE | METIS, 3, "minibatch", "GATv2"),
        (COMMUNICATE, 2, "minibatch", "R-GCN, dropout"),
        (COMMUNICATE, 4, "full", "R-GCN, one-hot"),
        (HALF | VOLUME, 3, "minibatch", "R-GCN"),
        (ALL_CACHED, 3, "full", "R-GCN, residual"),
        (LITTLE, 2, "full", "HGNN, mean, no target"),
        (OVERLAP, 2, "full", "HGNN, mean, no target"),
        (RING, 4, "full", "R-GAT, dropout"),
        (CHOSEN | FENNEL, 4, "minibatch", "R-GAT, dropout"),
        (RING, 3, "minibatch", "HGT, joint"),
        (OVERLAP | VOLUME, 4, "full", "HGT, joint"),
        (HALF | METIS, 3, "full", "HGT, dropout"),
        (CHOSEN | FENNEL, 3, "full", "HGT, relation"),
        (MOST_RING | RANDOM, 3, "full", "HGT, relation, dropout"),
        (COMMUNICATE | FENNEL, 4, "minibatch", "HGT, relation, dropout"),
    ],
)
def test_equals_one_device_in_double_precision(options, parts, mode, model, mixture):
    """Eight partitions are in tests/test_many.py; `experiments/equivalence/dependency_equivalence.py` covers all pairs of model, sampling, way, partitions and partitioning."""
    names = FEW if model.startswith("R-GCN") else ("cites", "writes")  # attention's programs are the largest
    graph = next((GRAPHS[name]() for name, of in ONE_RELATION.items() if model.startswith(of)), few(*names))
    errors = compare(graph, (1, parts, "dependency"), mode, MODELS[model], wide=True, options=options)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9, errors
    if options.items() >= CHOSEN.items() and "cached" not in options:
        assert mixture and all(0 < embeddings(some) < embeddings(every) for some, every in mixture)


def embeddings(copies: Copies) -> int:
    """How many of others' nodes partitions compute."""
    return sum(int(np.bitwise_count(bits).sum()) for of in copies.copies[1:] for bits in of.values())


@pytest.mark.parametrize(("options", "mode"), [(COMMUNICATE, "minibatch"), (HALF, "full")])
def test_three_layers_of_a_lopsided_cut_with_penalty_clipping_and_decay(options, mode):
    """All seeds in one partition, another that owns nothing of a type."""
    graph, more = few(*FEW), {"l2": 0.01, "gradient_clip": 0.05, "weight_decay": 0.1, "class_weights": "balanced"}
    model = MODELS["R-GCN"] | {"layers": 3}
    plan = lopsided(graph, 4)
    errors = compare(
        graph, (1, 4, "dependency"), mode, model, wide=True, plan=plan, options=options, fanout=(2, 3, 2), **more
    )
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9


def test_a_type_with_features_and_without_nodes_moves_no_rows():
    """Rows of types of one width are fetched together: one of a type that has none would be taken for the next type's."""
    rng, to, of = np.random.default_rng(5), Relation("page", "to", "page"), Relation("none", "of", "page")
    edges = {to: tuple(rng.integers(0, 11, (2, 20))), of: (np.zeros(0, int), np.zeros(0, int))}
    features = {"none": np.zeros((0, 4), np.float32), "page": rng.standard_normal((11, 4)).astype(np.float32)}
    splits = {"train": np.arange(5), "validation": np.arange(5, 8), "test": np.arange(8, 11)}
    graph = build(Schema({"none": 0, "page": 11}, (to, of), "page", 3), edges, features, rng.integers(0, 3, 11), splits)
    errors = compare(graph, (1, 3, "dependency"), "full", {}, 2, True, options={"mode": "communicate"})
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9


def seeds_of(graph, owned):
    """The training nodes of every partition."""
    target = graph.schema.target
    return [{target: ids} for ids in owned.split(target, graph.splits["train"])]


def sampled(graph, cut, keep=nothing, fanouts=(ALL, ALL, ALL)):
    """The shares of every partition of a whole graph, and its seeds."""
    seeds = seeds_of(graph, cut.owned)
    return shares(Sampler(graph), cut.owned, seeds, fanouts, (0,), keep), seeds


def caching(depth, node_type, ids, part):
    return np.ones(len(ids), bool)


@pytest.mark.parametrize("keep", [nothing, caching])
def test_what_is_counted_is_what_the_cut_says(keep):
    """Rows, copies and their edges (the sets of equations 1 and 2) against a count from the graph's edges alone."""
    graph = random_graph()
    cut = EdgeCut(edge_cut(graph, 3, "random").sizes, edge_cut(graph, 3, "random").nodes, 3, "random", hops=3)
    layers, seeds = sampled(graph, cut, keep)
    expected = sorted(dependencies(graph, cut), key=lambda layer: layer.layer)
    for found, layer in zip(work(graph, cut.owned, layers, seeds), expected, strict=True):
        cached = keep is caching
        pairs = [
            (found.computed, layer.cached_nodes if cached else layer.nodes),
            (found.edges, layer.cached_edges if cached else layer.edges),
        ]
        if cached:
            pairs += [(found.copied, layer.redundant_nodes), (found.copied_edges, layer.redundant_edges)]
        else:
            pairs.append((found.fetched, layer.remote))
        for counted, known in pairs:
            for key, of in known.items():
                np.testing.assert_array_equal(counted.get(key, np.zeros(3)), of, err_msg=f"{layer.layer} {key}")


def test_a_node_that_several_partitions_reach_is_computed_once():
    """In a mini-batch too: all partitions together fold what one device folds, edge for edge."""
    graph, fanouts = random_graph(), (2, 3)
    cut = edge_cut(graph, 4, "random")
    seeds = {"paper": graph.splits["train"]}
    alone = Sampler(graph).sample(seeds, fanouts, (7,))
    layers = shares(Sampler(graph), cut.owned, seeds_of(graph, cut.owned), fanouts, (7,), nothing)
    for depth, block in enumerate(alone.blocks):
        for key, adjacency in block.adjacency.items():
            folded = sum(len(share[depth].block.adjacency[key].indices) for share in layers)
            assert folded == len(adjacency.indices)
    for t, ids in alone.inputs.items():
        assert sum(len(share[0].here[t]) for share in layers) == len(ids)


@pytest.mark.parametrize(("ring", "in_steps"), [(False, False), (True, False), (True, True)])
def test_rows_come_from_their_masters_and_gradients_go_back(ring, in_steps):
    """Against plain indexing, of a layer of two types with capacities beyond what is needed."""
    graph, parts, rng = random_graph(), 4, np.random.default_rng(1)
    cut = lopsided(graph, parts)
    layers, _ = sampled(graph, cut)
    types, each = ("paper", "author"), [share[1] for share in layers]
    plan = schedule(counts(each, types) + 1 - np.eye(parts, dtype=int), ring)
    here = {t: max(len(share.here[t]) for share in each) + 2 for t in types}
    group = {"rows": Group("rows", types)}
    pieces = divide(each, group, in_steps, graph)
    needed = [{t: max(len(piece.rows[t]) for piece in of) + 3 for t in types} for of in zip(*pieces)]
    values = {t: rng.standard_normal((graph.schema.nodes[t], 3)) for t in types}
    pulls = [[{t: rng.standard_normal((rows[t], 3)) for t in types} for rows in needed] for _ in range(parts)]
    local = [
        np.concatenate([np.pad(values[t][share.here[t]], ((0, here[t] - len(share.here[t])), (0, 0))) for t in types])
        for share in each
    ]
    mesh = meshes.row(meshes.make(1, parts), 0)
    sent = meshes.from_shards(
        mesh, [mirrors(share, pieces[p], p, types, plan, here, needed) for p, share in enumerate(each)]
    )

    def both(mirrored, rows, pull):
        came, back = jax.vjp(lambda rows: fetch("rows", mirrored, rows), rows)
        return came, back(tuple(tuple(of[t] for t in types) for of in pull))[0]

    with jax.enable_x64(True):
        mapped = jax.jit(meshes.shard_map(both, mesh, P("data"), P("data")))
        came, back = mapped(sent, *(meshes.from_shards(mesh, trees) for trees in (local, pulls)))
    expected = {t: np.zeros_like(values[t]) for t in types}
    for number, of_piece in enumerate(came):
        for t, rows in zip(types, of_piece):
            for part, (share, found) in enumerate(zip(each, np.split(np.asarray(rows), parts))):
                ids = share.needed[t][pieces[part][number].rows[t]]
                np.testing.assert_array_equal(found[: len(ids)], values[t][ids])
                assert not found[len(ids) :].any()
                np.add.at(expected[t], ids, pulls[part][number][t][: len(ids)])
    for share, found in zip(each, np.split(np.asarray(back), parts)):
        start = 0
        for t in types:
            ids = share.here[t]
            np.testing.assert_allclose(found[start : start + len(ids)], expected[t][ids], rtol=1e-12)
            start += here[t]


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_carries_every_row_once_with_little_padding(seed, ring):
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(2, 8))
    rows = np.where(rng.random((parts, parts)) < 0.2, 0, rng.zipf(1.5, (parts, parts)) % 10_000)
    np.fill_diagonal(rows, 0)
    plan = schedule(rows, ring)
    assert rows.sum() <= plan.sent <= 1.15 * rows.sum()
    for number, (size, pairs) in enumerate(plan.rounds):
        assert size > 0 and plan.rows(number) == (size if pairs else parts * size)
        assert len({sender for sender, _ in pairs}) == len({receiver for _, receiver in pairs}) == len(pairs)
        assert not (ring and not pairs)
    for sender in range(parts):
        taken = [plan.slots(sender, other)[0] for other in range(parts) if other != sender]
        assert len(np.unique(np.concatenate(taken))) == sum(map(len, taken))
        for other in range(parts):
            if other != sender:
                assert min(map(len, plan.slots(sender, other))) >= rows[sender, other]


def test_who_reads_whom_is_named_once(monkeypatch):
    """As any sampler says, whatever is kept and if edges have weights; no hop of the same nodes twice, and another one of other nodes."""
    graph, hops = GRAPHS["homogeneous, weights"](), []
    cut = edge_cut(graph, 3, "random")
    seeds = seeds_of(graph, cut.owned)
    plain, names = Sampler.hop, Names(Sampler(graph))
    ways = [(keep, shares(Sampler(graph), cut.owned, seeds, (ALL, ALL), (0,), keep)) for keep in (nothing, caching)]
    monkeypatch.setattr(Sampler, "hop", lambda self, *given: hops.append(given) or plain(self, *given))
    for keep, expected in [*ways, ways[0]]:
        found = shares(names, cut.owned, seeds, (ALL, ALL), (0,), keep)
        for share, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            assert jax.tree.all(jax.tree.map(np.array_equal, share[1:], other[1:]))
            for key, adjacency in other.block.adjacency.items():
                np.testing.assert_array_equal(share.block.adjacency[key].indptr, adjacency.indptr)
                np.testing.assert_array_equal(share.block.adjacency[key].indices, adjacency.indices)
    assert len(hops) == 3 * 3  # of each partition: its seeds' hop, and the other as much is kept


def prices(graph, layers, share=-1.0, limit=np.inf, sent=1.0, copied=True, source=0.0):
    """An edge costs 0.25, a node 0.1, a row that is sent 1; a row that is read nothing, unless that is given."""
    types, relations = len(graph.schema.nodes), len(graph.relations)
    has = np.array([copied and t in graph.features for t in graph.schema.nodes])
    vertex, edge = np.full((layers, types), 0.1), np.full((layers, relations), 0.25)
    sources, sent, bytes_ = (np.full((layers, types), each) for each in (source, sent, 8.0))
    return Prices(
        vertex, edge, sources, sent, np.zeros_like(sent), np.zeros(sent.shape, int), has, bytes_, limit, share
    )


def test_algorithm_4_takes_what_costs_less():
    """Of two layers, where subtrees do not share anything but features: by the number of edges."""
    graph = random_graph().only([r for r in random_graph().relations if r.name in ("cites", "extends")])
    cut = edge_cut(graph, 3, "random")
    layers, _ = sampled(graph, cut, fanouts=(ALL, ALL))
    copies = choose(graph, cut.owned, layers, prices(graph, 2), (ALL, ALL), True)
    degree = sum(np.diff(csc.indptr) for csc in graph.relations.values())
    for part, share in enumerate(layers):
        wanted = share[1].needed["paper"][share[1].origin["paper"] != part]
        here = Copies(copies)(1, "paper", wanted, part)
        np.testing.assert_array_equal(here, 0.1 + 0.25 * degree[wanted] < 1)
        outside = np.setdiff1d(np.arange(len(degree)), wanted)
        assert not Copies(copies)(1, "paper", outside, part).any()
        first = share[0].needed["paper"][share[0].origin["paper"] != part]
        assert Copies(copies)(0, "paper", first, part).all()


def test_a_subtree_costs_what_its_layer_does_for_every_row_that_it_reads():
    """Such as a product of wide features with a matrix; of rows that are read anyway it costs nothing more."""
    graph = random_graph().only([r for r in random_graph().relations if r.name in ("cites", "extends")])
    cut = edge_cut(graph, 3, "random")
    layers, _ = sampled(graph, cut, fanouts=(ALL, ALL))
    every, found = np.arange(len(cut.nodes["paper"])), {}
    for source in (0.0, 100.0):
        chosen = choose(graph, cut.owned, layers, prices(graph, 2, sent=1.7, source=source), (ALL, ALL), True)
        found[source] = [Copies(chosen)(1, "paper", every, part) for part in range(3)]
    assert np.sum(found[0.0]) > np.sum(found[100.0]) > 0
    for part, share in enumerate(layers):
        read = np.union1d(share[0].needed["paper"], np.flatnonzero(cut.nodes["paper"] == part))
        for node in np.flatnonzero(found[100.0][part]):
            assert all(
                np.isin(csc.indices[slice(*csc.indptr[node : node + 2])], read).all()
                for csc in graph.relations.values()
            )


def test_static_features_cost_their_own_bytes_and_do_not_come_back():
    graph = few("cites", "writes")
    paper = list(graph.schema.nodes).index("paper")
    narrow = dataclasses.replace(
        graph, features=dict(graph.features) | {"paper": graph.features["paper"].astype(np.uint8)}
    )
    given, small = (setup(setting(g, "full", (1, 2, "dependency"), {}, {}), g) for g in (graph, narrow))
    width = graph.features["paper"].shape[1]
    assert priced(given, None).sent[0, paper] == width / 2
    assert priced(small, None).sent[0, paper] == width / 8


@pytest.mark.parametrize(("sent", "start", "computed"), [(2.5, 0.0, "some"), (1.0, 0.0, "none"), (2.5, 1e6, "all")])
def test_some_are_computed_where_that_is_notably_less_than_computing_all_or_none(sent, start, computed):
    """Where a row costs 1, Algorithm 4 would compute 5 of 37 and win 0.4 %; where a collective takes long, it would not see it."""
    graph = random_graph().only([r for r in random_graph().relations if r.name in ("cites", "extends")])
    given = setup(setting(graph, "full", (1, 3, "dependency"), {}, {}), graph)
    owned, model = edge_cut(graph, 3, "random").owned, given.trainer.model
    sampler = Sampler(graph, frozenset(), frozenset(), model.reads_own, model.drops)
    costs_here, seeds = prices(graph, 2, sent=sent)._replace(start=start), seeds_of(graph, owned)

    def done(keep):
        return work(graph, owned, shares(sampler, owned, seeds, (ALL, ALL), (0,), keep), seeds)

    layers = shares(sampler, owned, seeds, (ALL, ALL), (0,), nothing)
    algorithm_4 = done(Copies(choose(graph, owned, layers, costs_here, (ALL, ALL), True)))
    found = done(chosen(given, owned, Names(sampler), costs_here))
    fetched, copied = (sum(of.sum() for of in each.values()) for each in (found[1].fetched, found[0].copied))
    assert {"some": fetched and copied, "none": fetched and not copied, "all": copied and not fetched}[computed]
    assert (described(found, 1) == described(algorithm_4, 1)) == (computed == "some")
    took, would = (slowest(graph, of, costs_here, own=True) for of in (found, algorithm_4))
    assert took <= would / 0.95
    assert took > slowest(graph, found, costs_here) > 0


def subtree(graph, owner, part, node, depth, here):
    """Nodes by depth that computing one adds, by sets; not those that are here."""
    added, level = set(), {node}
    for k in range(depth, 0, -1):
        level = {v for v in level if owner[v] != part and (k, v) not in here}
        added |= {(k, v) for v in level}
        below = set(level)
        for csc in graph.relations.values():
            for v in level:
                below |= set(map(int, csc.indices[csc.indptr[v] : csc.indptr[v + 1]]))
        level = below
    return added


def test_algorithm_4_of_three_layers_equals_a_plain_loop():
    graph = random_graph(degree=1).only([r for r in random_graph().relations if r.name in ("cites", "extends")])
    cut = edge_cut(graph, 3, "random")
    layers, _ = sampled(graph, cut)
    copies = choose(graph, cut.owned, layers, prices(graph, 3, sent=2.0), (ALL,) * 3, True)
    owner, degree = cut.nodes["paper"], sum(np.diff(csc.indptr) for csc in graph.relations.values())

    def cost(added):
        return sum(np.float32(0.1) + np.float32(0.25) * degree[v] for _, v in added)

    taken = 0
    for part, share in enumerate(layers):
        here: set = set()
        for depth in (1, 2):
            wanted = np.sort(share[depth].needed["paper"][share[depth].origin["paper"] != part])
            queue = sorted((cost(subtree(graph, owner, part, v, depth, here)), v) for v in map(int, wanted))
            for _, v in queue:
                added = subtree(graph, owner, part, v, depth, here)
                if cost(added) < 2:
                    here |= added
                    taken += len(added)
        for depth in (1, 2):
            found = np.flatnonzero(Copies(copies)(depth, "paper", np.arange(len(degree)), part))
            assert {(depth, int(v)) for v in found} == {(k, v) for k, v in here if k == depth}
    assert taken


def test_a_layer_that_nobody_reads_anything_for_has_nothing_to_choose():
    """No relation leads to the types that the second layer reads, and there are no self terms."""
    graph = few("writes", "of")
    model, options = {"self_term": False}, {"mode": "hybrid", "cached": 0.5}
    errors = compare(graph, (1, 3, "dependency"), "minibatch", model, wide=True, steps=2, options=options)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12


def test_a_model_of_one_layer_has_no_embeddings_to_choose(kept):
    errors = compare(
        few("cites", "writes"), (1, 2, "dependency"), "full", {"layers": 1}, steps=2, wide=True, fanout=(3,)
    )
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9


def test_memory_bounds_what_is_kept():
    graph = random_graph().only([r for r in random_graph().relations if r.name in ("cites", "extends")])
    cut = edge_cut(graph, 3, "random")
    layers, _ = sampled(graph, cut, fanouts=(ALL, ALL))
    for limit in (0, 100, 1000):
        copies = choose(graph, cut.owned, layers, prices(graph, 2, 1.0, limit), (ALL, ALL), True)
        for part in range(3):
            kept = [(of["paper"] >> np.uint64(part)) & np.uint64(1) != 0 for of in copies]
            edges = sum(np.diff(csc.indptr)[kept[1]].sum() for csc in graph.relations.values())
            assert 8 * (kept[0].sum() + kept[1].sum()) + 12 * edges <= limit
    assert kept[0].any()


def test_costs_are_measured_once(kept, monkeypatch):
    """Of every layer but the last with its busiest relations, from which the others are scaled."""
    given, mesh = hybrid(few("cites", "writes"))
    found = costs.read_or_measure(given, mesh, 64)
    assert all(cost > 0 for cost in jax.tree.leaves(found[:-1]))  # nothing is free
    assert found.measured and found.edge[0].keys() == {r.key for r in given.graph.relations}
    files = {file.name.partition("_")[0]: file for file in kept.iterdir()}
    assert files.keys() == {"link", "rates", "layers"}
    about = json.loads(files["layers"].read_text())["about"]
    assert about["hosts"] == [platform.node()] and len(about["kinds"]) == 1
    monkeypatch.setattr(probes, "measure", None)
    assert costs.read_or_measure(given, mesh, 64) == found
    files["layers"].write_text("no json")
    with pytest.raises(TypeError):
        costs.read_or_measure(given, mesh, 64)


def test_costs_of_other_code_are_not_used(kept, monkeypatch):
    given, mesh = hybrid(few("cites", "writes"))
    costs.read_or_measure(given, mesh, 64)
    before = len(list(kept.iterdir()))
    monkeypatch.setattr(costs.compiled, "digest", lambda name: f"another {name}")
    costs.read_or_measure(given, mesh, 64)
    assert len(list(kept.iterdir())) == 2 * before


class Clock:
    """In place of `time` and of compiled programs: what a link takes that begins in 1 s, and sends a number in 2, and in 5 of large messages.

    Args:
      stalled: which of all the rounds it stands still in for a while.
    """

    def __init__(self, stalled=()):
        self.now, self.rounds, self.stalled = 0.0, 0, stalled

    def perf_counter(self):
        return self.now

    def compiled(self, function, given):
        return [self.sent for _ in given]

    def sent(self, times, rows):
        numbers = rows.shape[-1]
        self.now += int(times) * (1 + (5 if numbers >= 1024 else 2) * (numbers - 1)) + 1e6 * (
            self.rounds in self.stalled
        )
        self.rounds += 1
        return times


@pytest.mark.parametrize(
    ("wanted", "long", "stalled", "expected"),
    [(64, 1e4, (), 2), (1024, 1e4, (), 5), (1024, 200, (), 2), (1024, 1e4, (2, 3, 7, 10, 12, 13), 5)],
)
def test_a_link_is_measured_by_what_a_step_sends(monkeypatch, wanted, long, stalled, expected):
    """Not more than takes long; and rounds in which it stood still do not count."""
    clock = Clock(stalled)
    changed = {"SMALL": 128, "LARGE": 4096, "LONG": long, "time": clock, "compiled": clock.compiled}
    for name, value in changed.items():
        monkeypatch.setattr(link, name, value)
    mesh = meshes.row(meshes.make(1, 2), 0)
    sent, start = link.measure(mesh, ProcessGroup(), wanted)
    assert start == 1 and sent == pytest.approx(expected, rel=0.02)
    twice, _ = link.measure(mesh, Late(), wanted)
    assert twice == pytest.approx(2 * expected, rel=0.02)  # as the process says that waited


class Late(ProcessGroup):
    """Of two processes the one that comes late, and finds half of its rows there."""

    def all_gather(self, tag, value):
        return [value, 2 * value] if isinstance(value, float) else [value]


def test_a_message_is_what_the_layer_that_reads_most_fetches():
    graph = random_graph()
    given = setup(setting(graph, "full", (1, 3, "dependency"), {"layers": 2}, {}), graph)
    owned, names = edge_cut(graph, 3, "random").owned, Names(sampler_of(given))
    width = given.config.model.hidden
    layers = shares(Sampler(graph), owned, seeds_of(graph, owned), (ALL, ALL), (0,), nothing)
    upper = max(sum(np.sum(ids != part) for ids in each[1].origin.values()) for part, each in enumerate(layers))
    assert message(given, owned, names) >= round(upper * width / 2)
    wide = {t: np.ones((count, 1000), np.float32) for t, count in graph.schema.nodes.items()}
    given = setup(given.config, dataclasses.replace(graph, features=wide))
    lower = max(sum(np.sum(ids != part) for ids in each[0].origin.values()) for part, each in enumerate(layers))
    assert message(given, owned, names) == round(lower * 500 / 2)  # features come one way


def test_a_graph_too_small_to_be_measured_is_reckoned(kept, monkeypatch):
    given, mesh = hybrid(few("cites", "writes"))
    monkeypatch.setattr(costs, "EACH", 60.0)
    monkeypatch.setattr(probes, "measure", None)
    found = costs.read_or_measure(given, mesh, 64)
    assert not found.measured and all(cost > 0 for cost in jax.tree.leaves(found[:-1]))
    assert {file.name.partition("_")[0] for file in kept.iterdir()} == {"link", "rates"}
    assert (
        costs.read_or_measure(given, mesh, 64) == found
    )  # as rates are kept, the choice of a run that is resumed is the same
    wide, narrow = (probes.Kind(0, width, width, (False, False), 64, True) for width in (640, 64))
    more, less = (rates.seconds(kind, 1e-10, 1e-11) for kind in (wide, narrow))
    assert more.source > 9 * less.source and more.vertex > less.vertex


def divided(folder, *options):
    """The summary of a run on two partitions."""
    store.save(few(*FEW), folder / "graph")
    common = ["--data.format", "store", "--data.path", folder / "graph", *SMALL, "--mesh.data", "2"]
    done = train_anew(folder / "run", *common, "--mesh.strategy", "dependency", *options)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "run" / "summary.json").read_text())


def test_one_device_says_that_nothing_is_divided(tmp_path):
    store.save(few(*FEW), tmp_path / "graph")
    options = ["--data.format", "store", "--data.path", tmp_path / "graph", *SMALL]
    done = train_anew(tmp_path / "run", *options, "--mesh.strategy", "dependency")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mesh.strategy is dependency, and there is one device") == 1


def test_a_run_says_what_it_keeps_and_that_is_within_the_limit(tmp_path):
    options = "--dependency.cached", "1", "--dependency.memory", "3000", "--sampling.mode", "full"
    assert 2000 < divided(tmp_path, *options)["details"]["kept_bytes"] <= 3000


def test_a_run_says_what_it_fetched_and_sent(tmp_path):
    """What the compiled programs send is what is counted, to the byte."""
    summary = divided(tmp_path, "--dependency.mode", "communicate")
    sent = {one["kind"]: one["bytes"] for one in summary["sent_per_step"] if one["kind"] != "gradients"}
    assert sent.keys() == {"remote_features", "remote_learnable_rows", "remote_embeddings"}
    layers, padded = (summary["details"][name] for name in ("layers", "rows_with_padding"))
    assert sum(layers[1]["fetched"].values()) <= sum(padded[1].values())
    for kind, depth, ways in (("remote_features", 0, 1), ("remote_learnable_rows", 0, 2), ("remote_embeddings", 1, 2)):
        names = (name.rsplit("_", 2) for name in padded[depth])
        numbers = sum(rows * int(width) for (of, _, width), rows in zip(names, padded[depth].values()) if of == kind)
        assert sent[kind] == ways * 4 * numbers


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cached": 2}, "dependency.cached is 2, and must be in"),
        ({"cached": 0.5, "mode": "cache"}, "dependency.cached is 0.5, and is for dependency.mode hybrid; it is cache"),
        ({"memory": -2}, "dependency.memory is -2, and must be at least -1"),
        ({"memory": 9, "mode": "communicate"}, "dependency.memory is 9, and is for dependency.mode cache or hybrid"),
    ],
)
def test_options_that_cannot_be_are_one_line(options, words):
    with pytest.raises(InputError, match=words):
        Options(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("partitioning=metis", "4 partitions of 3 nodes, outside 1..3"),
        (
            "memory=1GB",
            "dependency.memory is 1000000000, and is for dependency.mode cache or hybrid; it is communicate",
        ),
    ],
)
def test_what_cannot_be_divided_or_bounded_ends_with_one_line(tmp_path, options, words):
    edges = {("node", "to", "node"): np.array([[0, 1], [1, 2]])}
    splits = {"train": np.array([0]), "validation": np.array([1]), "test": np.array([2])}
    graph = hetjax.from_arrays(edges, {"node": np.eye(3, dtype=np.float32)}, {"node": np.array([0, 1, 0])}, splits)
    for name in ("contiguous", "metis", "metis-vol", "fennel", "random"):
        with pytest.raises(InputError, match=r"4 partitions of 3 nodes, outside 1\.\.3"):
            edge_cut(graph, 4, name)
    store.save(graph, tmp_path / "graph")
    about = ["--data.format=store", f"--data.path={tmp_path / 'graph'}", "--mesh.strategy=dependency", "--mesh.data=4"]
    done = train(tmp_path / "run", *about, "--dependency.mode=communicate", f"--dependency.{options}")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"hetjax: error: {words}")


def test_memory_that_one_partition_exceeds_is_refused():
    graph = few("cites", "writes")
    for mode, sampling in (("cache", "full"), ("hybrid", "minibatch")):
        options = {"options": {"mode": mode, "memory": 100}}
        config = setting(graph, sampling, (1, 2, "dependency"), {}, options)
        words = "partition [01] keeps [0-9,]+ of others' nodes" if sampling == "full" else "is for sampling.mode full"
        with pytest.raises(InputError, match=f"dependency.memory is 100.*{words}"):
            make_engine(config, graph)


def test_padding_is_never_sent_to_anyone():
    """Rows beyond what is needed are numbers out of range, which read as zeros."""
    graph, parts = random_graph(), 3
    cut = edge_cut(graph, parts, "random")
    layers, _ = sampled(graph, cut)
    each = [share[1] for share in layers]
    plan = schedule(counts(each, ("paper",)), True)
    sizes = {"paper": 50}
    for part, share in enumerate(each):
        send = mirrors(share, whole(share), part, ("paper",), plan, sizes, [sizes]).send
        assert np.count_nonzero(send != NO_NODE) == sum(len(rows) for rows in share.sent["paper"])


@pytest.mark.parametrize(
    ("graph", "model", "edges", "parts", "options"),
    [
        ("random", "HGT, joint", 500_000, 4, {}),
        ("random", "R-GCN, one-hot", 20, 4, METIS),
        ("random", "R-GAT", 30, 2, RANDOM),
        ("homogeneous, weights", "GCN", 20, 3, FENNEL),
        ("homogeneous", "GATv2", 500_000, 4, VOLUME),
    ],
)
def test_partitions_evaluate_as_one_device_does(graph, model, edges, parts, options):
    """In one chunk and in many, of any ids in any order; a type that one of them has no node of, and one without any."""
    graph, found = GRAPHS[graph](), []
    ids = np.concatenate([graph.splits["validation"], graph.splits["test"]])[::-1]
    for mesh, given in (((1, 1), {}), ((1, parts, "dependency"), {"options": COMMUNICATE | options})):
        config = setting(graph, "minibatch", mesh, MODELS[model], given)
        config = dataclasses.replace(config, sampling=dataclasses.replace(config.sampling, evaluation_edges=edges))
        engine = make_engine(config, graph)
        found.append(engine.outputs(engine.init(0), ids))
    np.testing.assert_allclose(found[1], found[0], atol=2e-6 * np.abs(found[0]).max())
