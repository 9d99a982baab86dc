"""Features of which zeros are not kept: training and evaluation equal those of all entries."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import sparse
from hetjax.kernels.cost_model import ACCELERATOR, Costs
from hetjax.kernels.linear import times
from hetjax.kernels.native import platforms
from hetjax.kernels.sparse import SparseRows, compact
from hetjax.kernels.sums_at import sums_at
from hetjax.sampling.blocks import NO_NODE
from hetjax.sampling.sampler import group
from hetjax.sharding.registry import make_engine
from hetjax.sharding.single.reading import without_zeros
from hetjax.sharding.strategy import setup
from tests.support.equivalence import GRAPHS, MODELS, alone, apart, floats, homogeneous, setting
from tests.support.models import set_costs

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
    ("two relations", "minibatch", "R-GCN, bases"),
    ("homogeneous", "minibatch", "GIN, no head"),
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
    set_costs(monkeypatch, Costs(move=0))  # so that any batch reads enough
    for share in (0.0, 1.0):
        monkeypatch.setattr(sparse, "DENSEST", share)
        with floats(wide=True):
            engine = make_engine(setting(graph, mode, (1, 1), MODELS[model], {}), graph)
            kept = {t for t, matrix in engine.static.items() if isinstance(matrix, SparseRows)}
            floating = {t for t, matrix in graph.features.items() if matrix.dtype == np.float32}
            assert kept == (floating if share else set()) and floating
            logits = engine.outputs(engine.init(1), np.arange(0, 30, 3))
            found.append((alone(graph, mode, MODELS[model], 3, True), logits))
    (dense, expected), (entries, logits) = found
    assert max(apart(entries, dense)) < 1e-9
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_a_model_that_reads_features_otherwise_is_given_all_entries(monkeypatch):
    monkeypatch.setattr(sparse, "DENSEST", 1.0)
    graph = with_zeros(GRAPHS["homogeneous"]())
    residual = {"name": "gcn", "residual": True, "hidden": 7}  # as wide as the features, which are added
    gated = {"name": "hgt", "heads": 1, "hidden": 7}  # likewise
    for mode, model in (("full", gated), ("full", residual)):
        engine = make_engine(setting(graph, mode, (1, 1), model, {}), graph)
        assert not any(isinstance(matrix, SparseRows) for matrix in engine.static.values())


@pytest.mark.parametrize(
    ("backend", "kernels", "batch", "model", "costs", "kept"),
    [
        ("cpu", True, 1, {}, Costs(), True),
        ("cpu", True, 30, {}, Costs(), True),
        ("cpu", True, 1, {"input_dropout": 0.5}, Costs(), False),  # draws masks for all entries
        ("cpu", True, 30, {"input_dropout": 0.5}, Costs(), True),
        ("cpu", False, 1, {}, Costs(), False),
        ("cpu", False, 30, {}, Costs(), True),
        ("gpu", True, 1, {}, Costs(), False),
        ("gpu", True, 30, {}, Costs(), True),
        ("gpu", True, 30, {}, ACCELERATOR._replace(group=0), False),
        ("cpu", True, 1, {}, Costs(move=2.0), False),  # a number of an edge takes 250 multiplications
        ("cpu", True, 1, {"input_projection": 8}, Costs(move=0.15), True),  # and here 20
        ("cpu", True, 1, {"input_projection": 8}, Costs(move=0.17), False),
    ],
)
def test_a_mini_batch_is_given_all_entries_where_that_is_less_work(
    monkeypatch, backend, kernels, batch, model, costs, kept
):
    """A twentieth of the features is not zero. A batch of one seed reads few of the 90 rows, one of 30 most."""
    graph = homogeneous(90)
    matrix = np.zeros((90, 200), np.float32)
    matrix[np.arange(90)[:, None], (np.arange(90)[:, None] + np.arange(0, 200, 20)) % 200] = 1
    graph = dataclasses.replace(graph, features={"node": matrix})
    about = {"batch_size": batch, "fanout": (3, 3)}
    config = setting(graph, "minibatch", (1, 1), MODELS["SAGE"] | model, about)
    set_costs(monkeypatch, costs)
    given = setup(config, graph)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(platforms, "ffi_version", platforms.ffi_version if kernels else lambda: None)
    assert without_zeros(given) == ({"node"} if kept else set())


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


@pytest.mark.parametrize("count", [0, 3, 40, 3000])
def test_sums_at_some_targets_equal_all_sums(way, count):
    """There and back; of targets that are there twice, not at all, and beyond the end, of which nothing comes back; in one part and in several."""
    rng = np.random.default_rng(count)
    matrix = np.where(rng.random((60, 8)) < 0.4, rng.standard_normal((60, 8)), 0).astype(np.float32)
    targets, x = rng.integers(0, 70, count, dtype=np.int32), rng.standard_normal((8, 5)).astype(np.float32)
    targets[::9] = NO_NODE
    entries, by = grouped(matrix), rng.standard_normal((count, 5)).astype(np.float32)
    nowhere = np.where(targets < 60, 0, np.nan).astype(np.float32)[:, None]
    dense = np.concatenate([matrix, np.zeros((1, 8), np.float32)])[np.minimum(targets, 60)].astype(float)
    for adjacency in (entries, entries._replace(reverse_indptr=None, reverse_indices=None, reverse_edges=None)):
        found, back = jax.vjp(jax.jit(functools.partial(sums_at, adjacency, targets)), x)
        np.testing.assert_allclose(found, dense @ x, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(back(by + nowhere)[0], dense.T @ by, rtol=1e-4, atol=1e-4)


def test_sums_at_some_targets_are_of_the_matrix_dtype(way):
    """Of float64 ones, in double precision, where the entries are float32; and of no entries, and no columns."""
    matrix = np.where(np.arange(60).reshape(6, 10) % 7 == 0, np.float32(0.3), np.float32(0))
    targets, entries = np.array([5, 0, 5], np.int32), grouped(matrix)
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((10, 3))
        found, back = jax.vjp(lambda x: sums_at(entries, targets, x), x)
        assert found.dtype == back(found)[0].dtype == np.float64
        np.testing.assert_allclose(found, matrix[targets].astype(float) @ x, rtol=1e-14)
        np.testing.assert_allclose(back(found)[0], matrix[targets].T.astype(float) @ np.asarray(found), rtol=1e-14)
    none, narrow = grouped(np.zeros((6, 10), np.float32)), np.ones((10, 0), np.float32)
    assert not np.any(sums_at(none, targets, np.ones((10, 3), np.float32)))
    assert sums_at(entries, targets, narrow).shape == (3, 0)


def grouped(matrix):
    """The entries of a matrix that are not zero."""
    rows, columns = np.nonzero(matrix)
    indptr = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32)
    return group(indptr, columns.astype(np.int32), matrix.shape[1], matrix[rows, columns])


def test_nothing_but_the_rows_of_a_batch_is_multiplied():
    """No array of a program has as many rows as the features have, there or back."""
    rows, kernel = compact(np.eye(977, 50, dtype=np.float32)), np.ones((50, 3), np.float32)
    some = np.arange(5, dtype=np.int32)
    back = jax.jit(jax.value_and_grad(lambda kernel: jnp.sum(jnp.square(times(rows.rows_at(some), kernel)))))
    text = back.lower(kernel).compile().as_text()
    assert "[50,3]" in text and "[977," not in text


@pytest.mark.parametrize(
    "matrix", [np.ones((9, 9), np.float32), np.zeros((9, 9), np.int8), np.zeros((0, 9), np.float32)]
)
def test_what_would_not_be_faster_stays(matrix):
    assert compact(matrix) is matrix


def test_nothing_is_kept_of_a_zero():
    matrix = np.eye(400, dtype=np.float32)
    rows = compact(matrix)
    assert len(rows.values) == len(rows.entries.indices) == 400 and rows.nbytes * 20 < matrix.nbytes
