"""Models of homogeneous graphs against loops written from their papers, on graphs of one relation and of several."""

import dataclasses
import functools
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import models
from hetjax.graph import csc, loops
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import abstract_graph, sizes
from hetjax.kernels import linear
from hetjax.models import hgnn, rgat
from hetjax.options import owners
from hetjax.options.config import Config, Sampling
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sampling.whole import needed_graph, whole_graph
from hetjax.sharding.evaluate import Evaluator
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from tests.support.equivalence import homogeneous, weighted
from tests.support.graphs import random_graph, smaller_graph
from tests.support.models import evaluated

HEADS, WIDTH = 2, 6
NAMES = ("gcn", "sage", "gin", "gat", "gatv2")
GRAPHS = {
    "homogeneous": homogeneous,
    "weights": lambda: weighted(homogeneous()),
    "several": smaller_graph,
    "several, weights": lambda: weighted(smaller_graph()),
}
ATTENTION = ("gat", "gatv2")


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def cases(names=NAMES):
    return [(name, graph) for name in names for graph in GRAPHS if name not in ATTENTION or "weights" not in graph]


def into(graph, relation, v, looped: bool):
    """The in-edges of a node as `(source, weight)`; if `looped`, with one loop in a relation from a type to itself."""
    edges = graph.relations[relation]
    span = slice(edges.indptr[v], edges.indptr[v + 1])
    weights = np.ones(edges.edges) if edges.weights is None else edges.weights.astype(float)
    found = list(zip(edges.indices[span].tolist(), weights[span].tolist()))
    if not looped or relation.source != relation.target:
        return found
    own = [weight for u, weight in found if u == v]
    return [(v, own[-1] if own else 1.0), *((u, weight) for u, weight in found if u != v)]


def degrees(graph, relation):
    """Of sources and targets, as `GCNLayer` counts them."""
    out, inward = defaultdict(float), defaultdict(float)
    for v in range(graph.schema.nodes[relation.target]):
        for u, weight in into(graph, relation, v, True):
            out[u] += weight
            inward[v] += weight
    return inward if relation.source == relation.target else out, inward


def gcn_loop(graph, p, x, node_type, options):
    total = np.zeros((len(x[node_type]), WIDTH)) + p[f"finishing_{node_type}"]["bias"]
    for relation in graph.schema.into(node_type):
        out, inward = degrees(graph, relation)
        for v in range(len(total)):
            for u, weight in into(graph, relation, v, True):
                share = weight / np.sqrt(out[u] * inward[v])
                total[v] += share * x[relation.source][u] @ p[f"kernel_{relation.key}"]["kernel"]
    return np.maximum(total, 0)


def sage_loop(graph, p, x, node_type, options):
    total = x[node_type] @ p[f"self_loop_{node_type}"]["kernel"] + p[f"finishing_{node_type}"]["bias"]
    for relation in graph.schema.into(node_type):
        for v in range(len(total)):
            edges = into(graph, relation, v, False)
            for u, weight in edges:
                share = weight / sum(other for _, other in edges)
                total[v] += share * x[relation.source][u] @ p[f"kernel_{relation.key}"]["kernel"]
    return np.maximum(total, 0)


def gin_loop(graph, p, x, node_type, options):
    """On a homogeneous graph `MLP((1 + eps) h_v + sum h_u)`; of several types each has a first matrix."""
    epsilon = p[f"epsilon_{node_type}"] if options.get("learn_epsilon") else options.get("epsilon", 0)
    rest, out = p[f"rest_{node_type}"], []
    for v, own in enumerate(x[node_type]):
        summed = {t: np.zeros(matrix.shape[1]) for t, matrix in x.items()}
        summed[node_type] += (1 + epsilon) * own
        for relation in graph.schema.into(node_type):
            for u, weight in into(graph, relation, v, False):
                summed[relation.source] += weight * x[relation.source][u]
        h = sum(value @ p[f"first_{t}"]["kernel"] for t, value in summed.items() if f"first_{t}" in p)
        if options.get("norm") == "layer":
            norm = rest["LayerNorm_0"]
            h = (h - h.mean()) / np.sqrt(h.var() + 1e-6) * norm["scale"] + norm["bias"]
        else:
            h = h + rest["bias"]
        out.append(np.maximum(h, 0) @ rest["Dense_0"]["kernel"] + rest["Dense_0"]["bias"])
    return np.maximum(np.array(out), 0)


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def gat_loop(graph, p, x, node_type, options, dynamic=False):
    """Equations 1 to 6 of GAT's paper, or with equation 7 of GATv2's."""
    logits = options.get("logits")
    heads = options.get("output_heads", 1) if logits else HEADS
    out = []
    for v, own in enumerate(x[node_type]):
        total = np.zeros(WIDTH)
        for relation in graph.schema.into(node_type):
            w, edges = p[f"attention_{relation.key}"], into(graph, relation, v, True)
            per_head = []
            for head in range(heads):
                kernel = w["kernel_source"][:, head]
                towards = w["kernel_target"][:, head] if "kernel_target" in w else kernel
                values = [x[relation.source][u] @ kernel for u, _ in edges]
                if dynamic:
                    scores = [w["attention"][head] @ leaky(value + own @ towards) for value in values]
                else:
                    asked = w["attention_target"][head] @ (own @ towards)
                    scores = [leaky(w["attention_source"][head] @ value + asked) for value in values]
                weights = np.exp(np.array(scores) - max(scores, default=0))
                per_head.append(weights / weights.sum() @ np.array(values) if values else np.zeros(kernel.shape[1]))
            total += np.mean(per_head, axis=0) if logits else np.concatenate(per_head)
        total += p[f"finishing_{node_type}"]["bias"]
        out.append(total if logits else np.where(total > 0, total, np.exp(np.minimum(total, 0)) - 1))
    return np.array(out)


