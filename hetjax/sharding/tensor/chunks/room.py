"""How much of a device chunks take, and how large they may be: the programs' own arguments, results and temporaries, as compiled."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from hetjax.errors import InputError
from hetjax.sharding.tensor.chunks.back import Run
from hetjax.sharding.tensor.chunks.engine import ChunkedEngine
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import TrainState

ROOM = 0.9  # of what is left, for a trial: chunks of a share of the edges are rarely all of one size


def fitting(make: Callable[[float], ChunkedEngine], most: int) -> ChunkedEngine:
    """The engine whose chunks are as large as some bytes of each device allow.

    Args:
      make: the engine whose chunks have at most a share of every type's nodes and in-edges.

    Raises:
      InputError: chunks of one node need more.
    """
    share = 1.0
    while True:
        engine = make(share)
        held, moving = needed(engine)
        if held + moving <= most:
            return engine
        one = all(end - begin == 1 for ranges in engine.plan.ranges.values() for begin, end in ranges)
        if one or held >= most:
            what = "chunks of one node need" if one else "weights, their optimizer's state and gradients alone need"
            raise InputError(
                f"tensor.device_bytes is {most}, and {what} {held + moving if one else held} bytes of each device"
            )
        share *= min(0.75, ROOM * (most - held) / moving)


def needed(engine: ChunkedEngine) -> tuple[int, int]:
    """Bytes of each device that are held all the time, and the most that move in and out beside them.

    Held are the weights, the optimizer's state and the sums of gradients. Of a layer a fold's gradient moves, or the folds of two
    chunks, and beside it what the other two stages take, because these are pipelined. Of what is computed row by row the next block
    is there before the last one is gone.
    """
    state = jax.eval_shape(engine.trainer.weights, np.int32(0))
    weights = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.params))
    held = 4 * weights + sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.optimizer))
    engine.prepare(state)
    most = [_of_rows(engine, state)]
    for depth, run in enumerate(engine.runs):
        compiled = {t: dict(_compiled(engine, run, engine.given(state, depth, True), t)) for t in run.layer.targets}
        sends = [of[stage] for of in compiled.values() for stage in of if stage.startswith("send")]
        most += [of.get("fold", 0) + of.get("finish", 0) + max(sends, default=0) for of in compiled.values()]
    return held, max(most)


def peak(engine: ChunkedEngine) -> int:
    """As the second number of `needed`, of the programs that ran."""

    def largest(*programs: Program) -> int:
        return max((_bytes(compiled) for program in programs for compiled in program.compiled.values()), default=0)

    found = [2 * largest(*engine.rows.all), 2 * largest(engine.updates.rows)]
    for of in engine.programs:
        folds = max(largest(of.fold_back), 2 * largest(of.fold))
        found.append(folds + largest(of.finish, of.finish_back) + largest(of.send, of.send_back))
    return max(found)


def _compiled(engine: ChunkedEngine, run: Run, given: Any, t: str) -> Iterator[tuple[str, int]]:
    """Of each stage of a type what its gradient takes."""
    if not engine.chunks[t]:
        return
    programs, layer, parts = run.programs, run.layer, engine.mesh.size
    sizes = engine.plan.sizes[t]
    sources, own = layer.wants(t)
    targets = parts * sizes.rows

    def columns(s: str, places: list[int], rows: int) -> dict[int, jax.ShapeDtypeStruct]:
        return {i: _shape(parts * rows, *run.slots[s][i].shape[1:], like=run.slots[s][i]) for i in places}

    first = next(iter(engine.chunks[t]))
    edges = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), dict(first.adjacency))
    ids = jax.ShapeDtypeStruct((targets,), np.int32)
    read = {s: columns(s, of, sizes.sources[s]) for s, of in sources.items()}, columns(t, own, targets)
    about = given.params, given.drawn
    found = programs.fold.jitted.eval_shape(True, t, *about, *read, edges, ids)
    sums = jax.eval_shape(engine.stacked, given.params)
    twice = 2 * _take(programs.fold, True, t, *about, *read, edges, ids)
    yield "fold", max(twice, _take(programs.fold_back, t, sums, *about, *read, edges, ids, found))
    if layer.finishes:
        rows = {t: _shape(targets, layer.widths[t], like=layer.dtypes[t])} if t in layer.widths and layer.sends else {}
        pull = programs.finish.jitted.eval_shape(True, t, *about, rows, found, ids)
        yield "finish", _take(programs.finish_back, t, sums, *about, rows, found, ids, pull)
    for s, most in run.most.items():
        block = _shape(parts * most, layer.widths[s], like=layer.dtypes[s])
        pulls = programs.send.jitted.eval_shape(True, s, *about, block)
        yield f"send {s}", _take(programs.send_back, s, sums, *about, block, pulls)


def _of_rows(engine: ChunkedEngine, state: TrainState) -> int:
    """Of blocks of rows: what the first layer's entry takes, the loss, and the update of tables."""
    parts, trainer, rows = engine.mesh.size, engine.trainer, engine.rows
    found = [2 * (3 * engine.blocks.size(t) * shape.row_bytes) for t, shape in trainer.learnable.items()]
    entry, drawn = engine.entry(state.params), engine.given(state, 0, True).drawn
    for t, width in trainer.widths.items() if engine.enters else ():
        block = _shape(parts * engine.blocks.size(t), width, like=engine.dtype_of(t, state))
        ids = jax.ShapeDtypeStruct(block.shape[:1], np.int32)
        pull = rows.enter.jitted.eval_shape(True, t, entry, drawn, block, ids)
        sums = jax.eval_shape(engine.stacked, entry)
        found.append(2 * _take(rows.enter_back, t, sums, entry, drawn, block, ids, pull))
    return max(found, default=0)


def _take(program: Program, *arguments: Any) -> int:
    return _bytes(program.compile(*arguments))


def _bytes(compiled: jax.stages.Compiled) -> int:
    """Of each device: arguments, results and temporaries; what results take over from arguments counts once."""
    found: Any = compiled.memory_analysis()
    return int(
        found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes - found.alias_size_in_bytes
    )


def _shape(rows: int, *more: int, like: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((rows, *more), getattr(like, "dtype", like))
