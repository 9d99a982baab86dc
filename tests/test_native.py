"""Operations that numba compiles: rows read and written as jax does, by many threads, and left alone where unknown."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.datasets import synthetic
from hetjax.kernels import adamw, additive_kernels, folded_attention_kernels, native, products, segment, tables
from hetjax.kernels import neighbour_sums as folds
from hetjax.kernels import table_rows as rows
from hetjax.kernels.adamw import AdamW
from hetjax.kernels.attention import attend
from hetjax.kernels.native import compilers, frames, handler, operations, platforms
from hetjax.kernels.tables import RowAdam, Table
from hetjax.sampling.blocks import NO_NODE, Adjacency
from hetjax.system import compiled, internals, runtime


def test_this_jaxlib_is_known():
    assert internals.ffi_version() in internals.FFI_VERSIONS
    assert "@hetjax(" in jax.jit(tables.rows_at).lower(jnp.ones((3, 2)), jnp.arange(2)).as_text()


def test_kept_machine_code_is_of_all_files_that_are_compiled_in(monkeypatch):
    called = {"hetjax.kernels.native.handler", "hetjax.system.pointers", "hetjax.system.internals"}
    of_all = called | {"hetjax.kernels.native.operations", "hetjax.kernels.native.frames", "hetjax.system.prefetch"}
    vectors = {
        f"hetjax.kernels.vectors.{name}" for name in ("rows", "products", "softmax", "sums", "loops", "building")
    }
    assert called <= compiled.modules(handler.__name__) and of_all <= compiled.modules(rows.__name__)
    assert {rows.__name__} | of_all <= compiled.modules(adamw.__name__)
    assert of_all | vectors <= compiled.modules(folds.__name__) & compiled.modules(folded_attention_kernels.__name__)
    for kernels in (folded_attention_kernels, additive_kernels):  # which have its numbers
        assert of_all | {folds.__name__} <= compiled.modules(kernels.__name__)
    assert "hetjax.system.prefetch" in compiled.modules(synthetic.__name__)  # by way of hetjax.sampling.draw

    def name() -> str:
        def run():
            pass

        return compiled.named(run).__qualname__

    before = name()
    assert name() == before
    monkeypatch.setattr(
        compiled, "_content", lambda file: Path(file).read_bytes() + b"#" * file.endswith("prefetch.py")
    )
    assert name() != before


@pytest.mark.filterwarnings("ignore:bcsr_dot_general")
@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_other_dtypes_are_summed_by_xla(dtype):
    adjacency = Adjacency(np.array([0, 2, 3], np.int32), np.array([0, 2, 1], np.int32))
    x = np.arange(6).reshape(3, 2).astype(dtype)
    np.testing.assert_array_equal(jax.jit(segment.neighbour_sum)(adjacency, x), np.stack([x[0] + x[2], x[1]]))
    written = jax.jit(tables.write)(jnp.asarray(x), jnp.array([1], jnp.int32), jnp.array([[7.0, 8.0]]))
    np.testing.assert_array_equal(written[1], [7, 8])


@pytest.mark.parametrize("header", [None, "#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 99\n", "nothing"])
def test_an_unknown_interface_is_left_alone(monkeypatch, tmp_path, header):
    file = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    file.parent.mkdir(parents=True)
    if header:
        file.write_text(header)
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    internals.ffi_version.cache_clear()
    try:
        assert not native.usable()
        program = jax.jit(lambda *given: tables.rows_at(*given)).lower(jnp.ones((3, 2)), jnp.arange(2)).as_text()
    finally:
        internals.ffi_version.cache_clear()
    assert "@hetjax(" not in program


@pytest.mark.parametrize("width", [(), (1,), (7,), (64,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("count", [0, 3, 5000])
def test_rows_are_read_and_written(width, dtype, count):
    """Those out of range are zeros, and dropped; what is written elsewhere stays."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        matrix = (rng.standard_normal((6000, *width)) * 100).astype(dtype)
        ids = rng.permutation(6000)[:count].astype(np.int32)
        ids[: count // 3] = 2**31 - 1
        real = ids < 6000
        expected = np.zeros((count, *width), dtype)
        expected[real] = matrix[ids[real]]
        np.testing.assert_array_equal(jax.jit(tables.rows_at)(matrix, ids), expected)
        new = (rng.standard_normal((count, *width)) * 100).astype(dtype)
        written = matrix.copy()
        written[ids[real]] = new[real]
        given = jnp.asarray(matrix)
        np.testing.assert_array_equal(jax.jit(tables.write)(given, ids, new), written)
        np.testing.assert_array_equal(given, matrix)
        np.testing.assert_array_equal(jax.jit(tables.write, donate_argnums=0)(given, ids, new), written)


@pytest.mark.parametrize("count", [0, 1, 63, 65, 129, 5000])
@pytest.mark.parametrize("width, wide", [(1, False), (7, True), (64, False)])
def test_rows_are_updated_where_they_are(monkeypatch, width, wide, count):
    """As XLA's operations do, no other row, and to the same bits as rows that were taken before."""
    with jax.enable_x64(True):
        rng, adam, kind = np.random.default_rng(0), RowAdam(0.05, 0.8, 0.95, 1e-6, 0.1), float if wide else np.float32
        leaves = [np.abs(rng.standard_normal((6000, width))).astype(kind) for _ in range(3)]
        counts = rng.choice([*range(9), 77, 10**6], 6000).astype(np.int32)  # the last one beyond what is tabulated
        table = Table(*map(jnp.asarray, leaves), jnp.asarray(counts))
        ids, gradient = rng.permutation(6000)[:count].astype(np.int32), rng.standard_normal((count, width)).astype(kind)
        ids[::7] = NO_NODE
        update = jax.jit(lambda *given: tables.update(*given, adam))
        taken = update(tables.take(table, ids), None, gradient)
        made = jax.tree.map(np.asarray, update(table, ids, gradient))
        with monkeypatch.context() as patch:
            patch.setattr(platforms, "ffi_version", lambda: None)
            plain = jax.jit(lambda *given: tables.update(*given, adam))(table, ids, gradient)
        for found, expected in zip(made, plain):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 if wide else 5e-7)
        real = ids != NO_NODE
        others = np.setdiff1d(np.arange(6000), ids[real])
        for found, rows, before in zip(made, taken, table):
            np.testing.assert_array_equal(found[ids[real]], rows[real])
            np.testing.assert_array_equal(found[others], before[others])
        place = table.rows.unsafe_buffer_pointer()
        given_away = jax.jit(lambda *given: tables.update(*given, adam), donate_argnums=0)(table, ids, gradient)
        assert given_away.rows.unsafe_buffer_pointer() == place
        np.testing.assert_array_equal(given_away.rows, made.rows)


