"""R-GAT and HGT against loops written from their papers, logits of any size, and models defined by a user."""

import itertools
import json
import math
import os
import subprocess
import sys
from itertools import chain

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hetjax
from hetjax import models
from hetjax.graph import store
from hetjax.graph.schema import Relation
from hetjax.kernels import attention, folded_attention, partials
from hetjax.kernels.attention import attend
from hetjax.kernels.folded_attention import attend_folded
from hetjax.kernels.native import platforms
from hetjax.kernels.partials import Attention
from hetjax.kernels.segment import neighbour_sum
from hetjax.models import aggregate, hgnn, hgt, rgat
from hetjax.models.hgt import HGTLayer
from hetjax.models.rgat import RGATLayer
from hetjax.options import owners
from hetjax.sampling.blocks import Adjacency, pad_adjacency
from hetjax.sampling.sampler import group
from hetjax.sampling.whole import whole_graph
from hetjax.system import internals
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph, smaller_graph
from tests.support.models import readout

HEADS, WIDTH = 2, 6
TYPES = ("paper", "author", "topic", "venue")


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def setting(graph, layer_class, **options):
    """A layer on a whole graph, its random weights and features."""
    rng = np.random.default_rng(0)
    widths = {"paper": WIDTH, "author": 4, "venue": 5, "topic": WIDTH, "ghost": 3}
    x = {name: jnp.asarray(rng.standard_normal((graph.schema.nodes[name], width))) for name, width in widths.items()}
    relations = tuple(relation for relation in graph.schema.relations if relation.target in TYPES)
    selves = TYPES if layer_class.traits.self_term else ()
    layer = layer_class(relations, selves, TYPES, widths, WIDTH, heads=HEADS, **options)
    block = whole_graph(graph, [graph.schema.target], 2)[0]
    params = jax.eval_shape(layer.init, jax.random.key(0), block, x)
    return layer, block, jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), params), x


def neighbours(graph, relation, v):
    csc = graph.relations[relation]
    return csc.indices[csc.indptr[v] : csc.indptr[v + 1]]


def softmax(logits):
    weights = np.exp(np.array(logits) - max(logits))
    return weights / weights.sum()


def rgat_loop(graph, p, x, node_type):
    """Equations 1 to 5 of the GAT paper, relation by relation."""
    size, out = WIDTH // HEADS, []
    for v, own in enumerate(x[node_type]):
        total = own @ p[f"self_loop_{node_type}"]["kernel"] + p[f"finishing_{node_type}"]["bias"]
        for relation in graph.schema.into(node_type):
            w, found = p[f"attention_{relation.key}"], neighbours(graph, relation, v)
            for head in range(HEADS):
                values, logits = [], []
                for u in found:
                    value = x[relation.source][u] @ w["kernel_source"][:, head]
                    score = w["attention_source"][head] @ value
                    score += w["attention_target"][head] @ (own @ w["kernel_target"][:, head])
                    logits.append(score if score > 0 else 0.2 * score)
                    values.append(value)
                if len(found):
                    total[head * size : (head + 1) * size] += softmax(logits) @ np.array(values)
        out.append(np.where(total > 0, total, np.exp(np.minimum(total, 0)) - 1))
    return np.array(out)


