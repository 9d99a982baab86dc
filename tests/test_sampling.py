"""The draw, the blocks, their padding, and the batches."""

import dataclasses
import itertools
import re
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies

from hetjax.graph import csc
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation, Schema
from hetjax.options.config import Config, Sampling
from hetjax.sampling import draw, loader
from hetjax.sampling.blocks import NO_NODE, Capacities, pad_sample, round_up
from hetjax.sampling.drawing import EdgeSampler, Request
from hetjax.sampling.numbering import Numbering
from hetjax.sampling.regime import mini_batch_regime
from hetjax.sampling.sampler import ALL, Sampler, group
from hetjax.sampling.whole import whole_graph
from hetjax.sharding.registry import make_engine
from hetjax.sharding.single.batches import SingleBatches
from hetjax.system.arrays import ALIGNMENT, aligned
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, setting
from tests.support.graphs import random_graph
from tests.support.models import readout

KEY = draw.key(1, 2, 3)


def drawn(indptr, indices, sources, targets, fanout, key):
    """The neighbours of each target, as lists."""
    relation = Relation("source", "to", "target")
    schema = Schema({"source": sources, "target": len(indptr) - 1}, (relation,), "target", 2)
    graph = SimpleNamespace(schema=schema, relations={relation: csc.CSC(indptr, indices)})
    ((counts, out, *_),) = EdgeSampler(graph).sample([Request(relation, targets, key)], fanout)
    return [out[a:b].tolist() for a, b in itertools.pairwise(counts)]


def star(degree: int):
    return np.array([0, 0, degree], np.int64), np.arange(degree, dtype=np.uint16)


@pytest.mark.parametrize("degree,fanout", [(5, 5), (5, 9), (5, ALL), (0, 3)])
def test_all_neighbours_where_the_fanout_suffices(degree, fanout):
    assert drawn(*star(degree), degree, np.array([0, 1], np.int32), fanout, draw.key(0)) == [[], list(range(degree))]


@hypothesis.given(strategies.integers(1, 60), strategies.integers(1, 12), strategies.integers(0, 2**31))
@hypothesis.settings(deadline=None)
def test_no_neighbour_is_drawn_twice(degree, fanout, seed):
    (found,) = drawn(*star(degree), degree, np.array([1], np.int32), fanout, draw.key(seed))
    assert len(found) == len(set(found)) == min(degree, fanout)
    assert all(0 <= node < degree for node in found)


def test_every_subset_is_equally_likely():
    """Chi-squared over the 10 subsets of 3 of 5 neighbours; the bound is the 99.99th percentile for 9 degrees of freedom."""
    times: dict = {}
    rounds = 20_000
    for seed in range(rounds):
        (found,) = drawn(*star(5), 5, np.array([1], np.int32), 3, np.uint64(seed))
        times[tuple(sorted(found))] = times.get(tuple(sorted(found)), 0) + 1
    assert len(times) == 10
    assert sum((count - rounds / 10) ** 2 / (rounds / 10) for count in times.values()) < 33.7


def test_the_draw_is_a_function_of_key_and_node_alone():
    rng = np.random.default_rng(0)
    made = csc.from_edges(rng.integers(0, 50, 2000), rng.integers(0, 30, 2000), 50, 30)
    everyone = np.arange(30, dtype=np.int32)
    found = drawn(*made[:2], 50, everyone, 4, draw.key(1, 2, 3))
    shuffled = rng.permutation(30).astype(np.int32)[:17]
    assert drawn(*made[:2], 50, shuffled, 4, draw.key(1, 2, 3)) == [found[node] for node in shuffled]
    assert drawn(*made[:2], 50, everyone, 4, draw.key(1, 2, 4)) != found


