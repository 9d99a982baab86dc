"""Rows of every width are as numpy has them: whole vectors of them, what is left over, and rows that are shorter than a vector."""

import numba
import numpy as np
import pytest

from hetjax.vectors import add_products, add_rows, add_scaled, clear, dot, dots, exponentials

compiled = numba.njit(error_model="numpy")
WIDTHS = [*range(1, 36), 47, 64, 79, 80, 95, 96, 129]
EXACT = {"float32": 2e-5, "float64": 1e-13}


@compiled
def _dots(out, x, y, shape):
    dots(out, 0, x, 0, y, 0, shape)


@compiled
def _add_rows(out, weights, ids, x, shape):
    add_rows(out, 0, weights, None, (ids, 0, len(ids)), x, shape)


@compiled
def _add_products(out, x, y, shape):
    add_products(out, 0, x, 0, y, 0, shape)


@compiled
def _alone(out, scale, x, y, zeros, powers):
    add_scaled(out, 0, scale, x, 0, x.size)
    clear(zeros, 0, zeros.size - 1)
    exponentials(powers, 0, powers.size)
    return dot(x, 0, y, 0, x.size)


def close(found, expected, dtype, added=1):
    """Up to rounding; `added` is what a sum's terms add up to without their signs."""
    atol = EXACT[dtype] * max(np.abs(expected).max(), added)
    np.testing.assert_allclose(found, expected, rtol=EXACT[dtype], atol=atol)


@pytest.fixture(params=EXACT)
def drawn(request):
    """Numbers of a dtype and a shape; the arrays that are written to are finite all the same beyond what is asked for."""
    rng = np.random.default_rng(0)
    return request.param, lambda *shape: rng.standard_normal(shape).astype(request.param)


def test_vectors_alone(drawn):
    dtype, draw = drawn
    for width in WIDTHS:
        out, x, y, zeros, powers = (draw(width) for _ in range(5))
        before, powers, last = out.copy(), -abs(powers), zeros[-1]
        exact = np.exp(powers)
        found = _alone(out, x.dtype.type(0.7), x, y, zeros, powers)
        close(found, x @ y, dtype, np.abs(x) @ np.abs(y))
        close(out, before + 0.7 * x, dtype)
        close(powers, exact, dtype)
        assert not zeros[:-1].any() and zeros[-1] == last


@pytest.mark.parametrize("heads", [1, 3, 4, 6])
@pytest.mark.parametrize("alike", [True, False])
def test_of_several_heads(drawn, heads, alike):
    """A row of the sources for all heads, or one for each."""
    dtype, draw = drawn
    ids = np.asarray([3, 0, 3, 1, 2, 0, 0], np.int32)
    for width in WIDTHS:
        asked, x, weights = draw(heads, width), draw(4, 1 if alike else heads, width), draw(len(ids), heads)
        found = draw(heads)
        _dots(found, asked, x, (heads, width, width, 0 if alike else width))
        close(found, np.sum(asked * x[0], axis=1), dtype)
        sums = draw(heads, width + 1)
        expected = sums.copy()
        expected[:, :width] += np.einsum("eh,ehw->hw", weights, np.broadcast_to(x[ids], (len(ids), heads, width)))
        _add_rows(sums, weights, ids, x, (heads, width, width + 1, x[0].size, 0 if alike else width))
        close(sums, expected, dtype)
        assert (sums[:, width] == expected[:, width]).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 10, 16, 17, 22])
@pytest.mark.parametrize("turned", [True, False])
def test_products_of_matrices(drawn, rows, turned):
    dtype, draw = drawn
    count = 5
    for columns in WIDTHS:
        x, y, out = draw(count, rows) if turned else draw(rows, count), draw(count, columns), draw(rows, columns + 2)
        expected = out.copy()
        expected[:, :columns] += (x.T if turned else x) @ y
        steps = (1, rows) if turned else (count, 1)
        _add_products(out, x, y, (count, rows, columns, columns + 2, *steps, columns))
        close(out, expected, dtype)
        assert (out[:, columns:] == expected[:, columns:]).all()


def test_a_column_has_the_same_bits_in_any_vector():
    """Sums over edges and products are in order, whatever else is added beside a column."""
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((4, 1, 40)).astype(np.float32), rng.standard_normal((7, 1)).astype(np.float32)
    ids = np.asarray([3, 0, 3, 1, 2, 0, 0], np.int32)
    whole = np.zeros(40, np.float32)
    _add_rows(whole, weights, ids, x, (1, 40, 40, 40, 0))
    for width in (1, 5, 17, 23, 39):
        part = np.zeros(width, np.float32)
        _add_rows(part, weights, ids, x, (1, width, width, 40, 0))
        np.testing.assert_array_equal(part, whole[:width])
