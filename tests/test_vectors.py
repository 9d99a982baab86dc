"""Rows of every width are as numpy has them: whole vectors of them, what is left over, and rows that are shorter than a vector."""

import numba
import numpy as np
import pytest

from hetjax.kernels.vectors import add_products, add_rows, add_scaled, clear, dot, dots, exponentials, loops

compiled = numba.njit(error_model="numpy")
WIDTHS = [*range(36), 47, 64, 79, 80, 95, 96, 129]
EXACT = {"float32": 2e-5, "float64": 1e-13}
EDGE = 16  # numbers on both sides of an array that must not be read or written
IDS = np.asarray([3, 0, 3, 1, 2, 0, 0], np.int32)


@compiled
def _dots(out, x, y, shape, ahead):
    dots(out, EDGE, x, EDGE, y, EDGE, shape, ahead)


@compiled
def _alone(out, scale, x, y, zeros, powers, count):
    add_scaled(out, EDGE, scale, x, EDGE, count)
    clear(zeros, EDGE, count)
    exponentials(powers, EDGE, count)
    return dot(x, EDGE, y, EDGE, count)


@pytest.fixture(params=[1, 4])
def wide(request, monkeypatch):
    """As many vectors at a time as on processors without AVX-512, and with it."""
    monkeypatch.setattr(loops, "WIDE", request.param)


def products():
    """`add_products`, compiled anew, as it depends on the processor."""

    def run(out, x, y, shape, ahead):
        add_products(out, EDGE, x, EDGE, y, EDGE, shape, ahead)

    return numba.njit(error_model="numpy")(run)


def sums():
    """`add_rows`, likewise."""

    def run(out, weights, places, ids, x, shape):
        add_rows(out, EDGE, weights, places, (ids, 0, len(ids)), x, shape)

    return numba.njit(error_model="numpy")(run)


def inside(array):
    """A copy of an array with what must not be read around it, and the part of that which is the array."""
    whole = np.full(array.size + 2 * EDGE, np.nan, array.dtype)
    whole[EDGE : EDGE + array.size] = array.ravel()
    return whole, whole[EDGE : EDGE + array.size].reshape(array.shape)


def close(found, expected, added=1.0):
    """Up to rounding, and nothing around is written; `added` is what a sum's terms add up to without their signs."""
    whole, part = found
    assert np.isnan(whole[:EDGE]).all() and np.isnan(whole[EDGE + part.size :]).all()
    exact = EXACT[part.dtype.name]
    np.testing.assert_allclose(part, expected, rtol=exact, atol=exact * max(added, np.max(np.abs(expected), initial=0)))