def test_shuffle_depends_on_the_set_alone():
    ids = np.arange(1000, dtype=np.int32)
    order = draw.shuffle(draw.key(5), ids)
    assert sorted(order) == ids.tolist() and not np.array_equal(order, ids)
    assert np.array_equal(order, draw.shuffle(draw.key(5), ids[::-1]))
    assert abs(np.corrcoef(order, ids)[0, 1]) < 0.1


def expected_sums(graph: HetGraph, fanouts, seeds, stream):
    """Count paths from every input node to every seed by following the draws, node by node."""
    frontier = {("paper", int(seed)): {("paper", int(seed)): 1} for seed in seeds}
    for hop, fanout in enumerate(fanouts, start=1):
        below: dict = {}
        for (node_type, node), paths in frontier.items():
            reached = [(node_type, node)]
            for relation in graph.schema.into(node_type):
                key = draw.key(*stream, hop, relation.key)
                sources = graph.schema.nodes[relation.source]
                (found,) = drawn(*graph.relations[relation][:2], sources, np.array([node], np.int32), fanout, key)
                reached += [(relation.source, u) for u in found]
            for name in reached:
                into = below.setdefault(name, {})
                for seed, count in paths.items():
                    into[seed] = into.get(seed, 0) + count
        frontier = below
    return frontier


@pytest.mark.parametrize("read_by_id", [frozenset(), frozenset({"paper"}), frozenset({"paper", "author"})])
@pytest.mark.parametrize("fanouts", [(3, 2), (ALL, ALL), (1,), (2, 2, 2)])
def test_blocks_hold_the_paths_that_were_drawn(graph, read_by_id, fanouts):
    seeds = np.array([3, 17, 30, 5], np.int32)
    stream = (7, 1, 2)
    sample = Sampler(graph, read_by_id).sample({"paper": seeds}, fanouts, stream)
    expected = expected_sums(graph, fanouts, seeds, stream)
    for column, seed in enumerate(seeds):
        values = {"paper": np.eye(len(seeds))[:, column]}
        # Walk down: a node's number of paths to the seed, spread to its own row below and to its neighbours.
        for block, rows in zip(reversed(sample.blocks), reversed(sample.rows)):
            below = {t: np.zeros(rows.get(t, graph.schema.nodes[t])) for t in graph.schema.nodes}
            for node_type, itself in block.self_rows.items():
                np.add.at(below[node_type], itself, values[node_type])
            for relation in graph.schema.relations:
                if relation.key in block.adjacency:
                    edges = block.adjacency[relation.key]
                    np.add.at(
                        below[relation.source], edges.indices, np.repeat(values[relation.target], np.diff(edges.indptr))
                    )
            values = below
        for node_type in graph.schema.nodes:
            ids = sample.inputs.get(node_type, np.arange(graph.schema.nodes[node_type]))
            for row, node in enumerate(ids[: len(values[node_type])]):
                paths = expected.get((node_type, int(node)), {}).get(("paper", int(seed)), 0)
                assert values[node_type][row] == paths


def test_inputs_are_distinct_and_a_sampler_forgets(graph):
    sampler = Sampler(graph)
    first = sampler.sample({"paper": np.arange(9)}, (3, 3), (0,))
    again = sampler.sample({"paper": np.arange(9)}, (3, 3), (0,))
    for node_type, ids in first.inputs.items():
        assert len(set(ids.tolist())) == len(ids)
        assert np.array_equal(ids, again.inputs[node_type])


@hypothesis.given(strategies.integers(0, 1000))
@hypothesis.settings(deadline=None, max_examples=30)
def test_reverse_edges_are_the_edges_turned_round(seed):
    rng = np.random.default_rng(seed)
    made = csc.from_edges(rng.integers(0, 12, 40), rng.integers(0, 9, 40), 12, 9)
    edges = group(made.indptr.astype(np.int32), made.indices.astype(np.int32), 12)
    assert np.array_equal(edges.reverse_indptr, csc.reverse(made, 12).indptr)
    assert np.array_equal(edges.reverse_indices, csc.reverse(made, 12).indices)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 129, 1000, 123_457])
