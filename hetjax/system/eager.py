"""A function run one operation after the other, where compiling all of it would take longer than it runs.

A model's weights are hundreds of random arrays of a few shapes. As one program XLA compiles each of them, and one by one still a program
for every shape, each of which takes longer than all the drawing. So NumPy does what it knows of small arrays. Keys and bits are those of `jax.random`
(threefry.py); floats made of them may differ from jax's in last bits, and do not depend on the accelerator. What it does not know, and what is large, XLA does, with less effort than
usual on a CPU: that takes half of the time to compile, and changes at most last bits. What a result does not depend on, as the layers' output when weights are
drawn, is not computed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

from hetjax.system import threefry
from hetjax.system.internals import COMPILER_OPTIONS as OPTIONS
from hetjax.system.threefry import Keys

LITTLE = (("xla_backend_optimization_level", 1),)  # of 3
MOST = 2**19  # numbers of an array that NumPy computes
KEY = "key<fry>"  # the dtype of jax's usual keys
CONFIG: Any = jax.config  # whose own type names no option


def eagerly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of arrays: a pytree of arrays of NumPy, or of jax where XLA made them. It is not to be traced."""
    traced = jax.jit(function).trace(*arguments)
    needed = _needed(traced.jaxpr.jaxpr)
    given = [_on_host(leaf) for leaf in jax.tree.leaves(arguments)]
    with np.errstate(all="ignore"):  # as XLA says nothing of it either
        found = _run(needed, traced.jaxpr.consts, given)
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), map(_as_own, found))


def _needed(jaxpr: Jaxpr) -> Jaxpr:
    """Return a program with the same results and only the operations that they depend on."""
    asked, kept = set(_variables(jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if asked.intersection(equation.outvars):
            kept.append(equation)
            asked.update(_variables(equation.invars))
    return jaxpr.replace(eqns=kept[::-1])


def _variables(read: Sequence[Any]) -> list:
    """Return the variables among some operands, each once, without the literals."""
    return list(dict.fromkeys(variable for variable in read if not isinstance(variable, Literal)))


def _run(jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list:
    environment: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments)))
    last = {variable: number for number, equation in enumerate(jaxpr.eqns) for variable in _variables(equation.invars)}
    last |= dict.fromkeys(_variables(jaxpr.outvars), len(jaxpr.eqns))

    def values(read: Sequence[Any]) -> list:
        return [variable.val if isinstance(variable, Literal) else environment[variable] for variable in read]

    for number, equation in enumerate(jaxpr.eqns):
        found: Sequence[Any] | None = _by_numpy(equation, values(equation.invars))
        if found is None:
            found = _by_xla(jaxpr, equation, values(_variables(equation.invars)))
        environment |= {variable: x for variable, x in zip(equation.outvars, found) if variable in last}
        for variable in _variables(equation.invars):
            if last[variable] == number:
                del environment[variable]  # a table is not held twice
    return values(jaxpr.outvars)


def _by_numpy(equation: JaxprEqn, given: Sequence[Any]) -> list | None:
    """Return the results of an operation if NumPy knows it, its operands are of NumPy, and they are small; otherwise None."""
    if any(isinstance(x, jax.Array) for x in given) or not _knows(equation):
        return None
    name, params = equation.primitive.name, equation.params
    if name == "jit":
        found = _run(params["jaxpr"].jaxpr, params["jaxpr"].consts, given)
    else:
        try:
            found = [OPERATIONS[name](*given, params)]
        except KeyError:  # a parameter has another name in this jax
            return None
    found = [x if isinstance(x, (Keys, jax.Array)) else np.asarray(x) for x in found]
    shapes: list[Any] = [variable.aval for variable in equation.outvars]
    return found if all(map(_fits, found, shapes)) else None


def _knows(equation: JaxprEqn) -> bool:
    """Return whether NumPy knows an operation and all operations in it, and its arrays are small."""
    name: str = equation.primitive.name
    shapes: list[Any] = [variable.aval for variable in (*equation.invars, *equation.outvars)]
    if any(aval.size > MOST for aval in shapes):
        return False
    if name == "jit":
        return all(map(_knows, equation.params["jaxpr"].jaxpr.eqns))
    keys = [aval for aval in shapes if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)]
    if keys:
        usual = CONFIG.jax_threefry_partitionable and all(str(aval.dtype) == KEY for aval in keys)
        return usual and name in OF_KEYS and (name not in OF_ONE_KEY or not keys[0].shape)
    given, result = shapes[0].dtype, shapes[-1].dtype
    if name == "shift_right_logical":
        return np.issubdtype(given, np.unsignedinteger)
    if name == "convert_element_type":  # NumPy does not say what a float out of range becomes
        return not np.issubdtype(given, np.floating) or np.issubdtype(result, np.floating)
    return name in OPERATIONS