@pytest.fixture(params=EXACT)
def draw(request):
    """What draws an array of a shape."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.standard_normal(shape).astype(request.param)


def test_vectors_alone(draw):
    for width in WIDTHS:
        out, x, y, zeros, powers = (draw(width) for _ in range(5))
        powers = -abs(powers)
        given = [inside(array) for array in (out, x, y, zeros, powers)]
        wholes = [whole for whole, _ in given]
        found = _alone(wholes[0], x.dtype.type(0.7), *wholes[1:], width)
        for array, expected in zip((given[0], given[3], given[4]), (out + 0.7 * x, 0 * zeros, np.exp(powers))):
            close(array, expected)
        close(inside(np.asarray([found], x.dtype)), x @ y, np.abs(x) @ np.abs(y))


@pytest.mark.parametrize("heads", [1, 3, 4, 6, 8])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("between", [0, 1])
def test_of_several_heads(wide, draw, heads, alike, between):
    """A row of the sources for all heads, or one for each; heads that are one row, and others; weights of edges in order, and not."""
    add, places = sums(), np.random.default_rng(3).permutation(len(IDS)).astype(np.int32)
    for width in WIDTHS:
        step = width + between
        asked, x, weights = draw(heads, step), draw(4, 1 if alike else heads, width), draw(len(IDS), heads)
        found, ahead = inside(draw(heads)), x.size - 1  # what is prefetched ends after its array
        _dots(found[0], inside(asked)[0], inside(x)[0], (heads, width, step, 0 if alike else width), ahead)
        terms = asked[:, :width] * x[0]
        close(found, np.sum(terms, axis=1), np.max(np.sum(np.abs(terms), axis=1), initial=0))
        before = draw(heads, step)
        for by in (None, places):
            expected, found, own = before.copy(), inside(before), weights if by is None else weights[by]
            expected[:, :width] += np.einsum("eh,ehw->hw", own, np.broadcast_to(x[IDS], (len(IDS), heads, width)))
            (_, of_edges), (_, rows) = inside(weights), inside(x)
            add(found[0], of_edges, by, IDS, rows, (heads, width, step, x[0].size, 0 if alike else width))
            close(found, expected, 10)
            assert (found[1][:, width:] == before[:, width:]).all()


def test_rows_without_weights(wide, draw):
    add = sums()
    for width in WIDTHS:
        x, before = draw(4, width), draw(width)
        found = inside(before)
        add(found[0], None, None, IDS, x, (1, width, width, width, width))
        close(found, before + x[IDS].sum(0), 10)


@pytest.mark.parametrize("turned", [True, False])
def test_products_of_matrices(wide, draw, turned):
    multiply, count = products(), 5
    for rows in (1, 2, 3, 4, 5, 6, 10, 16, 17, 22):
        for columns in WIDTHS:
            x, y, out = (
                draw(count, rows) if turned else draw(rows, count),
                draw(count, columns),
                draw(rows, columns + 2),
            )
            expected, found = out.copy(), inside(out)
            expected[:, :columns] += (x.T if turned else x) @ y
            steps = (1, rows) if turned else (count, 1)
            shape = count, rows, columns, columns + 2, *steps, columns
            multiply(found[0], inside(x)[0], inside(y)[0], shape, None)
            close(found, expected, 10)
            assert (found[1][:, columns:] == out[:, columns:]).all()
            again, after_its_end = inside(out), (y, y.size - 1, columns)
            multiply(again[0], inside(x)[0], inside(y)[0], shape, after_its_end)
            np.testing.assert_array_equal(again[1], found[1])


def test_a_column_has_the_same_bits_in_any_vector(wide):
    """Sums over edges and products are in order, whatever else is added beside a column."""
    rng, width, add = np.random.default_rng(1), 150, sums()
    x, weights = rng.standard_normal((4, 1, width)).astype(np.float32), rng.standard_normal((300, 1)).astype(np.float32)
    ids, left, multiply = rng.integers(0, 4, 300, np.int32), rng.standard_normal((1, 4)).astype(np.float32), products()
    of_edges, of_rows = (inside(np.zeros(width, np.float32)) for _ in range(2))
    add(of_edges[0], weights, None, ids, x, (1, width, width, width, 0))
    multiply(of_rows[0], inside(left)[0], inside(x)[0], (4, 1, width, width, 4, 1, width), None)
    for column in range(width):
        own = np.ascontiguousarray(x[..., column:])
        for whole, alone in ((of_edges, inside(np.zeros(1, np.float32))), (of_rows, inside(np.zeros(1, np.float32)))):
            if whole is of_edges:
                add(alone[0], weights, None, ids, own, (1, 1, 1, width - column, 0))
            else:
                multiply(alone[0], inside(left)[0], inside(own)[0], (4, 1, 1, 1, 4, 1, width - column), None)
            assert alone[1][0] == whole[1][column]


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_heads_that_share_a_vector_have_the_bits_of_each_alone(wide, size):
    """Sums over edges: their order does not depend on what is beside a head."""
    rng, heads, add = np.random.default_rng(6), 9, sums()
    x, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, heads, size), (300, heads)))
    ids, together = rng.integers(0, 4, 300, np.int32), inside(np.zeros((heads, size), np.float32))
    add(together[0], weights, None, ids, x, (heads, size, size, heads * size, size))
    for head in range(heads):
        alone = inside(np.zeros(size, np.float32))
        of_edges, rows = (np.ascontiguousarray(array[:, head : head + 1]) for array in (weights, x))
        add(alone[0], of_edges, None, ids, rows, (1, size, size, size, size))
        np.testing.assert_array_equal(alone[1], together[1][head])