def test_rounding_wastes_at_most_an_eighth(size):
    assert size <= round_up(size) <= size + max(8, size / 8)


def test_a_plan_only_grows():
    capacities = Capacities()
    assert [capacities.fit("a", size, 2000) for size in (100, 90, 104, 105, 1999)] == [104, 104, 104, 112, 2000]
    assert capacities.fit("b", 3, 3) == 3


def test_padding_keeps_the_edges(graph):
    capacities = Capacities()
    sampler = Sampler(graph, frozenset({"paper"}), frozenset({"author", "venue", "ghost"}))
    for step in range(6):
        sample = sampler.sample({"paper": np.arange(step + 3)}, (3, 2), (step,))
        blocks, inputs = pad_sample(capacities, "train", sample, {"paper": 16}, graph)
        assert "paper" not in inputs
        for node_type, ids in sample.inputs.items():
            assert (
                np.array_equal(inputs[node_type][: len(ids)], ids) and (inputs[node_type][len(ids) :] == NO_NODE).all()
            )
        for exact, padded in zip(sample.blocks, blocks):
            for key, edges in exact.adjacency.items():
                known = len(edges.indptr)
                assert np.array_equal(padded.adjacency[key].indptr[:known], edges.indptr)
                assert (padded.adjacency[key].indptr[known:] == edges.indptr[-1]).all()
                assert np.array_equal(padded.adjacency[key].indices[: len(edges.indices)], edges.indices)
        assert len(blocks[1].adjacency["paper--cites--paper"].indptr) == 17


def mini_batches(graph, size: int, fanouts, seed: int = 0, limit: int = 0, threads: int = 0) -> SingleBatches:
    regime = mini_batch_regime(len(graph.splits["train"]), size, fanouts, limit, threads)
    return SingleBatches(Sampler(graph), readout(graph), regime, seed)


def test_an_epoch_can_be_entered_at_any_step():
    graph = random_graph(papers=300)
    whole = mini_batches(graph, 16, (3, 2), seed=4)
    plain = list(whole.epoch(2))
    assert len(plain) == whole.steps() == 7 and sum(drawn.nodes for drawn in plain) == 100
    resumed = mini_batches(graph, 16, (3, 2), seed=4)
    resumed.prepare(plain[3].capacities)
    entered = list(resumed.epoch(2, first=4))
    for one, other in zip(plain[4:], entered, strict=True):
        assert one.capacities == other.capacities
        assert np.array_equal(one.batch.arrays.labels, other.batch.arrays.labels)
        for block, other_block in zip(one.batch.blocks, other.batch.blocks):
            for key, edges in block.adjacency.items():
                assert all(np.array_equal(a, b) for a, b in zip(edges, other_block.adjacency[key]) if a is not None)
    seeds = np.concatenate([drawn.batch.arrays.labels[: drawn.nodes] for drawn in plain])
    assert sorted(seeds.tolist()) == sorted(graph.labels[graph.splits["train"]].tolist())


def same_batches(some, others) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.capacities == other.capacities and one.nodes == other.nodes
        same = jax.tree.map(np.array_equal, one.batch, other.batch)
        assert all(jax.tree.leaves(same))


def test_threads_draw_at_once_what_one_draws():
    graph = random_graph(papers=300)
    alone, many = (mini_batches(graph, 5, (3, 2), seed=4, threads=threads) for threads in (1, 4))
    barrier, sample = threading.Barrier(4), many.sample
    many.prepare()
    many.sample = lambda *given: (barrier.wait(60), sample(*given))[1]  # no batch is drawn unless four are at once
    some, others = (list(batches.epoch(2)) for batches in (alone, many))
    assert len(some) == 20
    same_batches(some, others)


