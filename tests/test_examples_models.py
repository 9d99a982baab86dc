"""Models of one's own in `examples`: their folds by hand where that tells something, and on a mesh as on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.han import joined
from examples.simple_hgn import SLOPE, SimpleHGN
from hetjax.metapaths import Metapath
from hetjax.sampling.whole import whole_graph
from tests.support.equivalence import compare, few
from tests.support.metapaths import product

MODELS = {
    "Simple-HGN": {"name": "examples.simple_hgn:SimpleHGN", "heads": 2, "input_projection": True, "layers": 1},
    "Simple-HGN, no head": {"name": "examples.simple_hgn:SimpleHGN", "input_projection": True, "head": False},
    "HAN": {"name": "examples.han:HAN", "heads": 2, "layers": 1, "dropout": 0.3},
}


HEADS, WIDTH, TYPES = 2, 6, ("paper", "author")


def simple_hgn_loop(graph, p, x, node_type, heads):
    """Equations 4, 5, 7 and 8 of the paper, edge by edge; one head makes logits."""
    source, target, edge = (p[f"attention_{name}"] for name in ("source", "target", "edge"))
    w, w_r = p["matrix"]["kernel"], p["edge_matrix"]["kernel"]
    rows = []
    for v, own in enumerate(x[node_type]):
        found = [("loop", own)]
        for relation in graph.schema.into(node_type):
            csc = graph.relations[relation]
            found += [(relation.key, x[relation.source][u]) for u in csc.indices[csc.indptr[v] : csc.indptr[v + 1]]]
        total = []
        for head in range(heads):
            values = np.array([h @ w[:, head] for _, h in found])
            scores = values @ source[head] + own @ w[:, head] @ target[head]
            scores = scores + [edge[head] @ (p[f"edge_{name}"] @ w_r[:, head]) for name, _ in found]
            weights = np.exp(np.where(scores > 0, scores, SLOPE * scores))
            total.append(weights @ values / weights.sum())
        rows.append(np.concatenate(total) + own @ p["residual"]["kernel"])
    h = np.array(rows)
    return (
        h / np.linalg.norm(h, axis=1, keepdims=True) if heads == 1 else np.where(h > 0, h, np.expm1(np.minimum(h, 0)))
    )


@pytest.mark.parametrize("logits", [False, True])
def test_simple_hgn_is_what_the_paper_says(logits):
    graph, rng = few("writes", "written_by", "cites"), np.random.default_rng(0)
    with jax.enable_x64(True):
        x = {t: jnp.asarray(rng.standard_normal((graph.schema.nodes[t], WIDTH))) for t in TYPES}
        relations = tuple(r for r in graph.schema.relations if r.source in TYPES and r.target in TYPES)
        layer = SimpleHGN(relations, TYPES, TYPES, dict.fromkeys(TYPES, WIDTH), WIDTH, heads=HEADS, logits=logits)
        block = whole_graph(graph, [graph.schema.target], 2)[0]
        params = jax.eval_shape(layer.init, jax.random.key(0), block, x)
        params = jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape)), params)
        found = layer.apply(params, block, x)
        for node_type in TYPES:
            arrays = {t: np.asarray(rows) for t, rows in x.items()}
            p = jax.tree.map(np.asarray, params["params"])
            expected = simple_hgn_loop(graph, p, arrays, node_type, 1 if logits else HEADS)
            np.testing.assert_allclose(found[node_type], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["Simple-HGN", "HAN"])
def test_relations_on_two_partitions_equal_one_device(name):
    graph = few("writes", "written_by", "cites")
    graph = joined(graph, 2) if name == "HAN" else graph
    errors = compare(graph, (2, 1), "full", MODELS[name], steps=3, wide=True)
    assert errors.loss < 1e-9 and errors.gradient < 1e-9 and errors.state < 1e-7


def test_metapaths_join_the_nodes_that_they_reach():
    graph = few("writes", "written_by")
    made = joined(graph, 2)
    for relation, csc in made.relations.items():
        path = next(
            p
            for p in [Metapath("paper", (a, b)) for a in graph.relations for b in graph.relations]
            if p.name(graph.schema) == relation.name
        )
        reached = np.zeros((len(graph.labels),) * 2)
        reached[np.repeat(np.arange(len(reached)), np.diff(csc.indptr)), csc.indices] = 1
        np.testing.assert_array_equal(reached > 0, product(graph, path) > 0)
    assert made.relations