def test_calls_at_the_same_time_do_not_meet():
    """Each has its own state, which threads that come late still find."""
    rng = np.random.default_rng(0)
    matrix = jnp.asarray(rng.standard_normal((20_000, 16)), jnp.float32)
    orders = [jnp.asarray(rng.permutation(20_000).astype(np.int32)) for _ in range(8)]
    expected, read = [np.asarray(matrix)[order] for order in orders], jax.jit(tables.rows_at)

    def many(number):
        return all((np.asarray(read(matrix, orders[number])) == expected[number]).all() for _ in range(60))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(many, range(8)))


@pytest.mark.parametrize("edges, sources", [(0, 3), (0, 0)])
def test_targets_without_edges_sum_to_zero(edges, sources):
    adjacency = Adjacency(np.zeros(5, np.int32), np.zeros(edges, np.int32))
    found = jax.jit(segment.neighbour_mean)(adjacency, jnp.ones((sources, 2)))
    np.testing.assert_array_equal(found, np.zeros((4, 2)))


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_corrections_are_tabulated_until_they_are_one(decay, dtype):
    found = tables.corrections(decay, dtype)
    exact = 1 / (1 - np.longdouble(decay) ** np.arange(1, len(found) + 1))
    np.testing.assert_allclose(found, exact, rtol=2 * np.finfo(dtype).eps)
    assert found[-1] == 1 == dtype.type(1 / (1 - np.longdouble(decay) ** (len(found) + 1)))
    assert len(found) < 40_000
    for wrong in (-0.1, 1.0):
        with pytest.raises(ValueError, match=f"a decay of {wrong}"):
            tables.corrections(wrong, dtype)


