"""Features of which zeros are not kept: training and evaluation equal those of all entries."""

import dataclasses

import numpy as np
import pytest

from hetjax.cache import sparse
from hetjax.cache.sparse import SparseRows, compact
from hetjax.models import orders
from hetjax.models.linear import times
from hetjax.models.orders import Costs
from hetjax.sharding.registry import make_engine
from tests.equivalence import GRAPHS, MODELS, alone, apart, floats, homogeneous, setting

CASES = [
    ("homogeneous", "full", "GCN"),
    ("homogeneous", "full", "SAGE"),
    ("homogeneous", "full", "GIN, no head"),
    ("homogeneous", "full", "GATv2"),
    ("homogeneous", "full", "GCN, decoupled"),
    ("homogeneous", "full", "R-GAT, dropout"),
    ("homogeneous", "full", "HGT, relation"),
    ("few relations", "full", "R-GCN, bases"),
    ("homogeneous", "full", "R-GCN, residual"),
    ("homogeneous", "minibatch", "GCN"),
    ("two relations", "minibatch", "R-GCN"),
    ("two relations", "minibatch", "R-GAT"),
    ("two relations", "minibatch", "HGT, dropout"),
    ("two relations", "minibatch", "R-GCN, residual"),
]


def with_zeros(graph):
    """Half of the entries of its features, a row and a column of each among them."""
    rng, features = np.random.default_rng(5), {}
    for t, matrix in graph.features.items():
        features[t] = np.where(rng.random(matrix.shape) < 0.5, 0, matrix)
        features[t][1], features[t][:, 0] = 0, 0
    return dataclasses.replace(graph, features=features)


@pytest.mark.parametrize(("name", "mode", "model"), CASES)
def test_training_and_evaluation_are_the_same(monkeypatch, name, mode, model):
    """In double precision, with what is dropped out; and only sums are taken in another order."""
    graph, found = with_zeros(GRAPHS[name]()), []
    monkeypatch.setattr(orders, "_costs", Costs(move=0))  # so that any batch reads enough
    for share in (0.0, 1.0):
        monkeypatch.setattr(sparse, "DENSEST", share)
        with floats(wide=True):
            engine = make_engine(setting(graph, mode, (1, 1), MODELS[model], {}), graph)
            kept = {t for t, matrix in engine.static.items() if isinstance(matrix, SparseRows)}
            floating = {t for t, matrix in graph.features.items() if matrix.dtype == np.float32}
            assert kept == (floating if share else set()) and floating
            logits = engine.logits(engine.init(1), np.arange(0, 30, 3))
            found.append((alone(graph, mode, MODELS[model], 3, True), logits))
    (dense, expected), (entries, logits) = found
    assert max(apart(entries, dense)) < 1e-9
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_a_model_that_reads_features_otherwise_is_given_all_entries(monkeypatch):
    monkeypatch.setattr(sparse, "DENSEST", 1.0)
    graph = with_zeros(GRAPHS["homogeneous"]())
    residual = {"name": "gcn", "residual": True, "hidden": 7}  # as wide as the features, which are added
    gated = {"name": "hgt", "heads": 1, "hidden": 7}  # likewise
    for mode, model in (("full", gated), ("full", residual), ("minibatch", MODELS["SAGE"])):
        engine = make_engine(setting(graph, mode, (1, 1), model, {}), graph)
        assert not any(isinstance(matrix, SparseRows) for matrix in engine.static.values())


@pytest.mark.parametrize(("batch", "kept"), [(1, set()), (30, {"node"})])
def test_a_mini_batch_that_reads_few_rows_is_given_all_entries(batch, kept):
    """A twentieth of the features is not zero: half of the rows has to be read."""
    graph = homogeneous(90)
    matrix = np.zeros((90, 20), np.float32)
    matrix[np.arange(90), np.arange(90) % 20] = 1
    graph = dataclasses.replace(graph, features={"node": matrix})
    about = {"batch_size": batch, "fanout": (3, 3)}
    engine = make_engine(setting(graph, "minibatch", (1, 1), MODELS["SAGE"], about), graph)
    assert {t for t, matrix in engine.static.items() if isinstance(matrix, SparseRows)} == kept


def test_products_of_rows():
    """Of all, of some, and of one that there is not."""
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((50, 40)) < 0.05, rng.standard_normal((50, 40)), 0).astype(np.float32)
    rows, kernel = compact(matrix), rng.standard_normal((40, 2, 3)).astype(np.float32)
    assert isinstance(rows, SparseRows) and rows.shape == (50, 40) and rows.nbytes < matrix.nbytes
    np.testing.assert_allclose(times(rows, kernel), np.einsum("sw,whd->shd", matrix, kernel), rtol=1e-5, atol=1e-6)
    picked = times(rows.rows_at(np.array([7, 50, 7], np.int32)), kernel)
    np.testing.assert_allclose(picked[0], np.einsum("w,whd->hd", matrix[7], kernel), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(picked[::2], np.stack([picked[0]] * 2))
    assert not np.any(picked[1])
    again = times(rows.rows_at(np.array([7, 50, 3], np.int32)).rows_at(np.array([2, 3, 0, 1], np.int32)), kernel)
    np.testing.assert_array_equal(again, times(rows.rows_at(np.array([3, 50, 7, 50], np.int32)), kernel))


@pytest.mark.parametrize(
    "matrix", [np.ones((9, 9), np.float32), np.zeros((9, 9), np.int8), np.zeros((0, 9), np.float32)]
)
def test_what_would_not_be_faster_stays(matrix):
    assert compact(matrix) is matrix


def test_nothing_is_kept_of_a_zero():
    matrix = np.eye(400, dtype=np.float32)
    rows = compact(matrix)
    assert len(rows.values) == len(rows.entries.indices) == 400 and rows.nbytes * 20 < matrix.nbytes
