"""The R-GCN layer against a loop written from the paper, and the sums that it rests on."""

import functools
import math

import chex
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import linear, segment
from hetjax.kernels.native import platforms
from hetjax.models import aggregate
from hetjax.models.dropout import Masks
from hetjax.models.rgcn import Bases, RelationMean, RGCNLayer
from hetjax.sampling.blocks import Adjacency, Block, pad_adjacency
from hetjax.sampling.sampler import ALL, Sampler, group
from hetjax.sampling.whole import whole_graph
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def features(graph, seed=0):
    """Float64 features of every type, wider than the graph's own where it has none."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((count, 3 + len(name))) for name, count in graph.schema.nodes.items()}


def loop(graph, params, x, node_type, features_out):
    """Equation 2 for every node of a type, with 1 / c = 1 / number of in-edges of the relation."""
    params = params["params"]
    out = np.zeros((graph.schema.nodes[node_type], features_out))
    out += np.asarray(params.get(f"finishing_{node_type}", {"bias": 0})["bias"])

    def matrix(own, width):
        if "kernel" in own:
            return own["kernel"]
        shared = params[f"shared_{width}"]["bases"]
        return sum(own["coefficients"][b] * shared[b] for b in range(len(shared)))

    for v in range(len(out)):
        out[v] += x[node_type][v] @ matrix(params[f"self_loop_{node_type}"], x[node_type].shape[1])
        for relation in graph.schema.into(node_type):
            csc = graph.relations[relation]
            neighbours = csc.indices[csc.indptr[v] : csc.indptr[v + 1]]
            kernel = matrix(params[f"mean_{relation.key}"], x[relation.source].shape[1])
            for u in neighbours:
                out[v] += x[relation.source][u] @ kernel / len(neighbours)
    return np.maximum(out, 0)


def make_layer(graph, x, bases=0, width=4, **options):
    targets = ("paper", "author", "venue", "topic")
    relations = tuple(relation for relation in graph.schema.relations if relation.target in targets)
    layer = RGCNLayer(
        relations,
        targets,
        targets,
        {name: matrix.shape[1] for name, matrix in x.items()},
        width,
        bases=bases,
        **options,
    )
    block = whole_graph(graph, [graph.schema.target], 2)[0]
    params = jax.jit(layer.init)(jax.random.key(1), block, x)
    # Biases start as zeros, which would hide a missing one.
    return (
        layer,
        block,
        jax.tree.map(
            lambda leaf: jnp.asarray(leaf + 0.1 * np.arange(leaf.size).reshape(leaf.shape), jnp.float64), params
        ),
    )


@pytest.mark.parametrize("bases", [0, 2])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_layer_equals_the_papers_equation(monkeypatch, bases, first, seed):
    monkeypatch.setattr(linear, "multiply_first", lambda *_: first)
    graph = random_graph(seed)
    x = features(graph, seed)
    layer, block, params = make_layer(graph, x, bases)
    found = jax.jit(layer.apply)(params, block, x)
    for node_type in found:
        np.testing.assert_allclose(found[node_type], loop(graph, params, x, node_type, 4), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bases", [0, 2])
def test_gradients_equal_finite_differences(bases):
    graph = random_graph(1)
    x = {name: jnp.asarray(matrix) for name, matrix in features(graph).items()}
    layer, block, params = make_layer(graph, x, bases)
    rng = np.random.default_rng(2)
    towards = {name: rng.standard_normal((graph.schema.nodes[name], 4)) for name in block.self_rows}

    @jax.jit
    def loss(params, x):
        return sum(jnp.sum(h * towards[name]) for name, h in layer.apply(params, block, x).items())

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x)
    step = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), (params, x))
    moved = [loss(*jax.tree.map(lambda a, b: a + size * b, (params, x), step)) for size in (1e-6, -1e-6)]
    expected = (moved[0] - moved[1]) / 2e-6
    found = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(step)))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_both_orders_are_chosen():
    wide, narrow = jnp.zeros((100, 64)), jnp.zeros((100, 8))
    few = Adjacency(jnp.zeros(11, jnp.int32), jnp.zeros(50, jnp.int32))
    many = Adjacency(jnp.zeros(1001, jnp.int32), jnp.zeros(50, jnp.int32))
    assert not segment.multiply_first(few, wide, 64)
    assert segment.multiply_first(many, wide, 64)
    assert not segment.multiply_first(few, narrow, 64)


def poisoned(adjacency: Adjacency, targets: int, sources: int, edges: int, value: int) -> Adjacency:
    """Padded, with `value` wherever padding may hold anything."""
    padded = pad_adjacency(adjacency, targets, sources, edges)
    count = len(adjacency.indices)
    indices, reverse = padded.indices.copy(), padded.reverse_indices.copy()
    edges, weights = padded.reverse_edges.copy(), padded.weights
    indices[count:], reverse[count:], edges[count:] = value, value, value
    if weights is not None:
        weights = weights.copy()
        weights[count:] = np.nan
    return padded._replace(indices=indices, reverse_indices=reverse, reverse_edges=edges, weights=weights)


def weighed(adjacency: Adjacency) -> Adjacency:
    """With weights, of which some are zero, and all of the first target's and its neighbour's."""
    weights = np.random.default_rng(5).random(len(adjacency.indices)).astype(np.float32)
    weights[::7] = 0
    weights[: adjacency.indptr[2]] = 0
    return adjacency._replace(weights=weights)


@pytest.mark.parametrize("weights", [False, True])
def test_sums_do_not_read_padding(way, weights):
    graph = random_graph()
    exact = (
        Sampler(graph, learnable=frozenset(graph.schema.nodes))
        .sample({"paper": np.arange(20)}, (ALL,), (0,))
        .blocks[0]
        .adjacency["author--writes--paper"]
    )
    exact = weighed(exact) if weights else exact
    sources = len(exact.reverse_indptr) - 1
    x = jnp.asarray(np.random.default_rng(0).standard_normal((sources + 5, 3)))

    @jax.jit
    def run(adjacency, x):
        folds = segment.neighbour_sum, segment.neighbour_mean
        return jax.value_and_grad(lambda x: sum(jnp.sum(jnp.sin(fold(adjacency, x))) for fold in folds))(x)

    plain = run(exact, x[:sources])
    for value in (2**31 - 1, -1, -(2**31), 3):
        padded = run(poisoned(exact, 27, sources + 5, len(exact.indices) + 9, value), x)
        np.testing.assert_allclose(plain[0], padded[0], rtol=1e-14)
        np.testing.assert_array_equal(plain[1], padded[1][:sources])
        assert not padded[1][sources:].any()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("reverse", [True, False])
def test_sums_equal_a_loop(way, reverse, weights):
    graph = random_graph(2)
    for key, adjacency in whole_graph(graph, [graph.schema.target], 2)[0].adjacency.items():
        source = key.split("--")[0]
        x = jnp.asarray(np.random.default_rng(0).standard_normal((graph.schema.nodes[source], 3)))
        adjacency = weighed(adjacency) if weights else adjacency
        used = adjacency if reverse else Adjacency(adjacency.indptr, adjacency.indices, weights=adjacency.weights)
        targets = len(adjacency.indptr) - 1
        dense, mean = np.zeros((targets, len(x))), np.zeros((targets, len(x)))
        for v in range(targets):
            for e in range(adjacency.indptr[v], adjacency.indptr[v + 1]):
                dense[v, adjacency.indices[e]] += adjacency.weights[e] if weights else 1
            mean[v] = dense[v] / dense[v].sum() if dense[v].any() else 0
        for fold, matrix in ((segment.neighbour_sum, dense), (segment.neighbour_mean, mean)):
            found, back = jax.vjp(lambda x, fold=fold: fold(used, x), x)
            np.testing.assert_allclose(found, matrix @ x, atol=1e-12)
            np.testing.assert_allclose(back(found)[0], matrix.T @ found, atol=1e-12)


@pytest.mark.parametrize(("heads", "own", "widest"), [(None, 0, 7), (0, 0, 7), (1, 1, 7), (3, 1, 6), (3, 3, 6)])
def test_wide_rows_are_summed_some_columns_at_a_time(monkeypatch, heads, own, widest):
    """By XLA's own operations: its kernel for GPUs takes a hundred times as long where a row is too wide. `own` rows each source has for the heads."""
    rng, rows = np.random.default_rng(0), segment.Rows(jnp.array([0, 2, 2, 5]), jnp.array([0, 3, 1, 1, 2, 0]))
    x = jnp.asarray(rng.standard_normal((4, *((own,) if heads else ()), 23)))
    weights = None if heads is None else jnp.asarray(rng.standard_normal((6, heads) if heads else 6))
    folds = [(functools.partial(segment._sum_by_segments, rows, weights), widest)]
    if heads:  # added up before they are summed
        folds += [(functools.partial(segment._heads_by_segments, rows, weights), 7)]
    if heads is None:
        folds += [(lambda x: segment._edges_by_segments(rows, x[rows.indices]), 7)]
    for fold, most in folds:
        whole = fold(x)
        with monkeypatch.context() as patched:
            patched.setattr(segment, "WIDEST", 7)
            np.testing.assert_array_equal(fold(x), whole)
            widths = [math.prod(s.outvars[0].aval.shape[1:]) for s in scatters(jax.make_jaxpr(fold)(x).jaxpr)]
        assert max(widths) == most and sum(widths) == math.prod(whole.shape[1:])


