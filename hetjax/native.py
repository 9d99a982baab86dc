"""Functions that numba compiles, as operations of XLA's programs on a CPU, which share its threads.

XLA calls a foreign function with one pointer: to a frame that says where its arguments and results lie. How a frame is laid
out is part of jaxlib, and stands in `internals`; where its version is not known there `usable` says no, and callers keep to
what XLA has itself.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib
import queue
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from contextvars import ContextVar
from types import FunctionType
from typing import Any

import jax
import llvmlite.binding as llvm
import numba
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from llvmlite import ir
from numba import types

from hetjax import runtime
from hetjax.compiled import compiled, intrinsic, named
from hetjax.compiling import Elsewhere
from hetjax.errors import reason
from hetjax.internals import (
    API,
    ARGUMENTS,
    ASKS_METADATA,
    CONTEXT,
    CREATE_ERROR,
    DATA,
    EXTENSION,
    INTERNAL,
    KIND,
    METADATA,
    RESULTS,
    SCHEDULE,
    SIZES,
    VERSION,
    ffi_version,
    is_kept,
    numba_parts,
)
from hetjax.logs import log
from hetjax.pointers import array_at

NEXT, DONE, HOLDERS, PARTS, ROWS, RUN, FRAME, REQUEST, WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 12  # in a call's state

# Places in `_shared`; at the end keys and addresses of operations.
MAJOR, MINOR, THREADS, HELP, WORDS_OF_ERROR, OPERATIONS = range(6)
NOWHERE, FAILED = -1, 0  # the address of an operation that is not compiled yet, and of one that could not be
NOT_COMPILED = ctypes.create_string_buffer(b"hetjax could not compile an operation of this program; its log says why")
PAUSE = 500  # microseconds
COMPILERS = 2  # processes that compile
LINGER = 5  # seconds that one stays, as more may be asked for soon

NAME, MOST = "hetjax", 64  # of the one function that XLA knows, and how many operations it can know
SHARED = "hetjax_shared"  # what machine code calls `_shared`
BLOCK, PARTS_EACH = 64, 8  # rows that one thread fills, and the most parts of several blocks per thread
# An operation is compiled for the floats that it is called with; by its frame's type, of one size, `arrays` knows which.
FRAMES = {"float32": types.int64, "float64": types.uint64}
HANDLES = types.intp(types.intp)  # what the handler is given and gives
cgutils, populate_array = numba_parts()
_WORD, _INT32 = ir.IntType(64), ir.IntType(32)

_shared = np.full(OPERATIONS + 2 * MOST, NOWHERE, np.int64)  # read by the handler
_places: dict[int, int] = {}  # in `_shared`, by an operation's key
_compiled_operations: dict[int, Any] = {}  # by place, what machine code calls
_lock, _handling = threading.Lock(), threading.Lock()
_loading = threading.Lock()  # while numba is at work in this process: no thread may be cut off in LLVM
atexit.register(_loading.acquire)
_made: list[Any] = []  # the handler, and what helps it
_operations: dict[str, "Operation"] = {}  # by name
_shapes_alone: ContextVar[bool] = ContextVar("shapes_alone", default=False)  # whether what is traced is not lowered
_compiled = compiled(error_model="numpy")


def usable() -> bool:
    """Whether programs on a CPU can call what numba compiles."""
    return ffi_version() is not None


def fits(*arrays: Any) -> bool:
    """Whether an operation takes arrays together: int32, and float32 or float64."""
    dtypes = {np.dtype(x.dtype).name for x in arrays} - {"int32"}
    return not dtypes or dtypes in ({"float32"}, {"float64"})


def choose(natively: Callable, plainly: Callable, *arguments: Any) -> Any:
    """What the former makes of what is given in a program for a CPU, if it can, and otherwise what the latter does."""
    if usable() and fits(*jax.tree.leaves(arguments)):
        return by_platform(natively, plainly, *arguments)
    return plainly(*arguments)


def by_platform(on_cpu: Callable, elsewhere: Callable, *arguments: Any) -> Any:
    """What one of two functions makes of arrays, by the platform that a program is lowered for.

    Both give the same shapes and dtypes; there is no derivative. `jax.lax.platform_dependent` says the same, but traces both, and
    tracing many relations takes long as it is: here one is traced that is not lowered, for its shapes, and that is the cheaper.
    """
    leaves, form = jax.tree.flatten(arguments)
    token = _shapes_alone.set(True)
    try:
        shapes, result_form = jax.tree.flatten(jax.eval_shape(on_cpu, *arguments))
    finally:
        _shapes_alone.reset(token)
    avals = tuple((leaf.shape, leaf.dtype) for leaf in shapes)
    return jax.tree.unflatten(
        result_form, _by_platform.bind(*leaves, on_cpu=on_cpu, elsewhere=elsewhere, form=form, avals=avals)
    )


@functools.cache
def _tasks() -> queue.SimpleQueue:
    """What some threads do, as numba compiles, while programs are traced and compiled; no end of a process waits for it."""
    tasks: queue.SimpleQueue = queue.SimpleQueue()
    for _ in range(COMPILERS):
        threading.Thread(target=_work_off, args=(tasks, Elsewhere()), name="operations", daemon=True).start()
    return tasks


def _work_off(tasks: queue.SimpleQueue, elsewhere: Elsewhere) -> None:
    """Do one after the other, each with another process at hand that compiles."""
    while True:
        try:
            task = tasks.get(timeout=LINGER if elsewhere.process else None)
        except queue.Empty:
            elsewhere.end()
        else:
            task(elsewhere)


@functools.cache
def _eagerly(**parameters):
    return jax.jit(lambda *leaves: _by_platform.bind(*leaves, **parameters))


def _lowered(which: str):
    """How the primitive is lowered: as the function of that name."""

    def run(*leaves, form, avals, **functions):
        return jax.tree.leaves(functions[which](*jax.tree.unflatten(form, leaves)))

    return mlir.lower_fun(run)


_by_platform = Primitive("by_platform")
_by_platform.multiple_results = True
_by_platform.def_impl(lambda *leaves, **parameters: _eagerly(**parameters)(*leaves))
_by_platform.def_abstract_eval(lambda *_, avals, **__: [ShapedArray(*aval) for aval in avals])
mlir.register_lowering(_by_platform, _lowered("elsewhere"))
mlir.register_lowering(_by_platform, _lowered("on_cpu"), platform="cpu")


class Operation:
    """A function that fills rows of its results, `run(first, last, frame)`: those from `first` to before `last`.

    Threads share the rows, in blocks of `BLOCK`; nothing may depend on which blocks are filled together. `run` finds its arrays by
    `arrays`; it raises nothing, and needs no Python. `fastmath`: what LLVM may take liberties with.
    """

    def __init__(self, run: Callable, fastmath: Set[str] = frozenset()):
        self.name, self.run, self.fastmath = f"{run.__module__}.{run.__name__}", named(run), fastmath
        _operations[self.name] = self

    def of(self, floats: str) -> Callable:
        """The function, by another name for every kind of floats: what numba keeps of one name two processes must not write at once."""
        run = self.run
        own = FunctionType(run.__code__, run.__globals__, run.__name__, run.__defaults__, run.__closure__)
        own.__qualname__, own.__module__ = f"{run.__qualname__}_{floats}", run.__module__
        return own

    def key(self, floats: str) -> int:
        """What stands for it in programs, by the floats that it is compiled for."""
        return zlib.crc32(f"{self.name}.{floats}".encode()) >> 1

    def __call__(
        self,
        rows: int,
        *arguments: jax.Array,
        results: Sequence[jax.ShapeDtypeStruct],
        aliases: Mapping[int, int] | None = None,
    ) -> Sequence[jax.Array]:
        """The results, in a program that runs on a CPU.

        Args:
          rows: how many are to be filled.
          results: their shapes and dtypes.
          aliases: from the number of an argument to that of a result that starts as a copy of it, or in its place.
        """
        if not fits(*arguments, *results):
            dtypes = [*(str(x.dtype) for x in arguments), *(str(x.dtype) for x in results)]
            raise TypeError(f"{self.run.__name__} of {dtypes}")
        given = {*(np.dtype(x.dtype) for x in arguments), *(np.dtype(x.dtype) for x in results)}
        floats = "float64" if np.dtype("float64") in given else "float32"
        if not _shapes_alone.get():
            _ask(self, floats)
            _handler()
        elif jax.default_backend() == "cpu":
            _ask(self, floats)
        after = {argument + 1: result for argument, result in (aliases or {}).items()}
        call = jax.ffi.ffi_call(NAME, tuple(results), input_output_aliases=after)
        return call(np.array([self.key(floats), rows], np.int32), *arguments)


def _ask(operation: Operation, floats: str) -> None:
    """Have an operation compiled, if it is not, or was not the last time; a program that calls it before that waits."""
    tasks = _tasks() if runtime.cores() > 1 else None
    with _lock:
        key = operation.key(floats)
        place = _places.get(key, OPERATIONS + 2 * len(_places))
        if key in _places and _shared[place + 1] != FAILED:
            return
        if place == len(_shared):
            raise RuntimeError(f"{operation.name} is operation {MOST + 1}, and programs can know {MOST}")
        _shared[place] = _shared[place + 1] = NOWHERE
        _places[key] = place
        if tasks:
            tasks.put(functools.partial(_register, operation, floats, place))
        else:
            _register(operation, floats, place)


def expect(*operations: Operation) -> None:
    """Have operations compiled that programs will soon call with float32, while this process does what comes before; not where it has one core."""
    if runtime.cores() > 1:
        if not _made:
            _tasks().put(_handler_ahead)
        for operation in operations:
            _ask(operation, "float32")


def expect_calls(name: str) -> None:
    """Call a function of this package, by its name, in a process that compiles already, so that numba keeps what it compiles for it; if there is none, all is kept."""
    if runtime.cores() > 1:
        _tasks().put(lambda elsewhere: elsewhere.process and elsewhere.compile(name))


def _register(operation: Operation, floats: str, place: int, elsewhere: Elsewhere | None = None) -> None:
    """Compile an operation, in another process if there is one, and put its address, and then the key that is in programs, where the handler finds them."""
    address = FAILED
    try:
        given = operation.of(floats), _signature(floats), operation.fastmath
        ours = operation.name.split(".")[0] == __package__
        if elsewhere and ours and not is_kept(*given[:2], **_options(operation.fastmath)):
            elsewhere.compile(operation.name, floats)
        with _loading:
            _compiled_operations[place] = _callback(*given)
        address = _compiled_operations[place].address
    except Exception as error:
        log.error(f"{operation.name} was not compiled: {reason(error)}")
    finally:
        _shared[place + 1] = address
        _shared[place] = operation.key(floats)


def compile_one(name: str, floats: str = "") -> None:
    """Compile and keep an operation by its name and its floats, or what a function calls."""
    module, _, function = name.rpartition(".")
    found = importlib.import_module(module)
    if name in _operations:
        operation = _operations[name]
        _callback(operation.of(floats), _signature(floats), operation.fastmath)
    else:
        getattr(found, function)()


def _signature(floats: str):
    return types.void(types.intp, types.intp, FRAMES[floats])


def _options(fastmath: Set[str]) -> dict[str, Any]:
    return {"error_model": "numpy", "fastmath": set(fastmath)}


def _callback(function: Callable, signature, fastmath: Set[str] = frozenset()) -> Any:
    """A function that machine code can call, by its address."""
    return numba.cfunc(signature, cache=True, **_options(fastmath))(function)


def _handler(elsewhere: Elsewhere | None = None) -> None:
    """Make what XLA calls, and tell XLA of it, unless that is done; another process compiles it, if there is one."""
    with _handling:
        version = ffi_version()
        assert version is not None  # as whoever calls an operation asked `usable`
        if _made:
            return
        if elsewhere and not is_kept(_handle, HANDLES, **_options(frozenset())):
            elsewhere.compile(f"{__name__}.{_callbacks.__name__}")
        with _loading:
            helper, handler = _callbacks()
        _shared[:OPERATIONS] = *version, runtime.cores(), helper.address, ctypes.addressof(NOT_COMPILED)
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        jax.ffi.register_ffi_target(NAME, new_capsule(handler.address, None, None), platform="cpu")
        _made.extend((helper, handler))


def _handler_ahead(elsewhere: Elsewhere) -> None:
    with contextlib.suppress(Exception):  # whoever calls an operation tries again, and says why
        _handler(elsewhere)


def _callbacks() -> tuple[Any, Any]:
    llvm.add_symbol(SHARED, _shared.ctypes.data)
    return _callback(_help, types.void(types.intp)), _callback(_handle, HANDLES)


@named
def _handle(frame):
    """Divide a call's rows into parts, and fill them with other threads that have nothing else to do.

    A thread that comes late, when all parts are taken, sees nothing but the call's state, which the last to leave frees;
    so nobody waits for a thread that has not begun.
    """
    shared, about = _words(_shared_address(), OPERATIONS + 2 * MOST), _words(frame, RESULTS)
    if about[EXTENSION]:
        asked = _words(about[EXTENSION], METADATA + 1)
        if asked[KIND] & 0xFFFFFFFF == ASKS_METADATA:
            told = array_at(asked[METADATA] + 8 * VERSION, 2, types.int32)
            told[0], told[1] = shared[MAJOR], shared[MINOR]
            return 0
    buffer = _words(about[ARGUMENTS], 1)[0]
    given = array_at(_words(buffer, DATA + 1)[DATA], 2, types.int32)
    key, rows = given[0], numba.int64(given[1])
    place = _place(shared, key)
    while place < 0 or shared[place + 1] == NOWHERE:  # numba compiles it still
        _usleep(PAUSE)
        place = _place(shared, key)
    run, threads = shared[place + 1], shared[THREADS]
    if run == FAILED:
        return _error(about[API], shared[WORDS_OF_ERROR])
    parts = min(rows // BLOCK, PARTS_EACH * threads)
    if parts < 2 or threads < 2:
        _call_run(run, 0, rows, frame)
        return 0
    helpers = min(threads, parts) - 1
    state = _malloc(8 * WORDS)
    call = _words(state, WORDS)
    call[NEXT], call[DONE], call[HOLDERS] = 0, 0, helpers + 2
    call[PARTS], call[ROWS], call[RUN], call[FRAME] = parts, rows, run, frame
    request = call[REQUEST:]
    request[0], request[1], request[2], request[3], request[4] = 40, 0, about[CONTEXT], shared[HELP], state
    schedule = _words(about[API], SCHEDULE + 1)[SCHEDULE]
    for helped in range(helpers):
        if _call(schedule, state + 8 * REQUEST):  # an error: nobody helps
            _add(state, HOLDERS, helped - helpers)
            break
    _work(state)
    while _add(state, DONE, 0) < parts:
        _sched_yield()
    if _add(state, HOLDERS, -1) == 1:
        _free(state)
    return 0


@named
def _help(state):
    _work(state)


@_compiled
def _work(state):
    """Fill parts of a call's rows until all are taken."""
    call = _words(state, WORDS)
    part = _add(state, NEXT, 1)
    while part < call[PARTS]:
        blocks = -(-call[ROWS] // BLOCK)
        first, last = blocks * part // call[PARTS] * BLOCK, blocks * (part + 1) // call[PARTS] * BLOCK
        _call_run(call[RUN], first, min(last, call[ROWS]), call[FRAME])
        _add(state, DONE, 1)
        part = _add(state, NEXT, 1)
    if _add(state, HOLDERS, -1) == 1:
        _free(state)


@_compiled
def _place(shared, key):
    """Where an operation stands in `_shared`; -1 if it does not yet."""
    for place in range(OPERATIONS, OPERATIONS + 2 * MOST, 2):
        if shared[place] == key:
            return place
    return -1


@_compiled
def _error(api, words):
    """What XLA takes for an error, from the address of its words."""
    about = _malloc(8 * 4)
    given = _words(about, 4)
    given[0], given[1], given[2], given[3] = 8 * 4, 0, words, INTERNAL
    made = _call(_words(api, CREATE_ERROR + 1)[CREATE_ERROR], about)
    _free(about)
    return made


@_compiled
def _words(address, count):
    return array_at(address, count, types.int64)


@intrinsic
def _shared_address(context):
    """Of `_shared`, by its name, as no address may be in what is kept."""

    def build(context, builder, signature, args):
        variable = builder.module.globals.get(SHARED) or ir.GlobalVariable(builder.module, _WORD, SHARED)
        return builder.ptrtoint(variable, _WORD)

    return types.intp(), build


def _system(name, signature):
    """What calls a function of the C library, which takes and gives words."""

    def build(context, builder, signature, args):
        kind = ir.FunctionType(_WORD, len(args) * [_WORD])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    return signature, build


@intrinsic
def _malloc(context, size):
    return _system("malloc", types.intp(types.intp))


@intrinsic
def _free(context, address):
    return _system("free", types.intp(types.intp))


@intrinsic
def _sched_yield(context):
    return _system("sched_yield", types.intp())


@intrinsic
def _usleep(context, microseconds):
    return _system("usleep", types.intp(types.intp))


@intrinsic
def _add(context, address, position, change):
    """Add to a word, which several threads do; what it was before."""

    def build(context, builder, signature, args):
        place, change = (context.cast(builder, args[i], signature.args[i], types.intp) for i in (1, 2))
        word = builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [place])
        return builder.atomic_rmw("add", word, change, "seq_cst")

    return types.intp(types.intp, position, change), build