def test_programs_for_another_platform_hold_no_kernel_of_a_cpu():
    """And programs for a CPU do, whatever platform jax uses unless told otherwise."""
    edges = Adjacency(*(np.array(given, np.int32) for given in ([0, 1, 2], [0, 1], [0, 1, 2], [0, 1], [0, 1])))

    def folded(x):
        return jnp.sum(segment.neighbour_sum(edges, x)) + sum(
            map(jnp.sum, attend(edges, x[:, None], x[:, :1], x[:, None]))
        )

    def updated(x, ids):
        return tables.update(Table(x, x, x, ids), ids, tables.rows_at(x, ids), RowAdam(0.1))

    def lowered(platform: str) -> str:
        x, ids = jnp.ones((2, 2)), jnp.arange(2)
        weights = jax.jit(AdamW(0.1).step).trace(x, AdamW(0.1).init(x), x)
        traced = jax.jit(jax.grad(folded)).trace(x), jax.jit(updated).trace(x, ids), weights
        return "".join(one.lower(lowering_platforms=(platform,)).as_text() for one in traced)

    assert lowered("cpu").count("custom_call @hetjax(") >= 7
    for platform in ("cuda", "tpu"):
        assert "@hetjax(" not in lowered(platform)


def test_operations_are_compiled_ahead_on_a_cpu_alone(monkeypatch):
    """While shapes alone are asked; a program that is lowered for a CPU elsewhere has them all the same."""
    asked, x = [], jnp.ones((1, 5, 3), jnp.float32)
    monkeypatch.setattr(operations, "_ask", lambda operation, floats: asked.append(floats))
    product = jax.jit(lambda x: native.by_platform(products._natively, products.turned_by_xla, x, x))
    jax.eval_shape(product, x)
    assert asked == ["float32"]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
    jax.eval_shape(product, x)
    assert asked == ["float32"]
    product.lower(x)
    assert asked == ["float32"] * 2


def _doubled(first, last, frame):
    x, y = native.arrays(frame, "f1 > f1")
    for row in range(first, last):
        y[row] = 2 * x[row]


def _wrong(first, last, frame):
    native.arrays(frame, "f1 > f1").nothing()


def calling(operation):
    return jax.jit(lambda x: operation(len(x), x, results=[jax.ShapeDtypeStruct(x.shape, x.dtype)])[0])


def test_a_program_is_compiled_before_its_operations_are_and_waits_for_them(monkeypatch):
    monkeypatch.setattr(runtime, "cores", lambda: 2)
    go, operation, x = threading.Event(), native.Operation(_doubled), jnp.arange(300.0)
    for _ in range(compilers.COMPILERS):
        compilers.tasks().put(lambda _: go.wait())
    try:
        program = calling(operation).lower(x).compile()
        assert operations._shared[operations._places[operation.key("float32")] + 1] == handler.NOWHERE
    finally:
        threading.Timer(0.1, go.set).start()
    np.testing.assert_array_equal(program(x), 2 * x)


def test_an_operation_that_is_not_compiled_is_an_error_of_the_program(caplog, monkeypatch):
    """Until it is asked for again."""
    operation, x = native.Operation(_wrong), jnp.arange(300.0)
    for _ in range(2):
        caplog.clear()
        with pytest.raises(Exception, match="could not compile an operation of this program"):
            jax.block_until_ready(calling(operation)(x))
        assert "_wrong was not compiled: " in caplog.text and "nothing" in caplog.text
    monkeypatch.setattr(operation, "run", native.Operation(_doubled).run)
    np.testing.assert_array_equal(calling(operation)(x), 2 * x)


class Noted:
    """In the place of another process that compiles."""

    def __init__(self):
        self.names, self.process = [], None

    def compile(self, *about):
        self.names.append(about)


@pytest.mark.parametrize(("kept", "asked"), [(False, True), (True, False)])
def test_another_process_is_asked_for_what_is_not_kept(monkeypatch, kept, asked):
    """Of this package alone."""
    elsewhere, place = Noted(), 2 * handler.MOST + handler.OPERATIONS - 2
    words = operations._shared[place : place + 2]  # the real ones: others may be compiled meanwhile, for tests before
    before = words.copy()
    monkeypatch.setattr(operations, "is_kept", lambda *_, **__: kept)
    try:
        operations._register(rows.read, "float32", place, elsewhere)
        assert elsewhere.names == [("hetjax.kernels.table_rows._read", "float32")] * asked
        assert words[0] == rows.read.key("float32") and words[1] > 0
        operations._register(native.Operation(_doubled), "float32", place, elsewhere)
        assert elsewhere.names == [("hetjax.kernels.table_rows._read", "float32")] * asked
    finally:
        words[:] = before