@pytest.mark.parametrize(
    ("mesh", "placement"),
    [
        ((2, 2, "raf"), ()),
        ((2, 1, "raf"), ("author=host", "topic=host")),
        ((1, 2, "vanilla"), ()),
        ((1, 2, "dependency"), ()),
        ((1, 1, "tensor", 2), ()),
        ((2, 1, "raf", 2), ()),
    ],
)
def test_threads_draw_the_same_batches_for_every_strategy_that_shares_a_mesh(mesh, placement):
    graph, found, size = GRAPHS["few relations"](), [], 2
    for threads in (1, size):
        given = {"placement": placement, "threads": threads, "batch_size": 4}
        batches = make_engine(setting(graph, "minibatch", mesh, MODELS["R-GCN, dropout"], given), graph).batches
        batches.prepare()
        if threads > 1:
            assert batches.steps() % size == 0
            barrier, sample = threading.Barrier(size), batches.sample
            batches.sample = lambda *given: (barrier.wait(60), sample(*given))[1]
        found.append(list(batches.epoch(1)))
    same_batches(*found)


def test_capacities_grow_in_the_order_of_the_batches_whoever_draws_them_first():
    graph = random_graph(papers=300)
    found = []
    for threads in (1, 3):
        batches = mini_batches(graph, 5, (3, 2), seed=4, threads=threads)
        batches.prepare({f"train/0/rows/{graph.schema.target}": 1})  # of others nothing is known
        if threads > 1:
            drawn, sample, order = [threading.Event() for _ in range(20)], batches.sample, []

            of, united, unite, by = {}, [], batches.unite, set()

            def late(seeds, stream, sample=sample, drawn=drawn, order=order, of=of):
                if stream[2] % 3 == 0 and stream[2] < 18:  # waits until the two batches after it are drawn
                    assert drawn[stream[2] + 1].wait(60) and drawn[stream[2] + 2].wait(60)
                made = sample(seeds, stream)
                order.append(stream[2])
                of[id(made)] = stream[2]
                drawn[stream[2]].set()
                return made

            batches.sample = late
            batches.unite = lambda made: (united.append(of[id(made)]), by.add(threading.get_ident()), unite(made))[2]
        found.append(list(batches.epoch(2)))
    assert order != sorted(order)
    assert united == sorted(united) and len(by) == 1  # what processes say to each other is said in one thread
    assert len({tuple(one.capacities.items()) for one in found[0]}) > 1
    same_batches(*found)


def test_threads_are_half_of_the_cores_and_few_where_nodes_are_many(graph, monkeypatch):
    batches = mini_batches(graph, 5, (3, 2))
    for cores, threads in ((1, 1), (2, 1), (6, 3), (64, loader.MOST)):
        monkeypatch.setattr(loader.runtime, "cores", lambda cores=cores: cores)
        assert batches.threads == threads
    monkeypatch.setattr(loader, "SCRATCH", 4 * 2 * sum(graph.schema.nodes.values()) + 1)
    assert batches.threads == 2
    assert mini_batches(graph, 5, (3, 2), threads=5).threads == 5


def test_an_epoch_that_is_left_draws_no_more_batches(monkeypatch):
    graph, drawn, cancelled, go = random_graph(papers=300), [], [], threading.Event()
    batches = mini_batches(graph, 5, (3, 2), threads=2)
    batches.prepare()
    sample, cancel, begun = batches.sample, Future.cancel, threading.Semaphore(0)

    def waits(seeds, stream):
        if stream[2] >= 2:
            begun.release()
            go.wait(30)
        drawn.append(stream[2])
        return sample(seeds, stream)

    def told(future):
        cancelled.append(cancel(future))
        if len(cancelled) == 2:
            go.set()

    monkeypatch.setattr(Future, "cancel", told)
    batches.sample = waits
    epoch = batches.epoch(0)
    next(epoch)
    assert all(begun.acquire(timeout=30) for _ in range(2))
    epoch.close()
    assert cancelled == [False, True]  # of two threads both were drawing, and a fifth batch waited for one
    assert sorted(drawn) == [0, 1, 2, 3]