def hgt_loop(graph, p, x, node_type, mode):
    """Equations 3 to 5 of the HGT paper."""
    size, out = WIDTH // HEADS, []
    gate = 1 / (1 + math.exp(-p[f"skip_{node_type}"]))
    for v, own in enumerate(x[node_type]):
        total, relations = np.zeros(WIDTH), graph.schema.into(node_type)
        for head in range(HEADS):
            per_relation = []
            for relation in relations:
                w, source, name = p[f"attention_{relation.key}"], x[relation.source], relation.source
                query = own @ p[f"query_{node_type}"]["kernel"][:, head] + p[f"query_{node_type}"]["bias"][head]
                logits, values = [], []
                for u in neighbours(graph, relation, v):
                    key = source[u] @ p[f"key_{name}"]["kernel"][:, head]
                    if mode == "joint":
                        key = key + p[f"key_{name}"]["bias"][head]
                    value = source[u] @ p[f"value_{name}"]["kernel"][:, head] + p[f"value_{name}"]["bias"][head]
                    logits.append(key @ w["attention"][head] @ query * w["prior"][head] / math.sqrt(size))
                    values.append(value @ w["message"][head])
                per_relation.append((logits, values))
            if mode == "joint":
                per_relation = [tuple(list(chain(*parts)) for parts in zip(*per_relation))] if relations else []
            parts = [softmax(a) @ np.array(b) if a else np.zeros(size) for a, b in per_relation]
            total[head * size : (head + 1) * size] = np.mean(parts, axis=0) if parts else 0
        activated = np.array([0.5 * t * (1 + math.erf(t / math.sqrt(2))) for t in total])
        h = activated @ p[f"output_{node_type}"]["kernel"] + p[f"output_{node_type}"]["bias"]
        out.append(gate * h + (1 - gate) * own if len(own) == WIDTH else h)
    return np.array(out)


CASES = [(RGATLayer, {}), (HGTLayer, {}), (HGTLayer, {"softmax": "relation"})]


def choose(monkeypatch, order):
    """Have every relation multiplied first, folded first, or in HGT share keys and values with others of its type."""
    for module in (rgat, hgt):
        monkeypatch.setattr(module, "multiply_first", lambda *_: order == "first")
    shared = order == "shared"
    monkeypatch.setattr(hgt, "share_products", lambda edges, *_: frozenset(edges if shared else ()))


ORDERS = ("first", "last", "shared")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES)
def test_layer_equals_the_papers_equations(monkeypatch, case, order):
    choose(monkeypatch, order)
    graph, (layer_class, options) = random_graph(1, papers=20), case
    layer, block, params, x = setting(graph, layer_class, **options)
    found = jax.jit(layer.apply)(params, block, x)
    assert set(found) == set(block.self_rows)
    p, plain = jax.tree.map(np.asarray, params["params"]), jax.tree.map(np.asarray, x)
    for node_type, h in found.items():
        mode = options.get("softmax", "joint")
        loop = (
            rgat_loop(graph, p, plain, node_type)
            if layer_class is RGATLayer
            else hgt_loop(graph, p, plain, node_type, mode)
        )
        np.testing.assert_allclose(h, loop, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_finite_differences(monkeypatch, case, order):
    choose(monkeypatch, order)
    graph, (layer_class, options) = smaller_graph(2, papers=20), case
    layer, block, params, x = setting(graph, layer_class, **options)
    rng = np.random.default_rng(2)
    towards = {name: rng.standard_normal((graph.schema.nodes[name], WIDTH)) for name in block.self_rows}

    @jax.jit
    def loss(params, x):
        return sum(jnp.sum(h * towards[name]) for name, h in layer.apply(params, block, x).items())

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x)
    step = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), (params, x))
    moved = [loss(*jax.tree.map(lambda a, b: a + size * b, (params, x), step)) for size in (1e-6, -1e-6)]
    found = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(step)))
    np.testing.assert_allclose(found, (moved[0] - moved[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_large_logits_are_finite(case):
    """Logits of 1e4 and more, with float32 weights; nodes with one neighbour and with none are among them."""
    graph, (layer_class, options) = smaller_graph(3, degree=1), case
    layer, block, params, x = setting(graph, layer_class, **options)
    x = jax.tree.map(lambda leaf: jnp.asarray(leaf * 300, jnp.float32), x)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf * 10, jnp.float32), params)

    def loss(params, x):
        return sum(jnp.sum(h) for h in layer.apply(params, block, x).values())

    value, gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, x)
    assert np.isfinite(value) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_partial_attention_merges_to_the_whole(graph):
    """Softmax over all relations is the same wherever each relation was folded, and in whatever order they combine."""
    layer, block, params, x = setting(graph, HGTLayer)
    own = aggregate.own_embeddings(block, x)

    def folded(part):
        return jax.jit(lambda *given: part.apply(*given, layer.targets, method=aggregate.aggregate))(
            params, block, x, own
        )

    whole = folded(layer)
    for cut in (1, 3):
        here = layer.clone(relations=layer.relations[cut:])
        there = layer.clone(relations=layer.relations[:cut])
        one, other = map(folded, (here, there))
        for node_type, partial in whole.items():
            parts = [part[node_type] for part in (one, other) if node_type in part]
            total = parts[0] if len(parts) == 1 else partials.merge(*parts)
            np.testing.assert_allclose(partials.attended(total), partials.attended(partial), rtol=1e-12, atol=1e-12)


