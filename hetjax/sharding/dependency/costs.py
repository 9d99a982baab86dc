"""What an edge, a target and a row cost on the machine that trains: NeutronStar's `T_e`, `T_v` and `T_c`.

They are measured on random blocks of some milliseconds (shorter ones on a busy machine seem cheaper than they are), on all devices of the mesh at once, with the model's own layers, forward and backward.
An edge's cost is what more edges into the same targets take, a target's what more targets with the same edges take, a
source's what more rows to read with the same edges and targets take, a row's what larger buckets of an all-to-all there and back take.
They are kept in the user's cache folder, by the computers that train.
"""

import contextlib
import functools
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax import durable
from hetjax.config import as_dict
from hetjax.eager import eagerly
from hetjax.errors import InputError
from hetjax.graph.schema import Relation
from hetjax.runtime import caches
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import group
from hetjax.sharding.mesh import DATA, from_shards, positions_here, shard_map
from hetjax.sharding.single.strategy import flowing
from hetjax.sharding.spmd import replicate
from hetjax.sharding.strategy import Setup
from hetjax.sharding.traffic import Program

TARGETS, DEGREE, ROUNDS = 2**14, 8, 8
MORE = 4  # times as many of what is measured
NUMBERS = 2**22  # of the rows that a block reads or makes, at most: wide ones are fewer
SENT = 2**19  # numbers that a device puts into an all-to-all
LEAST = 0.05  # of a block's time: what its edges, targets and sources each take at least, as nothing is free


class Costs(NamedTuple):
    """Seconds.

    Attributes:
      vertex: per layer but the last, and type, `T_v d`: of a target of that layer, there and back.
      edge: per layer but the last, and relation by its key, `T_e d`.
      source: per layer but the last, and type, what reading one more row of the layer below takes, such as its product with a matrix.
      sent: `T_c`, of a row's number that is fetched, and its gradient given back.
      start: of fetching anything in a layer, however little, and giving it back.
    """

    vertex: list[dict[str, float]]
    edge: list[dict[str, float]]
    source: list[dict[str, float]]
    sent: float
    start: float


def read_or_measure(setup: Setup, mesh: Mesh) -> Costs:
    """What process 0 measures, or measured before on these computers for such a model."""
    about, processes = _about(setup, mesh), setup.processes
    file = Path(caches(), "hetjax", "costs", f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]}.json")
    known = processes.broadcast_object("known costs", _read(file, about) if processes.first else None)
    if known is None:
        known = processes.broadcast_object("costs", measure(setup, mesh)._asdict())
        if processes.first:
            with contextlib.suppress(InputError, OSError):  # a folder that is only read
                file.parent.mkdir(parents=True, exist_ok=True)
                durable.write(file, json.dumps({"about": about, "costs": known}, indent=1) + "\n")
    return Costs(**known)


def _read(file: Path, about: dict) -> dict | None:
    """Costs that were kept; None if there are none of this, or they are damaged."""
    with contextlib.suppress(Exception):
        saved = json.loads(file.read_text())
        numbers = jax.tree.leaves(saved["costs"])
        if saved["about"] == about and all(0 <= number < math.inf for number in numbers):
            return saved["costs"]
    return None


def _about(setup: Setup, mesh: Mesh) -> dict:
    """What costs depend on."""
    device = mesh.devices.flat[0].device_kind
    hosts = setup.processes.all_gather("hosts", platform.node())  # rows cross a network, or they do not
    machine = {"hosts": hosts, "processor": platform.machine(), "device": device, "jax": jax.__version__}
    shape = {"devices": mesh.size, "processes": setup.processes.count, "widths": dict(setup.trainer.widths)}
    relations = [relation.key for relation in setup.graph.relations]
    return json.loads(
        json.dumps(
            machine | shape | {"model": as_dict(setup.config.model), "relations": relations, "of": Costs._fields}
        )
    )


