"""The memory of a device that chunks take, and the largest size that fits: the programs' own arguments, results and temporaries, as compiled."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from hetjax.models.traits import width_made
from hetjax.sharding.tensor.chunks.back import Run
from hetjax.sharding.tensor.chunks.by_rows import entry
from hetjax.sharding.tensor.chunks.engine import ChunkedEngine
from hetjax.sharding.tensor.chunks.layers import Read, Summed
from hetjax.sharding.tensor.chunks.programs import Drawn
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import TrainState
from hetjax.system.errors import InputError

ROOM = 0.9  # of what is left, for a trial: chunks of a share of the edges are rarely all of one size


def fitting(make: Callable[[float], ChunkedEngine], most: int) -> ChunkedEngine:
    """Return the engine whose chunks, and blocks of rows, are as large as some bytes of each device allow.

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
            break
        one = all(end - begin == 1 for ranges in engine.plan.ranges.values() for begin, end in ranges)
        share = _less(share, most, held, moving, "chunks of one node need" if one else "")
    engine.by_rows.blocks.share = 1.0
    while True:
        moving = of_rows(engine)
        if held + moving <= most:
            return engine
        one = all(engine.by_rows.blocks.size(t) <= 1 for t in engine.owned.rows)
        engine.by_rows.blocks.share = _less(
            engine.by_rows.blocks.share, most, held, moving, "a row needs" if one else ""
        )


def _less(share: float, most: int, held: int, moving: int, least: str) -> float:
    """Return a smaller share, by what this one takes; refuse the `least`."""
    if least or held >= most:
        what = least or "weights, their optimizer's state and gradients alone need"
        raise InputError(
            f"tensor.device_bytes is {most}, and {what} {held + moving if least else held} bytes of each device"
        )
    return share * min(0.75, ROOM * (most - held) / moving)


def needed(engine: ChunkedEngine) -> tuple[int, int]:
    """Return the bytes of each device that stay all the time, and the most that move in and out beside them.

    Held are the weights, the optimizer's state and the sums of gradients. In a layer the gradient of one aggregation moves, or the aggregations of two
    chunks, and beside it the memory of the other two stages, because these are pipelined.
    """
    state, weights = _state(engine)
    held = 4 * weights + sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.optimizer))
    engine.prepare(state)
    most = [0]
    for depth, run in enumerate(engine.runs):
        compiled = {t: dict(_compiled(engine, run, engine.given(state, depth, True), t)) for t in run.layer.targets}
        sends = [of[stage] for of in compiled.values() for stage in of if stage.startswith("send")]
        most += [of.get("fold", 0) + of.get("finish", 0) + max(sends, default=0) for of in compiled.values()]
    return held, max(most)


def _state(engine: ChunkedEngine) -> tuple[TrainState, int]:
    """Return the shapes of weights and the optimizer's state, and the bytes of weights."""
    state: TrainState = jax.eval_shape(engine.trainer.weights, np.int32(0))
    return state, sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.params))


def peak(engine: ChunkedEngine) -> int:
    """Return the second number of `needed`, for the programs that ran."""

    def largest(*programs: Program) -> int:
        ran = (compiled for program in programs for key, compiled in program.compiled.items() if program.calls[key])
        return max(map(_moving, ran), default=0)

    found = [2 * largest(*engine.by_rows.programs.all, engine.by_rows.updates.rows)]
    for of in engine.programs:
        folds = max(largest(of.fold_back), 2 * largest(of.fold))
        found.append(folds + largest(of.finish, of.finish_back) + largest(of.send, of.send_back))
    return max(found)


