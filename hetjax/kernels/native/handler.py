"""The machine code that XLA calls for every operation: it has threads share the rows, and calls what was compiled to fill them.

XLA calls a foreign function with one pointer: to a frame that says where its arguments and results lie.
"""

import numba
from llvmlite import ir
from numba import types

from hetjax.system.compiled import compiled, intrinsic, named
from hetjax.system.internals import (
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
    VERSION,
    numba_parts,
)
from hetjax.system.pointers import array_at

NEXT, DONE, HOLDERS, PARTS, ROWS, RUN, FRAME, REQUEST, WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 12  # in a call's state
# Places in the shared words; at the end keys and addresses of operations.
MAJOR, MINOR, THREADS, HELP, WORDS_OF_ERROR, OPERATIONS = range(6)
NOWHERE, FAILED = -1, 0  # the address of an operation that is not compiled yet, and of one that could not be
MOST = 64  # operations that programs can know
SHARED = "hetjax_shared"  # what machine code calls the shared words
PAUSE = 500  # microseconds
BLOCK, PARTS_EACH = 64, 8  # rows that one thread fills, and the most parts of several blocks per thread
HANDLES = types.intp(types.intp)  # what the handler is given and gives
cgutils, _ = numba_parts()
_WORD = ir.IntType(64)
_compiled = compiled(error_model="numpy")


@named
def handle(frame: int) -> int:
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
def help_out(state: int) -> None:
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
    """Return the place of an operation in the shared words; -1 if it is not there yet."""
    for place in range(OPERATIONS, OPERATIONS + 2 * MOST, 2):
        if shared[place] == key:
            return place
    return -1


@_compiled
def _error(api, words):
    """Return an error that XLA understands, from the address of its words."""
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
    """Return the address of the shared words, found by their name, because compiled code that is stored must hold no address."""

    def build(context, builder, signature, args):
        variable = builder.module.globals.get(SHARED) or ir.GlobalVariable(builder.module, _WORD, SHARED)
        return builder.ptrtoint(variable, _WORD)

    return types.intp(), build


def _system(name, signature):
    """Return a caller of a function of the C library that takes and returns words."""

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
    """Add to a word that several threads change, and return its value before."""

    def build(context, builder, signature, args):
        place, change = (context.cast(builder, args[i], signature.args[i], types.intp) for i in (1, 2))
        word = builder.gep(builder.inttoptr(args[0], _WORD.as_pointer()), [place])
        return builder.atomic_rmw("add", word, change, "seq_cst")

    return types.intp(types.intp, position, change), build


@intrinsic
def _call(context, function, argument):
    """Call a function of one word, which returns one, by its address."""

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