def test_merging_nothing_changes_nothing():
    rng = np.random.default_rng(0)
    some = Attention(*(jnp.asarray(rng.random(shape) + 1) for shape in ((3, 2), (3, 2), (3, 2, 4))))
    none = Attention(jnp.full((3, 2), -jnp.inf), jnp.zeros((3, 2)), jnp.zeros((3, 2, 4)))
    for found, expected in zip(partials.merge(some, none), some):
        np.testing.assert_array_equal(found, expected)
    assert not partials.attended(partials.merge(none, none)).any()


def test_attention_does_not_read_padding(way):
    graph = random_graph()
    exact = whole_graph(graph, [graph.schema.target], 2)[0].adjacency["author--writes--paper"]
    sources, targets, edges = (len(exact.reverse_indptr) - 1, len(exact.indptr) - 1, len(exact.indices))
    rng = np.random.default_rng(0)
    keys, values = (jnp.asarray(rng.standard_normal((sources, 2, width))) for width in (3, 4))
    queries, offsets = jnp.asarray(rng.standard_normal((targets, 2, 3))), jnp.asarray(rng.standard_normal((targets, 2)))
    padded = pad_adjacency(exact, targets, sources, edges + 9)

    def loss(adjacency, *arrays):
        return jnp.sum(jnp.sin(partials.attended(attend(adjacency, *arrays, slope=0.2).partial())))

    run = jax.jit(jax.value_and_grad(loss, argnums=(1, 2, 3, 4)))
    given = queries, offsets, keys, values
    expected, compared = (
        run(exact, *given),
        [exact._replace(reverse_indptr=None, reverse_indices=None, reverse_edges=None)],
    )
    for value in (2**31 - 1, -1, -(2**31), 3):
        spoiled = {}
        for name in ("indices", "reverse_indices", "reverse_edges"):
            spoiled[name] = getattr(padded, name).copy()
            spoiled[name][edges:] = value
        compared.append(padded._replace(**spoiled))
    for adjacency in compared:
        for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(run(adjacency, *given))):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("heads", [(1, 5), (5, 1), (1, 1), (5, 5), (1, None), (5, None)])