def _compiled(engine: ChunkedEngine, run: Run, given: Any, t: str) -> Iterator[tuple[str, int]]:
    """Yield the bytes that the gradient of each stage of a type takes."""
    if not engine.chunks[t]:
        return
    programs, layer, parts = run.programs, run.layer, engine.mesh.size
    sizes = engine.plan.sizes[t]
    sources, own = layer.wants(t)
    targets = parts * sizes.rows

    def columns(s: str, places: list[int], rows: int) -> dict[int, jax.ShapeDtypeStruct]:
        return {i: _shape(parts * rows, *run.slots[s][i].shape[1:], like=run.slots[s][i]) for i in places}

    first = next(iter(engine.chunks[t]))
    edges = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), first.edges)
    read = Read({s: columns(s, of, sizes.sources[s]) for s, of in sources.items()}, columns(t, own, targets))
    about = given.params, given.drawn
    found = programs.fold.jitted.eval_shape(True, t, *about, read, edges)
    sums = stacked(parts, given.params)
    twice = 2 * _take(programs.fold, True, t, *about, read, edges)
    yield "fold", max(twice, _take(programs.fold_back, t, sums, *about, read if layer.keeps else None, edges, found))
    if layer.finishes:
        rows = {t: _shape(targets, layer.widths[t], like=layer.dtypes[t])} if t in layer.widths and layer.sends else {}
        pull, gathered = programs.finish.jitted.eval_shape(True, t, *about, Summed(rows, found), edges.ids)
        took = _take(programs.finish, True, t, *about, Summed(rows, found), edges.ids)
        back = _take(programs.finish_back, t, sums, *about, Summed(rows, gathered), edges.ids, pull)
        yield "finish", max(took, back)
    for s, most in run.most.items():
        block = _shape(parts * most, layer.widths[s], like=layer.dtypes[s])
        if s in layer.constant:  # which is sent once, and has no gradient
            yield f"send {s}", _take(programs.send, True, s, *about, block)
            continue
        pulls = programs.send.jitted.eval_shape(True, s, *about, block)
        yield f"send {s}", _take(programs.send_back, s, sums, *about, block, pulls)


def of_rows(engine: ChunkedEngine) -> int:
    """Return the bytes that blocks of rows take: in the first layer's entry, in the loss, and in the update of tables.

    The next block is there before the last one is gone.
    """
    parts, trainer, rows, (state, _) = engine.mesh.size, engine.trainer, engine.by_rows.programs, _state(engine)
    found = [3 * engine.by_rows.blocks.size(t) * shape.row_bytes for t, shape in trainer.learnable.items()]
    params, drawn = entry(state.params), engine.given(state, 0, True).drawn
    for t, width in trainer.widths.items() if engine.enters else ():
        block = _shape(parts * engine.by_rows.blocks.size(t), width, like=engine.dtype_of(t, state))
        ids = jax.ShapeDtypeStruct(block.shape[:1], np.int32)
        pull = rows.enter.jitted.eval_shape(True, t, params, drawn, block, ids)
        sums = stacked(parts, params)
        found.append(_take(rows.enter_back, t, sums, params, drawn, block, ids, pull))
    widths = {t: width_made(trainer.model.layers[-1], t) for t in trainer.model.roots}
    arguments = engine.by_rows.loss_shapes(state, widths, engine.floats(state))
    shared = engine.by_rows.training_seeds().shared
    found.append(_take(rows.loss[shared], stacked(parts, arguments[0]), *arguments))
    return 2 * max(found)


def _take(program: Program, *arguments: Any) -> int:
    return _moving(program.compile(*arguments))


def _moving(compiled: jax.stages.Compiled) -> int:
    """Return the bytes of results, temporaries and arguments on each device, without weights and sums of their gradients, which stay all the time."""
    found: Any = compiled.memory_analysis()
    took = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    held = 2 * found.alias_size_in_bytes  # sums of gradients come and go
    given = compiled.args_info[0]
    for params, drawn in itertools.pairwise(given):
        if isinstance(drawn, Drawn):
            held += sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    return int(took - held)


def stacked(parts: int, params: Any) -> Any:
    """Return the shapes of the sums of parameters' gradients, which every device has for itself."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((parts, *leaf.shape), leaf.dtype), params)


def _shape(rows: int, *more: int, like: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((rows, *more), getattr(like, "dtype", like))