def scatters(jaxpr):
    """The sums into rows of numbers that a program has, those of the programs that it calls too."""
    for step in jaxpr.eqns:
        if step.primitive.name == "scatter-add" and step.outvars[0].aval.ndim > 1:
            yield step
        for inner in jax.extend.core.jaxprs_in_params(step.params):
            yield from scatters(inner)


def test_bases_are_shared_by_relations_of_one_width(graph):
    x = features(graph)
    _, _, params = make_layer(graph, x, bases=2)
    tree = params["params"]
    assert tree["shared_8"]["bases"].shape == (2, 8, 4)
    assert "kernel" not in tree["mean_paper--cites--paper"] and tree["mean_paper--cites--paper"][
        "coefficients"
    ].shape == (2,)
    assert isinstance(RelationMean(4, Bases(2, 4, 3)).bases, Bases)


def test_self_terms_may_share_the_bases_and_biases_may_be_absent(graph):
    x = features(graph)
    layer, block, params = make_layer(graph, x, bases=2, share_self=True, bias=False)
    assert not any(name.startswith("finishing") for name in params["params"])
    found = jax.jit(layer.apply)(params, block, x)
    for node_type in layer.targets:
        np.testing.assert_allclose(found[node_type], loop(graph, params, x, node_type, 4), rtol=1e-10, atol=1e-12)
    with pytest.raises(InputError, match="no bases to share"):
        layer.clone(bases=0).init(jax.random.key(1), block, x)


