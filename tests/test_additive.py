"""Additive attention: kernels against plain operations, gradients, and padding that holds anything."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import partials
from hetjax.kernels.additive import attend_additively
from hetjax.kernels.native import platforms
from hetjax.sampling.blocks import Adjacency, pad_adjacency
from hetjax.sampling.whole import whole_graph
from tests.support.graphs import random_graph


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def arrays(rng, targets: int, sources: int, heads: int, width: int):
    """Queries, keys and the vector."""
    shapes = (targets, heads, width), (sources, heads, width), (heads, width)
    return [jnp.asarray(rng.standard_normal(shape)) for shape in shapes]


def everything(adjacency, given, keep=None):
    """Numerator and denominator, and the gradients of some function of both."""

    def loss(*given):
        found = attend_additively(adjacency, *given, 0.2, keep)
        return jnp.sum(jnp.sin(found.numerator)) + jnp.sum(jnp.cos(found.denominator)), found[1:]

    return jax.tree.leaves(jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))(*given))


@pytest.mark.parametrize("dropout", [True, False])
def test_kernels_equal_plain_operations(monkeypatch, dropout):
    """On as many targets as several threads share, some of them without edges and one with many."""
    rng, targets, sources = np.random.default_rng(0), 700, 900
    degrees = rng.integers(0, 6, targets)
    degrees[300], degrees[-1] = 4000, 0
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    adjacency = Adjacency(indptr, rng.integers(0, sources, indptr[-1]).astype(np.int32))
    adjacency = pad_adjacency(adjacency, targets, sources, int(indptr[-1]) + 50)
    given = arrays(rng, targets, sources, 3, 5)
    keep = jnp.asarray(rng.integers(0, 2, (len(adjacency.indices), 3)) * 2.0) if dropout else None
    found = everything(adjacency, given, keep)
    monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    jax.clear_caches()
    for one, other in zip(found, everything(adjacency, given, keep), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_it_equals_a_loop_and_its_gradients_finite_differences(way):
    adjacency = whole_graph(random_graph(), ["paper"], 2)[0].adjacency["paper--cites--paper"]
    rng, nodes = np.random.default_rng(0), len(adjacency.indptr) - 1
    given = arrays(rng, nodes, nodes, 2, 3)
    queries, keys, vector = map(np.asarray, given)
    found = partials.attended(attend_additively(adjacency, *given, 0.2))
    for v in range(nodes):
        sources = np.asarray(adjacency.indices[adjacency.indptr[v] : adjacency.indptr[v + 1]])
        if not len(sources):
            assert not found[v].any()
            continue
        met = keys[sources] + queries[v]
        weights = np.exp(np.sum(np.where(met > 0, met, 0.2 * met) * vector, axis=2))
        mean = np.sum(weights[..., None] * keys[sources], axis=0) / weights.sum(axis=0)[:, None]
        np.testing.assert_allclose(found[v], mean.ravel(), rtol=1e-12, atol=1e-12)

    @jax.jit
    def loss(*given):
        return jnp.sum(jnp.sin(partials.attended(attend_additively(adjacency, *given, 0.2))))

    step = [jnp.asarray(rng.standard_normal(leaf.shape)) for leaf in given]
    moved = [loss(*(leaf + size * move for leaf, move in zip(given, step))) for size in (1e-6, -1e-6)]
    gradients = jax.grad(loss, argnums=(0, 1, 2))(*given)
    expected = sum(jnp.vdot(one, other) for one, other in zip(gradients, step))
    np.testing.assert_allclose((moved[0] - moved[1]) / 2e-6, expected, rtol=1e-6)


@pytest.mark.parametrize("value", [2**31 - 1, -1, -(2**31), 3])
def test_padding_is_not_read(way, value):
    exact = whole_graph(random_graph(), ["paper"], 2)[0].adjacency["author--writes--paper"]
    sources, targets, edges = (len(exact.reverse_indptr) - 1, len(exact.indptr) - 1, len(exact.indices))
    given = arrays(np.random.default_rng(0), targets, sources, 2, 3)
    padded = pad_adjacency(exact, targets, sources, edges + 9)
    spoiled = {}
    for name in ("indices", "reverse_indices", "reverse_edges"):
        spoiled[name] = getattr(padded, name).copy()
        spoiled[name][edges:] = value
    unturned = Adjacency(exact.indptr, exact.indices)
    for other in (padded._replace(**spoiled), unturned):
        for one, another in zip(everything(exact, given), everything(other, given), strict=True):
            np.testing.assert_allclose(one, another, rtol=1e-12, atol=1e-14)
