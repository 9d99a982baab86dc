"""Products of each head's rows with matrices of their own, and their gradients, by kernels and by operations of XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import native
from hetjax.kernels.heads import NARROW, ROWS, each_head, each_head_turned
from hetjax.kernels.products import LEAST

SHAPES = [  # relations, rows, heads, d, e
    ((), 3 * LEAST + 5, 4, 16, 16),
    ((), ROWS + 1, 3, 5, 7),
    ((), 1, 1, 1, 1),
    ((), 0, 2, 3, 4),
    ((), 2 * LEAST + 1, 2, NARROW + 8, 5),
    ((), 70, 3, 5, NARROW + 1),
    ((5,), 70, 4, 16, 16),
    ((3,), 2 * LEAST + 1, 2, 9, 33),
    ((90,), 1, 2, 3, 4),
    ((0,), 2, 2, 3, 4),
    ((2,), 0, 2, 3, 4),
]
needs_kernels = pytest.mark.skipif(not native.usable(), reason="no kernels with this jaxlib")


@pytest.mark.parametrize("by", [pytest.param("kernels", marks=needs_kernels), "xla"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("several, rows, count, d, e", SHAPES)
def test_each_head_and_its_gradients_equal_numpys(by, dtype, several, rows, count, d, e, monkeypatch):
    """Of one relation and of several; of blocks that end within one; of rows that are summed in parts."""
    if by == "xla":
        monkeypatch.setattr(native, "choose", lambda natively, plainly, *given: plainly(*given))
    rng = np.random.default_rng(0)
    x, towards = (rng.standard_normal((*several, rows, count, size)) for size in (d, e))
    matrices = rng.standard_normal((*several, count, d, e))

    def loss(x, matrices):
        found = each_head(x, matrices)
        return jnp.sum(towards * found), found

    with jax.enable_x64(dtype == np.float64):
        given = jnp.asarray(x, dtype), jnp.asarray(matrices, dtype)
        gradients, found = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))(*given)
        turned = None if several else jax.jit(each_head_turned)(given[0], jnp.asarray(towards, dtype))
    expected = (
        np.einsum("...whd,...hde->...whe", x, matrices),
        np.einsum("...whe,...hde->...whd", towards, matrices),
        np.einsum("...whd,...whe->...hde", x, towards),
    )
    exact = 1e-11 if dtype == np.float64 else 1e-4
    for one, other in zip((found, *gradients), expected):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=exact, atol=10 * exact)
    if turned is not None:
        np.testing.assert_allclose(turned, expected[2], rtol=exact, atol=10 * exact)


@needs_kernels
def test_kernels_are_taken_on_a_cpu():
    x, matrices = jnp.ones((4, 2, 3)), jnp.ones((2, 3, 5))
    there_and_back = jax.jit(jax.grad(lambda x, m: jnp.sum(each_head(x, m) ** 2), argnums=(0, 1)))
    assert there_and_back.lower(x, matrices).as_text().count("stablehlo.custom_call @hetjax") == 3