def test_normalisation_and_dropout(graph):
    x = {name: jnp.asarray(matrix, jnp.float32) for name, matrix in features(graph).items()}
    layer, block, _ = make_layer(graph, x)
    layer = layer.clone(norm="layer", dropout=0.5)
    params = layer.init(jax.random.key(0), block, x)
    plain = layer.apply(params, block, x)
    chex.assert_trees_all_equal(plain, layer.apply(params, block, x))
    dropped = layer.apply(params, block, x, Masks(jax.random.key(0)))
    kept = np.asarray(dropped["paper"]) != 0
    np.testing.assert_allclose(np.asarray(dropped["paper"])[kept], 2 * np.asarray(plain["paper"])[kept], rtol=1e-6)
    assert 0.3 < kept.sum() / (np.asarray(plain["paper"]) != 0).sum() < 0.7
    scale = params["params"]["finishing_paper"]["LayerNorm_0"]["scale"]
    assert scale.shape == (4,)
    assert {name for name in params["params"] if name.startswith("finishing")} == {
        f"finishing_{name}" for name in layer.targets
    }


def test_weights_do_not_depend_on_the_other_relations(graph):
    """A partition that holds some relations starts from the same weights for them as one that holds all."""
    widths = dict.fromkeys(graph.schema.nodes, 5)
    whole = whole_graph(graph, [graph.schema.target], 1)[0]
    x = {name: jnp.ones((count, 5)) for name, count in graph.schema.nodes.items()}
    relations = graph.schema.into("paper")

    def init(relations, selves=("paper",)):
        block = Block({relation.key: whole.adjacency[relation.key] for relation in relations}, whole.self_rows)
        return RGCNLayer(tuple(relations), selves, ("paper",), widths, 4).init(jax.random.key(3), block, x)["params"]

    everything, some = init(relations), init(relations[1:3], selves=())
    assert len(some) < len(everything) and "self_loop_paper" in everything and "self_loop_paper" not in some
    chex.assert_trees_all_equal(some, {name: everything[name] for name in some})


def test_partial_folds_combine_to_the_whole(graph):
    """Relations and self terms may be folded in two places: their partial aggregates add up, and none is counted twice."""
    x = {name: jnp.asarray(matrix) for name, matrix in features(graph).items()}
    layer, block, params = make_layer(graph, x)
    here = layer.clone(relations=layer.relations[::2], selves=("paper", "topic"))
    there = layer.clone(relations=layer.relations[1::2], selves=("author", "venue"))
    own = {t: x[t] for t in layer.targets}
    whole, *parts = (
        part.apply(params, block, x, own, part.selves, method=aggregate.aggregate) for part in (layer, here, there)
    )
    for node_type, expected in whole.items():
        given = [part[node_type] for part in parts if node_type in part]
        total = given[0] if len(given) == 1 else layer.traits.monoid.combine(*given)
        np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bases", "share"), [(0, False), (2, False), (2, True)])
