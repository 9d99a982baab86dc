"""The metatree, its programs, and the metapaths that prune it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetjax.datasets.schemas import OGBN_MAG, SHAPES
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import Sizes
from hetjax.partition import partition
from hetjax.partition.metatree import Metatree, Root
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph
from tests.support.partitions import CITES, REV_WRITES, WRITES, full, read_back, schemas


def chains(tree, root):
    """Every chain of links from a root link down, by recursion: lists of (relation or None, type of the vertex above)."""

    def below(node_type, hop):
        yield []
        if hop <= tree.hops:
            links = [(r, r.source) for r in tree.allowed[tree.hops - hop] if r.target == node_type]
            links += [(None, node_type)] * tree.reads_own
            for relation, child in links:
                for rest in below(child, hop + 1):
                    yield [(relation, node_type), *rest]

    alone = tree.exchange == "every" and root.relation is None
    for rest in [[]] if alone else below(root.source, 2):
        yield [(root.relation, root.target), *rest]


@settings(max_examples=60, deadline=None)
@given(schemas(), st.integers(1, 3), st.sampled_from(["last", "every"]), st.booleans(), st.data())
def test_metatree_and_programs_equal_an_enumeration(schema, hops, exchange, self_term, data):
    tree = Metatree(schema, ("t0",), hops, None, self_term, exchange)
    every = {root: list(chains(tree, root)) for root in tree.roots}
    spelt = tree.tree()
    assert len(spelt) - 1 == sum(map(len, every.values()))
    for hop in range(1, hops + 1):
        found = sorted(str((a["root"], a["relation"], a["type"])) for _, a in spelt.nodes(data=True) if a["hop"] == hop)
        ends = [(r, c[-1]) for r, found_chains in every.items() for c in found_chains if len(c) == hop]
        assert found == sorted(str((root, link, link.source if link else above)) for root, (link, above) in ends)

    owned = data.draw(st.sets(st.sampled_from(tree.roots), min_size=1))
    links = {(len(chain), *chain[-1]) for root in owned for chain in every[root]}
    program = tree.local_model(owned)
    for layer, (seeds, inner) in enumerate(program.layers):
        hop = hops - layer
        expected = {r for h, r, _ in links if h == hop and r is not None}
        if hop == 1:
            assert set(seeds.relations) == expected and not inner.relations and not inner.selves
            assert set(seeds.selves) == {root.target for root in owned if root.relation is None}
        else:
            assert set(inner.relations) == expected
            assert set(inner.selves) == ({t for h, r, t in links if h == hop and r is None} if self_term else set())
            assert bool(seeds.relations or seeds.selves) == (exchange == "every")
    assert set(program.reads) == (
        {link.source if link else above for h, link, above in links if h == hops}
        - ({"t0"} if exchange == "every" and hops == 1 and Root("t0", None) in owned else set())
    ) | ({"t0"} if exchange == "every" else set())


def test_all_partitions_together_are_the_model_of_one_device():
    for name in SHAPES:
        for hops in (1, 2, 3):
            schema = SHAPES[name].schema()
            needed = schema.layer_types([schema.target], hops)
            model = Metatree(schema, (schema.target,), hops)
            program = model.local_model(model.roots)
            for layer, folds in enumerate(program.layers):
                assert folds.relations == {r for r in schema.relations if r.target in needed[layer + 1]}
                assert folds.selves == needed[layer + 1]
            assert set(program.reads) == needed[0]


def linear_layers(schema, tree, rng):
    """Random features, adjacency counts and a weight per (layer, link)."""
    nodes = schema.nodes
    x = {name: rng.standard_normal(count) for name, count in nodes.items()}
    dense = {r: rng.integers(0, 3, (nodes[r.target], nodes[r.source])) for r in schema.relations}
    links = [*schema.relations, *nodes]
    w = {(layer, link): rng.standard_normal() for layer in range(tree.hops) for link in links}
    return x, dense, w


@settings(max_examples=60, deadline=None)
@given(schemas(), st.integers(1, 3), st.sampled_from(["last", "every"]), st.booleans(), st.randoms())
def test_partitions_programs_sum_to_the_model(schema, hops, exchange, self_term, random):
    """The ownership rule, in numbers: partial aggregates of the seeds, added over the partitions, are those of the whole model."""
    tree = Metatree(schema, ("t0",), hops, None, self_term, exchange)
    x, dense, w = linear_layers(schema, tree, np.random.default_rng(random.randrange(2**32)))
    looks = exchange == "every"

    def fold(layer, relations, selves, target, sources, own):
        total = sum((w[layer, r] * dense[r] @ sources[r.source] for r in relations if r.target == target), 0 * own)
        return total + (w[layer, target] * own if target in selves else 0)

    def finish(total, own):
        return np.tanh(total * (1 + own if looks else 1))

    whole = dict(x)

    def made(layer, folds, sources, types):
        own = {t: sources.get(t, np.zeros(schema.nodes[t])) for t in types}
        return {t: finish(fold(layer, *folds, t, sources, own[t]), own[t]) for t in types}

    for layer, needed in enumerate(schema.layer_types([schema.target], hops, tree.reads_own)[1:]):
        whole = made(layer, (schema.relations, needed if self_term else ()), whole, needed)

    groups: dict[int, list] = {}
    for root in tree.roots:
        groups.setdefault(random.randrange(3), []).append(root)
    programs = [tree.local_model(roots) for roots in groups.values()]
    inner = [{t: x[t] for t in program.reads} for program in programs]
    seeds = x["t0"]
    for layer in range(hops):
        partials = 0
        for number, program in enumerate(programs):
            (relations, selves), folds = program.layers[layer].seeds, program.layers[layer].inner
            own = seeds if looks else inner[number].get("t0", 0 * seeds)
            partials = partials + fold(layer, relations, selves, "t0", inner[number], own)
            inner[number] = made(layer, folds, inner[number], program.types[layer + 1])
        seeds = finish(partials, seeds) if looks or layer == hops - 1 else seeds
    np.testing.assert_allclose(seeds, whole["t0"], rtol=1e-9)


def test_ogbn_mag_has_the_papers_three_sub_metatrees():
    schema = OGBN_MAG.schema()
    tree = Metatree(schema, ("paper",), self_term=False)
    assert [root.relation.name for root in tree.roots] == ["writes", "cites", "rev_has_topic"]
    below = [{r.name for r in tree.local_model([root]).layers[0].inner.relations} for root in tree.roots]
    assert below == [{"rev_writes", "rev_affiliated_with"}, {"writes", "cites", "rev_has_topic"}, {"has_topic"}]
    assert [tree.local_model([root]).reads for root in tree.roots] == [
        ("paper", "institution"),
        ("paper", "author", "field_of_study"),
        ("paper",),
    ], "so two partitions share no learnable row"
    assert [str(root) for root in Metatree(schema, ("paper",)).roots][-1] == "paper itself"
    cites = tree.local_model([tree.roots[1]])
    assert [r.name for r in cites.layers[1].relations] == ["cites"], (
        "what is held for hop 2 is not folded into the seeds"
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("exchange", ["last", "every"])
def test_every_link_into_the_root_has_one_owner_and_all_that_it_needs(shape, exchange):
    about = full(shape)
    plan = partition(about, 3, hops=3, exchange=exchange)
    owned = [(root.relation, root.target) for part in plan.parts for root in part.roots]
    assert len(owned) == len(set(owned)) == len(about.schema.into(about.schema.target)) + 1
    for part in plan.parts:
        program = part.local_model
        assert set(program.layers[-1].seeds.relations) == {root.relation for root in part.roots} - {None}
        for layer in range(1, 3):
            for relation in program.layers[layer].relations:
                assert relation.source in program.types[layer], "a source without an embedding"
                needs = {r for r in about.schema.into(relation.source)}
                assert needs <= set(program.layers[layer - 1].inner.relations)
        relations = [r for layer in program.layers for r in (*layer.seeds.relations, *layer.inner.relations)]
        assert program.relations == set(relations), "each relation once, however often it recurs"


def test_parallel_relations_have_sub_metatrees_of_their_own():
    plan = partition(random_graph(), 6)
    names = [root.relation.name for part in plan.parts for root in part.roots if root.relation]
    assert sorted(names) == ["cites", "extends", "of", "publishes", "writes"] and len(plan.parts) == 6


def test_metapaths_decide_what_each_layer_folds():
    plan = partition(full("ogbn-mag"), 2, metapaths=[[WRITES, REV_WRITES], [CITES]], self_term=False)
    assert plan.tree.hops == 2 and plan.model.layers[1].relations == {WRITES, CITES}
    assert plan.model.layers[0].relations == {REV_WRITES}
    by_root = {part.roots[0].relation: part.local_model for part in plan.parts}
    assert by_root[CITES].layers[0].relations == frozenset() and by_root[CITES].reads == ()
    assert by_root[WRITES].reads == ("paper",), "nothing reads an author's own features"


def test_metapaths_through_one_type_share_its_embedding():
    """An author's embedding is one, whichever metapath leads to it, so either owner folds all into it."""
    knows = Relation("author", "reviews", "paper")
    schema = Schema({"paper": 5, "author": 4}, (WRITES, REV_WRITES, knows), "paper", 2)
    about = Sizes(schema, dict.fromkeys(schema.relations, 9), {})
    plan = partition(about, 2, metapaths=[[WRITES, REV_WRITES], [knows]], self_term=False)
    assert all(part.local_model.layers[0].relations == {REV_WRITES} for part in plan.parts)