LOOPS = {"gcn": gcn_loop, "sage": sage_loop, "gin": gin_loop, "gat": gat_loop}
LOOPS["gatv2"] = functools.partial(gat_loop, dynamic=True)


def setting(name, graph, **options):
    """A layer of random weights on a whole graph, as the model folds it, and features."""
    rng, layer_class = np.random.default_rng(0), models.find(name)
    own = {"heads": HEADS} if name in ATTENTION else {}
    x = {t: jnp.asarray(rng.standard_normal((count, 3 + len(t)))) for t, count in graph.schema.nodes.items()}
    types = tuple(t for t in graph.schema.nodes if graph.schema.into(t))
    relations = tuple(relation for relation in graph.schema.relations if relation.target in types)
    selves = types if layer_class.traits.self_term else ()
    widths = {t: matrix.shape[1] for t, matrix in x.items()}
    layer = layer_class(relations, selves, types, widths, WIDTH, **own, **options)
    block = whole_graph(models.changed(name, graph), [graph.schema.target], 2)[0]
    block = block._replace(self_rows=dict.fromkeys(types), targets={})
    params = jax.eval_shape(layer.init, jax.random.key(0), block, x)
    return layer, block, jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), params), x


def equals_the_loop(name, graph, **options):
    layer, block, params, x = setting(name, graph, **options)
    found = jax.jit(layer.apply)(params, block, x)
    p, plain = jax.tree.map(np.asarray, params["params"]), jax.tree.map(np.asarray, x)
    assert found
    for node_type, h in found.items():
        np.testing.assert_allclose(
            h, LOOPS[name](graph, p, plain, node_type, options), rtol=1e-9, atol=1e-6 if name == "gcn" else 1e-10
        )


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("name", "chosen"), cases())
def test_layer_equals_the_papers_equation(monkeypatch, name, chosen, first):
    for module in (linear, rgat):
        monkeypatch.setattr(module, "multiply_first", lambda *_: first)
    equals_the_loop(name, GRAPHS[chosen]())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gin", {"epsilon": 0.7}),
        ("gin", {"learn_epsilon": True, "norm": "layer"}),
        ("gat", {"logits": True}),
        ("gat", {"logits": True, "output_heads": 4}),
        ("gatv2", {"logits": True, "output_heads": 4}),
    ],
)
def test_options_do_what_the_papers_say(name, options):
    equals_the_loop(name, homogeneous(), **options)


