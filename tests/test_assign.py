"""How sub-metatrees are divided: weights, expected costs, the two ways to assign, and the mesh."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetjax.datasets.schemas import OGBN_MAG
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import Sizes
from hetjax.partition import Workload, partition
from hetjax.partition.assign import Costs, longest_first, mesh, ways, weight
from hetjax.partition.cost import work
from hetjax.partition.cuts import pieces
from hetjax.partition.metatree import Metatree
from hetjax.partition.reports import report
from hetjax.system.errors import InputError
from tests.support.partitions import full, schemas


def divisions(items, parts):
    """Every way to divide items into so many groups, none empty."""
    if not items:
        if parts == 0:
            yield []
        return
    first, *rest = items
    for groups in divisions(rest, parts):
        for number in range(parts):
            yield [*groups[:number], [first, *groups[number]], *groups[number + 1 :]]
    for groups in divisions(rest, parts - 1):
        yield [[first], *groups]


def test_divisions_are_counted():
    for items, parts in itertools.product(range(1, 7), range(1, 4)):
        assert ways(items, parts) == len(list(divisions(list(range(items)), parts)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=7), st.integers(1, 4))
def test_longest_first_keeps_its_promise(weights, parts):
    groups = longest_first(weights, parts)
    assert sorted(item for group in groups for item in group) == list(range(len(weights)))
    assert all(groups) or len(weights) < parts
    if len(weights) >= parts:
        heaviest = [
            max(sum(weights[i] for i in g) for g in division) for division in divisions(range(len(weights)), parts)
        ]
        assert len(heaviest) == ways(len(weights), parts)
        bound = (4 / 3 - 1 / (3 * parts)) * min(heaviest)
        assert max(sum(weights[i] for i in group) for group in groups) <= bound + 1e-9


def test_longest_first_step_by_step():
    assert longest_first([7, 5, 4, 3, 3], 2) == [[0, 3], [1, 2, 4]]
    assert longest_first([9, 5, 5, 1, 1], 2, [0b11000]) == [[0, 3], [1, 2, 4]]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.integers(2, 3), min_size=1, max_size=2),
    st.sampled_from(["exact", "lpt"]),
    st.randoms(),
)
def test_pieces_of_a_relation_are_spread(parts, counts, method, random):
    """However much cheaper one partition would be, and as cheaply as spreading allows."""
    relations = tuple(Relation(name, "to", "t") for name in "abc")
    schema = Schema({name: 9 for name in "tabc"}, relations, "t", 2)
    about = Sizes(schema, {r: random.randrange(10, 999) for r in relations}, {"a": (3, "float32")})
    cuts = dict(zip(relations, counts))
    plan = partition(about, parts, cuts=cuts, data=1, method=method, hops=1, workload=Workload(4, (3,), 8, 16, 10))

    def even(groups):
        spread = all(
            sum(root.relation in pieces(r, n) for root in group) <= -(-n // parts)
            for group in groups
            for r, n in cuts.items()
        )
        return spread and all(groups)

    assert even(plan.owners)
    if method == "exact" and len(plan.tree.roots) <= 7:
        costs = Costs(plan.sizes, plan.tree, plan.workload, parts)

        def rank(groups):
            return costs.cost([sum(1 << plan.tree.roots.index(root) for root in group) for group in groups]).rank

        assert rank(plan.owners) == pytest.approx(
            min(rank(groups) for groups in divisions(plan.tree.roots, parts) if even(groups))
        )


def test_pieces_that_deeper_hops_open():
    """Papers below the seeds need all that is cited; nothing below the seeds needs what is written, but by their own term."""
    schema = OGBN_MAG.schema()
    about, writes, cites = (
        Sizes(schema, OGBN_MAG.relations(), dict(OGBN_MAG.features)),
        Relation("author", "writes", "paper"),
        Relation("paper", "cites", "paper"),
    )
    plan = partition(about, 2, cuts={cites: 2}, hops=1)
    assert plan.opened == {cites: (1, 1)}
    assert partition(about, 2, cuts={cites: 2}, hops=2).opened == {cites: (2, 2)}
    plan = partition(about, 4, cuts={writes: 4}, hops=2, exchange="every")
    assert plan.opened[writes].count(4) == 1 and sum(plan.opened[writes]) == 7
    assert report(plan).summary["pieces_opened"] == {str(writes): list(plan.opened[writes])}


@settings(max_examples=40, deadline=None)
@given(schemas(5), st.integers(1, 3), st.integers(1, 2), st.sampled_from(["last", "every"]), st.randoms())
def test_exact_is_the_best_of_all_divisions(schema, parts, data, exchange, random):
    edges = {r: random.randrange(50) for r in schema.relations}
    features = {name: (random.randrange(1, 9), "float32") for name in schema.nodes if random.random() < 0.5}
    about, workload = Sizes(schema, edges, features), Workload(4, (3, 2), 8, 16, random.choice([0, 1, 10]))
    tree = Metatree(schema, ("t0",), 2, exchange=exchange)
    parts = min(parts, len(tree.roots))
    plan = partition(about, parts * data, method="exact", exchange=exchange, data=data, workload=workload)
    costs = Costs(about, tree, workload, parts, data)

    def rank(groups):
        return costs.cost([sum(1 << tree.roots.index(root) for root in group) for group in groups]).rank

    best = min(rank(groups) for groups in divisions(tree.roots, parts))
    assert rank(plan.owners) == pytest.approx(best)


def test_costs_count_replicas_and_shared_rows():
    """Spelt out for two partitions of ogbn-mag, from what the plan says is replicated and shared."""
    about, workload = full("ogbn-mag"), Workload()
    plan = partition(about, 2, method="lpt")
    costs = Costs(about, plan.tree, workload, 2)
    masks = [sum(1 << plan.tree.roots.index(root) for root in group) for group in plan.owners]
    cost = costs.cost(masks)
    width = {**dict.fromkeys(about.schema.nodes, 64), "paper": 128}
    matrices = sum(width[link if isinstance(link, str) else link.source] * 64 * 4 for _, link in plan.replicated)
    assert {layer for layer, _ in plan.replicated} == {0} and cost.weights == 2 * matrices > 0
    works = [work(about, workload, plan.tree, roots) for roots in plan.owners]
    assert set(plan.shared) == {"author", "field_of_study"}
    assert cost.rows == pytest.approx(sum(w.rows[name] for w in works for name in plan.shared) * (4 + 64 * 4))
    assert cost.load == max(w.load for w in works)
    hybrid = partition(about, 4, data=2, method="lpt")
    assert report(hybrid).summary["step_bytes"]["replicated_weights"] > 2 * cost.weights
    assert Costs(about, plan.tree, workload, 2, 2).cost(masks).weights == 2 * (
        2 * sum(costs.of(m)[1] for m in masks) - costs.of(15)[1]
    )


def test_expected_rows_and_load_of_a_regular_graph():
    """Where every node has the mean degree, what is expected is what sampling gives on average."""
    rng, people, items, degree = np.random.default_rng(0), 300, 200, 12
    likes, rev = Relation("item", "likes", "person"), Relation("person", "rev", "item")
    neighbours = {likes: rng.integers(0, items, (people, degree)), rev: rng.integers(0, people, (items, degree))}
    edges = {r: people * degree if r is likes else items * degree for r in (likes, rev)}
    about = Sizes(Schema({"person": people, "item": items}, (likes, rev), "person", 2), edges, {"item": (5, "float16")})
    workload = Workload(20, (4, 3), 8, 16)
    tree = Metatree(about.schema, ("person",), 2, self_term=False)
    expected = work(about, workload, tree, tree.roots)
    seen = []
    for _ in range(300):
        seeds = rng.choice(people, 20, replace=False)
        first = np.unique([rng.choice(neighbours[likes][v], 4, replace=False) for v in seeds])
        second = np.concatenate([rng.choice(neighbours[rev][v], 3, replace=False) for v in first])
        seen.append((20 * 4 * 8 * 4 + len(second) * 16 * 4, len(np.unique(second))))
    load, persons = np.mean(seen, axis=0)
    assert expected.load == pytest.approx(load, rel=0.03)
    assert expected.rows["person"] == pytest.approx(persons, rel=0.04)
    assert "item" not in expected.rows, "nothing reads an item's own features"


def test_weight_counts_each_type_and_relation_once():
    about = full("ogbn-mag")
    tree = Metatree(about.schema, ("paper",))
    nodes, edges = about.schema.nodes, {r.name: count for r, count in about.edges.items()}
    writes, has_topic = (
        next(r for r in tree.roots if r.relation and r.relation.name == n) for n in ("writes", "rev_has_topic")
    )
    assert weight(about, tree, writes) == sum(edges[n] for n in ("writes", "rev_writes", "rev_affiliated_with")) + sum(
        nodes[name] for name in ("author", "paper", "institution")
    )
    assert weight(about, tree, has_topic) == 2 * 7_505_078 + nodes["field_of_study"] + nodes["paper"]


@pytest.mark.parametrize(
    "parts, roots, data, expected",
    [(1, 4, None, (1, 1)), (3, 4, None, (3, 1)), (4, 4, None, (4, 1)), (6, 4, None, (3, 2)), (8, 4, None, (4, 2)),
     (8, 3, None, (2, 4)), (9, 4, None, (3, 3)), (4, 4, 2, (2, 2)), (4, 4, 4, (1, 4)), (5, 5, 5, (1, 5))],
)  # fmt: skip
def test_mesh(parts, roots, data, expected):
    assert mesh(parts, roots, data) == expected


@pytest.mark.parametrize(
    "parts, roots, data, words",
    [
        (0, 4, None, "0 partitions"),
        (5, 4, None, "5 partitions cannot be used.*4 or 6"),
        (25, 4, None, "24 or 26"),
        (3, 1, None, "data 3"),
        (4, 4, 3, "4 partitions are not 3 replicas"),
        (10, 4, 2, "10 partitions are not 2 replicas of at most 4"),
        (4, 4, 0, "0 replicas"),
    ],
)
def test_mesh_refuses(parts, roots, data, words):
    with pytest.raises(InputError, match=words):
        mesh(parts, roots, data)


def test_hybrid_hosts_share_a_partition():
    plan = partition(full("mag240m"), 6)
    assert plan.mesh == {"relation": 3, "data": 2} and [part.hosts for part in plan.parts] == [(0, 1), (2, 3), (4, 5)]
    assert plan.part_of(3) is plan.parts[1]
    with pytest.raises(InputError, match="host 6"):
        plan.part_of(6)
    with pytest.raises(InputError, match="8 replicas of each partition share a batch of 4"):
        partition(full("mag240m"), 16, data=8, workload=Workload(batch_size=4))


def test_nothing_to_divide():
    schema = Schema({"a": 3, "b": 3}, (Relation("a", "r", "b"),), "a", 2)
    with pytest.raises(InputError, match="no relation leads into a"):
        partition(Sizes(schema, {schema.relations[0]: 3}, {}), 1, self_term=False)
    with pytest.raises(InputError, match="hops is 65, and should be a whole number in 1..64"):
        partition(full("ogbn-mag"), 1, hops=65)
    with pytest.raises(InputError, match="41 sub-metatrees divide into 8 in [0-9]* ways"):
        relations = tuple(Relation("a", f"r{n}", "a") for n in range(40))
        partition(Sizes(Schema({"a": 3}, relations, "a", 2), dict.fromkeys(relations, 1), {}), 8, method="exact")