def test_an_error_in_a_thread_is_raised_at_its_batch():
    graph = random_graph(papers=300)
    batches = mini_batches(graph, 5, (3, 2), threads=3)
    batches.prepare()
    sample = batches.sample

    def failing(seeds, stream):
        if stream[2] == 7:
            raise InputError("the seventh")
        return sample(seeds, stream)

    batches.sample, found = failing, []
    with pytest.raises(InputError, match="the seventh"):
        for one in batches.epoch(0):
            found.append(one)
    assert len(found) == 7


def test_the_whole_graph_holds_what_each_layer_needs(graph):
    first, last = whole_graph(graph, [graph.schema.target], 2)
    assert set(last.self_rows) == {"paper"} and set(first.self_rows) == {"paper", "author", "venue", "topic"}
    assert all(rows is None for rows in [*first.self_rows.values(), *last.self_rows.values()])
    assert set(last.adjacency) == {relation.key for relation in graph.schema.into("paper")}


def test_a_wrong_id_in_a_store_is_named_when_it_is_read(graph):
    relation = graph.schema.relations[2]
    indptr, indices = (array.copy() for array in graph.relations[relation][:2])
    for change, message in (
        (("indices", 25), "source of edge .* is node 25, but type 'author' has 25 nodes"),
        (("indptr", None), "pointers fall after"),
        (("indptr", -3), f"source of edge {len(indices)} is node beyond the last"),
        (("indptr", 3), f"source of edge {len(indices)} is node beyond the last"),
    ):
        broken = indptr.copy(), indices.copy()
        if change[0] == "indices":
            broken[1][:] = change[1]
        elif change[1]:
            broken[0][:] += change[1]
        else:
            broken[0][5] = broken[0][6] + 1
        other = HetGraph(
            graph.schema,
            dict(graph.relations) | {relation: csc.CSC(*broken)},
            graph.features,
            graph.labels,
            graph.splits,
        )
        with pytest.raises(InputError, match=message):
            Sampler(other).sample({"paper": np.arange(40)}, (ALL,), (0,))


def test_capacities_are_of_whole_batches_and_no_more_than_there_is(graph):
    train = np.arange(17)  # a batch of 16, and one of a single seed
    small = dataclasses.replace(graph, splits=dict(graph.splits) | {"train": train})
    found, whole = mini_batches(small, 16, (ALL, ALL)), mini_batches(small, 16, (ALL, ALL), limit=1)
    found.prepare()
    whole.prepare()
    assert found.capacities.by_name == whole.capacities.by_name
    for name, _, most in found.measure(found.sample(train[:16], (0,))):
        assert found.capacities.by_name[name] <= most


def with_own_loops(made: csc.CSC, weighted: bool) -> csc.CSC:
    """The edges with a loop before those of every target, by a loop, and weights that tell edges apart."""
    indptr, indices = [0], []
    for v in range(len(made.indptr) - 1):
        indices += [v, *made.indices[made.indptr[v] : made.indptr[v + 1]]]
        indptr.append(len(indices))
    weights = np.arange(1, len(indices) + 1, dtype=np.float32) if weighted else None
    return csc.CSC(np.array(indptr), np.array(indices, np.uint8), weights, True)