@pytest.mark.parametrize(
    "metapaths, options, words",
    [
        ([], {}, "no metapath"),
        ([[]], {"hops": 2}, "metapath 0 has 0 relations"),
        ([[CITES, CITES, CITES]], {"hops": 2}, "metapath 0 has 3 relations, outside 1..2"),
        ([[WRITES, CITES]], {}, "metapath 0: relation 2 is paper -cites-> paper, and should lead into author"),
        ([[CITES], [REV_WRITES]], {}, "metapath 1: relation 1 .* lead into paper"),
        ([[Relation("a", "b", "c")]], {}, "metapath 0: relation 1 is a -b-> c, which is not one"),
        ([[WRITES, REV_WRITES, CITES]], {"exchange": "every"}, None),
        ([[CITES, WRITES]], {"exchange": "every"}, "writes.* at hop 2 but at hop 1 of none"),
    ],
)
def test_metapaths_that_are_none(metapaths, options, words):
    if words is None:
        words = "relation paper -cites-> paper stands in a metapath at hop 3"
    with pytest.raises(InputError, match=words):
        partition(full("ogbn-mag"), 2, metapaths=metapaths, **options)


def test_a_super_root_joins_several_targets():
    about = full("ogbn-mag")
    plan = partition(about, 4, targets=["paper", "author"])
    roots = {(root.target, root.relation) for part in plan.parts for root in part.roots}
    into = {(r.target, r) for name in ("paper", "author") for r in about.schema.into(name)}
    assert roots == into | {("paper", None), ("author", None)} and len(roots) == 7
    assert plan.tree.tree().nodes[0]["type"] is None
    assert read_back(plan).tree.targets == ("paper", "author")
    with pytest.raises(InputError, match="'ghost' is given twice, or not among"):
        partition(about, 2, targets=["ghost"])


def test_tree_too_large_to_spell_out():
    relations = tuple(Relation("a", f"r{number}", "a") for number in range(30))
    tree = Metatree(Schema({"a": 3}, relations, "a", 2), ("a",), 6)
    with pytest.raises(InputError, match="more than 1000 vertices"):
        tree.tree(most=1000)
    about = Sizes(tree.schema, dict.fromkeys(relations, 5), {})
    assert read_back(partition(about, 3, hops=6)).method == "lpt"