def measure(setup: Setup, mesh: Mesh) -> Costs:
    """Measure; all processes together. Relations whose ends have the same widths are measured once."""
    model, params = setup.trainer.model, eagerly(setup.trainer.weights, np.int32(0)).params
    every: list[tuple[dict[str, float], dict[str, float], dict[str, float]]] = []
    for depth, layer in enumerate(model.layers[:-1]):
        measured: dict[tuple, tuple[float, float, float]] = {}
        vertex: dict[str, float] = {}
        edge: dict[str, float] = {}
        source: dict[str, float] = {}
        for relation in layer.relations:
            widths = {t: (layer.widths if depth else setup.trainer.widths).get(t, 0) for t in relation[::2]}
            flows = tuple(t for t in widths if depth or t in flowing(setup))
            alike = *(widths[t] for t in relation[::2]), *(t in flows for t in relation[::2])
            if alike not in measured:
                work = functools.partial(_embed, model, depth, flows)
                measured[alike] = _layer(mesh, work, params, relation, widths, layer.features)
            of_vertex, edge[relation.key], of_source = measured[alike]
            vertex[relation.target] = max(vertex.get(relation.target, 0.0), of_vertex)
            source[relation.source] = source.get(relation.source, 0.0) + of_source
        every.append((vertex, edge, source))
    vertices, edges, sources = (list(one) for one in zip(*every)) if every else ([], [], [])
    return Costs(vertices, edges, sources, *_sent(mesh, setup.config.model.hidden))


def _embed(
    model: Any, depth: int, flows: tuple[str, ...], params: Any, block: Block, x: Mapping[str, jax.Array]
) -> Any:
    """The gradients of a number that depends on all that one layer makes, by weights and by the rows of `flows`."""

    def number(params: Any, flowing: Mapping[str, jax.Array]) -> jax.Array:
        made: Any = model.apply(params, depth, block, {**x, **flowing}, method="embed")
        return sum((jnp.sum(jnp.square(rows)) for rows in made.values()), jnp.zeros(()))

    return jax.grad(number, (0, 1))(params, {t: x[t] for t in flows})


def _layer(
    mesh: Mesh, work: Callable, params: Any, relation: Relation, widths: Mapping[str, int], made: int
) -> tuple[float, float, float]:
    """Seconds of a target, which gets `made` numbers, of an edge and of a source."""
    chance = np.random.default_rng(0)
    program = Program("costs", shard_map(work, mesh, P(), P()), mesh)
    rows = max(1, min(TARGETS, NUMBERS // max(1, MORE * max(made, *widths.values()))))
    edges = rows * DEGREE

    def call(targets: int, edges: int, sources: int) -> Callable:
        indptr = np.linspace(0, edges, targets + 1).astype(np.int32)
        edge_list = group(indptr, chance.integers(0, rows, edges, np.int32), sources)
        block = Block({relation.key: edge_list}, {relation.target: np.arange(targets, dtype=np.int32)})
        size = {relation.target: max(targets, sources), relation.source: sources}
        x = {t: chance.standard_normal((size[t], width), np.float32) for t, width in widths.items()}
        return functools.partial(program, *replicate(mesh, (params, block, x)))

    few, many = (rows, edges, MORE * rows), (rows, MORE * edges, MORE * rows)
    base, edged, spread, read = _times(
        call(*few), call(*many), call(MORE * rows, edges, MORE * rows), call(rows, edges, rows)
    )
    least, more = LEAST * base, MORE - 1

    def each(seconds: float, count: int) -> float:
        return max(seconds / (more * count), least / (MORE * count))

    return each(spread - base, rows), each(edged - base, edges), each(base - read, rows)


def _sent(mesh: Mesh, width: int) -> tuple[float, float]:
    """Seconds of a number of a row that is fetched and of its gradient, and of one row alone."""
    parts = mesh.size
    if parts == 1:
        return 0.0, 0.0

    def there_and_back(rows: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(jax.lax.all_to_all(rows, DATA, 0, 0, tiled=True) * 2, DATA, 0, 0, tiled=True)

    program = Program("costs", shard_map(there_and_back, mesh, P(DATA), P(DATA)), mesh)

    def call(rows: int) -> Callable:
        sent = np.zeros((parts, rows, width), np.float32)
        return functools.partial(program, from_shards(mesh, [sent for _ in positions_here(mesh)]))

    each = max(1, SENT // (parts * width))
    one, few, many = _times(call(1), call(each), call(MORE * each))
    return max(many - few, LEAST * few) / ((MORE - 1) * each * (parts - 1) * width), one


def _times(*calls: Callable) -> list[float]:
    """Seconds of each, the least of some; they take turns, so that what else the computer does falls on all alike."""
    rounds: list[list[float]] = []
    for _ in range(ROUNDS + 1):
        rounds.append([])
        for call in calls:
            started = time.perf_counter()
            jax.block_until_ready(call())
            rounds[-1].append(time.perf_counter() - started)
    return [min(seconds) for seconds in zip(*rounds[1:])]