def one_relation(edges: csc.CSC, nodes: int) -> HetGraph:
    relation = Relation("node", "to", "node")
    labels, empty = np.zeros(nodes, np.int32), np.empty(0, np.int32)
    schema = Schema({"node": nodes}, (relation,), "node", 2)
    return HetGraph(
        schema, {relation: edges}, {}, labels, {"train": np.arange(nodes), "validation": empty, "test": empty}
    )


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fanout", [1, 3, ALL])
def test_loops_are_always_drawn_and_the_fanout_counts_the_others(fanout, weighted):
    """The others are those that are drawn without loops, and their weights are scaled up to all of them."""
    rng, nodes = np.random.default_rng(0), 30
    made = csc.from_edges(rng.integers(0, nodes, 150), rng.integers(0, nodes - 2, 150), nodes, nodes)
    looped = with_own_loops(made, weighted)
    relation, targets = Relation("node", "to", "node"), np.arange(nodes, dtype=np.int32)
    asked = [Request(relation, targets, KEY)]
    (plain,), (drawn,) = (EdgeSampler(one_relation(g, nodes)).sample(asked, fanout) for g in (made, looped))
    assert plain.weights is None and (drawn.weights is not None) == weighted
    for v in range(nodes):
        loop, *others = drawn.indices[drawn.indptr[v] : drawn.indptr[v + 1]]
        assert loop == v and others == plain.indices[plain.indptr[v] : plain.indptr[v + 1]].tolist()
        if weighted:
            degree, first = made.indptr[v + 1] - made.indptr[v], looped.indptr[v]
            found = drawn.weights[drawn.indptr[v] : drawn.indptr[v + 1]]
            assert found[0] == looped.weights[first]
            unscaled = (found[1:] * len(others) / max(degree, 1)).round(3).tolist()
            there = looped.weights[first : looped.indptr[v + 1]].tolist()
            assert set(unscaled) <= set(there[1:])
            for place, u in zip(unscaled, others):
                assert looped.indices[int(place) - 1] == u  # a weight is the place of its edge, from 1


def test_a_sum_by_weights_that_were_drawn_is_right_on_average():
    rng, degree = np.random.default_rng(0), 7
    weights = rng.random(degree).astype(np.float32)
    edges = csc.CSC(np.array([0, degree] + [degree] * 6), np.arange(degree, dtype=np.uint8), weights)
    drawing, values = EdgeSampler(one_relation(edges, degree)), rng.standard_normal(degree)
    sums = []
    for seed in range(4000):
        asked = [Request(Relation("node", "to", "node"), np.zeros(1, np.int32), draw.key(seed))]
        (found,) = drawing.sample(asked, 3)
        sums.append(values[found.indices] @ found.weights)
    assert abs(np.mean(sums) - values @ weights) < 4 * np.std(sums) / len(sums) ** 0.5


def test_weights_follow_their_edges_into_padded_blocks(graph):
    """Of a batch with gradients, and of the whole graph."""
    weights = {r: np.arange(c.edges, dtype=np.float32) for r, c in graph.relations.items()}
    weighted = dataclasses.replace(
        graph, relations={r: c._replace(weights=weights[r]) for r, c in graph.relations.items()}
    )
    seeds = {"paper": np.arange(9)}
    plain, found = (Sampler(g).sample(seeds, (ALL, ALL), (0,)) for g in (graph, weighted))
    blocks, _ = pad_sample(Capacities(), "train", found, {"paper": 16}, graph)
    for one, other, padded in zip(plain.blocks, found.blocks, blocks):
        for key, edges in other.adjacency.items():
            assert one.adjacency[key].weights is None and np.array_equal(one.adjacency[key].indices, edges.indices)
            assert edges.weights.dtype == np.float32 and len(edges.weights) == len(edges.indices)
            given = padded.adjacency[key].weights
            assert np.array_equal(given[: len(edges.weights)], edges.weights) and not given[len(edges.weights) :].any()
    for key, edges in whole_graph(weighted, [weighted.schema.target], 2)[0].adjacency.items():
        (relation,) = (r for r in graph.relations if r.key == key)
        np.testing.assert_array_equal(edges.weights, weights[relation])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_ids_of_any_width_are_read_and_checked(dtype):
    indptr, ids = np.array([0, 3, 3, 5], np.int64), np.array([1, 100, 7, 0, 99]).astype(dtype)
    targets = np.array([2, 0, 1], np.int32)
    assert drawn(indptr, ids, 101, targets, ALL, KEY) == [[0, 99], [1, 100, 7], []]
    with pytest.raises(InputError, match="source of edge 1 is node 100, but type 'source' has 100 nodes"):
        drawn(indptr, ids, 100, targets, ALL, KEY)
    if np.dtype(dtype).kind == "i":
        ids[4] = -1
        with pytest.raises(InputError, match="source of edge 4 is node -1"):
            drawn(indptr, ids, 2**31 - 1, targets, ALL, KEY)