def _fits(x: Any, aval: Any) -> bool:
    shape = x.words.shape[:-1] if isinstance(x, Keys) else x.shape
    return shape == aval.shape and (str(aval.dtype) == KEY if isinstance(x, Keys) else x.dtype == aval.dtype)


def _by_xla(jaxpr: Jaxpr, equation: JaxprEqn, given: Sequence[Any]) -> Sequence[Any]:
    """Return the results of one operation, computed as a program of its own."""
    read = _variables(equation.invars)
    only = jaxpr.replace(constvars=[], invars=read, outvars=equation.outvars, eqns=[_quick_to_compile(equation)])
    return jaxpr_as_fun(ClosedJaxpr(only, []))(*map(_given_back, given))


def _quick_to_compile(equation: JaxprEqn) -> JaxprEqn:
    """Return the same operation, compiled with less effort if it is a program of several operations."""
    asked = jax.default_backend() == "cpu" and not jax.config.read("jax_disable_most_optimizations")
    if OPTIONS not in equation.params or not asked:
        return equation
    return equation.replace(params=equation.params | {OPTIONS: LITTLE})


def _on_host(x: Any) -> Any:
    """Return keys of jax's usual kind as words, and other arrays as they are."""
    return Keys(np.asarray(jax.random.key_data(x))) if str(getattr(x, "dtype", "")) == KEY else x


def _given_back(x: Any) -> Any:
    """Return the inverse of `_on_host`."""
    return jax.random.wrap_key_data(jnp.asarray(x.words), impl="threefry2x32") if isinstance(x, Keys) else x


def _as_own(x: Any) -> Any:
    """Return a result that shares memory with no other, because a step may be given both to write into."""
    return _given_back(x) if isinstance(x, (Keys, jax.Array)) else np.array(x)


def _with_words(change: Callable) -> Callable:
    """Return an operation on the shape of an array that takes keys too."""
    return lambda x, params: Keys(change(x.words, params)) if isinstance(x, Keys) else change(x, params)


def _slice(x: np.ndarray, params: dict) -> np.ndarray:
    starts, stops, strides = (params[name] for name in ("start_indices", "limit_indices", "strides"))
    return x[tuple(map(slice, starts, stops, strides or [1] * len(starts)))]


def _broadcast(x: Any, params: dict) -> np.ndarray:
    shape, places = params["shape"], params["broadcast_dimensions"]
    spread = [1] * len(shape)
    for place, size in zip(places, np.shape(x)):
        spread[place] = size
    return np.broadcast_to(np.reshape(x, spread), shape)


def _special(name: str) -> Callable:
    """Return a function of SciPy's, computed in float64."""

    def compute(x: np.ndarray, params: dict) -> np.ndarray:
        import scipy.special  # takes a while, and not all commands draw

        return getattr(scipy.special, name)(np.asarray(x, np.float64)).astype(x.dtype)

    return compute


def _plain(function: Callable) -> Callable:
    """Return an operation that ignores its parameters."""
    return lambda *given: function(*given[:-1])


OPERATIONS: dict[str, Callable] = {
    "random_seed": _plain(threefry.seed),
    "random_fold_in": _plain(threefry.fold_in),
    "random_split": lambda key, params: threefry.split(key, params["shape"]),
    "random_bits": lambda key, params: threefry.bits(key, params["bit_width"], params["shape"]),
    "slice": _with_words(_slice),
    "squeeze": _with_words(lambda x, params: np.squeeze(x, params["dimensions"])),
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(np.divide),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "sqrt": _plain(np.sqrt),
    "or": _plain(np.bitwise_or),
    "shift_right_logical": _plain(np.right_shift),
    "nextafter": _plain(np.nextafter),
    "stop_gradient": _plain(lambda x: x),
    "erf": _special("erf"),
    "erf_inv": _special("erfinv"),
    "broadcast_in_dim": _broadcast,
    "bitcast_convert_type": lambda x, params: np.ascontiguousarray(x).view(params["new_dtype"]),
    "convert_element_type": lambda x, params: np.asarray(x).astype(params["new_dtype"]),
}
OF_KEYS = "random_seed", "random_fold_in", "random_split", "random_bits", "slice", "squeeze"
OF_ONE_KEY = "random_split", "random_bits"
