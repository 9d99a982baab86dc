"""Dropout: masks of nodes and edges, wherever and in whichever row they are computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.models.dropout import Masks, dropped, edge_keep_mask
from hetjax.sampling.sampler import group

STEP, PATH = Masks(jax.random.key(3)), ("layers_0", "finishing_paper")


def drop(x, rate, masks, path=PATH):
    return np.asarray(jax.jit(dropped, static_argnums=(1, 3))(x, rate, masks, path))


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_a_share_is_dropped_and_the_rest_made_larger(rate, width):
    x = jnp.asarray(np.random.default_rng(0).uniform(1, 2, (40_000 // width, width)), jnp.float32)
    found = drop(x, rate, STEP.of(None))
    kept = found != 0
    np.testing.assert_allclose(found[kept], np.asarray(x)[kept] / (1 - rate), rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / x.size)
    assert np.abs(kept.mean(0) - (1 - rate)).max() < 6 * np.sqrt(rate * (1 - rate) / len(x))
    if width == 64:
        assert np.abs(kept.mean(1) - (1 - rate)).max() < 6 * np.sqrt(rate * (1 - rate) / width)


def test_nothing_is_dropped_outside_of_training_or_at_a_rate_of_zero():
    x = jnp.ones((3, 4))
    assert dropped(x, 0.5, None, PATH) is x and dropped(x, 0.0, STEP.of(None), PATH) is x
    edges = group(np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32), 2)
    assert (
        edge_keep_mask(edges, 2, 0.5, None, PATH) is None and edge_keep_mask(edges, 2, 0.0, STEP.of(None), PATH) is None
    )


def test_masks_belong_to_nodes():
    ids = np.random.default_rng(0).permutation(500)[:200].astype(np.int32)
    everyone = drop(jnp.ones((500, 9)), 0.5, STEP.of(None))
    np.testing.assert_array_equal(drop(jnp.ones((200, 9)), 0.5, STEP.of(jnp.asarray(ids))), everyone[ids])
    for other in (
        drop(jnp.ones((500, 9)), 0.5, STEP.of(None), ("layers_1", "finishing_paper")),
        drop(jnp.ones((500, 9)), 0.5, Masks(jax.random.fold_in(STEP.key, 1)).of(None)),
    ):
        assert 0.4 < (other == everyone).mean() < 0.6


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_masks_of_edges_belong_to_their_targets(heads):
    rng = np.random.default_rng(1)
    degrees = rng.integers(0, 5, 60)
    degrees[3] = 0
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    keep = jax.jit(edge_keep_mask, static_argnums=(1, 2, 4))
    everyone = np.asarray(keep(group(indptr, np.zeros(indptr[-1], np.int32), 1), heads, 0.5, STEP.of(None), PATH))
    assert everyone.shape == (indptr[-1], heads) and set(np.unique(everyone)) == {0, 2}
    ids = rng.permutation(60)[:25].astype(np.int32)
    some = np.concatenate([[0], np.cumsum(degrees[ids])]).astype(np.int32)
    padded = group(some, np.zeros(some[-1], np.int32), 1)
    padded = padded._replace(indices=np.concatenate([padded.indices, np.zeros(7, np.int32)]))
    found = np.asarray(keep(padded, heads, 0.5, STEP.of(jnp.asarray(ids)), PATH))
    expected = np.concatenate([everyone[indptr[i] : indptr[i + 1]] for i in ids])
    np.testing.assert_array_equal(found[: some[-1]], expected)
    first, second = everyone[indptr[:-1][degrees > 1]], everyone[indptr[:-1][degrees > 1] + 1]
    assert 0.2 < (first == second).mean() < 0.8, "edges of one target have one mask"