def test_floats_are_kept_apart():
    """Numba has one list of what it keeps of a name, which two processes must not write at once."""
    one, other = (rows.read.of(floats) for floats in frames.FRAMES)
    assert one.__qualname__ != other.__qualname__ and one.__code__ is other.__code__


def test_what_xla_calls_is_made_once_and_elsewhere_if_it_is_not_kept(monkeypatch):
    elsewhere = Noted()
    monkeypatch.setattr(operations, "_made", [])
    monkeypatch.setattr(operations, "is_kept", lambda *_, **__: False)
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *_, **__: None)
    for _ in range(2):
        operations._handler(elsewhere)
    assert elsewhere.names == [("hetjax.kernels.native.operations._callbacks",)] and len(operations._made) == 2


@pytest.mark.parametrize("cores", [1, 2])
def test_operations_are_compiled_ahead_where_there_is_a_core_for_it(monkeypatch, cores):
    asked = []
    monkeypatch.setattr(runtime, "cores", lambda: cores)
    monkeypatch.setattr(operations, "_ask", lambda operation, floats: asked.append((operation, floats)))
    native.expect(rows.read, folds.sums)
    assert asked == ([] if cores == 1 else [(rows.read, "float32"), (folds.sums, "float32")])


def test_what_a_function_calls_is_compiled_where_operations_are(monkeypatch):
    """Where another process is there, as some were not kept."""
    elsewhere = Noted()
    tasks = queue.SimpleQueue()
    monkeypatch.setattr(compilers, "tasks", lambda: tasks)
    monkeypatch.setattr(runtime, "cores", lambda: 2)
    for elsewhere.process in (None, "there"):
        native.expect_calls("hetjax.sampling.rehearsal.rehearse")
        tasks.get()(elsewhere)
    assert elsewhere.names == [("hetjax.sampling.rehearsal.rehearse",)]


def test_another_process_ends_when_nothing_more_is_asked_of_it(monkeypatch):
    monkeypatch.setattr(compilers, "LINGER", 0.01)
    elsewhere, tasks, ended = Noted(), queue.SimpleQueue(), threading.Event()
    elsewhere.end = lambda: (setattr(elsewhere, "process", None), ended.set())
    threading.Thread(target=compilers._work_off, args=(tasks, elsewhere), daemon=True).start()
    assert not ended.wait(0.1)
    tasks.put(lambda elsewhere: setattr(elsewhere, "process", "there"))
    assert ended.wait(10)


def test_another_process_compiles_and_keeps_what_is_not_kept(tmp_path):
    """And where there is none, or it ends, the operation is left to this one, and another is asked the next time."""
    code = """
import sys
from pathlib import Path
from hetjax.kernels import table_rows as kernels
from hetjax.system.internals import is_kept
from hetjax.kernels.native import handler, operations
from hetjax.kernels.native.elsewhere import Elsewhere

def kept(operation):
    return is_kept(operation.of("float32"), operations._signature("float32"), **operations._options(operation.fastmath))

elsewhere = Elsewhere()
python, sys.executable = sys.executable, "/nowhere/python"
elsewhere.compile(kernels.read.name, "float32")
sys.executable = python
elsewhere.compile("hetjax.kernels.table_rows.no_such_operation", "float32")
assert not kept(kernels.read) and elsewhere.process is None
elsewhere.compile(kernels.read.name, "float32")
assert kept(kernels.read) and not kept(kernels.write) and elsewhere.process.poll() is None
elsewhere.process.kill()
elsewhere.process.wait()
elsewhere.compile(kernels.write.name, "float32")
assert not kept(kernels.write) and elsewhere.process is None
elsewhere.compile(kernels.write.name, "float32")
assert kept(kernels.write)
elsewhere.compile("hetjax.kernels.native.operations._callbacks")
assert is_kept(handler.handle, handler.HANDLES, **operations._options(frozenset()))
elsewhere.compile("hetjax.sampling.rehearsal.rehearse")
assert elsewhere.process.poll() is None and list(Path(sys.argv[1]).glob("*/*.sample_all_*"))
print(elsewhere.process.pid)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, check=True, stdout=subprocess.PIPE
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_copies_of_a_process_compile_what_is_not_kept_and_end_with_it(tmp_path):
    code = """
