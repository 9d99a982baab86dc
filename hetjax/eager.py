"""A function run one operation after the other, where compiling it as a whole would take longer than it runs.

A model's weights are hundreds of random arrays of a few shapes. As one program XLA compiles each of them; one by one they share a
program per shape. What a result does not depend on, as the layers' output when weights are drawn, is not computed. As each runs a few
times, XLA spends less effort on it than usual on a CPU: that takes half of the time, and changes at most last bits.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, jaxpr_as_fun

from hetjax.internals import COMPILER_OPTIONS as OPTIONS

LITTLE = (("xla_backend_optimization_level", 1),)  # of 3


def eagerly(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of arrays gives, a pytree of arrays. Not to be traced."""
    traced = jax.jit(function).trace(*arguments)
    needed = traced.jaxpr.replace(jaxpr=_needed(traced.jaxpr.jaxpr))
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), jaxpr_as_fun(needed)(*jax.tree.leaves(arguments)))


def _needed(jaxpr: Jaxpr) -> Jaxpr:
    """The same results, by the operations that they depend on."""
    asked = {variable for variable in jaxpr.outvars if not isinstance(variable, Literal)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if asked.intersection(equation.outvars):
            kept.append(_quick_to_compile(equation))
            asked.update(variable for variable in equation.invars if not isinstance(variable, Literal))
    return jaxpr.replace(eqns=kept[::-1])


def _quick_to_compile(equation: JaxprEqn) -> JaxprEqn:
    """The same operation, compiled with less effort if it is a program of several."""
    asked = jax.default_backend() == "cpu" and not jax.config.read("jax_disable_most_optimizations")
    if OPTIONS not in equation.params or not asked:
        return equation
    return equation.replace(params=equation.params | {OPTIONS: LITTLE})