@pytest.mark.parametrize(("name", "chosen"), cases())
def test_gradients_equal_finite_differences(name, chosen):
    layer, block, params, x = setting(name, GRAPHS[chosen]())
    rng = np.random.default_rng(2)
    towards = {t: rng.standard_normal((len(x[t]), WIDTH)) for t in block.self_rows}

    @jax.jit
    def loss(params, x):
        return sum(jnp.sum(h * towards[t]) for t, h in layer.apply(params, block, x).items())

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x)
    step = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape)), (params, x))
    moved = [loss(*jax.tree.map(lambda a, b: a + size * b, (params, x), step)) for size in (1e-6, -1e-6)]
    found = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(step)))
    np.testing.assert_allclose(found, (moved[0] - moved[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(("name", "chosen"), cases())
def test_whole_graph_mini_batches_and_evaluation_agree(name, chosen):
    """Of all neighbours: of all nodes, of what some seeds need, in sampled blocks of these, and layer by layer in chunks."""
    graph, options = GRAPHS[chosen](), {"heads": HEADS} if name in ATTENTION else {}
    given = setup(
        Config(model=owners.made_model(name=name, hidden=WIDTH, **options), sampling=Sampling(mode="full")), graph
    )
    graph, model, rng = given.graph, given.trainer.model, np.random.default_rng(0)
    x = {t: rng.standard_normal((graph.schema.nodes[t], w)).astype(np.float32) for t, w in model.widths.items()}
    blocks = whole_graph(graph, [graph.schema.target], 2, model.reads_own)
    params = jax.jit(model.init)(jax.random.key(0), blocks, x)
    whole = jax.jit(model.apply)(params, blocks, x)
    seeds = np.array([7, 3, 39, 0, 21], np.int32)
    sample = Sampler(graph, reads_own=model.reads_own).sample({graph.schema.target: seeds}, (ALL, ALL), (0,))
    rows = {t: x[t][ids] for t, ids in sample.inputs.items()}
    needed = jax.jit(model.apply)(
        params, needed_graph(Sampler(graph, reads_own=model.reads_own), {graph.schema.target: seeds}, 2), x
    )
    np.testing.assert_allclose(needed, whole[np.sort(seeds)], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(model.apply)(params, sample.blocks, rows), whole[seeds], rtol=1e-6, atol=1e-6)
    few = dataclasses.replace(graph, splits=dict.fromkeys(graph.splits, seeds[:2]))
    found = evaluated(Evaluator(model, few, 30), params, x, seeds)
    np.testing.assert_allclose(found, whole[seeds], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weights", [False, True])
def test_loops_are_added_once_and_first(weights):
    graph = weighted(homogeneous()) if weights else homogeneous()
    ((relation, given),) = graph.relations.items()
    made = loops.with_loops(given)
    assert made.loops and made.indices.dtype == given.indices.dtype and (made.weights is not None) == weights
    assert loops.with_loops(made) is made
    for v in range(len(made.indptr) - 1):
        span = slice(made.indptr[v], made.indptr[v + 1])
        expected = into(graph, relation, v, True)
        assert made.indices[span].tolist() == [u for u, _ in expected]
        if weights:
            assert made.weights[span].tolist() == [weight for _, weight in expected]


@pytest.mark.parametrize("weights", [False, True])
def test_normalised_weights_are_those_of_the_matrix(weights):
    """`D^-1/2 (A + I) D^-1/2`, of edges that go one way too; each entry once in float32."""
    graph = weighted(homogeneous()) if weights else homogeneous()
    ((relation, given),) = graph.relations.items()
    made = loops.normalised(loops.with_loops(given), 40)
    dense, count = np.zeros((40, 40)), np.zeros((40, 40))
    for v in range(40):
        for u, weight in into(graph, relation, v, True):
            dense[v, u] += weight
            count[v, u] += 1
    root = 1 / np.sqrt(dense.sum(axis=1))
    found = np.zeros((40, 40))
    source, target = csc.edges_of(made)
    np.add.at(found, (target, source), made.weights)
    np.testing.assert_allclose(found, root[:, None] * dense * root, rtol=1e-6)
    assert made.weights.dtype == np.float32


def test_what_sums_to_nothing_gets_no_weight():
    edges = csc.from_edges(np.array([0, 1, 2]), np.array([0, 0, 1]), 3, 3)
    edges = edges._replace(weights=np.array([1, -1, 2], np.float32))
    np.testing.assert_array_equal(loops.normalised(edges, 3).weights, [0, 0, 1])


def test_only_what_a_model_changes_is_copied():
    graph = random_graph()
    assert models.changed("sage", graph) is graph and models.changed("rgat", graph) is graph
    looped = models.changed("gat", graph)
    for relation, edges in graph.relations.items():
        assert (looped.relations[relation] is edges) == (relation.source != relation.target)
    normal = models.changed("gcn", graph)
    writes = Relation("author", "writes", "paper")
    assert normal.relations[writes].indices is graph.relations[writes].indices
    assert sum(edges.loops for edges in normal.relations.values()) == 3
    shape = abstract_graph(sizes(graph), graph.labels, graph.splits)
    assert sizes(models.changed("gcn", shape)) == sizes(graph)


@pytest.mark.parametrize("name", ["rgat", "hgt", *ATTENTION])
def test_attention_refuses_weights(name):
    with pytest.raises(InputError, match=f"model {name} reads none: set edge_weights of its reader false"):
        models.changed(name, weighted(homogeneous()))


def test_a_wrong_id_is_named_before_loops_are_added():
    graph = homogeneous()
    ((relation, edges),) = graph.relations.items()
    wrong = edges.indices.copy()
    wrong[5] = 77
    with pytest.raises(InputError, match="source of edge 5 is node 77"):
        models.changed("gcn", dataclasses.replace(graph, relations={relation: edges._replace(indices=wrong)}))


def test_options_that_a_model_has_not_are_refused():
    with pytest.raises(InputError, match=r"gin\.epsilon is 0\.5, and is for model\.name gin; it is gat"):
        models.options(owners.made_model(name="gat", epsilon=0.5))
    for name, option, value in (("gcn", "self_term", False), ("gin", "residual", True)):
        with pytest.raises(InputError, match=f"model.{option} is {value}, and model {name} has no such option"):
            models.options(owners.made_model(name=name, **{option: value}))
    taken = {name: hgnn.takes(models.find(name)) for name in NAMES}
    assert taken["gin"] == {"epsilon", "learn_epsilon", "norm", "dropout"}
    assert taken["gat"] >= {"heads", "output_heads", "attention_dropout", "bias", "residual"}
