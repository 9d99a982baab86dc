"""The time of a layer on random blocks, with the model's own weights, forward and backward, on all devices at once.

An edge's time is that of more edges into the same targets, a target's that of more targets with the same edges, and a
source's that of more rows to read with the same edges and targets. Blocks take milliseconds: shorter ones on a busy machine
seem cheaper than they are.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.graph.schema import Relation
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import group
from hetjax.sharding.mesh import shard_map
from hetjax.sharding.spmd import replicate
from hetjax.sharding.strategy import Setup

TARGETS, DEGREE, ROUNDS = 2**13, 8, 5
MORE = 4  # times as many of what is measured
NUMBERS = 2**21  # of the rows that a block reads or makes, at most: wide ones are fewer
LEAST = 0.05  # of a block's time: what its edges, targets and sources each take at least, as nothing is free


class Kind(NamedTuple):
    """A kind of relations that take the same time: their widths and those of their results, in one layer.

    Attributes:
      depth: the depth of the layer, from 0.
      source, target: the width of the rows of either end.
      flows: whether the rows of either end get a gradient.
      made: the width of the embeddings that the layer makes.
      linear: whether the layer's aggregation is linear.
    """

    depth: int
    source: int
    target: int
    flows: tuple[bool, bool]
    made: int
    linear: bool


Kinds = Sequence[Mapping[Relation, Kind]]


class Seconds(NamedTuple):
    """The seconds of a target, of an edge, and of a row that is read."""

    vertex: float
    edge: float
    source: float


def kinds(setup: Setup) -> list[dict[Relation, Kind]]:
    """Return the kinds of relations of every layer and relation."""
    below, found = setup.flowing, []
    for depth, layer in enumerate(setup.trainer.model.layers):
        widths = layer.widths if depth else setup.trainer.widths
        found.append(
            {
                r: Kind(
                    depth,
                    widths.get(r.source, 0),
                    widths.get(r.target, 0),
                    (depth > 0 or r.source in below, depth > 0 or r.target in below),
                    layer.features,
                    layer.traits.linear_fold is not None,
                )
                for r in layer.relations
            }
        )
    return found


def distinct(kinds: Kinds) -> list[Kind]:
    return list(dict.fromkeys(kind for layer in kinds for kind in layer.values()))


def measure(setup: Setup, mesh: Mesh, wanted: Sequence[Kind]) -> list[Seconds]:
    """Measure the time of some kinds of relations; all processes together."""
    chance, model = np.random.default_rng(0), setup.trainer.model
    shapes = jax.eval_shape(
        setup.trainer.weights, np.int32(0)
    ).params  # drawing them would be one more program to compile
    params = jax.tree.map(lambda leaf: chance.standard_normal(leaf.shape).astype(leaf.dtype), shapes)
    first = {kind: relation for layer in kinds(setup)[::-1] for relation, kind in list(layer.items())[::-1]}
    return [_measure(mesh, model, params, first[kind], kind, chance) for kind in wanted]


def _measure(
    mesh: Mesh, model: Any, params: Any, relation: Relation, kind: Kind, chance: np.random.Generator
) -> Seconds:
    widths = {relation.source: kind.source, relation.target: kind.target}
    flows = tuple({t for t, flows in zip(relation[::2], kind.flows) if flows})
    work = functools.partial(_embed, model, kind.depth, flows)
    function = shard_map(work, mesh, P(), P())
    rows = max(1, min(TARGETS, NUMBERS // max(1, MORE * max(kind.made, kind.source, kind.target))))
    edges = rows * DEGREE

    def block(targets: int, edges: int, sources: int) -> tuple:
        indptr = np.linspace(0, edges, targets + 1).astype(np.int32)
        edge_list = group(indptr, chance.integers(0, rows, edges, np.int32), sources)
        block = Block({relation.key: edge_list}, {relation.target: np.arange(targets, dtype=np.int32)})
        size = {relation.target: max(targets, sources), relation.source: sources}
        x = {t: chance.standard_normal((size[t], width), np.float32) for t, width in widths.items()}
        return replicate(mesh, (params, block, x))

    few, many = (rows, edges, MORE * rows), (rows, MORE * edges, MORE * rows)
    given = [block(*few), block(*many), block(MORE * rows, edges, MORE * rows), block(rows, edges, rows)]
    base, edged, spread, read = _times(compiled(function, given), given)
    least, more = LEAST * base, MORE - 1

    def each(seconds: float, count: int) -> float:
        return max(seconds / (more * count), least / (MORE * count))

    return Seconds(each(spread - base, rows), each(edged - base, edges), each(base - read, rows))


def _embed(
    model: Any, depth: int, flows: tuple[str, ...], params: Any, block: Block, x: Mapping[str, jax.Array]
) -> Any:
    """Return the gradients of a scalar that depends on all embeddings of one layer, by weights, which are added up, and by the rows of `flows`."""

    def number(params: Any, flowing: Mapping[str, jax.Array]) -> jax.Array:
        made: Any = model.apply(params, depth, block, {**x, **flowing}, method="embed")
        return sum((jnp.sum(jnp.square(rows)) for rows in made.values()), jnp.zeros(()))

    weights, rows = jax.grad(number, (0, 1))(params, {t: x[t] for t in flows})
    return sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(weights)), rows  # those of other relations cost nothing


def compiled(function: Callable, given: Sequence[tuple]) -> list[Callable]:
    """Return a function's programs for arguments of different shapes, compiled side by side."""
    lowered = [jax.jit(function).lower(*arguments) for arguments in given]
    with ThreadPoolExecutor() as threads:
        return list(threads.map(lambda one: one.compile(), lowered))


def _times(programs: Sequence[Callable], given: Sequence[tuple]) -> list[float]:
    """Return the seconds of each program, the least of some runs; programs take turns, so that other work of the computer falls on all alike."""
    rounds: list[list[float]] = []
    for _ in range(ROUNDS + 1):
        rounds.append([])
        for run, arguments in zip(programs, given):
            started = time.perf_counter()
            jax.block_until_ready(run(*arguments))
            rounds[-1].append(time.perf_counter() - started)
    return [min(seconds) for seconds in zip(*rounds[1:])]