@intrinsic
def _call(context, function, argument):
    """Call a function of one word, which gives one, by its address."""

    def build(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.FunctionType(_WORD, [_WORD]).as_pointer())
        return builder.call(pointer, [args[1]])

    return types.intp(types.intp, types.intp), build


@intrinsic
def _call_run(context, function, first, last, frame):
    """Call an operation's function by its address."""

    def build(context, builder, signature, args):
        args = [context.cast(builder, value, kind, types.intp) for value, kind in zip(args, signature.args)]
        pointer = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), 3 * [_WORD]).as_pointer())
        builder.call(pointer, args[1:])
        return context.get_dummy_value()

    return types.none(function, first, last, frame), build


@intrinsic(prefer_literal=True)
def arrays(context: Any, frame: types.Integer, layout: types.StringLiteral) -> tuple[Any, Callable]:
    """In numba's language: the arguments and results of a call, from its frame, as a tuple of arrays.

    Args:
      layout: a literal such as `"i1 f2 > f0"`: of every array the dtype, `i` for int32 and `f` for the call's floats, and the rank.
    """
    argument_kinds, result_kinds = (part.split() for part in layout.literal_value.split(">"))
    places = [(ARGUMENTS, place, kind) for place, kind in enumerate(argument_kinds, 1)]
    places += [(RESULTS, place, kind) for place, kind in enumerate(result_kinds)]
    array_types = [_array_type(frame, kind) for _, _, kind in places]
    together = types.Tuple(array_types)

    def build(context, builder, signature, args):
        values = [
            _array(context, builder, args[0], side, _WORD(place), array_type)
            for (side, place, _), array_type in zip(places, array_types)
        ]
        return context.make_tuple(builder, together, values)

    return together(frame, layout), build


