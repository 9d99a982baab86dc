"""A barrier that makes XLA's CPU backend compute a value once.

It makes what is cheap anew in every operation that reads it, and counts a sum over all relations as cheap, exponentials
and all: read once per relation in the backward pass, that is a product of both counts. It sees no way through a call
of a native operation, and its own `optimization_barrier` is gone before it fuses operations.
"""

import jax

from hetjax.kernels import native
from hetjax.kernels.native import Operation


@jax.custom_vjp
def once(x: jax.Array) -> jax.Array:
    """Return `x`, computed once, as its gradient is; floats."""
    return native.choose(_made, _as_it_is, x)


once.defvjp(lambda x: (once(x), None), lambda _, gradient: (once(gradient),))


def _as_it_is(x):
    return x


def _made(x):
    return _nothing(0, x, results=[jax.ShapeDtypeStruct(x.shape, x.dtype)], aliases={0: 0})[0]


def _do_nothing(first, last, frame):
    pass


_nothing = Operation(_do_nothing)