@pytest.mark.parametrize(
    ("one_query", "dropout", "targets", "size"),
    [(True, False, 700, 19), (False, True, 700, 4), (True, True, 65, 8), (True, False, 1, 19)],
)
def test_kernels_equal_plain_operations(monkeypatch, heads, one_query, dropout, targets, size):
    """On as many targets as several threads share, some of them without edges and one with many, and on few; four heads are a vector, and the fifth is not.

    Heads of 4 and of 8 numbers share vectors where they stand side by side.

    One query for all targets gives the same whether scores are computed of the sources or of the edges.
    """
    rng, sources = np.random.default_rng(0), 900
    degrees = rng.integers(0, 6, targets)
    degrees[3 * targets // 7] = 4000
    degrees[1:][-1:] = 0
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    adjacency = Adjacency(indptr, rng.integers(0, sources, indptr[-1]).astype(np.int32))
    adjacency = pad_adjacency(adjacency, targets, sources, int(indptr[-1]) + 50)
    width = {19: 11, 4: 2, 8: 16}[size] if heads[1] else size
    shapes = [(1 if one_query else targets, 5, size), (targets, 5), (sources, heads[0], size)]
    shapes += [(sources, heads[1], width)] if heads[1] else []
    given = [jnp.asarray(rng.standard_normal(shape)) for shape in shapes]
    keep = jnp.asarray(rng.integers(0, 2, (len(adjacency.indices), 5)) * 2.0) if dropout else None
    towards = [jnp.asarray(rng.standard_normal(shape)) for shape in ((targets, 5), (targets, 5), (targets, 5, width))]

    def loss(*arrays):
        found = attend(adjacency, *arrays, slope=0.3, keep=keep)
        return sum(jnp.sum(one * other) for one, other in zip(found[1:], towards)), found

    def run():
        return jax.jit(jax.value_and_grad(loss, argnums=tuple(range(len(given))), has_aux=True))(*given)

    found: list = []
    for version, first in itertools.product((internals.ffi_version(), None), (True, False) if one_query else (False,)):
        monkeypatch.setattr(platforms, "ffi_version", lambda version=version: version)
        monkeypatch.setattr(attention, "scores_first", lambda *_, first=first: first)
        jax.clear_caches()
        found.append(jax.tree.leaves(run()))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("one_query", "slope", "dropout", "width", "grouped", "scored", "targets"),
    [
        (False, 1.0, False, 35, False, False, 1100),
        (False, 0.3, True, 35, True, False, 1100),
        (True, 0.3, True, 35, False, True, 1100),
        (False, 0.3, True, 512, False, False, 1100),
        (True, 1, False, 512, True, False, 1100),
        (True, 0.3, False, 35, True, True, 1),
        (False, 0.3, True, 35, True, False, 1),
    ],
)
def test_attention_folded_first_equals_attention_to_what_is_multiplied(
    monkeypatch, one_query, slope, dropout, width, grouped, scored, targets
):
    """By kernels and by operations of XLA, there and back, the sources' gradient too, whether or not the edges come grouped by source.

    Some targets have no edges, one has many.
    """
    rng, sources, heads, size = np.random.default_rng(0), 90, 5, 3
    degrees = rng.integers(0, 6, targets)
    if targets > 1:
        degrees[-1] = 0
    degrees[targets // 4] = 400
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    adjacency = Adjacency(indptr, rng.integers(0, sources, indptr[-1]).astype(np.int32))
    adjacency = pad_adjacency(adjacency, targets, 0, int(indptr[-1]) + 50)
    if grouped:
        adjacency = group(adjacency.indptr, adjacency.indices, sources)
    shapes = [(1 if one_query else targets, heads, size), (targets, heads), (sources, width)]
    given = [jnp.asarray(rng.standard_normal(shape)) for shape in (*shapes, *2 * [(width, heads, size)])]
    keep = jnp.asarray(rng.integers(0, 2, (len(adjacency.indices), heads)) * 2.0) if dropout else None
    towards = [jnp.asarray(rng.standard_normal(shape)) for shape in (*2 * [(targets, heads)], (targets, heads, size))]

    def multiplied(queries, offsets, x, key, value):
        keys, values = (jnp.einsum("sw,whd->shd", x, matrix) for matrix in (key, value))
        return attend(adjacency, queries, offsets, keys, values, slope=slope, keep=keep)

    def folded(*arrays):
        return attend_folded(adjacency, *arrays, slope=slope, keep=keep)

    def run(way):
        def loss(*arrays):
            found = way(*arrays)
            return sum(jnp.sum(one * other) for one, other in zip(found[1:], towards)), found

        return jax.tree.leaves(jax.jit(jax.value_and_grad(loss, argnums=tuple(range(5)), has_aux=True))(*given))

    for module in (attention, folded_attention):
        monkeypatch.setattr(module, "scores_first", lambda *_: scored)
    found = [run(multiplied), run(folded)]
    monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    jax.clear_caches()
    for other in (found[1], run(folded)):
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


class Doubled(nn.Module):
    """A user's aggregation: twice the sum over the neighbours, times a matrix."""

    features: int

    @nn.compact
    def __call__(self, adjacency, sources, targets):
        return nn.Dense(self.features, use_bias=False)(2 * neighbour_sum(adjacency, sources.astype(jnp.float64)))


@pytest.mark.parametrize("across", ["sum", "mean", "max"])
def test_a_users_model_is_what_it_says(graph, across):
    model = hetjax.HGNN(None, lambda relation, features: Doubled(features), across, self_term=False)
    stack = hgnn.build(model, graph.schema, dict.fromkeys(graph.schema.nodes, 3), readout(graph), hidden=4, layers=1)
    rng = np.random.default_rng(0)
    x = {name: jnp.asarray(rng.standard_normal((count, 3))) for name, count in graph.schema.nodes.items()}
    blocks = whole_graph(graph, [graph.schema.target], 1)
    params = stack.init(jax.random.key(0), blocks, x)
    found = stack.apply(params, 0, blocks[0], x, method="embed")["paper"]
    parts = []
    for relation in graph.schema.into("paper"):
        kernel = params["params"]["layers_0"][f"fold_{relation.key}"]["Dense_0"]["kernel"]
        sums = [np.asarray(x[relation.source])[neighbours(graph, relation, v)].sum(0) for v in range(len(found))]
        parts.append(2 * np.array(sums) @ kernel)
    combine = {"sum": np.sum, "mean": np.mean, "max": np.max}[across]
    np.testing.assert_allclose(found, np.maximum(combine(parts, axis=0), 0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("made", "words"),
    [(lambda sums: sums[:, :1], "shape"), (lambda sums: sums[1:], "shape"), (lambda sums: sums.astype(int), "type")],
)
def test_what_a_users_aggregation_gives_must_have_the_width_the_rows_and_the_dtype_it_should(graph, made, words):
    class Wrong(nn.Module):
        def __call__(self, adjacency, sources, targets):
            return made(neighbour_sum(adjacency, sources))

    model = hetjax.HGNN(None, lambda relation, features: Wrong(), "sum", self_term=False)
    stack = hgnn.build(model, graph.schema, dict.fromkeys(graph.schema.nodes, 3), readout(graph), hidden=3, layers=1)
    x = {name: jnp.ones((count, 3)) for name, count in graph.schema.nodes.items()}
    with pytest.raises(AssertionError, match=words):
        jax.eval_shape(stack.init, jax.random.key(0), whole_graph(graph, [graph.schema.target], 1), x)


def test_an_unknown_cross_relation_aggregation_is_named():
    with pytest.raises(InputError, match="'median', and should be one of sum, mean, max, softmax"):
        hetjax.HGNN((Relation("a", "b", "a"),), lambda relation, features: Doubled(features), "median")


def test_a_users_model_trains_in_both_modes_on_its_relations(graph, tmp_path):
    module = tmp_path / "mine.py"
    module.write_text(
        "import flax.linen as nn\nimport hetjax\nfrom hetjax.graph.schema import Relation\n"
        "from hetjax.kernels.segment import neighbour_sum\n"
        "class Own(nn.Module):\n    features: int\n    @nn.compact\n    def __call__(self, adjacency, sources, targets):\n"
        "        return nn.Dense(self.features)(neighbour_sum(adjacency, sources.astype('float32')))\n"
        "model = hetjax.HGNN([Relation('author', 'writes', 'paper'), Relation('paper', 'cites', 'paper')],"
        " lambda relation, features: Own(features), 'mean')\n"
    )
    store.save(smaller_graph(), tmp_path / "store")
    for mode in ("full", "minibatch"):
        options = {"data.format": "store", "data.path": tmp_path / "store", "model.name": "mine:model"}
        options |= {
            "train.recipe": "none",
            "sampling.mode": mode,
            "model.hidden": 8,
            "workdir": tmp_path / mode,
            "train.epochs": 3,
        }
        command = [sys.executable, "-m", "hetjax.train", *(f"--{key}={value}" for key, value in options.items())]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in (tmp_path / mode / "metrics.jsonl").read_text().splitlines()]
        assert records[2]["train_loss"] < records[0]["train_loss"]
    with pytest.raises(InputError, match="relation a -b-> a is not one of the graph's"):
        graph.only([Relation("a", "b", "a")])
    assert graph.only(graph.schema.relations[:2]).schema.relations == graph.schema.relations[:2]


@pytest.mark.parametrize(
    "options", [{"name": "hgt", "self_term": False}, {"name": "hgt", "bases": 2}, {"softmax": "relation"}]
)
def test_an_option_that_the_model_does_not_have_is_refused(options):
    with pytest.raises(InputError, match="has no such option|is for model.name"):
        models.options(owners.made_model(**options))
