"""Products with matrices, and their gradients by the kernel and by operations of XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels.products import PARTS, _in_parts, added, each_product, product, turned_product
from hetjax.kernels.tables import rows_at
from hetjax.kernels.vectors import SIDE


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 5000, 35, 67),
        (3, 1500, 21, 5),
        (3, 5001, 21, 5),
        (1, 1, 3, 2),
        (1, 70, 8, 1),
        (2, 300, 4, 200),
        (1, 0, 3, 4),
        (1, 9, 0, 4),
        (2, 2100, 2 * SIDE + 13, 33),
        (1, 400, SIDE + 1, 3),
        (1, 1, SIDE, 70),
    ],
)
@pytest.mark.parametrize("multiply", [turned_product, _in_parts])
def test_a_turned_product_equals_numpys(multiply, shape, dtype):
    """Of as many rows as are summed in parts, of one, and of none; of columns that fit vectors, and copies, and that do not."""
    batch, rows, m, n = shape
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((batch, rows, m)), rng.standard_normal((batch, rows, n))
    found = jax.jit(multiply)(jnp.asarray(x, dtype), jnp.asarray(y, dtype))
    assert found.dtype == dtype
    exact = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found, np.einsum("brm,brn->bmn", x, y), rtol=exact, atol=exact * 10)


@pytest.mark.parametrize("multiply", [turned_product, _in_parts])
def test_matrices_in_several_arrays_with_rows_of_their_own(multiply):
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((3, 1100, 9)), rng.standard_normal((3, 1100, 7))
    found = jax.jit(multiply)(x, y[:1], y[1:])
    np.testing.assert_allclose(found, np.einsum("brm,brn->bmn", x, y), rtol=1e-12, atol=1e-11)


def test_gradients_of_a_product_are_those_of_xlas():
    rng = np.random.default_rng(1)
    x, matrix, towards = (
        jnp.asarray(rng.standard_normal(shape)) for shape in ((2, 3000, 19), (2, 19, 33), (2, 3000, 33))
    )

    def loss(multiply):
        return jax.jit(jax.grad(lambda x, matrix: jnp.sum(towards * multiply(x, matrix)), argnums=(0, 1)))

    for one, other in zip(loss(product)(x, matrix), loss(jnp.matmul)(x, matrix)):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("multiply", [turned_product, _in_parts])
def test_rows_that_several_share_are_turned_once(multiply):
    """Of more rows than one part has, and several matrices."""
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((1, 2500, 2 * SIDE + 5)), rng.standard_normal((3, 2500, 17))
    expected = np.einsum("rm,brn->bmn", x[0], y)
    for parts in ([y], [y[:2], y[2:]], [y[:1], y[1:]], [y[:0], y], [y[:1], y[1:2], y[2:]]):
        found = jax.jit(multiply)(x, *parts)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_products_of_the_same_rows_are_xlas(count):
    rng = np.random.default_rng(5)
    x, *matrices = (jnp.asarray(rng.standard_normal(shape)) for shape in ((2300, 19), *[(19, 33)] * count))
    towards = jnp.asarray(rng.standard_normal((count, 2300, 33)))

    def of(multiply):
        def loss(x, matrices):
            return sum(jnp.sum(each * found) for each, found in zip(towards, multiply(x, matrices)))

        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(x, matrices)

    expected = of(lambda x, matrices: [x @ matrix for matrix in matrices])
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11), of(each_product), expected
    )


def test_sums_of_parts():
    parts = np.random.default_rng(2).standard_normal((PARTS, 3, 5))
    np.testing.assert_allclose(added(jnp.asarray(parts)), parts.sum(0), rtol=1e-12)


def test_rows_have_a_gradient():
    """Of rows that are read several times, once, never, and out of range."""
    ids = jnp.asarray([0, 2, 2, 7, 1, 2**31 - 1], jnp.int32)
    matrix, towards = (jnp.asarray(np.random.default_rng(3).standard_normal(shape)) for shape in ((4, 3), (6, 3)))
    found = jax.jit(jax.grad(lambda matrix: jnp.sum(towards * rows_at(matrix, ids))))(matrix)
    expected = np.zeros((4, 3))
    for place, row in enumerate(ids):
        if row < 4:
            expected[row] += towards[place]
    np.testing.assert_allclose(found, expected)
