import zlib

import numpy as np
import pytest

from hetjax.datasets.schemas import OGBN_MAG, SHAPES
from hetjax.datasets.synthetic import generate
from hetjax.graph.csc import edges_of
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError

WRITES = Relation("author", "writes", "paper")
CITES = Relation("paper", "cites", "paper")
HAS_TOPIC = Relation("paper", "has_topic", "field_of_study")


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


def pairs(csc, turned=False):
    """Every edge as one number, sorted: equal for equal multisets of edges."""
    source, target = (ids.astype(np.int64) for ids in edges_of(csc))
    if turned:
        source, target = target, source
    return np.sort(source << 32 | target)


def degrees_out(graph, relation):
    return np.bincount(graph.relations[relation].indices, minlength=graph.schema.nodes[relation.source])


@pytest.mark.parametrize(
    "shape, types, relations, nodes, edges",
    [
        ("ogbn-mag", 4, 7, 1_939_743, 42_222_014),
        ("freebase", 8, 64, 12_164_758, 125_965_132),
        ("donor", 7, 14, 9_682_053, 25_039_174),
        ("igb-het", 4, 7, 25_982_964, 478_984_386),
        ("mag240m", 3, 5, 244_160_499, 3_456_728_464),
    ],
)
def test_shapes_at_full_size(shape, types, relations, nodes, edges):
    schema, counts = SHAPES[shape].schema(), SHAPES[shape].relations()
    assert len(schema.nodes) == types
    assert sum(schema.nodes.values()) == nodes
    assert schema.relations == tuple(counts)
    assert len(counts) == relations
    assert sum(counts.values()) == edges
    assert sum(SHAPES[shape].splits.values()) <= schema.nodes[schema.target]


def test_shapes_have_the_published_features():
    assert dict(OGBN_MAG.features) == {"paper": (128, "float32")}
    assert not SHAPES["freebase"].features
    assert SHAPES["donor"].features.keys() == SHAPES["donor"].nodes.keys()
    widths = [width for width, _ in SHAPES["donor"].features.values()]
    assert (min(widths), max(widths)) == (7, 789)
    assert dict(SHAPES["igb-het"].features) == dict.fromkeys(SHAPES["igb-het"].nodes, (1024, "float32"))
    assert dict(SHAPES["mag240m"].features) == {"paper": (768, "float16")}


@pytest.mark.parametrize("shape", SHAPES)
def test_graph_has_its_shape(shape):
    scale, form = 1e-4, SHAPES[shape]
    graph = generate(shape, scale)
    assert graph.schema == form.schema(scale)
    for name, count in graph.schema.nodes.items():
        assert count == max(16, round(form.nodes[name] * scale))
    counts = form.relations(scale)
    for relation, csc in graph.relations.items():
        assert csc.edges == counts[relation]
    for (source, name, target), count in form.edges.items():
        assert counts[source, name, target] == round(count * scale) * (2 if source == target else 1)
    found = {name: (matrix.shape[1], matrix.dtype.name) for name, matrix in graph.features.items()}
    assert found == dict(form.features)
    assert graph.labels.min() >= 0
    share = graph.schema.nodes[form.target] / form.nodes[form.target]
    for name, ids in graph.splits.items():
        assert abs(len(ids) - max(1, form.splits[name] * share)) <= 1


@pytest.mark.parametrize("shape", SHAPES)
def test_reverses_hold_the_same_edges(shape):
    graph = generate(shape, 1e-4, classes=3)
    for relation in (Relation(*names) for names in SHAPES[shape].edges):
        back = relation if relation.source == relation.target else relation.reverse
        assert np.array_equal(pairs(graph.relations[relation]), pairs(graph.relations[back], turned=True))


def test_same_seed_same_graph():
    first = generate("donor", 1e-3, seed=5)
    assert same(first, generate("donor", 1e-3, seed=5))
    other = generate("donor", 1e-3, seed=6)
    for one, another in zip(first.arrays(), other.arrays(), strict=True):
        assert not np.array_equal(one, another)


def test_same_graph_on_every_machine():
    graph = generate("ogbn-mag", 1e-3, classes=5)
    edges = zlib.crc32(b"".join(pairs(csc).tobytes() for csc in graph.relations.values()))
    assert (edges, zlib.crc32(graph.labels.tobytes())) == (2726806608, 3976500179)
    assert graph.features["paper"][[0, -1], 0] == pytest.approx([1.201117, -2.78765], abs=1e-5)


