"""The choice between operations and XLA: programs for a CPU use operations if its jaxlib is known; other programs use XLA alone."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from hetjax.system.internals import ffi_version

shapes_alone: ContextVar[bool] = ContextVar("shapes_alone", default=False)  # whether what is traced is not lowered


def usable() -> bool:
    """Return whether programs on a CPU can call functions that numba compiles."""
    return ffi_version() is not None


def taken() -> bool:
    """Return whether programs for jax's default platform call operations."""
    return jax.default_backend() == "cpu" and usable()


def fits(*arrays: Any) -> bool:
    """Return whether an operation takes these arrays together: int32, and float32 or float64."""
    dtypes = {np.dtype(x.dtype).name for x in arrays} - {"int32"}
    return not dtypes or dtypes in ({"float32"}, {"float64"})


def choose(natively: Callable, plainly: Callable, *arguments: Any) -> Any:
    """Return the result of the first function in a program for a CPU, if it can take the arguments, and otherwise that of the second."""
    if usable() and fits(*jax.tree.leaves(arguments)):
        return by_platform(natively, plainly, *arguments)
    return plainly(*arguments)


def by_platform(on_cpu: Callable, elsewhere: Callable, *arguments: Any) -> Any:
    """Return the result of one of two functions of arrays, by the platform that a program is lowered for.

    Both give the same shapes and dtypes; there is no derivative. `jax.lax.platform_dependent` does the same, but traces both, and
    tracing many relations takes long as it is: here one is traced that is not lowered, for its shapes, and that is the cheaper.
    """
    leaves, form = jax.tree.flatten(arguments)
    token = shapes_alone.set(True)
    try:
        shapes, result_form = jax.tree.flatten(jax.eval_shape(on_cpu, *arguments))
    finally:
        shapes_alone.reset(token)
    avals = tuple((leaf.shape, leaf.dtype) for leaf in shapes)
    return jax.tree.unflatten(
        result_form, _by_platform.bind(*leaves, on_cpu=on_cpu, elsewhere=elsewhere, form=form, avals=avals)
    )


@functools.cache
def _eagerly(**parameters):
    return jax.jit(lambda *leaves: _by_platform.bind(*leaves, **parameters))


def _lowered(which: str):
    """Return the lowering of the primitive: a call of the function of that name."""

    def run(*leaves, form, avals, **functions):
        return jax.tree.leaves(functions[which](*jax.tree.unflatten(form, leaves)))

    return mlir.lower_fun(run)


_by_platform = Primitive("by_platform")
_by_platform.multiple_results = True
_by_platform.def_impl(lambda *leaves, **parameters: _eagerly(**parameters)(*leaves))
_by_platform.def_abstract_eval(lambda *_, avals, **__: [ShapedArray(*aval) for aval in avals])
mlir.register_lowering(_by_platform, _lowered("elsewhere"))
mlir.register_lowering(_by_platform, _lowered("on_cpu"), platform="cpu")
