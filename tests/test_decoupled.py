"""Decoupled models: against plain matrices, equal on every mesh, refused where a model has nothing to fold without matrices."""

import jax
import numpy as np
import pytest

from hetjax.sharding.registry import make_engine
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, compare, few, setting
from tests.support.graphs import random_graph


def dense(csc, sources: int) -> np.ndarray:
    """A relation as a matrix of weights, `[targets, sources]`."""
    matrix = np.zeros((len(csc.indptr) - 1, sources))
    for target, (start, stop) in enumerate(zip(csc.indptr, csc.indptr[1:])):
        for edge in range(start, stop):
            matrix[target, csc.indices[edge]] += 1 if csc.weights is None else csc.weights[edge]
    return matrix


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


@pytest.mark.parametrize("model", ["GCN, decoupled", "SAGE, decoupled", "GIN, decoupled", "R-GCN, decoupled"])
def test_logits_are_those_of_plain_matrices(model):
    """Equations 8 and 9 of NeutronTP's paper: dense layers, then powers of a matrix."""
    graph = GRAPHS["homogeneous, weights"]()
    plain = {"residual": False, "layers": 2, "norm": "none"}
    engine = make_engine(setting(graph, "full", (1, 1), MODELS[model] | plain, {}), graph)
    state = engine.init(0)
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, state.params)["params"]
    found = engine.outputs(state._replace(params={"params": params}), np.arange(len(graph.labels)))
    folded = engine.setup.graph  # with GCN's loops and weights
    (relation,) = folded.relations
    fold, h = dense(folded.relations[relation], len(graph.labels)), graph.features["node"].astype(float)
    for depth in range(2):
        layer = params[f"dense_node_{depth}"]
        h = h @ layer["Dense_0"]["kernel"]
        h = h if depth else np.maximum(h + layer["Finish_0"]["bias"], 0)
    (relation,) = (relation.key for relation in folded.relations)
    for depth in range(2):
        mean = fold / np.maximum(fold.sum(1, keepdims=True), 1e-30) @ h
        if model.startswith("GCN"):
            h = fold @ h
        elif model.startswith("SAGE"):
            h = (h + mean) / 2
        elif model.startswith("R-GCN"):
            round_ = params[f"layers_{depth}"]
            h = (1 + round_["scale_node"]) * h + (1 + round_[f"scale_{relation}"]) * mean
        else:
            h = (1 + params[f"layers_{depth}"]["epsilon_node"]) * h + fold @ h
    h = h + params["layers_1"]["finishing_node"]["bias"]
    if "head" in params:
        h = np.maximum(h, 0) @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(found, h, rtol=2e-4, atol=1e-5)


def test_attention_is_that_of_the_dense_layers_embeddings():
    """Of GAT, against a loop over edges: what was folded since changes no weight."""
    graph = GRAPHS["homogeneous"]()
    options = {"name": "gat", "decoupled": True, "heads": 2, "layers": 2, "head": True}
    engine = make_engine(setting(graph, "full", (1, 1), options, {}), graph)
    state = engine.init(0)
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1, state.params)["params"]
    found = engine.outputs(state._replace(params={"params": params}), np.arange(len(graph.labels)))
    (csc,), h = engine.setup.graph.relations.values(), graph.features["node"].astype(float)
    for depth in range(2):
        layer = params[f"dense_node_{depth}"]
        h = h @ layer["Dense_0"]["kernel"]
        h = h if depth else elu(h + layer["Finish_0"]["bias"])
    vectors, h = params["layers_0"]["scores_node"]["vectors"], h.reshape(len(h), 2, 4)
    scores = np.einsum("nhd,hdc->nhc", h, vectors)
    fold = np.zeros((2, len(h), len(h)))
    for target, (start, stop) in enumerate(zip(csc.indptr, csc.indptr[1:])):
        sources = csc.indices[start:stop]
        logits = scores[sources, :, 0] + scores[target, :, 1]
        weights = np.exp(np.where(logits > 0, logits, 0.2 * logits))
        for source, weight in zip(sources, weights / weights.sum(0)):
            fold[:, target, source] += weight
    for _ in range(2):
        h = np.einsum("htu,uhd->thd", fold, h)
    h = elu(h.reshape(len(h), 8) + params["layers_1"]["finishing_node"]["bias"])
    h = h @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(found, h, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "mesh", "mode", "options"),
    [
        ("R-GCN, decoupled", (2, 1), "minibatch", {}),
        ("SAGE, decoupled", (1, 2, "dependency"), "full", {"options": {"mode": "communicate"}}),
    ],
)
def test_equals_one_device_on_other_meshes(model, mesh, mode, options):
    graph = few("cites", "writes", "of")
    errors = compare(graph, mesh, mode, MODELS[model] | {"layers": 2}, steps=4, wide=True, **options)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


def test_a_type_without_nodes_has_a_shape_all_the_same():
    """Traced, and not computed."""
    graph = random_graph(3)
    engine = make_engine(setting(graph, "full", (1, 1), MODELS["R-GAT, decoupled"], {}), graph)
    state, (drawn,) = jax.eval_shape(engine.trainer.init, 0), engine.batches.epoch(0)
    learned = {t: table.rows for t, table in state.tables.items()}
    loss = jax.eval_shape(engine.trainer.loss, state.params, learned, engine.static, drawn.batch)
    assert "ghost" in learned and loss.shape == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"name": "gat", "attention_dropout": 0.1},
            "model.attention_dropout is 0.1, and a decoupled model has no such",
        ),
        ({"name": "gatv2"}, "model.decoupled is true, and GATv2Layer cannot be decoupled"),
        ({"name": "hgt"}, "model.decoupled is true, and HGTLayer cannot be decoupled"),
        ({"name": "tests.support.equivalence:own_mean"}, "model.decoupled is true, and Composed cannot be decoupled"),
        ({"bases": 2}, "rgcn.bases is 2, and a decoupled model has no such option"),
        ({"one_hot": True}, "rgcn.one_hot is True, and a decoupled model has no such option"),
    ],
)
def test_what_cannot_be_decoupled_is_refused(options, words):
    graph = few("cites", "writes")
    with pytest.raises(InputError, match=words):
        make_engine(setting(graph, "full", (1, 1), options | {"decoupled": True}, {}), graph)