import os, signal, threading, time
from hetjax.kernels import native
from hetjax.kernels import table_rows as kernels
from hetjax.system import runtime
from hetjax.kernels.native import compilers, elsewhere, operations

runtime.cores, compilers.LINGER = lambda: 2, 3600
copies = []
begin = elsewhere.Copy.start
elsewhere.Copy.start = lambda copy: (begin(copy), copies.append(copy))
elsewhere._started = None  # no other process is begun
native.expect(kernels.read)
assert len(copies) == compilers.COMPILERS
while operations._shared[operations.OPERATIONS + 1] == operations.NOWHERE:
    time.sleep(0.01)
assert operations._kept(kernels.read, "float32") and all(copy.is_alive() for copy in copies)
print(*(copy.pid for copy in copies), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, timeout=600)
    assert done.returncode == -signal.SIGKILL
    copies = [int(word) for word in done.stdout.split()]
    assert len(copies) == compilers.COMPILERS
    for _ in range(1000):
        if not any(map(_runs, copies)):
            break
        time.sleep(0.05)
    assert not any(map(_runs, copies))


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("hinders", ["jax", "a thread", "nothing is missing"])
def test_a_process_is_copied_only_where_that_is_safe_and_of_use(monkeypatch, hinders):
    made = []
    monkeypatch.setattr(compilers, "Copy", lambda _, others: made.append(len(others)))
    monkeypatch.setattr(compilers, "_copies", [])
    monkeypatch.setattr(operations, "tasks", queue.SimpleQueue)
    monkeypatch.setattr(operations, "_ask", lambda *_: None)
    monkeypatch.setattr(runtime, "cores", lambda: 2)
    monkeypatch.setattr(compilers, "jax_started", lambda: hinders == "jax")
    monkeypatch.setattr(compilers.threading, "active_count", lambda: 1 + (hinders == "a thread"))
    monkeypatch.setattr(operations, "_kept", lambda *_: hinders == "nothing is missing")
    native.expect(rows.read)
    assert not made
    hinders = "nothing"
    native.expect(rows.read)
    assert made == list(range(compilers.COMPILERS))


def test_what_cannot_be_copied_is_left_to_new_processes(monkeypatch):
    """As where the system has no room for more, and in a process that may start no other."""
    made = []

    def copy(_, others):
        if others:
            raise OSError("Resource temporarily unavailable")
        made.append(1)

    monkeypatch.setattr(compilers, "Copy", copy)
    monkeypatch.setattr(compilers, "_copies", [])
    compilers.copy_this(operations.compile_one)
    assert made == [1] and len(compilers._copies) == 1


def test_jax_is_known_to_have_started():
    jax.devices()
    assert internals.jax_started() and not compilers.can_be_copied()


def test_a_copy_that_ends_leaves_what_is_asked_to_this_process(tmp_path):
    code = """
from hetjax.kernels import table_rows as kernels
from hetjax.kernels.native import operations
from hetjax.kernels.native.elsewhere import Copy, Elsewhere

first = Copy(operations.compile_one)
second = Copy(operations.compile_one, (first,))
elsewhere = Elsewhere(first)
elsewhere.compile(kernels.read.name, "float32")
assert operations._kept(kernels.read, "float32") and elsewhere.process is first
first.kill()
first.join()
elsewhere.compile(kernels.write.name, "float32")
assert elsewhere.process is None and not operations._kept(kernels.write, "float32")
second.stdin.close()  # the first held no end of it
second.join()
assert second.exitcode == 0
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=600)


def test_more_operations_than_programs_can_know_are_refused(monkeypatch):
    monkeypatch.setattr(operations, "_places", {-number: 0 for number in range(1, handler.MOST + 1)})
    with pytest.raises(RuntimeError, match="_doubled.* is operation 65, and programs can know 64"):
        calling(native.Operation(_doubled))(jnp.arange(30.0))
