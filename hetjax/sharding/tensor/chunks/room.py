"""How much of a device chunks take, and how large they may be: the programs' own arguments, results and temporaries, as compiled."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from hetjax.errors import InputError
from hetjax.sharding.tensor.chunks.engine import ChunkedEngine
from hetjax.sharding.tensor.chunks.runs import Run
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
        one = all(sizes.rows <= 1 for sizes in engine.plan.sizes.values())
        if one or held >= most:
            what = "chunks of one node need" if one else "weights, their optimizer's state and gradients alone need"
            raise InputError(
                f"tensor.device_bytes is {most}, and {what} {held + moving if one else held} bytes of each device"
            )
        share *= min(0.75, ROOM * (most - held) / moving)


def needed(engine: ChunkedEngine) -> tuple[int, int]:
    """Bytes of each device that are held all the time, and the most that move in and out beside them.

    Held are the weights, the optimizer's state and the sums of gradients. Of a layer a fold's gradient moves, and beside it the
    larger of those of the other two stages, because these are pipelined.
    """
    state = jax.eval_shape(engine.trainer.weights, np.int32(0))
    weights = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.params))
    held = 4 * weights + sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.optimizer))
    engine.prepare(state)
    most = [_of_rows(engine, state)]
    for depth, run in enumerate(engine.runs):
        compiled = {t: dict(_compiled(engine, run, engine.given(state, depth, True), t)) for t in run.layer.targets}
        others = [of[stage] for of in compiled.values() for stage in of if stage != "fold"]
        most += [of.get("fold", 0) + max(others, default=0) for of in compiled.values()]
    return held, max(most)


def peak(engine: ChunkedEngine) -> int:
    """Bytes of each device that the programs which ran take, as compiled: of every layer's stages the largest, side by side."""
    found = [max(map(_bytes, program.compiled.values()), default=0) for program in engine.rows.all]
    for programs in engine.programs:
        stages = (
            (programs.fold, programs.fold_back),
            (programs.send, programs.send_back, programs.finish, programs.finish_back),
        )
        found.append(
            sum(max((_bytes(c) for program in of for c in program.compiled.values()), default=0) for of in stages)
        )
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
    yield "fold", _take(programs.fold_back, t, sums, *about, *read, edges, ids, found)
    if layer.finishes:
        rows = {t: _shape(targets, layer.widths[t], like=layer.dtypes[t])} if t in layer.widths and layer.sends else {}
        pull = programs.finish.jitted.eval_shape(True, t, *about, rows, found, ids)
        yield "finish", _take(programs.finish_back, t, sums, *about, rows, found, ids, pull)
    for s, most in run.most.items():
        block = _shape(parts * most, layer.widths[s], like=layer.dtypes[s])
        pulls = programs.send.jitted.eval_shape(True, s, *about, block)
        yield f"send {s}", _take(programs.send_back, s, sums, *about, block, pulls)


def _of_rows(engine: ChunkedEngine, state: TrainState) -> int:
    """The largest block of rows of a table, with both moments and as much again when it is updated."""
    of = engine.trainer.learnable
    return max((3 * engine.block(t) * shape.row_bytes for t, shape in of.items()), default=0)


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