def test_chunks_of_features_have_noise_of_their_own():
    graph = generate("ogbn-mag", 0.02, classes=4, signal=0.0)
    matrix = graph.features["paper"]  # two chunks
    assert len(np.unique(matrix[:, 0])) > 0.99 * len(matrix)
    assert matrix.mean() == pytest.approx(0, abs=0.01)
    assert matrix.std() == pytest.approx(1, abs=0.01)


def test_degrees_have_heavy_tails():
    graph = generate("ogbn-mag", 0.01, classes=16)
    for relation, share in ((WRITES, 0.05), (CITES, 0.03), (HAS_TOPIC.reverse, 0.05)):
        degrees = np.sort(degrees_out(graph, relation))[::-1]
        assert degrees[: len(degrees) // 100].sum() > share * degrees.sum()
        assert degrees[0] > 8 * degrees.mean()


def test_classes_are_equal_and_unrelated_to_degree():
    graph = generate("ogbn-mag", 0.01, classes=16)
    sizes = np.bincount(graph.labels, minlength=16)
    assert sizes.max() - sizes.min() <= 1
    degrees = np.bincount(graph.labels, degrees_out(graph, CITES)) / sizes
    assert degrees.max() < 1.3 * degrees.min()
    assert abs(np.corrcoef(np.arange(16), degrees)[0, 1]) < 0.6


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.8, 1.0])
def test_homophily_is_as_asked(homophily):
    graph = generate("ogbn-mag", 0.005, classes=8, homophily=homophily)
    like = homophily + (1 - homophily) / 8
    source, target = edges_of(graph.relations[CITES])
    assert np.mean(graph.labels[source] == graph.labels[target]) == pytest.approx(like, abs=0.02)
    # Two papers of one author are of a class if both are of the author's, or both of the same other.
    counts = np.zeros((graph.schema.nodes["author"], 8))
    author, paper = edges_of(graph.relations[WRITES])
    np.add.at(counts, (author, graph.labels[paper]), 1)
    total = counts.sum(1)
    alike = (counts * (counts - 1)).sum() / (total * (total - 1)).sum()
    assert alike == pytest.approx(like**2 + (1 - like) ** 2 / 7, abs=0.03)


@pytest.mark.parametrize(
    "shape, scale, relation",
    [
        ("ogbn-mag", 2e-4, HAS_TOPIC.reverse),
        ("igb-het", 2e-5, Relation("fos", "topic", "paper")),
    ],
    ids=["small type is target", "small type is source"],
)
def test_a_node_serves_several_communities_where_a_type_is_small(shape, scale, relation):
    graph = generate(shape, scale, classes=32, homophily=1.0)
    assert graph.schema.nodes[relation.source] == 16
    few, papers = edges_of(graph.relations[relation])
    labels = [set(graph.labels[papers[few == node]]) for node in range(16)]
    assert all(len(classes) == 2 for classes in labels)
    assert set.union(*labels) == set(range(32))


def test_neighbours_tell_more_than_features():
    graph = generate("ogbn-mag", 0.005, classes=8)
    own = graph.features["paper"]
    source, target = edges_of(graph.relations[CITES])
    around = np.zeros_like(own)
    np.add.at(around, target, own[source])

    def accuracy(features):
        train, test = graph.splits["train"], graph.splits["test"]
        centroids = np.stack([features[train][graph.labels[train] == label].mean(0) for label in range(8)])
        distance = np.square(features[test][:, None] - centroids).sum(-1)
        return np.mean(distance.argmin(1) == graph.labels[test])

    assert 0.3 < accuracy(own) < 0.7
    assert accuracy(around / np.bincount(target, minlength=len(own))[:, None].clip(1)) > accuracy(own) + 0.1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"shape": "ogbn_mga"}, "no shape 'ogbn_mga' .* nearest is 'ogbn-mag'"),
        ({"shape": "MAG240M"}, "nearest is 'mag240m'"),
        ({"scale": 0.0}, "scale 0.0"),
        ({"scale": -2.0}, "scale -2.0"),
        ({"scale": float("nan")}, "scale nan"),
        ({"classes": 1}, "1 classes"),
        ({"homophily": 1.5}, "homophily 1.5"),
        ({"homophily": -0.1}, "homophily -0.1"),
        ({"homophily": float("nan")}, "homophily nan"),
        ({"signal": -1.0}, "signal -1.0"),
        ({"shape": "mag240m", "scale": 100.0}, "scale 100.0 takes|node type 'paper' has 12175166600 nodes"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        generate(**{"shape": "ogbn-mag", "scale": 1e-4, **arguments})