def test_pointers_are_checked_of_every_relation(graph):
    damaged = {r: csc._replace(indptr=np.array(csc.indptr)) for r, csc in graph.relations.items()}
    relation = list(damaged)[-1]
    damaged[relation].indptr[3] = damaged[relation].indptr[4] + 1
    sampler = Sampler(dataclasses.replace(graph, relations=damaged))
    with pytest.raises(InputError, match=re.escape(f"relation {relation}: pointers fall after target 3")):
        sampler.sample({t: np.arange(9) for t in graph.schema.nodes}, (2,), (0,))


def test_nodes_are_numbered_in_the_order_in_which_they_are_met():
    numbering = Numbering({"a": 9, "b": 9})
    for _ in range(2):  # as scratch memory is clean again
        given = [("b", [7, 2]), ("a", [4, 4, 0]), ("b", []), ("b", [2, 8, 7, 8]), ("a", [0, 5])]
        rows = [(t, np.array(ids, np.int32)) for t, ids in given]
        met = numbering.number(rows)
        assert {t: ids.tolist() for t, ids in met.items()} == {"b": [7, 2, 8], "a": [4, 0, 5]}
        assert [ids.tolist() for _, ids in rows] == [[0, 1], [0, 0, 1], [], [1, 2, 0, 2], [1, 2]]
    assert numbering.number([]) == {}


def test_relations_that_are_folded_together_are_not_grouped_by_source(graph):
    together = frozenset(graph.schema.relations[:2])
    seeds = {"paper": np.arange(9)}
    plain = Sampler(graph, learnable=frozenset(graph.schema.nodes)).sample(seeds, (3, 2), (0,))
    sampler = Sampler(graph, learnable=frozenset(graph.schema.nodes), aggregated_together=(together, frozenset()))
    first, last = sampler.sample(seeds, (3, 2), (0,)).blocks
    jax.tree.map(np.testing.assert_array_equal, last, plain.blocks[1])
    for relation in graph.schema.relations:
        edges, same = first.adjacency[relation.key], plain.blocks[0].adjacency[relation.key]
        assert same.reverse is not None and (edges.reverse is None) == (relation in together)
        np.testing.assert_array_equal(edges.indices, same.indices)


def test_a_cpu_reads_a_batch_where_it_lies(graph):
    """Padded arrays begin where XLA takes them without a copy."""
    engine = make_engine(Config(sampling=Sampling(batch_size=7, fanout=(3, 2))), graph)
    batch = next(engine.batches.epoch(0)).batch
    leaves = [leaf for leaf in jax.tree.leaves((batch.blocks, batch.inputs)) if leaf.size]
    assert leaves and all(isinstance(leaf, np.ndarray) for leaf in leaves)
    moved = [leaf for leaf in leaves if jax.device_put(leaf).unsafe_buffer_pointer() != leaf.ctypes.data]
    assert sum(leaf.nbytes for leaf in moved) < sum(leaf.nbytes for leaf in leaves) / 10


@pytest.mark.parametrize("shape,dtype", [((0,), np.int32), ((5, 3), np.float32), ((7,), bool), ((2, 0), np.int8)])
def test_aligned_arrays(shape, dtype):
    for _ in range(9):
        made = aligned(shape, dtype)
        assert made.shape == shape and made.dtype == dtype and made.flags.c_contiguous and made.flags.writeable
        assert not made.size or made.ctypes.data % ALIGNMENT == 0