@intrinsic(prefer_literal=True)
def argument(
    context: Any, frame: types.Integer, place: types.Integer, kind: types.StringLiteral
) -> tuple[Any, Callable]:
    """In numba's language: one of a call's arguments, of which there may be any number; arrays as of `arrays`."""
    return _one(ARGUMENTS, 1, frame, place, kind)


@intrinsic(prefer_literal=True)
def result(context: Any, frame: types.Integer, place: types.Integer, kind: types.StringLiteral) -> tuple[Any, Callable]:
    """In numba's language: one of a call's results, of which there may be any number; arrays as of `arrays`."""
    return _one(RESULTS, 0, frame, place, kind)


def _one(side, before, frame, place, kind):
    array_type = _array_type(frame, kind.literal_value)

    def build(context, builder, signature, args):
        number = builder.add(context.cast(builder, args[1], signature.args[1], types.intp), _WORD(before))
        return _array(context, builder, args[0], side, number, array_type)

    return array_type(frame, place, kind), build


def _array_type(frame, kind):
    dtypes = {"i": types.int32, "f": next(getattr(types, name) for name, floats in FRAMES.items() if floats == frame)}
    return types.Array(dtypes[kind[0]], int(kind[1:]), "C")


def _array(context, builder, frame, side, place, array_type):
    """The array at a place among a call's arguments or results."""
    buffer = _load(builder, _load(builder, frame, _WORD(side)), place)
    sizes, array = _load(builder, buffer, _WORD(SIZES)), context.make_array(array_type)(context, builder)
    shape = [_load(builder, sizes, _WORD(axis)) for axis in range(array_type.ndim)]
    strides = [_WORD(context.get_abi_sizeof(context.get_data_type(array_type.dtype)))]
    for length in reversed(shape):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(_load(builder, buffer, _WORD(DATA)), array.data.type)
    populate_array(array, data, shape, strides[1:], itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def _load(builder, address, position):
    """The word at a position behind an address."""
    return builder.load(builder.gep(builder.inttoptr(address, _WORD.as_pointer()), [position]))
