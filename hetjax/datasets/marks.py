"""Bytes of a text that are looked for 64 at a time, for compiled code."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from hetjax.system.compiled import intrinsic

EIGHT_BITS, WORD_BITS = ir.IntType(8), ir.IntType(64)
STEP = 64  # bytes


def load(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> Any:
    """Load a value of a kind from a text at a byte, whatever its alignment."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    value = builder.load(builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer()))
    value.align = 1
    return value


@intrinsic
def trailing_zeros(context: Any, word: Any) -> tuple[Any, Callable]:
    """Return the place of the lowest bit that is set."""

    def build(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(word), build


@intrinsic
def quotes_and_ends(context: Any, text: Any, at: Any) -> tuple[Any, Callable]:
    """Return the quotes and line ends among 64 bytes of a text from `at`: a bit each, the first as the lowest."""

    def build(context, builder, signature, args):
        kind = ir.VectorType(EIGHT_BITS, STEP)
        values = load(context, builder, signature, args, kind)
        found = [builder.icmp_unsigned("==", values, ir.Constant(kind, STEP * [ord(c)])) for c in '"\n\r']
        return builder.bitcast(builder.or_(builder.or_(found[0], found[1]), found[2]), WORD_BITS)

    return types.uint64(text, at), build