def test_slices_of_a_row_are_the_matrices_of_one_hot_features(graph, bases, share):
    """The layer equals the plain one on identity matrices, whose kernels are what the rows hold."""
    rng, width, types = np.random.default_rng(0), 4, ("paper", "author")
    relations = tuple(relation for relation in graph.schema.relations if relation.target in types)
    learned = {t: tuple(r for r in relations if r.source == t) for t in graph.schema.nodes}
    place = {"relations": relations, "selves": types, "targets": types, "features": width, "learned": learned}
    options = {"bases": bases, "one_hot": True, "share_self": share}
    widths = RGCNLayer(widths={}, **place, **options).traits.learnable_widths
    assert widths["author"] == width * ((bases or 2) + (not share)) and widths["topic"] == width * (bases or 1)
    rows = {t: jnp.asarray(rng.standard_normal((graph.schema.nodes[t], widths[t]))) for t in learned}
    layer = RGCNLayer(widths=widths, **place, **options)
    block = whole_graph(graph, [graph.schema.target], 1)[0]._replace(self_rows=dict.fromkeys(types))
    block = block._replace(adjacency=whole_graph(graph, [graph.schema.target], 2)[0].adjacency)
    params = layer.init(jax.random.key(0), block, rows)
    found = jax.jit(layer.apply)(params, block, rows)

    cut = {t: np.asarray(table).reshape(len(table), widths[t] // width, width) for t, table in rows.items()}
    plain = {f"finishing_{t}": params["params"][f"finishing_{t}"] for t in types}
    for t in types:
        kernel = cut[t][:, -1]
        if share:
            kernel = np.einsum("b,nbo->no", params["params"][f"combine_self_{t}"]["coefficients"], cut[t])
        plain[f"self_loop_{t}"] = {"kernel": kernel}
    for relation in relations:
        matrices = cut[relation.source]
        if bases:
            own = params["params"][f"combine_{relation.key}"]["coefficients"]
            kernel = np.einsum("b,nbo->no", own, matrices[:, :bases])
        else:
            kernel = matrices[:, learned[relation.source].index(relation)]
        plain[f"mean_{relation.key}"] = {"kernel": kernel}
    identity = {t: np.eye(graph.schema.nodes[t]) for t in learned}
    for node_type in types:
        expected = loop(graph, {"params": plain}, identity, node_type, width)
        np.testing.assert_allclose(found[node_type], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mean", [True, False])
def test_kernels_of_weighted_sums_equal_plain_operations(monkeypatch, mean):
    """On as many targets as several threads share, some of them without edges and one with many."""
    rng, targets, sources = np.random.default_rng(0), 700, 900
    degrees = rng.integers(0, 6, targets)
    degrees[300], degrees[-1] = 4000, 0
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    weights = rng.uniform(0.1, 1, indptr[-1]).astype(np.float32)
    edges = group(indptr, rng.integers(0, sources, indptr[-1]).astype(np.int32), sources, weights)
    edges, x = pad_adjacency(edges, targets, sources, int(indptr[-1]) + 50), jnp.asarray(rng.random((sources, 5)))
    fold, towards = segment.neighbour_mean if mean else segment.neighbour_sum, jnp.asarray(rng.random((targets, 5)))

    def run():
        return jax.jit(jax.value_and_grad(lambda x: jnp.sum(fold(edges, x) * towards)))(x)

    found = run()
    monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    jax.clear_caches()
    for one, other in zip(found, run()):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, bool])
@pytest.mark.parametrize("aggregate", [segment.neighbour_sum, segment.neighbour_mean])
def test_whole_numbers_and_booleans_are_summed_as_floats(aggregate, dtype):
    """A sum of int8 would wrap around; that of a mean's shares, which are below 1, would be 0."""
    rng = np.random.default_rng(0)
    indptr, indices = np.arange(0, 41, 10, dtype=np.int32), rng.integers(0, 6, 40).astype(np.int32)
    x = rng.integers(0, 2, (6, 5)).astype(bool) if dtype is bool else rng.integers(90, 120, (6, 5)).astype(dtype)
    for weights in (None, rng.uniform(0.5, 2, 40).astype(np.float32)):
        edges = Adjacency(indptr, indices, weights=weights)
        found = aggregate(edges, jnp.asarray(x))
        assert found.dtype == jnp.float32
        np.testing.assert_array_equal(found, aggregate(edges, jnp.asarray(x, jnp.float32)))
